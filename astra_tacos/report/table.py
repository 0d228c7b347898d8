"""The figures of a synthesis as labels and values."""

from __future__ import annotations

import math
from typing import Any

from astra_tacos.bounds.certificate import below_bound
from astra_tacos.support.units import format_size, format_time

_MOST_SIZES = 4
"""Distinct sizes of chunks that are listed."""


def synthesis_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and values of a synthesis: the task, the figures of its schedule, the bounds, and the search."""
    sizes = _sizes(result["chunk_bytes"])
    root = f", root NPU {result['root']}" if result["root"] is not None else ""
    share = f" ({result['chunks_per_npu']} per {'pair of NPUs' if result['collective'] == 'all-to-all' else 'NPU'})"
    if result["num_chunks"] == result["chunks_per_npu"]:
        share = ""
    rows = [
        ("network", f"{result['network']}: {result['topology']}, {result['num_npus']} NPUs, {result['num_links']} links"),
        ("collective", f"{result['collective']} of {format_size(result['size_bytes'])}{root}"),
        ("chunks", f"{result['num_chunks']:,} of {sizes}{share}"),
        ("link model", _with_reason(result["link_model"], result.get("link_model_reason"))),
        ("sends", f"{sends_text(result)} ({result['synthesizer']}, seed {result['seed']})"),
        ("predicted time", _predicted(result)),
        ("bound (any algorithm)", f"{format_time(result['bound_ns'])} ({result['bound']}: {result['bound_where']})"),
        ("efficiency", describe_efficiency(result)),
        ("bound (these chunks)", _describe_chunked(result)),
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
    return f"{printed} as ASTRA-sim truncates it; {format_time(math.ceil(result['exact_ns']))} without truncation"


def describe_efficiency(result: dict[str, Any]) -> str:
    """The efficiency of a certificate in words: the bound over all algorithms as a share of the time."""
    if result["efficiency"] is None:
        return "none: faster than the bound, because ASTRA-sim truncates the time of such small chunks; use larger ones"
    share = f"{result['efficiency']:.2%} of the bound"
    text = f"{share}: optimal, no algorithm is faster" if result["optimal"] else share
    less = below_bound(result["predicted_ns"], result["bound_ns"])
    return f"{text} ({less})" if less else text


def _describe_chunked(result: dict[str, Any]) -> str:
    if result["chunked_bound_ns"] is None:
        return "none for messages of such small chunks"
    return f"{format_time(result['chunked_bound_ns'])} ({result['chunked_bound']}: {result['chunked_bound_where']})"


def sends_text(result: dict[str, Any]) -> str:
    """How many sends there are, and in how many messages if these carry several chunks."""
    messages = result.get("num_messages", result["num_sends"])
    return f"{result['num_sends']:,}" + (f" in {messages:,} messages" if messages < result["num_sends"] else "")


def _describe_search(search: dict[str, Any]) -> str:
    text = f"{search['candidates_tried']:,} of {search['candidates']:,} candidates tried"
    if search["cut_off_by_time_limit"]:
        return f"{text}, then cut off by --time-limit: the result depends on the machine"
    if search["cut_off_by_budget"]:
        return f"{text}, then the budget was used up: a larger --budget may find a faster schedule"
    return f"{text}, the others promise no gain" if search["candidates_tried"] < search["candidates"] else text


def _sizes(sizes: list[int]) -> str:
    if len(sizes) > _MOST_SIZES:
        return f"{sizes[0]:,} to {sizes[-1]:,} B"
    return " or ".join(format_size(size) if len(sizes) == 1 else f"{size:,} B" for size in sizes)


def _with_reason(value: str, reason: str | None) -> str:
    return f"{value}: {reason}" if reason else value
