"""Schedules on disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.messages import one_shot
from helpers.networks import ALL, topology
from helpers.schedules import schedule

from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.support.errors import ConfigError


@pytest.mark.parametrize("name", ALL)
def test_round_trip(tmp_path: Path, name: str) -> None:
    of = schedule(topology(*ALL[name]), chunks=2, reduce_bandwidth_gbps=3.0, seed=5)
    save_schedule(of, tmp_path / "s.npz")
    back = load_schedule(tmp_path / "s.npz")
    for column in ("chunk", "channel", "reduces", "start_ns", "end_ns"):
        assert np.array_equal(getattr(of, column), getattr(back, column))
    assert back.topology.dimensions == of.topology.dimensions
    assert np.array_equal(back.topology.channel_link, of.topology.channel_link)
    assert np.array_equal(back.timing.reduction_ns, of.timing.reduction_ns)
    assert (back.synthesizer, back.seed, back.timing.link_model) == (of.synthesizer, of.seed, of.timing.link_model)
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_the_root_is_stored(tmp_path: Path, name: str) -> None:
    save_schedule(schedule(topology(*ALL["ring8"]), name, chunks=3, root=5), tmp_path / "s.npz")
    collective = load_schedule(tmp_path / "s.npz").collective
    assert (collective.name, collective.root, collective.chunk_owner.tolist()) == (name, 5, [5, 5, 5])
    arrays = dict(np.load(tmp_path / "s.npz"))
    np.savez(tmp_path / "bad.npz", **arrays | {"header": np.array(str(arrays["header"]).replace('"root": 5', '"root": 8'))})
    with pytest.raises(ConfigError, match="found root 8, expected an NPU, 0 to 7"):
        load_schedule(tmp_path / "bad.npz")


def test_same_schedule_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        save_schedule(schedule(topology(*ALL["torus"])), tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_what_is_no_schedule_gets_one_line(tmp_path: Path) -> None:
    save_schedule(schedule(topology(*ALL["ring8"])), tmp_path / "good.npz")
    good = dict(np.load(tmp_path / "good.npz"))
    cases = {
        "missing": {name: array for name, array in good.items() if name != "chunk"},
        "lengths": good | {"chunk": good["chunk"][1:]},
        "dtype": good | {"chunk": good["chunk"].astype(np.float64)},
        "header": good | {"header": np.array("{}")},
        "no-seed": good | {"header": np.array(str(good["header"]).replace("seed", "sad"))},
        "json": good | {"header": np.array("{")},
        "link": good | {"link_dst": good["link_dst"] + 100},
        "one-bandwidth": good | {"link_bandwidth_gibps": np.append(good["link_bandwidth_gibps"][1:], 1e308)},
        "latency": good | {"link_latency_ns": np.append(good["link_latency_ns"][1:], 1e300)},
        "speed": good | {"header": np.array(str(good["header"]).replace("50.0", "1e308"))},
        "bandwidth": good | {"link_bandwidth_gibps": good["link_bandwidth_gibps"] * np.nan},
        "dimension": good | {"link_dimension": good["link_dimension"] + 7},
    }
    for name, arrays in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "truncated.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:500])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in (*cases, "text", "truncated", "empty", "none"):
        with pytest.raises(ConfigError) as caught:
            load_schedule(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
        assert f"{name}.npz" in str(caught.value)


def test_damaged_messages_and_sums_get_one_line(tmp_path: Path) -> None:
    network = topology(("FullyConnected", 4, 50.0, 500.0))
    save_schedule(one_shot(network, 1 << 16, 2, source=Random(1)), tmp_path / "good.npz")
    good = dict(np.load(tmp_path / "good.npz"))
    assert len(load_schedule(tmp_path / "good.npz").message_first) < 97

    def put(name: str, at: int, value: int) -> dict[str, np.ndarray]:
        column = good[name].copy()
        column[at] = value
        return good | {name: column}

    num_values = len(good["sums_chunk"])
    cases = {
        "begins-late": put("message_first", 0, 1),
        "ends-early": put("message_first", -1, 5),
        "turns-back": put("message_first", 2, 0),
        "joins-channels": good | {"message_first": np.array([0, len(good["chunk"])])},
        "no-messages": {name: array for name, array in good.items() if name != "message_first"},
        "value-beyond": put("value", 3, num_values),
        "value-below": put("value", 3, -1),
        "value-of-another-chunk": put("value", 0, int(np.flatnonzero(good["sums_chunk"] != good["chunk"][0])[0])),
        "values-missing": good | {"value": good["value"][1:]},
        "values-reduce": put("reduces", 0, True),
        "chunk-beyond": put("sums_chunk", 0, 8),
        "npu-beyond": put("sums_npu", 0, 4),
        "part-of-itself": put("sums_part", 0, num_values - 1),
        "part-below": put("sums_part", 0, -1),
        "parts-end-late": put("sums_part_first", -1, 99),
        "total-beyond": put("sums_total", 0, num_values),
        "totals-missing": good | {"sums_total": good["sums_total"][1:]},
        "sums-missing": {name: array for name, array in good.items() if name != "sums_part"},
    }
    for name, arrays in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        with pytest.raises(ConfigError) as caught:
            load_schedule(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
        assert f"{name}.npz" in str(caught.value)
