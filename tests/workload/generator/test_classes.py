"""Compact runs as `generate` writes them: those that it writes rank by rank, where both can be had."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from helpers.command import read_json
from helpers.generated import small_model, write_network
from helpers.networks import config

from astra_tacos.network.network_config import read_network
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.compact_run import compact, expand, read_compact
from astra_tacos.run.run import RANKS, RunInputs, read_run
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

DENSE = Step(small_model(), Parallelism(4, 2, 4), 4)
EXPERTS = Step(small_model(experts=4, top_k=2), Parallelism(8, 2, 2, 4, ("ep", "tp", "pp", "dp")), 2, buckets=2)
INTERLEAVED = Step(small_model(), Parallelism(4, 4, 2), 4, virtual_stages=2)
SHAPES = {
    "of the axes": ("FullyConnected 2", "Ring 4", "Switch 4"),
    "one": ("Ring 32",),
    "other": ("Switch 8", "Ring 4"),
}


@pytest.fixture
def written(tmp_path):
    return make(DENSE, SHAPES["of the axes"], tmp_path)


def make(step, shape, folder):
    """A small run, written as a large one is."""
    network = folder / "n.yml"
    write_network(network, *shape)
    generate(step, folder / "classes", network=network, compact=True)
    return read_compact(folder / "classes", read_network(network))


@pytest.mark.parametrize("step", [DENSE, EXPERTS, INTERLEAVED], ids=["dense", "experts", "interleaved"])
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_end_as_in_the_ordinary_run(step, shape, tmp_path):
    if (shape, step) == ("one", EXPERTS):
        with pytest.raises(ConfigError, match="group 9 has the coordinates 0, 1, 2, 3, 16, 17, 18, 19, expected even spaces"):
            make(step, SHAPES[shape], tmp_path)
        return
    some = make(step, SHAPES[shape], tmp_path)
    network = tmp_path / "n.yml"
    ordinary = generate(step, tmp_path / "ranks", network=network).path
    whole = read_run(RunInputs(ordinary / "workload/w", ordinary / "system.json", network, ordinary / "comm_group.json"))
    place = some.lattice.places(np.arange(some.lattice.num_ranks))
    refused = 0
    for backend in BACKENDS.values():
        finish_ns = replay_run(whole, backend).finish_ns
        assert np.array_equal(replay_run(expand(some), backend).finish_ns, finish_ns)
        try:
            assert np.array_equal(replay_run(some, backend).finish_ns[place], finish_ns)
        except ConfigError:
            raise
        except Exception as error:  # refused: the reason is one of an order
            assert "in an order that may differ" in str(error)
            refused += 1
    assert refused <= 1
    try:
        found = compact(whole).lattice.period
    except ConfigError:
        return
    assert all(there % here == 0 for here, there in zip(found, some.lattice.period, strict=True))


def test_a_run_of_more_than_1024_ranks_is_compact(tmp_path):
    network = tmp_path / "n.yml"
    write_network(network, "FullyConnected 8", "Ring 4", "Switch 64")
    step = Step(small_model(sequence=512, hidden=128, ffn=512), Parallelism(64, 8, 4, 1, ("tp", "pp", "ep", "dp")), 2, 2)
    run = generate(step, tmp_path / "run", network=network)
    assert sorted(path.name for path in (run.path / "classes").iterdir()) == [f"w.{number}.et" for number in range(4)]
    content = read_json(run.path / RANKS)
    assert (content["sizes"], content["periods"]) == ([8, 4, 64], [1, 4, 1])
    some = read_compact(run.path, read_network(network))
    whole = expand(some)
    for backend in BACKENDS.values():
        classes = replay_run(some, backend)
        place = some.lattice.places(np.arange(2048))
        assert np.array_equal(classes.finish_ns[place], replay_run(whole, backend).finish_ns)


def test_it_needs_a_network(tmp_path):
    step = Step(small_model(), Parallelism(2048))
    with pytest.raises(ConfigError, match="found 2,048 ranks, of which more than 1,024 make a compact run, expected a network"):
        generate(step, tmp_path / "run")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sizes", [2, 4, 5], "sizes 2 x 4 x 5, but"),
        ("sizes", "2", "Expected `array`, got `str` - at `$.sizes`"),
        ("periods", [1, 3, 1], "periods 1 x 3 x 1, expected a divisor of each of 2 x 4 x 4"),
        ("periods", [1, 2, 1], "traces of 4 classes, expected 2 as in"),
        ("periods", [2, 4, 1], "traces of 4 classes, expected 8 as in"),
        ("groups", [1], "Expected `object`, got `array` - at `$.groups`"),
        ("groups", {"x": [[0, 1, 1]] * 3}, "expected a number from 1 on, once, and [first, step, count] for each dimension"),
        ("groups", {"1": [[0, 1, 3]] * 3, "01": [[0, 1, 1]] * 3}, "coordinates below 2"),
        ("groups", {"1": [[0, 1, 1]] * 3, "01": [[0, 1, 1]] * 3}, "group 01 again, expected a number from 1 on, once"),
        ("groups", {"1": [[10**20, 1, 1]] * 3}, "Expected `int` <= 4611686018427387903 - at `$.groups[...][0][0]`"),
        ("groups", {"1": [[0, 1, 2_000_000]] * 3}, "expected coordinates below 2"),
        ("collectives", 3, "Expected `object`, got `int` - at `$.collectives`"),
        ("groups", {"1": [[0, 1, 9]] * 3}, "group 1 has [0, 1, 9], expected coordinates below 2"),
        ("groups", {"1": [[0, 1]] * 3}, "Expected `array` of length 3, got 2 - at `$.groups[...][0]`"),
    ],
)
def test_a_file_of_ranks_that_is_wrong(key, value, message, written, tmp_path):
    path = tmp_path / "classes" / RANKS
    path.write_text(json.dumps(read_json(path) | {key: value}))
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_compact(tmp_path / "classes", written.network)


def test_a_period_of_a_mesh_is_refused(written, tmp_path):
    meshes = config(*(("Mesh", size, 10.0, 500.0) for size in written.lattice.size))
    with pytest.raises(ConfigError, match="period 1 of Mesh 2, expected 2: the dimension does not look the same after a turn"):
        read_compact(tmp_path / "classes", meshes)


def test_collectives_that_depend_on_numbers_are_refused(written, tmp_path):
    path = tmp_path / "classes/system.json"
    system = read_json(path)
    path.write_text(json.dumps(system | {"all-reduce-implementation": ["halvingDoubling"]}))
    with pytest.raises(
        ConfigError,
        match="an algorithm such as halvingDoubling gives each rank a part by its number, expected a period of dimension",
    ):
        read_compact(tmp_path / "classes", written.network)
