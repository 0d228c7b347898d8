"""Timelines of runs and schedules in Chrome's trace event format, which Perfetto and chrome://tracing open.

A run has one track per NPU for compute, one for communication, one for receives (they overlap, so they are asynchronous events),
and one per link that was used. Times are microseconds with three decimals: nanoseconds, exactly.

A schedule has a track per link, with the time in which each send holds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.reader import read_names
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints32
from astra_tacos.support.files import replaced_file
from astra_tacos.support.grouping import distinct
from astra_tacos.support.units import format_size

_NPUS = 1
"""Id of the process of NPUs."""
_LINKS = 2
"""Id of the process of links."""
_TRACKS = ("compute", "communication", "receives", "CPU")
_COMPUTE, _COMMUNICATION, _RECEIVES, _CPU = range(len(_TRACKS))


def write_chrome_trace(path: Path, run: Run, outcome: RunOutcome) -> None:
    """Write the recording of a replay; links appear if it recorded transmissions."""
    with replaced_file(path) as temporary:
        write_events(temporary, _events(run, outcome))


def write_events(path: Path, events: Iterable[dict[str, Any]]) -> None:
    """Write events, one per line, as a file of the format."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        separator = ""
        for event in events:
            file.write(f"{separator}{json.dumps(event, separators=(',', ':'))}")
            separator = ",\n"
        file.write("\n]}\n")


def name_track(process: int, track: int, name: str) -> Iterator[dict[str, Any]]:
    """Events that give a track its name, and its place by its number."""
    yield metadata("thread_name", process, track, name)
    yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": {"sort_index": track}}


def _events(run: Run, outcome: RunOutcome) -> Iterator[dict[str, Any]]:
    yield metadata("process_name", _NPUS, 0, "NPUs")
    yield from _node_events(run, outcome)
    if outcome.transmissions is not None and len(outcome.transmissions.link):
        yield metadata("process_name", _LINKS, 0, "links")
        yield from _link_events(run, outcome)


def metadata(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    """An event that names a process or track; `kind` is `process_name` or `thread_name`.

    Parameters
    ----------
    kind
        `process_name` or `thread_name`.
    """
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _node_events(run: Run, outcome: RunOutcome) -> Iterator[dict[str, Any]]:
    trace, columns = run.workload, run.columns
    track = np.full(trace.num_nodes, _COMMUNICATION)
    track[trace.kind == NodeType.COMP] = _COMPUTE
    track[trace.kind == NodeType.COMM_RECV] = _RECEIVES
    track[columns.is_cpu_op] = _CPU
    rows = np.flatnonzero(outcome.node_finish_ns >= 0)
    used = distinct(trace.rank[rows] * len(_TRACKS) + track[rows])
    for number in used.tolist():
        rank, kind = divmod(number, len(_TRACKS))
        yield from name_track(_NPUS, number, f"NPU {rank} {_TRACKS[kind]}")
    rank_of = trace.rank
    for row, name in zip(rows.tolist(), read_names(trace, rows.tolist()), strict=True):
        kind = int(track[row])
        start, end = int(outcome.node_issue_ns[row]), int(outcome.node_finish_ns[row])
        event: dict[str, Any] = {
            "name": name or NodeType(trace.kind[row]).name,
            "cat": _TRACKS[kind],
            "pid": _NPUS,
            "tid": int(rank_of[row]) * len(_TRACKS) + kind,
            "args": _details(run, outcome, row),
        }
        if kind == _RECEIVES:
            yield event | {"ph": "b", "id": row, "ts": start / 1000}
            yield {key: event[key] for key in ("name", "cat", "pid", "tid")} | {"ph": "e", "id": row, "ts": end / 1000}
        else:
            yield event | {"ph": "X", "ts": start / 1000, "dur": (end - start) / 1000}


def _details(run: Run, outcome: RunOutcome, row: int) -> dict[str, Any]:
    trace, columns = run.workload, run.columns
    details: dict[str, Any] = {"node": int(trace.node_id[row]), "type": NodeType(trace.kind[row]).name}
    if trace.size_bytes[row] >= 0:
        details["bytes"] = int(trace.size_bytes[row])
    if trace.peer[row] >= 0:
        details["peer"] = int(trace.peer[row])
    if outcome.collective[row] >= 0:
        details["pattern"] = CommType(columns.comm_type[row]).name
        details["algorithm"] = outcome.collective_names[outcome.collective[row]]
        if columns.group[row] >= 0:
            details["group"] = columns.group_names[columns.group[row]]
    return details


def _link_events(run: Run, outcome: RunOutcome) -> Iterator[dict[str, Any]]:
    sent = outcome.transmissions
    if sent is None:
        return
    num_npus = run.network.num_npus
    for link in distinct(sent.link).tolist():
        ends = [_device(int(end), num_npus) for end in (outcome.link_src[link], outcome.link_dst[link])]
        yield from name_track(_LINKS, link, f"{ends[0]} -> {ends[1]}")
    for link, src, dst, size, start, end in zip(
        sent.link.tolist(),
        sent.src.tolist(),
        sent.dst.tolist(),
        sent.size_bytes.tolist(),
        sent.start_ns.tolist(),
        sent.end_ns.tolist(),
        strict=True,
    ):
        yield {
            "ph": "X",
            "name": f"{src} -> {dst}, {format_size(size)}",
            "cat": "link",
            "pid": _LINKS,
            "tid": link,
            "ts": start / 1000,
            "dur": (end - start) / 1000,
            "args": {"bytes": size},
        }


def _device(device: int, num_npus: int) -> str:
    return f"NPU {device}" if device < num_npus else f"switch {device}"


def _write(schedule: Schedule, path: Path) -> Exported:
    write_events(path, _schedule_events(schedule))
    return Exported(path)


def _schedule_events(schedule: Schedule) -> Iterator[dict[str, Any]]:
    yield metadata("process_name", _LINKS, 0, f"links of {schedule.topology.name}")
    use = link_use(schedule)
    for link in np.unique(use.link).tolist():
        yield from name_track(_LINKS, link, schedule.topology.describe_link(link))
    order = np.lexsort((use.message, use.link, use.start_ns))
    row, first = schedule.message_row, schedule.message_first
    names = schedule.chunk[row].tolist() if first is None else [_chunks(part) for part in np.split(schedule.chunk, first[1:-1])]
    reduces, size = schedule.reduces[row].tolist(), schedule.message_bytes.tolist()
    src, dst = schedule.src[row].tolist(), schedule.dst[row].tolist()
    start, end, done = schedule.start_ns[row].tolist(), schedule.end_ns[row].tolist(), schedule.done_ns[row].tolist()
    columns = (column[order].tolist() for column in (use.message, use.link, use.start_ns, use.end_ns))
    for message, link, held_from, held_to in zip(*columns, strict=True):
        arguments = {"message": message, "bytes": size[message], "start_ns": start[message], "end_ns": end[message]}
        yield {
            "ph": "X",
            "name": f"chunk {names[message]}, {src[message]} -> {dst[message]}, {format_size(size[message])}",
            "cat": "reduce" if reduces[message] else "copy",
            "pid": _LINKS,
            "tid": link,
            "ts": held_from / 1000,
            "dur": (held_to - held_from) / 1000,
            "args": arguments | {"usable_ns": done[message]},
        }


def _chunks(chunk: Ints32) -> str:
    """Some chunks in words: `3`, `3 and 4`, `3, 4 and 6 more`."""
    numbers = sorted(set(chunk.tolist()))
    if len(numbers) <= 2:
        return " and ".join(map(str, numbers))
    return f"{numbers[0]}, {numbers[1]} and {len(numbers) - 2} more"


EXPORTER = Exporter(
    name="chrome-trace",
    summary="a timeline of every send on every link, for Perfetto (ui.perfetto.dev) and chrome://tracing",
    writes="file",
    suffix=".json",
    write=_write,
)
