"""The compact form on the command line, with the limit where small networks reach it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from astra_tacos.cli import lockstep
from astra_tacos.cli.main import cli
from astra_tacos.export import run_directory
from astra_tacos.schedule.lockstep_storage import FILES

NETWORK = "topology: [ Ring, Ring ]\nnpus_count: [ 4, 3 ]\nbandwidth: [ 50.0, 50.0 ]\nlatency: [ 500.0, {} ]\n"


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "MOST_ROWS", 100)


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def network(directory: Path, latency: float = 500.0) -> Path:
    path = directory / "network.yml"
    path.write_text(NETWORK.format(latency))
    return path


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_written_verified_and_inspected(tmp_path: Path, collective: str) -> None:
    output = tmp_path / "out"
    arguments = ("synthesize", "--network", network(tmp_path), "--collective", collective, "--size", "1MiB")
    for _ in range(2):  # the second run replaces what the first one wrote
        done = run(*arguments, "--output", output, "--json")
        assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    assert result["synthesizer"] == "lockstep"
    assert result["verified"] and result["predicted_ns"] >= result["bound_ns"]
    assert {path.name for path in output.iterdir()} == {*FILES, "result.json"}
    assert "no traces" in " ".join(result["notes"])
    assert run("verify", output).exit_code == 0
    assert json.loads(run("inspect", output, "--json").output)["num_sends"] == result["num_sends"]
    printed = run(*arguments)
    assert "verified, every send and every round" in printed.output


def test_other_networks_keep_their_rows(tmp_path: Path) -> None:
    arguments = ("--collective", "all-gather", "--size", "1MiB", "--trials", 1, "--json")
    done = run("synthesize", "--network", network(tmp_path, 400.0), *arguments)
    assert json.loads(done.output)["synthesizer"] != "lockstep"


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "schedule.json").write_text("{}")
    done = run("synthesize", "--network", network(tmp_path), "--collective", "all-gather", "--size", "1MiB", "--output", output)
    assert done.exit_code != 0
    assert (output / "schedule.json").read_text() == "{}"


def test_the_msccl_xml_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (
        "synthesize",
        "--network",
        network(tmp_path, 400.0),
        "--collective",
        "all-gather",
        "--size",
        "1MiB",
        "--trials",
        1,
    )
    assert run(*arguments, "--output", tmp_path / "with").exit_code == 0
    assert run(*arguments, "--output", tmp_path / "without", "--no-msccl-xml").exit_code == 0
    assert [path.name for path in (tmp_path / "with").glob("*.xml")] == ["all_gather.xml"]
    assert not [*(tmp_path / "without").glob("*.xml")]
    monkeypatch.setattr(run_directory, "MOST_SENDS_OF_XML", 10)
    skipped = run(*arguments, "--output", tmp_path / "skipped", "--json")
    assert "no MSCCL XML" in " ".join(json.loads(skipped.output)["notes"])
    assert not [*(tmp_path / "skipped").glob("*.xml")]
    assert run(*arguments, "--output", tmp_path / "anyway", "--msccl-xml").exit_code == 0
    assert [*(tmp_path / "anyway").glob("*.xml")]
