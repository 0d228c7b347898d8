"""Lockstep schedules on disk: a directory of NumPy arrays that need not be read to be used, and a JSON header."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

from astra_tacos.errors import ConfigError
from astra_tacos.files import write_json
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule, chunk_kind
from astra_tacos.schedule.storage import LINKS, column, describe, restore

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
    write_json(directory / HEADER_FILE, describe(schedule, FORMAT) | more)


def load_lockstep_schedule(directory: str | Path) -> LockstepSchedule:
    """Read a schedule; its chunks stay in their file until they are looked at. Whether they are legal is for `verify` to say.

    Raises
    ------
    ConfigError
        If the directory holds no such schedule, or its parts do not fit one another.
    """
    directory = Path(directory)
    try:
        header = json.loads((directory / HEADER_FILE).read_text(encoding="utf-8"))
        if header.get("format") != FORMAT:
            raise ConfigError(f"{directory / HEADER_FILE}: format is {header.get('format')!r}, expected {FORMAT!r}")
        with np.load(directory / LINKS_FILE, allow_pickle=False) as archive:
            arrays = {name: column(archive[name], kind, name) for name, kind in LINKS.items()}
        topology, collective, timing = restore(header, arrays)
        start = column(np.load(directory / START_FILE, allow_pickle=False), np.int64, "start_ns")
        chunk = np.load(directory / CHUNK_FILE, mmap_mode="r", allow_pickle=False)
        shape, kind = (len(start), topology.num_channels), np.dtype(chunk_kind(collective))
        if chunk.shape != shape or chunk.dtype != kind:
            raise ValueError(f"chunks are {chunk.dtype} {chunk.shape}, expected {kind} {shape}")
        numbers = int(header["reducing_rounds"]), int(header["num_sends"])
        return LockstepSchedule(
            topology, collective, timing, chunk, start, *numbers, str(header["synthesizer"]), int(header["seed"])
        )
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be read ({error.strerror or error})") from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        detail = "" if "allow_pickle" in str(error) else f" ({' '.join(str(error).split())})"
        raise ConfigError(f"{directory}: not a lockstep schedule of astra_tacos{detail}") from None
