"""Real traces that others published, none of which ASTRA-sim runs as it is: each becomes a run that ends.

The cycles are those of a real ASTRA-sim on the repaired runs.
"""

from __future__ import annotations

import tarfile

import pytest
from helpers.peers import peers

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Severity
from astra_tacos.workload.repairer.reading import RepairInputs
from astra_tacos.workload.repairer.repair import repair

_FOLDERS, _WHY_NOT = peers("traces/*/")
pytestmark = pytest.mark.skipif(not _FOLDERS, reason=_WHY_NOT)


def folder(name):
    found = [path for path in _FOLDERS if path.name == name]
    if not found:
        pytest.skip(f"NOT TESTED on {name}: {_FOLDERS[0].parent} has no such folder")
    return found[0]


def steps_of(result):
    return {change.step for change in result.changes}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("pytorch_2gpu_1", {"group-members", "collective-order", "system"}),
        ("pytorch_2gpu_2", {"group-names", "collective-order", "system"}),
    ],
)
def test_pytorch_on_two_gpus(name, steps, tmp_path):
    """A third party's log of the run without group 0 says the same cycles."""
    path = folder(name)
    files = (path / file for file in ("chakra_trace", "system.json", "network.yml", "comm_group.json", "remote_memory.json"))
    result = repair(RepairInputs(*files), tmp_path / "out")
    assert steps_of(result) == steps
    assert result.outcome.finish_ns.tolist() == [105_775_266, 105_836_266]
    assert result.outcome.exposed_comm_ns.tolist() == [1_634_266, 1_778_266]
    assert result.compute_us[0] == result.compute_us[1]


@pytest.mark.parametrize(("name", "end_ns"), [("TPUv4", 195_394_300), ("DGX_H100", 195_323_264)])
def test_a_run_that_is_sound_keeps_its_cycles(name, end_ns, tmp_path):
    path = folder("tutorial_mlp_32")
    inputs = path / "inputs"
    run = RepairInputs(
        path / "workload/MLP_ModelParallel",
        inputs / f"{name}.json",
        inputs / f"{name}-32.yml",
        remote_memory=inputs / "RemoteMemory.json",
    )
    result = repair(run, tmp_path / "out")
    assert result.outcome.end_ns == end_ns and steps_of(result) == {"system"}


def test_a_single_rank_is_replicated_where_that_is_asked_for(tmp_path):
    with tarfile.open(folder("chakra_feeder") / "feeder_tests_trace.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    inputs = RepairInputs(tmp_path / "tests/data/chakra")
    with pytest.raises(ConfigError, match="--ranks N replicates the rank"):
        repair(inputs, tmp_path / "out")
    result = repair(inputs, tmp_path / "out", num_ranks=2)
    assert {"rank-count", "dangling-dependencies", "cycles", "cpu-collectives", "collective-order"} == steps_of(result)
    assert result.outcome.finish_ns.tolist() == [303_270_000] * 2
    assert all(finding.severity is Severity.WARNING for finding in result.warnings)
    # Twice the rank, and the host's side of 14 collectives on both.
    assert result.compute_us[1] == 2 * (result.compute_us[0] + 1_311)
