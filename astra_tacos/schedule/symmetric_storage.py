"""Symmetric schedules on disk: one `.npz` with the sends of NPU 0's chunks and the description of the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import MAX_CHUNKS
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import check_times, dimension, load_schedule, number
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.support.archive import opened_archive, text, whole, write_archive
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import MAX_SIZE_BYTES
from astra_tacos.support.yaml_text import describe

FORMAT = "astra_tacos symmetric schedule 1"
MOST_SENDS = 20_000_000
"""Symmetric schedules of more sends are not expanded."""
_COLUMNS = {
    "chunk": np.int32,
    "src": np.int32,
    "dst": np.int32,
    "reduces": np.bool_,
    "start_ns": np.int64,
    "end_ns": np.int64,
}


def save_symmetric_schedule(schedule: SymmetricSchedule, path: str | Path) -> None:
    """Write a symmetric schedule through a temporary file beside it."""
    task = schedule.task
    header = {
        "format": FORMAT,
        "network": task.name,
        "dimensions": [[d.block, d.size, d.bandwidth_gibps, d.latency_ns] for d in task.dimensions],
        "collective": task.collective,
        "size_bytes": task.size_bytes,
        "chunks_per_npu": task.chunks_per_npu,
        "link_model": task.link_model,
        "reduce_bandwidth_gbps": task.reduce_bandwidth_gbps,
        "synthesizer": schedule.synthesizer,
    }
    columns: dict[str, NDArray[Any]] = {name: getattr(schedule, name) for name in _COLUMNS}
    write_archive(Path(path), np.array(json.dumps(header)), columns)


def load_symmetric_schedule(path: str | Path) -> SymmetricSchedule:
    """Read a symmetric schedule. Its sends are not checked: `verify_symmetric` decides whether they are legal.

    Raises
    ------
    ConfigError
        If the file is no such schedule, or its parts do not fit one another.
    """
    path = Path(path)
    with opened_archive(path, "symmetric schedule") as archive:
        header = archive.header()
        if header.get("format") != FORMAT:
            raise ConfigError(f"{path}: format is {describe(header.get('format'))}, expected {FORMAT!r}")
        columns: dict[str, Any] = archive.columns(_COLUMNS)
        if len({len(columns[name]) for name in _COLUMNS}) != 1:
            raise ValueError("the columns of its sends differ in length")
        check_times(columns["start_ns"], columns["end_ns"])
        model: Any = text(header, "link_model")
        if model not in LINK_MODELS:
            raise ValueError(f"link model {describe(model)}")
        task = SymmetricTask(
            text(header, "network"),
            tuple(dimension(*entry) for entry in header["dimensions"]),
            text(header, "collective"),
            whole(header, "size_bytes", MAX_SIZE_BYTES),
            whole(header, "chunks_per_npu", MAX_CHUNKS),
            model,
            number(header["reduce_bandwidth_gbps"]),
        )
        if task.least_rows > max(len(columns["chunk"]), 1) * 2:
            raise ValueError(f"{len(columns['chunk']):,} sends of NPU 0's chunks, expected {task.least_rows:,} or more")
        _ = task.timing  # chunks that are too small or too large for the links
        return SymmetricSchedule(task, **columns, synthesizer=text(header, "synthesizer"))


def holds_symmetric(path: Path) -> bool:
    """Whether a file says that it is a symmetric schedule; False if it cannot be read."""
    try:
        with opened_archive(path, "schedule") as archive:
            return archive.header().get("format") == FORMAT
    except ConfigError:
        return False


def load_rows(path: str | Path) -> Schedule:
    """Read a schedule; a symmetric one is expanded.

    Raises
    ------
    ConfigError
        If the file is no schedule, or a symmetric one of more than `MOST_SENDS` sends.
    """
    if not holds_symmetric(Path(path)):
        return load_schedule(path)
    schedule = load_symmetric_schedule(path)
    if schedule.num_sends > MOST_SENDS:
        raise ConfigError(
            f"{path}: a symmetric schedule of {schedule.num_sends:,} sends, expected at most {MOST_SENDS:,} to list them all; "
            "inspect, verify, replay and plot (timeline, topology, tree) take it as it is"
        )
    return schedule.expand()
