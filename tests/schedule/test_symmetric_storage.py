"""Symmetric schedules on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.examples import examples
from helpers.symmetric import task, tasks
from hypothesis import given

from astra_tacos.schedule.storage import save_schedule
from astra_tacos.schedule.symmetric_schedule import (
    SymmetricTask,
    holds_symmetric,
    load_rows,
    load_symmetric_schedule,
    save_symmetric_schedule,
)
from astra_tacos.support.archive import write_archive
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric

COLUMNS = ("chunk", "src", "dst", "reduces", "start_ns", "end_ns")


@examples(20)
@given(what=tasks())
def test_written_and_read(tmp_path_factory: pytest.TempPathFactory, what: SymmetricTask) -> None:
    path = tmp_path_factory.mktemp("stored") / "schedule.npz"
    schedule = synthesize_symmetric(what)
    save_symmetric_schedule(schedule, path)
    read = load_symmetric_schedule(path)
    assert read.task == what and read.synthesizer == "symmetric"
    assert all(np.array_equal(getattr(read, name), getattr(schedule, name)) for name in COLUMNS)
    first = path.read_bytes()
    save_symmetric_schedule(read, path)
    assert path.read_bytes() == first
    assert holds_symmetric(path)
    assert np.array_equal(load_rows(path).start_ns, schedule.expand().start_ns)


def test_an_ordinary_schedule_is_none(tmp_path: Path) -> None:
    path = tmp_path / "schedule.npz"
    expanded = synthesize_symmetric(task("Ring 4")).expand()
    save_schedule(expanded, path)
    assert not holds_symmetric(path) and not holds_symmetric(tmp_path / "nothing.npz")
    assert np.array_equal(load_rows(path).start_ns, expanded.start_ns)
    with pytest.raises(ConfigError, match="format is 'astra_tacos schedule 1', expected"):
        load_symmetric_schedule(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dimensions": [["Mesh", 4, 50.0, 500.0]]}, "Mesh 4 has ends"),
        ({"dimensions": [["Ring", 1, 50.0, 500.0]]}, "a dimension is"),
        ({"dimensions": [["Ring", 4, 50.0]]}, "not a symmetric schedule"),
        ({"dimensions": 7}, "not a symmetric schedule"),
        ({"collective": "broadcast"}, "found 'broadcast'"),
        ({"size_bytes": 0}, "0 bytes in 1 chunks"),
        ({"size_bytes": -1}, "size_bytes is"),
        ({"chunks_per_npu": 1 << 20}, "rows|sends of NPU 0's chunks"),
        ({"link_model": "quantum"}, "link model 'quantum'"),
        ({"reduce_bandwidth_gbps": -1.0}, "expected a number of 0 or more"),
        ({"format": "something"}, "format is 'something'"),
    ],
)
def test_headers_that_make_no_sense(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    path = tmp_path / "schedule.npz"
    schedule = synthesize_symmetric(task("Ring 4"))
    save_symmetric_schedule(schedule, path)
    header = json.loads(str(np.load(path)["header"]))
    assert load_symmetric_schedule(path).num_rows == 3
    columns = {name: getattr(schedule, name) for name in COLUMNS}
    write_archive(path, np.array(json.dumps(header | changed)), columns)
    with pytest.raises(ConfigError, match=message) as error:
        load_symmetric_schedule(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_a_million_sends_too_many_are_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "schedule.npz"
    save_symmetric_schedule(synthesize_symmetric(task("Ring 8")), path)
    monkeypatch.setattr("astra_tacos.schedule.symmetric_schedule.MOST_SENDS", 10)
    with pytest.raises(ConfigError, match="a symmetric schedule of 56 sends, expected at most 10"):
        load_rows(path)
