"""The front door: a Python program gets what the command writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run

from astra_tacos import CompactSolution, Request, SearchOptions, read_network, verify
from astra_tacos.run.backend import PACKET
from astra_tacos.solver.solve import solve
from astra_tacos.support.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "network"
CASES = {
    "mesh": ("topology: [Mesh, Mesh]\nnpus_count: [3, 3]\n", "all-reduce", 1 << 20),
    "hetero": ("topology: [Ring, FullyConnected, Switch]\nnpus_count: [2, 3, 4]\n", "all-gather", 1 << 18),
    "switch": ("topology: [Switch]\nnpus_count: [6]\n", "all-to-all", 1 << 16),
    "torus": ("topology: [Ring, Ring]\nnpus_count: [4, 4]\n", "broadcast", 1 << 20),
    "many sends": ("topology: [Ring, Ring]\nnpus_count: [60, 60]\n", "reduce-scatter", 1 << 30),
}


@pytest.mark.parametrize("name", CASES)
def test_python_and_the_command_make_the_same_bytes(name: str, tmp_path: Path) -> None:
    text, collective, size = CASES[name]
    count = text.count(",") // 2 + 1
    rates = ", ".join(f"{100 / 2**level:g}" for level in range(count))
    keys = ""
    network = tmp_path / "net.yml"
    if "Mesh" in text:
        text, keys = text.replace("Mesh", "Ring"), "astra_tacos: { topology: [Mesh, Mesh] }\n"
    network.write_text(f"{text}bandwidth: [{rates}]\nlatency: [{', '.join(['500.0'] * count)}]\n{keys}")
    given = f"--network net.yml --collective {collective} --size {size} --budget 200k --output run --json"
    done = run("synthesize", *given.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    request = Request(read_network(network), collective, size, options=SearchOptions(chunks_per_npu="auto", budget=200_000))
    solution = solve(request)
    solution.save(tmp_path / "schedule.npz")
    assert (tmp_path / "schedule.npz").read_bytes() == (tmp_path / "run" / "schedule.npz").read_bytes()
    ours, theirs = solution.to_json(), json.loads(done.stdout)
    assert {name: theirs[name] for name in ours if name != "notes"} == {
        name: value for name, value in json.loads(json.dumps(ours)).items() if name != "notes"
    }
    assert isinstance(solution, CompactSolution) == (name == "many sends")
    solution.write(tmp_path / "python")
    assert (tmp_path / "python" / "result.json").read_bytes() == (tmp_path / "run" / "result.json").read_bytes()


def test_a_request_that_contradicts_itself_is_refused() -> None:
    network = read_network(CONFIGS / "torus_8x8.yml")
    with pytest.raises(ConfigError, match="helpers: all NPUs of an all-to-allv take part"):
        Request(network, "all-to-allv", part_bytes=np.ones((64, 64), np.int64), helpers=(1,))
    with pytest.raises(ConfigError, match="too many sends for its messages to be timed"):
        solve(Request(network, "all-reduce", 1 << 20, options=SearchOptions(max_sends=100), backend=PACKET))


def test_what_is_chosen_for_the_packet_level_is_saved(tmp_path: Path) -> None:
    """The order of sends that the replay prefers, in the schedule itself."""
    network = tmp_path / "net.yml"
    network.write_text("topology: [Switch]\nnpus_count: [4]\nbandwidth: [46.566]\nlatency: [500.0]\n")
    options = SearchOptions(chunks_per_npu="auto", budget=100_000)
    solution = solve(Request(read_network(network), "all-reduce", 1 << 18, options=options, backend=PACKET))
    assert not isinstance(solution, CompactSolution) and not verify(solution.schedule)
    assert solution.to_json()["link_order"] == (solution.schedule.link_order or "serial")
