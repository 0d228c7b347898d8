"""`astra-tacos plan`."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.command import options_of, read_json
from helpers.lint_runs import RunFiles, coll, comp

from astra_tacos.cli.plan import plan
from astra_tacos.cli.shared.console import points_to_lint
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.files import replaced_file


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/astra_tacos"


def invoke(folder, options=""):
    ranks = [[comp(0, us=5), coll(1, [0], size=1 << 18), coll(2, [1], size=1 << 16, group=1)] for _ in range(4)]
    arguments = RunFiles(ranks=ranks, topology=("Ring",), groups="'1': [0, 1, 2, 3]").write(folder)
    given = f"{options_of(arguments)} --output {folder / 'plan'} --synthesizer tacos --trials 1"
    return CliRunner().invoke(plan, f"{given} {options}", catch_exceptions=False)


def test_it_prints_before_and_after_and_every_case(tmp_path, cache):
    result = invoke(tmp_path)
    assert result.exit_code == 0, result.output
    answer = result.output.splitlines()
    assert answer[0].startswith("2 collectives of 4 ranks, 2 distinct")
    assert [line.split("  ")[1] for line in answer[2:7]] == ["end of the run", "before", "best native", "at least", "exposed"]
    result = invoke(tmp_path, "--verbose")
    lines = result.output.splitlines()
    assert "; the best: " in next(line for line in lines if line.startswith("native space"))
    assert any(line.startswith("all-reduce 256 KiB") for line in lines)
    assert any(line.startswith("all-reduce 64 KiB") for line in lines)
    assert len(list(cache.rglob("*.npz"))) == 2
    assert (tmp_path / "plan/run_astra_sim.sh").stat().st_mode & stat.S_IXUSR


def test_json_has_what_plan_json_has_but_the_nodes(tmp_path, cache):
    result = invoke(tmp_path, "--json --no-cache --baseline direct --threads 2 --chunks-per-npu auto")
    printed = json.loads(result.stdout)
    written = read_json(tmp_path / "plan/plan.json")
    assert printed["speed_up"] == written["speed_up"] == written["before_ns"] / written["time_ns"]
    assert len(written["nodes"]) == written["num_nodes"] == 8
    assert all(len(row) == len(written["node_columns"]) for row in written["nodes"])
    assert written["baseline"] == "direct"
    assert not cache.exists()


def test_a_cache_is_a_directory(tmp_path):
    (tmp_path / "kept").write_text("")
    result = invoke(tmp_path, f"--cache {tmp_path / 'kept'}")
    assert result.exit_code == 2 and "is a file" in result.output
    assert not (tmp_path / "plan").exists()


def test_what_is_not_synthesized_has_pattern_size_group_and_nodes(tmp_path):
    ranks = [[coll(5, size=24, group=1 + rank // 4), coll(6, [5], size=1 << 16)] for rank in range(8)]
    groups = {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}
    dimensions = {"topology": ("Switch", "FullyConnected"), "npus": (4, 2), "latency": 0}
    files = RunFiles(ranks=ranks, groups=groups, **dimensions).write(tmp_path)
    more = "--no-cache --threads 1 --backend congestion-unaware --verbose"
    arguments = f"{options_of(files)} --output {tmp_path / 'plan'} {more}"
    printed = CliRunner().invoke(plan, arguments, catch_exceptions=False).stdout.splitlines()
    (left,) = [line for line in printed if line.startswith("not synthesized, algorithm native: all-reduce of 24 B")]
    which = "all-reduce of 24 B, group of ranks 0, 1, 2, 3 and 1 more (8 nodes, the first rank 0, node 5)"
    assert left.startswith(f"not synthesized, algorithm native: {which}: no candidate can run there: ")
    assert "a chunk of 6 B holds a link of network for less than 1 ns" in left


def test_a_named_synthesizer_that_can_do_nothing_is_refused(tmp_path):
    """Nothing is written: a plan without any of its schedules would not be what was asked for."""
    files = RunFiles(ranks=[[coll(5, size=1 << 16)]] * 4, topology=("Ring",)).write(tmp_path)
    arguments = f"{options_of(files)} --no-cache --synthesizer in-network --output {tmp_path / 'plan'}"
    refusal = CliRunner().invoke(plan, arguments).exception
    assert isinstance(refusal, SynthesisError)
    assert "in-network can do no collective of the run: " in str(refusal)
    assert "expected a network with devices that add" in str(refusal)
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize("chunks", [1, 8, "auto"])
def test_a_collective_of_few_bytes_is_synthesized_in_fewer_chunks(chunks, tmp_path):
    """ASTRA-sim's own Broadcast moves nothing: left as it is, one of a byte would end after 1 ns."""
    files = RunFiles(ranks=[[coll(5, size=1, comm_type=CommType.BROADCAST)]] * 4, topology=("Ring",)).write(tmp_path)
    given = f"{options_of(files)} --no-cache --chunks-per-npu {chunks} --output {tmp_path / 'plan'} --json"
    result = CliRunner().invoke(plan, given, catch_exceptions=False)
    assert result.exit_code == 0 and json.loads(result.stdout)["time_ns"] > 1000


def test_errors_of_the_run_point_to_lint(tmp_path):
    """Those of the output do not, nor does a file that is not there."""
    files = RunFiles(ranks=[[comp(0)]] * 4, topology=("Ring",)).write(tmp_path)
    (tmp_path / "other").touch()
    hint = "; for details, run `astra-tacos lint` on the same files"
    for output, system, has_hint in ((tmp_path / "plan", "{", True), (tmp_path, "{", False), (tmp_path / "plan", None, False)):
        if system is None:
            files["system"].unlink()
        else:
            files["system"].write_text(system)
        result = CliRunner().invoke(plan, f"{options_of(files)} --output {output}")
        assert isinstance(result.exception, ConfigError)
        assert str(result.exception).endswith(hint) is has_hint


def test_a_full_disk_does_not_point_to_lint():
    full = Path("/dev/full")
    with pytest.raises(ConfigError, match=r"No space left on device\)$"), points_to_lint(), replaced_file(full) as file:
        file.write_bytes(b"a plan")


def test_astra_sim_runs_before_and_after(tmp_path):
    """A stand-in for the binary: it prints what ASTRA-sim would, from the node count of the configuration it is given."""
    binary = tmp_path / "AstraSim_Analytical_Congestion_Aware"
    lines = "\n".join(f"echo 'sys[{rank}] finished, 1000 cycles, exposed communication 10 cycles.'" for rank in range(4))
    binary.write_text(f"#!/bin/sh\n{lines}\n")
    binary.chmod(0o755)
    result = invoke(tmp_path, f"--backend astra-sim --astra-sim-bin {binary} --json")
    assert json.loads(result.stdout)["astra_sim"] == {"binary": str(binary), "after": 1000, "before": 1000}
