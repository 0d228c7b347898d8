"""LIBRA's files: read exactly, and refused in one line that names file, key, value and what was expected."""

from __future__ import annotations

import re

import pytest
import yaml

from astra_tacos import ConfigError
from astra_tacos.study.optimizer.libra_files import read_communicator, read_cost_model, read_libra_network, read_libra_workload
from astra_tacos.study.optimizer.model import Demand, Shape

SHAPE = Shape("n.yml", ("Ring", "FullyConnected", "Switch"), (4, 8, 2), (0.0, 0.0, 0.0))
NETWORK = {"Topology": "[Ring, Switch]", "NpusCount": "[4, 2]", "CostDimension": "[A, B]"}
GROUPS = {"Forward": "[4, 2, -1]", "InputGrad": "[4, 2, 1]", "WeightGrad": "[-1, 4, 2]"}
LAYER = "fc -1 10 ALLREDUCE 100 20 ALLGATHER 300 30 REDUCESCATTER 500 5"


def written(path, entries):
    path.write_text("".join(f"{key}: {value}\n" for key, value in entries.items() if value))
    return path


def test_a_network(tmp_path):
    path = written(tmp_path / "n.yml", NETWORK)
    assert read_libra_network(path, 7.0) == Shape(str(path), ("Ring", "Switch"), (4, 2), (7.0, 7.0), ("A", "B"))
    assert read_libra_network(written(path, NETWORK | {"CostDimension": ""}), 7.0).tiers is None


def test_a_communicator(tmp_path):
    path = written(tmp_path / "c.yml", GROUPS)
    assert read_communicator(path, SHAPE) == {"Forward": (4, 2, 1), "InputGrad": (4, 2, 1), "WeightGrad": (1, 4, 2)}


def test_prices(tmp_path):
    path = written(
        tmp_path / "m.yml", {"A": "{Link: 1, Switch: 10}", "B": "{Link: 2, Switch: 20, Nic: 200}", "CostDimension": "[A, B, B]"}
    )
    assert read_cost_model(path).prices(SHAPE) == (1, 2, 222)
    with pytest.raises(ConfigError, match=r"CostDimension has 3 entries, n\.yml has 1 dimensions"):
        read_cost_model(path).prices(Shape("n.yml", ("Ring",), (4,), (0.0,)))
    without = read_cost_model(written(path, {"A": "{Link: 1}"}))
    for tiers, message in (
        (None, "CostDimension is missing"),
        (("A", "A", "A"), "A.Switch is missing"),
        (("A", "B", "A"), "the tier B is"),
    ):
        with pytest.raises(ConfigError, match=message):
            without.prices(Shape("n.yml", SHAPE.blocks, SHAPE.sizes, SHAPE.latency_ns, tiers))


def test_a_workload(tmp_path):
    groups = {"Forward": (4, 2, 1), "InputGrad": (1, 1, 1), "WeightGrad": (1, 4, 2)}
    (tmp_path / "w.txt").write_text(f"{LAYER}\n\n{LAYER}\nx -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 0 1\n")
    job = read_libra_workload(tmp_path / "w.txt", SHAPE, groups)
    assert job.demands == (Demand("all-reduce", 100, (4, 2, 1), (1, 1, 1)), Demand("reduce-scatter", 500, (1, 4, 2), (1, 2, 1)))
    (profile,) = job.profiles
    assert (profile.compute_ns, profile.counts, profile.num_ranks) == (2 * 65 + 4, (2, 2), 64)
    assert job.notes == ("2 collectives of InputGrad in groups of one NPU: free",)


WRONG = """
network | Topology: '[Ring, Torus]' | Topology[1] is 'Torus', expected Ring or FullyConnected or Switch
network | Topology: '' | Topology is missing, expected a list
network | NpusCount: '[4]' | NpusCount is a list of 1, expected a list of 2 entries
network | NpusCount: '[4, 1]' | NpusCount[1] is 1, expected a whole number above 1
network | NpusCount: '[4000, 4000]' | NpusCount gives 16000000 NPUs, expected at most 2,000,000
network | CostDimension: '[A, 2]' | CostDimension[1] is 2, expected the name of a tier
network | Bandwidth: '[1, 2]' | has the key 'Bandwidth', expected Topology, NpusCount, CostDimension
communicator | Forward: '[4, 9, -1]' | Forward[1] is 9, expected 1 to 8 members, or -1
communicator | Forward: '[4, 3, -1]' | Forward[1] is 3, expected a divisor of the dimension's 8 NPUs
communicator | Forward: '[4, 2]' | Forward is a list of 2, expected a list of 3 entries
prices | A: '{Link: -1}' | A.Link is -1, expected dollars per GB/s, 0 or more
prices | A: '{Cable: 1}' | A has the key 'Cable', expected Link, Switch, Nic
prices | A: '5' | A is 5, expected a tier with Link, Switch, Nic
"""
READERS = {
    "network": (NETWORK, lambda path: read_libra_network(path, 0.0)),
    "communicator": (GROUPS, lambda path: read_communicator(path, SHAPE)),
    "prices": ({}, read_cost_model),
}


@pytest.mark.parametrize("case", WRONG.strip().splitlines())
def test_wrong_entries(tmp_path, case):
    kind, text, message = case.split(" | ")
    entries, read = READERS[kind]
    path = written(tmp_path / "f.yml", entries | yaml.safe_load(text))
    with pytest.raises(ConfigError, match=rf"{re.escape(str(path))}:\d+:\d+:? {re.escape(message)}"):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "": "no layers, expected",
        "a b c": "w.txt:1: 3 columns, expected 12",
        LAYER.replace("ALLREDUCE", "BROADCAST"): "w.txt:1: Forward collective is 'BROADCAST', expected ALLREDUCE",
        LAYER.replace("300", "-3"): "w.txt:1: InputGrad bytes is '-3', expected a whole number",
        f"{LAYER}\n{LAYER}0000000000000000": "w.txt:2: update time is '50000000000000000', expected",
    }.items(),
)
def test_wrong_workloads(tmp_path, text, message):
    (tmp_path / "w.txt").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_libra_workload(tmp_path / "w.txt", SHAPE, dict.fromkeys(GROUPS, (4, 2, 1)))
