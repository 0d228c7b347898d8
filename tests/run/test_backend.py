"""Network models: what each says of itself, and one default for all commands."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import planned, written
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.cli.replay import replay
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig, read_network
from astra_tacos.replayer.astra_sim import backend_of
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import (
    BACKENDS,
    CONGESTION_AWARE,
    CONGESTION_UNAWARE,
    MODELS,
    STOCK,
    binaries_for,
    choose_backend,
    stock_backend,
)
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.lint import lint

BLOCKS = ("Ring", "FullyConnected", "Switch", "Mesh")


def network(*blocks):
    return NetworkConfig("net.yml", tuple(Dimension(block, int(size), 50.0, 500.0) for block, size in map(str.split, blocks)))


GRAPH = NetworkConfig("graph.yml", (), (LinkSpec(0, 1, 50.0, 500.0), LinkSpec(1, 0, 50.0, 500.0)))


def test_every_backend_has_its_network_model():
    assert set(NETWORK_MODELS) == set(MODELS.values())
    for backend in NETWORK_MODELS:
        assert pickle.loads(pickle.dumps(backend)) == backend
        assert bool(len(NETWORK_MODELS[backend](network("Ring 4")).link_src)) is backend.models_congestion


def test_the_clock_has_queues_whatever_stock_astra_sim_has():
    assert stock_backend(None) is stock_backend(GRAPH) is stock_backend(network("Ring 4")) is CONGESTION_AWARE
    assert stock_backend(network("Ring 4", "Switch 2")) is CONGESTION_UNAWARE
    assert choose_backend(None) is CONGESTION_AWARE
    for name, backend in MODELS.items():
        assert choose_backend(name) is choose_backend(backend) is backend
    with pytest.raises(ConfigError, match="backend: found 'ns3', expected congestion-aware or congestion-unaware or packet"):
        choose_backend("ns3")


@given(st.lists(st.tuples(st.sampled_from(BLOCKS), st.integers(2, 5)), min_size=1, max_size=3))
def test_stock_astra_sim_runs_what_no_reason_speaks_against(blocks):
    net = network(*(f"{block} {size}" for block, size in blocks))
    has_mesh = any(block == "Mesh" for block, _ in blocks)
    assert bool(CONGESTION_UNAWARE.refusals(net)) is has_mesh
    small_ring, several = blocks == [("Ring", 2)], len(blocks) > 1
    assert len(CONGESTION_AWARE.refusals(net)) == has_mesh + small_ring + several
    assert (CONGESTION_UNAWARE.exact_to(net) == STOCK) is not has_mesh
    judge = None if has_mesh or small_ring else f"ASTRA-sim's branch {CONGESTION_AWARE.branch}" if several else STOCK
    assert CONGESTION_AWARE.exact_to(net) == judge


def test_which_programs_run_a_network():
    def names(net):
        return [(binary.backend.name, binary.branch is None) for binary in binaries_for(net)]

    assert names(network("Ring 4")) == [("congestion-aware", True), ("congestion-unaware", True)]
    assert names(network("Ring 2")) == [("congestion-unaware", True)]
    assert names(network("Ring 4", "Switch 2")) == [("congestion-unaware", True), ("congestion-aware", False)]
    assert names(GRAPH) == names(network("Mesh 4")) == []


def test_nothing_judges_links_of_their_own():
    for backend in BACKENDS.values():
        assert "this program takes no lists of links, failed links or links that differ" in backend.refusals(GRAPH)
        assert backend.exact_to(GRAPH) is None


def test_a_binary_is_known_by_its_name():
    for backend in BACKENDS.values():
        for name in (backend.binary, backend.binary.lower(), f"my-{backend.name}.sh"):
            assert backend_of(Path("/opt") / name, GRAPH) is backend
    assert backend_of(Path("astra"), network("Ring 4", "Ring 4")) is CONGESTION_UNAWARE


LISTED = "astra_tacos:\n  links: links.csv\n"
SWITCH = "topology: [Switch]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n"
OVERRIDE = "astra_tacos:\n  link_overrides:\n    - {src: 0, dst: 1, bandwidth: 25}\n"
TORUS = "topology: [Ring, Ring]\nnpus_count: [2, 2]\nbandwidth: [50, 50]\nlatency: [500, 500]\n"


@pytest.mark.parametrize(
    "text",
    [LISTED, TORUS, SWITCH, TORUS + OVERRIDE, TORUS + "astra_tacos:\n  failed_links: [[0, 1]]\n"],
)
def test_all_commands_have_one_clock(tmp_path, text):
    """It has queues; `lint` judges stock ASTRA-sim instead."""
    ranks = [[comp(0, us=3), coll(1, [0], size=1 << 16)] for _ in range(4)]
    inputs = written(tmp_path, RunFiles(ranks=ranks, system="all-reduce-implementation: [oneRing]"))
    pairs = [(src, dst) for src in range(4) for dst in range(4) if src != dst]
    (tmp_path / "links.csv").write_text("src,dst,bandwidth,latency\n" + "".join(f"{src},{dst},50,500\n" for src, dst in pairs))
    inputs.network.write_text(text)
    options = ["--workload", inputs.workload, "--system", inputs.system, "--network", inputs.network, "--json"]
    done = CliRunner().invoke(replay, [str(option) for option in options])
    run = read_run(RunInputs(inputs.workload, inputs.system, inputs.network))
    assert done.exit_code == 0, done.output
    result, _ = planned(inputs, tmp_path / "plan")
    assert json.loads(done.stdout)["backend"] == result.clock.name
    assert replay_run(run).backend is result.clock is CONGESTION_AWARE
    report = lint(RunInputs(inputs.workload, inputs.system, inputs.network))
    assert report.backend is stock_backend(read_network(inputs.network))
