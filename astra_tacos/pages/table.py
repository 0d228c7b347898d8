"""The figures of a synthesis as rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.pages.prints import prints_text
from astra_tacos.run.backend import CONGESTION_UNAWARE
from astra_tacos.support.rows import Result, Row, detail, notes_of
from astra_tacos.support.units import format_size, format_time, rate_text, ratio_text, share_text

_MOST_SIZES = 4
"""Distinct sizes of chunks that are listed."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Certificate(Result):
    """The figures of a synthesis.

    Parameters
    ----------
    figures
        The object that `synthesize --json` prints, and that `result.json` has.
    """

    figures: Mapping[str, Any]

    def title(self) -> str:
        """What was asked, in one line: the collective, its size, the network."""
        return _title(self.figures)

    def rows(self) -> list[Row]:
        """The answer; then the task, the figures of the schedule, the bounds, and the search; then notes."""
        return [*_answer(self.figures), *details(self.figures), *notes_of(self.figures.get("notes", ()))]


def _title(result: Mapping[str, Any]) -> str:
    root = f" from NPU {result['root']}" if result["root"] is not None else ""
    subject = f"{result['collective']} of {format_size(result['size_bytes'])}{root}"
    return f"{subject} on {result['network']}: {result['topology']}, {result['num_npus']:,} NPUs"


def _answer(result: Mapping[str, Any]) -> list[Row]:
    """The answer of a synthesis in a few rows: a label, a figure, and a remark. All times are of its clock."""
    time_ns, bound_ns = result["time_ns"], result["bound_ns"]
    checked = {True: "verified", False: "not verified"}.get(result.get("verified", ""), "")
    more = ", more effort may help" if result.get("search", {}).get("more_may_help") else ""
    chunks = f"{result['chunks_per_npu']} chunk{'s' if result['chunks_per_npu'] != 1 else ''} per NPU, {sends_text(result)}"
    rows = [
        Row("time", format_time(time_ns), note=", ".join(filter(None, (share_of_bound(result), checked)))),
        Row("algorithm", result["synthesizer"], note=f"{chunks}{more}"),
        Row("bus bandwidth", rate_text(result["bus_bandwidth_gbps"], time_ns), "GB/s"),
    ]
    if "asked_bytes" in result:
        rows.insert(0, Row("size", format_size(result["size_bytes"]), note=few_bytes_text(result["asked_bytes"])))
    if result.get("search", {}).get("cut_off_by_time_limit"):
        rows.append(Row("search", "cut off", note="by --time-limit: the result depends on the machine"))
    if result.get("best_native_ns") is not None:
        native_ns = result["best_native_ns"]
        words = f"{ratio_text(native_ns, time_ns)} times as long: {native_text(result)}"
        rows.append(Row("best native", format_time(native_ns), note=words))
    if bound_ns is not None:
        rows.append(Row("at least", format_time(bound_ns), note="any algorithm"))
    else:
        rows.append(Row("at least", None, note=no_bound_text(result.get("backend", CONGESTION_UNAWARE.name))))
    printed = prints_text(result["prints"], result["backend"]) if "prints" in result else ""
    return [*rows, Row("prints", note=printed)] if printed else rows


def few_bytes_text(asked_bytes: int) -> str:
    """Why a collective has more bytes than were asked for."""
    return f"{format_size(asked_bytes)} is run as a byte for each NPU, as ASTRA-sim does"


def share_of_bound(result: Mapping[str, Any]) -> str:
    """How near a time is to its bound: `optimal`, `94.6% of the bound`; "" if there is no bound."""
    if result["bound_ns"] is None:
        return ""
    return "optimal" if result["optimal"] else f"{share_text(result['bound_ns'], result['time_ns'])} of the bound"


def no_bound_text(backend: str) -> str:
    """Why there is no bound on a clock."""
    return f"on {backend} a link carries any number of messages at once, so no bandwidth bound holds"


def native_text(result: Mapping[str, Any]) -> str:
    """The configuration of the best native algorithm in few words: `direct, 16 splits`."""
    system = result["best_native"]["system"]
    algorithms = next(value for key, value in system.items() if key.endswith("-implementation"))
    name = algorithms[0] if len(set(algorithms)) == 1 else " x ".join(algorithms)
    more = [f"{system['preferred-dataset-splits']} splits"] if system["preferred-dataset-splits"] > 1 else []
    active = system["active-chunks-per-dimension"]
    more += [f"{active} active"] if active < system["preferred-dataset-splits"] else []
    more += ["LIFO"] if system.get("scheduling-policy") == "LIFO" else []
    more += [system["collective-optimization"]] if system.get("collective-optimization", "baseline") != "baseline" else []
    return ", ".join((name, *more))


def details(result: Mapping[str, Any]) -> list[Row]:
    """Rows of details of a synthesis: the task, the figures of its schedule, the bounds, and the search."""
    sizes = _sizes(result["chunk_bytes"])
    root = f", root NPU {result['root']}" if result["root"] is not None else ""
    share = f" ({result['chunks_per_npu']} per {'pair of NPUs' if result['collective'] == 'all-to-all' else 'NPU'})"
    if result["num_chunks"] == result["chunks_per_npu"]:
        share = ""
    chunked = "none for messages of such small chunks"
    if result["chunked_bound_ns"] is not None:
        chunked = f"{format_time(result['chunked_bound_ns'])} ({result['chunked_bound']}: {result['chunked_bound_where']})"
    bound = "none"
    if result["bound_ns"] is not None:
        bound = f"{format_time(result['bound_ns'])} ({result['bound']}: {result['bound_where']})"
    rows = [
        detail("network", f"{result['network']}: {result['topology']}, {result['num_npus']} NPUs, {result['num_links']} links"),
        detail("collective", f"{result['collective']} of {format_size(result['size_bytes'])}{root}"),
        detail("chunks", f"{result['num_chunks']:,} of {sizes}{share}"),
        detail("link model", ": ".join(filter(None, (result["link_model"], result.get("link_model_reason"))))),
        detail("sends", f"{sends_text(result)} ({result['synthesizer']}, seed {result['seed']})"),
        detail("time", format_time(result["time_ns"])),
        detail("truncated", f"{format_time(result['predicted_ns'])} on its own links, as ASTRA-sim truncates it"),
        detail("bound (any algorithm)", bound),
        detail("efficiency", describe_efficiency(result)),
        detail("bound (these chunks)", chunked),
        detail("algorithm bandwidth", f"{rate_text(result['algorithm_bandwidth_gbps'], result['time_ns'], 2)} GB/s"),
        detail("bus bandwidth", f"{rate_text(result['bus_bandwidth_gbps'], result['time_ns'], 2)} GB/s"),
    ]
    for key, label in (("busiest_link", "busiest link"), ("idlest_link", "idlest link")):
        rows.append(detail(label, f"{result[key]['link']}, {result[key]['busy_share']:.1%} busy"))
    rows += [detail(printed["from"], _printed(printed)) for printed in result.get("prints") or ()]
    native = result.get("native_search")
    if native is not None:
        rows.append(detail("best native", f"of {native['tried']:,} configurations ({native['space']})"))
        rows += [detail("native", native["refusal"])] if native["refusal"] else []
    if "search" in result:
        rows.append(detail("search", _describe_search(result["search"])))
        rows += [detail("not tried", f"{name}: {reason}") for name, reason in result["search"]["refusals"].items()]
    return rows


def _printed(printed: dict[str, Any]) -> str:
    """What a program of ASTRA-sim prints for the directory, and for the best native algorithms."""
    ours, native = ("-" if printed[key] is None else f"{printed[key]:,} ns" for key in ("time_ns", "best_native_ns"))
    ours = "does not run this" if printed["time_ns"] is None else f"prints {ours}"
    return f"{printed['binary']} ({printed['backend']}) {ours}; native {native}"


def describe_efficiency(result: Mapping[str, Any]) -> str:
    """The efficiency of a certificate in words: the bound over all algorithms as a share of the time."""
    if result["bound_ns"] is None:
        return "none"
    share = f"{share_text(result['bound_ns'], result['time_ns'], 2)} of the bound"
    return f"{share}: optimal, no algorithm is faster" if result["optimal"] else share


def sends_text(result: Mapping[str, Any]) -> str:
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
