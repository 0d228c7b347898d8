"""Whole runs: recorded ones lint without errors, a generated workload shows its hazard."""

from __future__ import annotations

import json

import pytest
from helpers.runs import stage_inputs

from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.run import RunInputs
from astra_tacos.workload.lint import lint


@pytest.mark.golden_cases("*")
def test_recorded_runs_have_no_errors(golden, golden_case):
    folder = golden / golden_case
    expected = json.loads((folder / "expected.json").read_text())
    report = lint(RunInputs.in_folder(folder, "w"), backend=expected["backend"].replace("_", "-"))
    assert report.errors == {}
    # Several dimensions, of which groups are a part, and a roofline that is off, are as the runs were meant.
    assert set(report.warnings) <= ({"N02", "S11", "S15"} if "judge" in expected else set())
    assert report.num_ranks == report.num_npus


def test_the_order_of_a_generated_workload_is_left_to_timing(astra_sim_inputs, tmp_path):
    """On a ring of 16 at 100 GB/s ASTRA-sim (aware) stalls on every rank; at 50 GB/s it happens to run through."""
    report = lint(stage_inputs(astra_sim_inputs, tmp_path, "Ring", "FIFO"))
    assert report.backend is CONGESTION_AWARE
    assert report.errors == {}
    assert set(report.warnings) == {"C05", "C06", "G10"}
    cycles = [finding.message for finding in report.findings if finding.code == "C06"]
    assert any("groups 1 -> 5 -> 2 -> 6 -> 1 can wait for one another" in message for message in cycles)


def test_inputs_that_ship_with_astra_sim(astra_sim_inputs, tmp_path):
    workload = astra_sim_inputs / "workload/all_reduce_8npus_1MB/all_reduce"
    system, network = astra_sim_inputs / "system", astra_sim_inputs / "network"
    missing = lint(RunInputs(workload, system / "custom_collective.json", network / "Ring_8npus.yml", directory=tmp_path))
    assert missing.errors == {"F10": 1}
    examples = tmp_path / "examples/system/custom_collectives"
    examples.mkdir(parents=True)
    (examples / "custom_ring_allreduce_8npus_1MB").symlink_to(astra_sim_inputs / "custom_ring_allreduce_8npus_1MB")
    found = lint(RunInputs(workload, system / "custom_collective.json", network / "Ring_8npus.yml", directory=tmp_path))
    assert found.errors == {}
    assert lint(RunInputs(workload, system / "Ring_4chunks.json", network / "Ring_8npus.yml")).errors == {}
    assert "F01" in lint(RunInputs(workload, system / "Ring_4chunks.json", network / "dgx_v100_8gpu.yml")).errors
