"""The folder of custom traces of a planned run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from astra_tacos.export.chakra import export_chakra
from astra_tacos.planner.assignment import tag_ranges
from astra_tacos.planner.run_files import COLLECTIVE
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.reader import read_trace, trace_files
from astra_tacos.run.trace.trace import Trace, idle_trace
from astra_tacos.schedule.schedule import LinkOrder, Schedule


def write_traces(
    folder: Path,
    workload: Trace,
    schedules: Mapping[str, Schedule],
    kept: Mapping[str, tuple[Path, int]],
    idle: Mapping[str, int],
    link_orders: Mapping[str, LinkOrder | None],
) -> dict[str, str]:
    """Write custom traces, each in a range of tags of its own; returns their prefixes, by name.

    Parameters
    ----------
    folder
        Folder to write into.
    workload
        The run and its collectives.
    schedules
        What is written, by name.
    kept
        Traces of the run that stay, by name: prefix, and ranks.
    idle
        Traces in which ranks do nothing, by name: how many ranks.
    link_orders
        How traces of schedules keep the order of sends, by name, where that is not the order of their link model.
    """
    (folder / COLLECTIVE).mkdir()
    names = sorted(schedules)
    own = [read_trace(prefix, chunks=False).tag for prefix, _ in kept.values()]
    used = np.concatenate((workload.tag, *own))
    first_tags = tag_ranges(workload.prefix, used, [schedules[name].num_messages for name in names], TAGS)
    for name, first_tag in zip(names, first_tags, strict=True):
        export_chakra(schedules[name], folder / COLLECTIVE / name, link_orders.get(name), first_tag)
    for name, (prefix, num_ranks) in kept.items():
        for rank, file in enumerate(trace_files(prefix)[:num_ranks]):
            shutil.copyfile(file, folder / COLLECTIVE / f"{name}.{rank}.et")
    for name, num_ranks in idle.items():
        for rank in range(num_ranks):
            (folder / COLLECTIVE / f"{name}.{rank}.et").write_bytes(idle_trace())
    return {name: f"{COLLECTIVE}/{name}" for name in (*names, *kept, *idle)}
