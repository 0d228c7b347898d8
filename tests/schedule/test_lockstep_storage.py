"""Lockstep schedules and their rows on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.networks import topology

from astra_tacos.collective import COLLECTIVES
from astra_tacos.errors import ConfigError
from astra_tacos.schedule import row_store
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule, chunk_kind
from astra_tacos.schedule.lockstep_storage import CHUNK_FILE, HEADER_FILE, load_lockstep_schedule, save_lockstep_schedule
from astra_tacos.schedule.row_store import RowStore
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.matching.lockstep import lockstep_rounds


def made(path: Path | None = None) -> LockstepSchedule:
    of = topology(("Ring", 4, 50.0, 500.0), ("Ring", 3, 50.0, 500.0))
    what = COLLECTIVES["all-reduce"](of.num_npus, 1 << 20, 2)
    return lockstep_rounds(of, what, compute_timing(of, what, "pipelined", 10.0), 5, path=path)


@pytest.mark.parametrize("streamed", [False, True])
def test_round_trip(tmp_path: Path, streamed: bool) -> None:
    of = made(tmp_path / CHUNK_FILE if streamed else None)
    save_lockstep_schedule(of, tmp_path)
    back = load_lockstep_schedule(tmp_path)
    for name in ("chunk", "start_ns"):
        assert getattr(back, name).dtype == getattr(of, name).dtype
        assert np.array_equal(getattr(back, name), getattr(of, name))
    for name in ("reducing_rounds", "num_sends", "synthesizer", "seed", "collective_time_ns"):
        assert getattr(back, name) == getattr(of, name)
    assert np.array_equal(back.topology.link_src, of.topology.link_src)
    assert back.timing.reduce_bandwidth_gbps == 10.0


def test_what_is_no_such_schedule(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_lockstep_schedule(tmp_path)
    of = made()
    save_lockstep_schedule(of, tmp_path)
    np.save(tmp_path / CHUNK_FILE, of.chunk[:-1])
    with pytest.raises(ConfigError, match="chunks are uint8"):
        load_lockstep_schedule(tmp_path)
    header = json.loads((tmp_path / HEADER_FILE).read_text())
    (tmp_path / HEADER_FILE).write_text(json.dumps(header | {"format": "other"}))
    with pytest.raises(ConfigError, match="format is 'other'"):
        load_lockstep_schedule(tmp_path)


@pytest.mark.parametrize("where", ["memory", "file", "temporary file"])
def test_row_store(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "temporary file":
        monkeypatch.setattr(row_store, "MAX_BYTES_IN_MEMORY", 0)
    path = tmp_path / "rows.npy" if where == "file" else None
    rows = np.arange(35).reshape(7, 5) - 1
    with RowStore(5, np.uint16, 1, path) as store:
        store.append(rows[:1])
        store.append(rows[1:4])
        store.reverse()
        store.append(rows[4:])
        found = store.finish()
    expected = np.concatenate((rows[3::-1], rows[4:])).astype(np.uint16)
    assert np.array_equal(found, expected)
    if path is not None:
        assert np.array_equal(np.load(path), expected)


def test_the_smallest_type_that_has_room_for_none() -> None:
    sizes = {255: np.uint8, 256: np.uint16, 65_535: np.uint16, 65_536: np.uint32}
    for num_chunks, kind in sizes.items():
        assert chunk_kind(COLLECTIVES["broadcast"](2, 1 << 20, num_chunks)) is kind
