"""Schedules on disk."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.messages import one_shot
from helpers.networks import ALL, topology
from helpers.schedules import column_bytes, schedule
from helpers.symmetric import task, tasks
from hypothesis import given

from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.schedule.symmetric_schedule import (
    holds_symmetric,
    load_rows,
    load_symmetric_schedule,
    save_symmetric_schedule,
)
from astra_tacos.support.archive import write_archive
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric


@pytest.mark.parametrize("name", ALL)
def test_round_trip(tmp_path, name):
    of = schedule(topology(*ALL[name]), chunks=2, reduce_bandwidth_gbps=3.0, seed=5)
    save_schedule(of, tmp_path / "s.npz")
    back = load_schedule(tmp_path / "s.npz")
    assert column_bytes(of) == column_bytes(back)
    assert back.topology.dimensions == of.topology.dimensions
    assert np.array_equal(back.topology.channel_link, of.topology.channel_link)
    assert np.array_equal(back.timing.reduction_ns, of.timing.reduction_ns)
    assert (back.synthesizer, back.seed, back.timing.link_model) == (of.synthesizer, of.seed, of.timing.link_model)
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]
    save_schedule(back, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "s.npz").read_bytes()


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_the_root_is_stored(tmp_path, name):
    save_schedule(schedule(topology(*ALL["ring8"]), name, chunks=3, root=5), tmp_path / "s.npz")
    collective = load_schedule(tmp_path / "s.npz").collective
    assert (collective.name, collective.root, collective.chunk_owner.tolist()) == (name, 5, [5, 5, 5])
    arrays = dict(np.load(tmp_path / "s.npz"))
    np.savez(tmp_path / "bad.npz", **arrays | {"header": np.array(str(arrays["header"]).replace('"root": 5', '"root": 8'))})
    with refused("found root 8, expected an NPU, 0 to 7"):
        load_schedule(tmp_path / "bad.npz")


def check_refused(folder, **cases):
    for name, arrays in cases.items():
        path = folder / f"{name}.npz"
        if isinstance(arrays, bytes):
            path.write_bytes(arrays)
        elif arrays:
            np.savez(path, **arrays)
        with pytest.raises(ConfigError) as caught:
            load_schedule(path)
        assert "\n" not in str(caught.value) and path.name in str(caught.value)


def test_what_is_no_schedule_gets_one_line(tmp_path):
    save_schedule(schedule(topology(*ALL["ring8"])), tmp_path / "good.npz")
    good = dict(np.load(tmp_path / "good.npz"))
    header, bandwidth = str(good["header"]), good["link_bandwidth_gibps"]
    check_refused(
        tmp_path,
        missing={name: array for name, array in good.items() if name != "chunk"},
        lengths=good | {"chunk": good["chunk"][1:]},
        dtype=good | {"chunk": good["chunk"].astype(np.float64)},
        header=good | {"header": np.array("{}")},
        no_seed=good | {"header": np.array(header.replace("seed", "sad"))},
        json=good | {"header": np.array("{")},
        link=good | {"link_dst": good["link_dst"] + 100},
        to_itself=good | {"link_dst": good["link_src"]},
        one_bandwidth=good | {"link_bandwidth_gibps": np.append(bandwidth[1:], 1e308)},
        latency=good | {"link_latency_ns": np.append(good["link_latency_ns"][1:], 1e300)},
        speed=good | {"header": np.array(header.replace("50.0", "1e308"))},
        bandwidth=good | {"link_bandwidth_gibps": bandwidth * np.nan},
        dimension=good | {"link_dimension": good["link_dimension"] + 7},
        text=b"hello",
        truncated=(tmp_path / "good.npz").read_bytes()[:500],
        empty=b"",
        none={},
    )


def test_damaged_messages_and_sums_get_one_line(tmp_path):
    network = topology("FullyConnected 4")
    save_schedule(one_shot(network, 1 << 16, 2, source=Random(1)), tmp_path / "good.npz")
    good = dict(np.load(tmp_path / "good.npz"))
    assert len(load_schedule(tmp_path / "good.npz").message_first) < 97

    def put(name, at, value):
        column = good[name].copy()
        column[at] = value
        return good | {name: column}

    num_values = len(good["sums_chunk"])
    check_refused(
        tmp_path,
        begins_late=put("message_first", 0, 1),
        ends_early=put("message_first", -1, 5),
        turns_back=put("message_first", 2, 0),
        joins_channels=good | {"message_first": np.array([0, len(good["chunk"])])},
        no_messages={name: array for name, array in good.items() if name != "message_first"},
        value_beyond=put("value", 3, num_values),
        value_below=put("value", 3, -1),
        value_of_another_chunk=put("value", 0, int(np.flatnonzero(good["sums_chunk"] != good["chunk"][0])[0])),
        values_missing=good | {"value": good["value"][1:]},
        values_reduce=put("reduces", 0, True),
        chunk_beyond=put("sums_chunk", 0, 8),
        npu_beyond=put("sums_npu", 0, 4),
        part_of_itself=put("sums_part", 0, num_values - 1),
        part_below=put("sums_part", 0, -1),
        parts_end_late=put("sums_part_first", -1, 99),
        total_beyond=put("sums_total", 0, num_values),
        totals_missing=good | {"sums_total": good["sums_total"][1:]},
        sums_missing={name: array for name, array in good.items() if name != "sums_part"},
    )


COLUMNS = ("chunk", "src", "dst", "reduces", "start_ns", "end_ns")


@examples(20)
@given(what=tasks())
def test_written_and_read(tmp_path_factory, what):
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


def test_an_ordinary_schedule_is_none(tmp_path):
    path = tmp_path / "schedule.npz"
    expanded = synthesize_symmetric(task("Ring 4")).expand()
    save_schedule(expanded, path)
    assert not holds_symmetric(path) and not holds_symmetric(tmp_path / "nothing.npz")
    assert np.array_equal(load_rows(path).start_ns, expanded.start_ns)
    with refused("format is 'astra_tacos schedule 1', expected"):
        load_symmetric_schedule(path)


@pytest.mark.parametrize(
    "changed, message",
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
def test_headers_that_make_no_sense(tmp_path, changed, message):
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


def test_a_million_sends_too_many_are_not_expanded(tmp_path, monkeypatch):
    path = tmp_path / "schedule.npz"
    save_symmetric_schedule(synthesize_symmetric(task("Ring 8")), path)
    monkeypatch.setattr("astra_tacos.schedule.symmetric_schedule.MOST_SENDS", 10)
    with refused("a symmetric schedule of 56 sends, expected at most 10"):
        load_rows(path)
