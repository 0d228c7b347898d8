"""Whole runs: recorded ones lint without errors, a generated workload shows its hazard."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import INPUTS_VARIABLE

from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.run import RunInputs
from astra_tacos.workload.linter.lint import LintReport, lint


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefix of a workload that the STAGE generator made; it is not part of the repository."""
    folder = Path(os.environ.get(INPUTS_VARIABLE, "")) / "stage_dense16"
    if INPUTS_VARIABLE not in os.environ or not folder.is_dir():
        pytest.skip(f"NOT TESTED on a STAGE workload: set {INPUTS_VARIABLE} to a directory that has stage_dense16")
    return folder / "workload"


def lint_stage(stage: Path, folder: Path, topology: str, **settings: object) -> LintReport:
    native = {f"{key}-implementation": ["ring"] for key in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}
    system = {"scheduling-policy": "FIFO", "preferred-dataset-splits": 1, "roofline-enabled": 1, **native}
    (folder / "system.json").write_text(json.dumps({**system, "peak-perf": 900, "local-mem-bw": 1600, **settings}))
    (folder / "network.yml").write_text(f"topology: [{topology}]\nnpus_count: [16]\nbandwidth: [50]\nlatency: [500]\n")
    return lint(
        RunInputs(stage, folder / "system.json", folder / "network.yml", stage.parent / "workload.json", directory=folder)
    )


@pytest.mark.golden_cases("*")
def test_recorded_runs_have_no_errors(golden: Path, golden_case: str) -> None:
    folder = golden / golden_case
    groups = folder / "comm_group.json"
    expected = json.loads((folder / "expected.json").read_text())
    report = lint(
        RunInputs(
            folder / "workload" / "w",
            folder / "system.json",
            folder / "network.yml",
            groups if groups.exists() else None,
            directory=folder,
        ),
        backend=expected["backend"].replace("_", "-"),
    )
    assert report.errors == {}
    # Several dimensions, of which groups are a part, and a roofline that is off, are as the runs were meant.
    assert set(report.warnings) <= ({"N02", "S11", "S15"} if "judge" in expected else set())
    assert report.num_ranks == report.num_npus


def test_the_order_of_a_generated_workload_is_left_to_timing(stage: Path, tmp_path: Path) -> None:
    """On a ring of 16 at 100 GB/s ASTRA-sim (aware) stalls on every rank; at 50 GB/s it happens to run through."""
    report = lint_stage(stage, tmp_path, "Ring")
    assert report.backend is CONGESTION_AWARE
    assert report.errors == {}
    assert set(report.warnings) == {"C05", "C06", "G10"}
    circles = [finding.message for finding in report.findings if finding.code == "C06"]
    assert any("groups 1 -> 5 -> 2 -> 6 -> 1 can wait for one another" in message for message in circles)


def test_inputs_that_ship_with_astra_sim(astra_sim_inputs: Path, tmp_path: Path) -> None:
    workload = astra_sim_inputs / "workload" / "all_reduce_8npus_1MB" / "all_reduce"
    system, network = astra_sim_inputs / "system", astra_sim_inputs / "network"
    missing = lint(RunInputs(workload, system / "custom_collective.json", network / "Ring_8npus.yml", directory=tmp_path))
    assert missing.errors == {"F10": 1}
    examples = tmp_path / "examples" / "system" / "custom_collectives"
    examples.mkdir(parents=True)
    (examples / "custom_ring_allreduce_8npus_1MB").symlink_to(astra_sim_inputs / "custom_ring_allreduce_8npus_1MB")
    found = lint(RunInputs(workload, system / "custom_collective.json", network / "Ring_8npus.yml", directory=tmp_path))
    assert found.errors == {}
    assert lint(RunInputs(workload, system / "Ring_4chunks.json", network / "Ring_8npus.yml")).errors == {}
    assert "F01" in lint(RunInputs(workload, system / "Ring_4chunks.json", network / "dgx_v100_8gpu.yml")).errors
