"""The front door: a Python program gets what the command writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run
from helpers.networks import config

from astra_tacos import CompactSolution, Request, SearchOptions, read_network, verify
from astra_tacos.network.network_config import write_network
from astra_tacos.run.backend import PACKET
from astra_tacos.solver.solve import solve
from astra_tacos.support.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "network"
CASES = {
    "mesh": ("Mesh 3 100, Mesh 3", "all-reduce", 1 << 20),
    "hetero": ("Ring 2 100, FullyConnected 3, Switch 4 25", "all-gather", 1 << 18),
    "switch": ("Switch 6 100", "all-to-all", 1 << 16),
    "torus": ("Ring 4 100, Ring 4", "broadcast", 1 << 20),
    "many sends": ("Ring 60 100, Ring 60", "reduce-scatter", 1 << 30),
}


@pytest.mark.parametrize("name", CASES)
def test_python_and_the_command_make_the_same_bytes(name: str, tmp_path: Path) -> None:
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


def test_a_request_that_contradicts_itself_is_refused() -> None:
    network = read_network(CONFIGS / "torus_8x8.yml")
    with pytest.raises(ConfigError, match="helpers: all NPUs of an all-to-allv take part"):
        Request(network, "all-to-allv", part_bytes=np.ones((64, 64), np.int64), helpers=(1,))
    with pytest.raises(ConfigError, match="too many sends for its messages to be timed"):
        solve(Request(network, "all-reduce", 1 << 20, options=SearchOptions(max_sends=100), backend=PACKET))


def test_what_is_chosen_for_the_packet_level_is_saved() -> None:
    """The order of sends that the replay prefers, in the schedule itself."""
    options = SearchOptions(chunks_per_npu="auto", budget=100_000)
    solution = solve(Request(config("Switch 4"), "all-reduce", 1 << 18, options=options, backend=PACKET))
    assert not isinstance(solution, CompactSolution) and not verify(solution.schedule)
    assert solution.to_json()["link_order"] == (solution.schedule.link_order or "serial")
