"""Timelines of schedules in Chrome's trace event format: a track per link, with the time in which each send holds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.chrome_trace import metadata, name_track, write_events
from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.units import format_size

_LINKS = 2
"""Number of the process of links, as in the timelines of replays."""


def _write(schedule: Schedule, path: Path) -> Exported:
    write_events(path, _events(schedule))
    return Exported(path)


def _events(schedule: Schedule) -> Iterator[dict[str, Any]]:
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
        about = {"message": message, "bytes": size[message], "start_ns": start[message], "end_ns": end[message]}
        yield {
            "ph": "X",
            "name": f"chunk {names[message]}, {src[message]} -> {dst[message]}, {format_size(size[message])}",
            "cat": "reduce" if reduces[message] else "copy",
            "pid": _LINKS,
            "tid": link,
            "ts": held_from / 1000,
            "dur": (held_to - held_from) / 1000,
            "args": about | {"usable_ns": done[message]},
        }


def _chunks(chunk: NDArray[np.int32]) -> str:
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
