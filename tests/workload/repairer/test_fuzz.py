"""Any run is mended, so that it has no errors and ends, or refused in one line; what it computes changes only as it is said."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from helpers.compute_ledger import unexplained
from helpers.mutated_runs import mutated_runs, published_run
from helpers.peers import peers
from helpers.random_runs import broken_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.workload.repairer.reading import RepairInputs
from astra_tacos.workload.repairer.repair import repair

_PUBLISHED, _WHY_NOT = peers("traces/t2d_group0")


def compute_us(prefix, most):
    """Sum of the durations of compute nodes, read by protobuf's parser."""
    nodes = (node for file in trace_files(prefix, most) for node in read_messages(file)[1])
    return sum(node.duration_micros for node in nodes if node.type == NodeType.COMP)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(run=broken_runs())
def test_every_run_is_mended_or_refused(run):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = RepairInputs(**run.write(folder))
        try:
            result = repair(inputs, folder / "out")
        except AstraTacosError as error:
            assert "\n" not in str(error) and not (folder / "out").exists()
            return
        most = len(result.outcome.finish_ns)
        before, after = (compute_us(prefix, most) for prefix in (inputs.workload, folder / "out/workload/w"))
        assert after - before == sum(change.compute_us for change in result.changes)
        again = repair(inputs, folder / "again")
        for file in sorted((folder / "out/workload").iterdir()):
            assert file.read_bytes() == (folder / "again/workload" / file.name).read_bytes()
        assert again.changes == result.changes
        third = repair(
            RepairInputs(
                folder / "out/workload/w",
                folder / "out/system.json",
                folder / "out/network.yml",
                groups if (groups := folder / "out/comm_group.json").exists() else None,
                folder / "out/remote_memory.json",
                folder / "out",
            ),
            folder / "third",
        )
        assert third.changes == (), "a run that was mended needs nothing"


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(run=mutated_runs())
def test_a_few_faults_change_no_computation_silently(run):
    """Node by node: what a repair does to computation, it says, with rank and node."""
    mended_or_refused(run)


@pytest.mark.skipif(not _PUBLISHED, reason=_WHY_NOT)
def test_faults_in_a_published_run():
    folder = _PUBLISHED[0]
    inputs = folder / "inputs"
    sound = published_run(folder / "trace/trace", inputs / "sys.json", inputs / "network.yml", inputs / "comm_group.json")

    @settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck))
    @given(run=mutated_runs(st.just(sound)))
    def every_run(run):
        mended_or_refused(run)

    every_run()


def mended_or_refused(run):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = RepairInputs(**run.write(folder))
        try:
            result = repair(inputs, folder / "out")
        except AstraTacosError as error:
            assert "\n" not in str(error) and not (folder / "out").exists()
            return
        assert not unexplained(inputs.workload, folder / "out/workload/w", result.changes, len(result.outcome.finish_ns))
