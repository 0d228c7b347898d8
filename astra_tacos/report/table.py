"""The figures of a synthesis as labels and values."""

from __future__ import annotations

import math
from typing import Any

from astra_tacos.bounds.certificate import below_bound
from astra_tacos.run.backend import MODELS, PACKET
from astra_tacos.support.units import format_size, format_time

_MOST_SIZES = 4
"""Distinct sizes of chunks that are listed."""


def synthesis_title(result: dict[str, Any]) -> str:
    """What was asked, in one line: the collective, its size, the network."""
    root = f" from NPU {result['root']}" if result["root"] is not None else ""
    what = f"{result['collective']} of {format_size(result['size_bytes'])}{root}"
    return f"{what} on {result['network']}: {result['topology']}, {result['num_npus']:,} NPUs"


def synthesis_summary(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The answer of a synthesis in a few rows: a label, a figure, and a remark."""
    real_ns, judged_ns, is_exact = _real_ns(result), *_judged_ns(result)
    time_ns = max(real_ns, judged_ns)
    truncated = "" if result.get("possible", True) else f"ASTRA-sim prints {format_time(result['predicted_ns'])}: it truncates; "
    share = _share_of_bound(result) if time_ns == real_ns else f"{result['bound_ns'] / time_ns:.1%} of the bound"
    predicted = "" if time_ns == real_ns else f"; {format_time(real_ns)} predicted for the links"
    checked = {True: ", verified", False: ", not verified"}.get(result.get("verified", ""), "")
    more = ", more effort may help" if result.get("search", {}).get("more_may_help") else ""
    chunks = f"{result['chunks_per_npu']} chunk{'s' if result['chunks_per_npu'] != 1 else ''} per NPU, {sends_text(result)}"
    rows = [
        ("time", f"{'' if is_exact else 'about '}{format_time(time_ns)}", f"{truncated}{share}{checked}{predicted}"),
        ("algorithm", result["synthesizer"], f"{chunks}{more}"),
        ("bus bandwidth", f"{result['bus_bandwidth_gbps'] * real_ns / time_ns:,.1f} GB/s", ""),
    ]
    if result.get("search", {}).get("cut_off_by_time_limit"):
        rows.append(("search", "cut off", "by --time-limit: the result depends on the machine"))
    native = (result.get("native") or {}).get("fastest_possible")
    if native is not None and native["possible_ns"] is not None:
        words = f": {native['possible_ns'] / time_ns:.2f} times as long"
        rows.append(("best native", format_time(native["possible_ns"]), f"{_in_short(native['system'])}{words}"))
    return [*rows, *_on_astra_sim(result, real_ns)]


def _in_short(system: dict[str, Any]) -> str:
    """A native configuration, by its keys of the system JSON, in few words: `direct, 16 splits`."""
    algorithms = next(value for key, value in system.items() if key.endswith("-implementation"))
    splits = system["preferred-dataset-splits"]
    name = algorithms[0] if len(set(algorithms)) == 1 else " x ".join(algorithms)
    return f"{name}, {splits} splits" if splits > 1 else str(name)


def _real_ns(result: dict[str, Any]) -> int:
    """The time that links can carry: predicted, or where ASTRA-sim truncates too much, exact."""
    return int(result["predicted_ns"] if result.get("possible", True) else math.ceil(result["exact_ns"]))


def _judged_ns(result: dict[str, Any]) -> tuple[int, bool]:
    """The time of the traces on the network model that they are made for, 0 if not known, and whether it is exact."""
    backend = MODELS.get(str(result.get("backend")))
    figure = backend.figure if backend is not None and result.get(backend.figure) is not None else "stock_ns"
    is_exact = figure != PACKET.figure or result.get("packets_are_exact") is not False
    return int(result.get(figure) or 0), is_exact


def _share_of_bound(result: dict[str, Any]) -> str:
    if result["efficiency"] is None:
        return "faster than links can carry it"
    return "optimal" if result["optimal"] else f"{result['efficiency']:.1%} of the bound"


def _on_astra_sim(result: dict[str, Any], time_ns: int) -> list[tuple[str, str, str]]:
    """The times on the judges, where one of them is another."""
    names = {"stock_ns": "stock", "congested_ns": "multi-dim. branch", "packets_ns": "ns-3"}
    times = {names[key]: result[key] for key in names if result.get(key) is not None}
    if not times or set(times.values()) == {time_ns}:
        return []
    about = {"ns-3"} if result.get("packets_are_exact") is False else set()
    texts = [f"{name} {'about ' if name in about else ''}{format_time(times[name])}" for name in times]
    if times.get("stock", time_ns) < time_ns:
        texts[0] += " (no queues)"
    return [("on ASTRA-sim", "", " | ".join(texts))]


def synthesis_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and values of a synthesis: the task, the figures of its schedule, the bounds, and the search."""
    sizes = _sizes(result["chunk_bytes"])
    root = f", root NPU {result['root']}" if result["root"] is not None else ""
    share = f" ({result['chunks_per_npu']} per {'pair of NPUs' if result['collective'] == 'all-to-all' else 'NPU'})"
    if result["num_chunks"] == result["chunks_per_npu"]:
        share = ""
    chunked = "none for messages of such small chunks"
    if result["chunked_bound_ns"] is not None:
        chunked = f"{format_time(result['chunked_bound_ns'])} ({result['chunked_bound']}: {result['chunked_bound_where']})"
    rows = [
        ("network", f"{result['network']}: {result['topology']}, {result['num_npus']} NPUs, {result['num_links']} links"),
        ("collective", f"{result['collective']} of {format_size(result['size_bytes'])}{root}"),
        ("chunks", f"{result['num_chunks']:,} of {sizes}{share}"),
        ("link model", ": ".join(filter(None, (result["link_model"], result.get("link_model_reason"))))),
        ("sends", f"{sends_text(result)} ({result['synthesizer']}, seed {result['seed']})"),
        ("predicted time", _predicted(result)),
        ("bound (any algorithm)", f"{format_time(result['bound_ns'])} ({result['bound']}: {result['bound_where']})"),
        ("efficiency", describe_efficiency(result)),
        ("bound (these chunks)", chunked),
        ("algorithm bandwidth", f"{result['algorithm_bandwidth_gbps']:.2f} GB/s"),
        ("bus bandwidth", f"{result['bus_bandwidth_gbps']:.2f} GB/s"),
    ]
    for key, label in (("busiest_link", "busiest link"), ("idlest_link", "idlest link")):
        rows.append((label, f"{result[key]['link']}, {result[key]['busy_share']:.1%} busy"))
    rows += _levels(result.get("levels"))
    if "search" in result:
        rows.append(("search", _describe_search(result["search"])))
        rows += [("not tried", f"{name}: {reason}") for name, reason in result["search"]["refusals"].items()]
    return rows


def _levels(levels: Any) -> list[tuple[str, str]]:
    """What the traces take on the analytical and the packet level; nothing where a file has something else there."""
    is_known = isinstance(levels, list) and all(isinstance(row, list) and len(row) == 2 for row in levels)
    return [(str(label), str(text)) for label, text in levels] if is_known else []


def _predicted(result: dict[str, Any]) -> str:
    """What ASTRA-sim prints; and what it really takes, where truncation matters."""
    printed = format_time(result["predicted_ns"])
    if result.get("possible", True):
        return printed
    return f"{printed} as ASTRA-sim truncates it; {format_time(_real_ns(result))} without truncation"


def describe_efficiency(result: dict[str, Any], separator: str = " ") -> str:
    """The efficiency of a certificate in words: the bound over all algorithms as a share of the time, and why it may be less."""
    if result["efficiency"] is None:
        return "none: faster than the bound, because ASTRA-sim truncates the time of such small chunks; use larger ones"
    share = f"{result['efficiency']:.2%} of the bound"
    text = f"{share}: optimal, no algorithm is faster" if result["optimal"] else share
    less = below_bound(result["predicted_ns"], result["bound_ns"])
    return f"{text}{separator}({less})" if less else text


def sends_text(result: dict[str, Any]) -> str:
    """How many sends there are, and in how many messages if these carry several chunks: `96 sends in 48 messages`."""
    messages = result.get("num_messages", result["num_sends"])
    return f"{result['num_sends']:,} sends" + (f" in {messages:,} messages" if messages < result["num_sends"] else "")


def _describe_search(search: dict[str, Any]) -> str:
    text = f"{search['candidates_tried']:,} of {search['candidates']:,} candidates tried"
    if search["cut_off_by_time_limit"]:
        return f"{text}, then cut off by --time-limit: the result depends on the machine"
    if search["cut_off_by_budget"]:
        return f"{text}, then the budget was used up: --effort thorough or a larger --budget may find a faster schedule"
    return f"{text}, the others promise no gain" if search["candidates_tried"] < search["candidates"] else text


def _sizes(sizes: list[int]) -> str:
    if len(sizes) > _MOST_SIZES:
        return f"{sizes[0]:,} to {sizes[-1]:,} B"
    return " or ".join(format_size(size) if len(sizes) == 1 else f"{size:,} B" for size in sizes)
