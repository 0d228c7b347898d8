"""Lockstep schedules on disk: a directory of memory-mapped NumPy arrays and a JSON header."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from astra_tacos.archive import map_array, one_line, opened_archive, text, whole
from astra_tacos.config.json_text import read_json_object
from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.files import write_json
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule, chunk_kind
from astra_tacos.schedule.storage import LINKS, check_times, describe_schedule, restore, seed

FORMAT = "astra_tacos lockstep schedule 1"
HEADER_FILE, CHUNK_FILE, START_FILE, LINKS_FILE = "schedule.json", "chunk.npy", "start_ns.npy", "links.npz"
FILES = (HEADER_FILE, CHUNK_FILE, START_FILE, LINKS_FILE)


def save_lockstep_schedule(schedule: LockstepSchedule, directory: str | Path) -> None:
    """Write a schedule into a directory that exists. Chunks that were streamed into their file there are left as they are."""
    directory = Path(directory)
    source = getattr(schedule.chunk.base, "filename", None) or getattr(schedule.chunk, "filename", None)
    if source is None or not (directory / CHUNK_FILE).exists() or not Path(source).samefile(directory / CHUNK_FILE):
        np.save(directory / CHUNK_FILE, schedule.chunk)
    np.save(directory / START_FILE, schedule.start_ns)
    np.savez_compressed(directory / LINKS_FILE, **{name: getattr(schedule.topology, name) for name in LINKS})
    more = {"reducing_rounds": schedule.reducing_rounds, "num_sends": schedule.num_sends}
    write_json(directory / HEADER_FILE, describe_schedule(schedule, FORMAT) | more)


def load_lockstep_schedule(directory: str | Path) -> LockstepSchedule:
    """Read a schedule; its chunks stay in their file until they are used. `verify` decides whether they are legal.

    Raises
    ------
    ConfigError
        If the directory holds no such schedule, or its parts do not fit one another.
    """
    directory = Path(directory)
    with one_line(directory, "lockstep schedule"):
        header = read_json_object(directory / HEADER_FILE)
        if header.get("format") != FORMAT:
            raise ConfigError(f"{directory / HEADER_FILE}: format is {describe(header.get('format'))}, expected {FORMAT!r}")
        with opened_archive(directory / LINKS_FILE, "table of links") as archive:
            links = archive.columns(LINKS)
        start = map_array(directory / START_FILE, np.int64, 1)
        check_times(start)
        file_bytes = (directory / CHUNK_FILE).stat().st_size
        topology, collective, timing = restore(header, links, file_bytes)
        kind = np.dtype(chunk_kind(collective))
        chunk = map_array(directory / CHUNK_FILE, kind, 2)
        shape = (len(start), topology.num_channels)
        if chunk.shape != shape:
            raise ValueError(f"chunks are {kind} {chunk.shape}, expected {kind} {shape}")
        numbers = whole(header, "reducing_rounds", len(start)), whole(header, "num_sends", chunk.size)
        return LockstepSchedule(topology, collective, timing, chunk, start, *numbers, text(header, "synthesizer"), seed(header))
