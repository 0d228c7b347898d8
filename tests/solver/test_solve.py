"""The front door: a Python program gets what the command writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run
from helpers.examples import examples, refused
from helpers.networks import config, topology
from helpers.symmetric import tasks
from hypothesis import given

from astra_tacos import CompactSolution, Request, SearchOptions, all_gather, read_network, synthesize
from astra_tacos.network.network_config import NetworkConfig, write_network
from astra_tacos.run.backend import BACKENDS, PACKET
from astra_tacos.solver.clock import has_equal_delays, symmetric_time_ns, time_on
from astra_tacos.solver.solve import solve
from astra_tacos.support.errors import VerificationError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.predefined import direct
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric
from astra_tacos.synthesizer.synthesizer import Synthesizer

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "network"
CASES = {
    "mesh": ("Mesh 3 100, Mesh 3", "all-reduce", 1 << 20),
    "hetero": ("Ring 2 100, FullyConnected 3, Switch 4 25", "all-gather", 1 << 18),
    "switch": ("Switch 6 100", "all-to-all", 1 << 16),
    "torus": ("Ring 4 100, Ring 4", "broadcast", 1 << 20),
    "many sends": ("Ring 60 100, Ring 60", "reduce-scatter", 1 << 30),
}


@pytest.mark.parametrize("name", CASES)
def test_python_and_the_command_make_the_same_bytes(name, tmp_path):
    dimensions, collective, size = CASES[name]
    network = tmp_path / "net.yml"
    write_network(config(dimensions), network)
    given = f"--network net.yml --collective {collective} --size {size} --budget 200k --output run --json"
    done = run("synthesize", *given.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    request = Request(read_network(network), collective, size, options=SearchOptions(chunks_per_npu="auto", budget=200_000))
    solution = solve(request)
    solution.save(tmp_path / "schedule.npz")
    assert (tmp_path / "schedule.npz").read_bytes() == (tmp_path / "run" / "schedule.npz").read_bytes()
    ours, theirs = json.loads(json.dumps(solution.to_json())), json.loads(done.stdout)
    del ours["notes"]
    assert theirs | ours == theirs
    assert isinstance(solution, CompactSolution) == (name == "many sends")
    solution.write(tmp_path / "python")
    assert (tmp_path / "python" / "result.json").read_bytes() == (tmp_path / "run" / "result.json").read_bytes()


def test_a_request_that_contradicts_itself_is_refused():
    network = read_network(CONFIGS / "torus_8x8.yml")
    with refused("helpers: all NPUs of an all-to-allv take part"):
        Request(network, "all-to-allv", part_bytes=np.ones((64, 64), np.int64), helpers=(1,))
    with refused("too many sends for its messages to be timed"):
        solve(Request(network, "all-reduce", 1 << 20, options=SearchOptions(max_sends=100), backend=PACKET))


def too_good(problem, seed):
    """A direct schedule whose first half is left out."""
    made = direct(problem, seed)
    half = made.num_sends // 2
    columns = {name: getattr(made, name)[half:] for name in ("chunk", "channel", "reduces")}
    times = {name: getattr(made, name)[half:] - made.start_ns[half] for name in ("start_ns", "end_ns")}
    return replace(made, **columns, **times, synthesizer="too-good")


@pytest.mark.parametrize("synthesizer", ["auto", "too-good"])
def test_a_wrong_synthesizer_is_caught(monkeypatch, synthesizer):
    graph = topology("Ring 6")
    for name in list(SYNTHESIZERS):
        monkeypatch.delitem(SYNTHESIZERS, name)
    monkeypatch.setitem(SYNTHESIZERS, "too-good", Synthesizer(too_good, frozenset({"all-gather"}), is_random=False))
    with refused(r"a schedule of too-good is illegal: \d+ violations", VerificationError):
        synthesize(graph, all_gather(6, 1 << 20), synthesizer=synthesizer, chunks_per_npu=1)


@examples(20)
@given(tasks(12))
def test_known_times_are_those_of_a_replay(what):
    schedule = synthesize_symmetric(what)
    for clock in BACKENDS.values():
        known = symmetric_time_ns(schedule, clock)
        if known is not None and has_equal_delays(what):
            network = NetworkConfig("test", what.dimensions)
            assert time_on(schedule.expand(), network, clock).time_ns == pytest.approx(known, abs=1)  # chunks differ by a byte
