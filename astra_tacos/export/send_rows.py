"""Schedules as CSV, a row per send in the schedule's order, for spreadsheets and data frames.

Sends of one message leave together. With partial sums, `value` numbers what is sent.
"""

from __future__ import annotations

import csv
from pathlib import Path

from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.schedule.schedule import Schedule

_COLUMNS = (
    *("send", "message", "src", "dst", "link", "down_link", "chunk", "value", "size_bytes", "reduces", "start_ns", "end_ns"),
    "usable_ns",
)
"""`link` and `down_link` number the topology's links; a send without a switch has no `down_link`."""


def _write(schedule: Schedule, path: Path) -> Exported:
    topology = schedule.topology
    columns = (
        range(schedule.num_sends),
        schedule.message_of.tolist(),
        schedule.src.tolist(),
        schedule.dst.tolist(),
        topology.channel_link[schedule.channel].tolist(),
        ["" if link < 0 else link for link in topology.channel_down_link[schedule.channel].tolist()],
        schedule.chunk.tolist(),
        [""] * schedule.num_sends if schedule.value is None else schedule.value.tolist(),
        schedule.size_bytes.tolist(),
        schedule.reduces.astype(int).tolist(),
        schedule.start_ns.tolist(),
        schedule.end_ns.tolist(),
        schedule.done_ns.tolist(),
    )
    with path.open("w", encoding="ascii", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(zip(*columns, strict=True))
    return Exported(path)


EXPORTER = Exporter(
    name="csv",
    summary="a row per send: message, source, destination, links, chunk, bytes, start and end",
    writes="file",
    suffix=".csv",
    write=_write,
)
