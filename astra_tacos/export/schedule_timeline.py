"""Timelines of schedules in Chrome's trace event format: a track per link, with the time in which each send holds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.export.chrome_trace import metadata, name_track, write_events
from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.units import format_size

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
    order = np.lexsort((use.send, use.link, use.start_ns))
    chunk, reduces = schedule.chunk.tolist(), schedule.reduces.tolist()
    src, dst, size = schedule.src.tolist(), schedule.dst.tolist(), schedule.size_bytes.tolist()
    start, end, done = schedule.start_ns.tolist(), schedule.end_ns.tolist(), schedule.done_ns.tolist()
    columns = (column[order].tolist() for column in (use.send, use.link, use.start_ns, use.end_ns))
    for send, link, held_from, held_to in zip(*columns, strict=True):
        yield {
            "ph": "X",
            "name": f"chunk {chunk[send]}, {src[send]} -> {dst[send]}, {format_size(size[send])}",
            "cat": "reduce" if reduces[send] else "copy",
            "pid": _LINKS,
            "tid": link,
            "ts": held_from / 1000,
            "dur": (held_to - held_from) / 1000,
            "args": {"send": send, "bytes": size[send], "start_ns": start[send], "end_ns": end[send], "usable_ns": done[send]},
        }


EXPORTER = Exporter(
    name="chrome-trace",
    summary="a timeline of every send on every link, for Perfetto (ui.perfetto.dev) and chrome://tracing",
    writes="file",
    suffix=".json",
    write=_write,
)
