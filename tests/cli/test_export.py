"""`astra-tacos export`: a saved schedule in any format, without another synthesis."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.networks import topology
from helpers.schedules import schedule

from astra_tacos.cli.main import cli, main
from astra_tacos.export import EXPORTERS
from astra_tacos.export.run_directory import write_run_directory


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A run directory `run` in the current directory."""
    monkeypatch.chdir(tmp_path)
    write_run_directory(schedule(topology("ring8")), "run")
    return tmp_path


def export(arguments):
    return CliRunner().invoke(cli, f"export {arguments}")


def fails(capsys, arguments):
    """Exit code of a command that prints nothing but one line on standard error, and that line."""
    with pytest.raises(SystemExit) as ended:
        main(f"export {arguments}".split())
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return ended.value.code, err


def test_help_lists_formats_and_options():
    text = " ".join(export("--help").output.split())
    for name, exporter in EXPORTERS.items():
        assert exporter.summary in text
        assert all(f"{name}: {key}={option.example}" in text for key, option in exporter.options.items())


@pytest.mark.parametrize("name", EXPORTERS)
@pytest.mark.parametrize("source", ["run", "run/schedule.npz"])
def test_every_format_from_a_directory_and_from_a_file(saved, source, name):
    done = export(f"{source} --format {name} -o out")
    assert done.exit_code == 0 and "out" in done.output
    assert (saved / "out").is_file() == (EXPORTERS[name].writes == "file")
    told = json.loads(export(f"{source} --format {name} -o out --json").output)
    assert (told["schedule"], told["format"], told["output"]) == (source, name, "out")
    assert sorted(path.name for path in saved.iterdir()) == ["out", "run"]


@pytest.mark.parametrize("name", EXPORTERS)
def test_without_a_path_the_name_is_the_collectives(saved, name, capsys):
    assert export(f"run --format {name}").exit_code == 0
    path = f"all_reduce{EXPORTERS[name].suffix}"
    assert sorted(entry.name for entry in saved.iterdir()) == sorted(["run", path])
    error = f"astra-tacos: error: {path}: exists: choose where to write with --output\n"
    assert fails(capsys, f"run --format {name}") == (2, error)


def test_what_is_written_is_what_synthesize_writes(saved):
    assert export("run --format run-directory -o again").exit_code == 0
    files = [path.relative_to("run") for path in Path("run").rglob("*") if path.is_file()]
    assert files and len(files) == sum(path.is_file() for path in Path("again").rglob("*"))
    assert all((Path("run") / file).read_bytes() == (Path("again") / file).read_bytes() for file in files)
    assert CliRunner().invoke(cli, ["verify", "again"]).exit_code == 0


def test_options(saved):
    text = export("run --format chakra -o a -O link-order=serial -O first-tag=9 --verbose").output
    assert "note" in text and "link order 'serial' is not that of the timing model" in text
    assert export("run --format chakra -o b").exit_code == 0
    assert Path("a/all_reduce.0.et").read_bytes() != Path("b/all_reduce.0.et").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    {
        "run --format pdf": "'pdf' is not one of 'run-directory', 'chakra'",
        "missing --format csv": "missing: no such file or trace prefix",
        "run/network.yml --format csv": "run/network.yml: a network, expected a run directory or a schedule",
        "run --format csv -O link-order=serial": "options of csv: found 'link-order', expected none",
        "run --format chakra -O first-tag=499999999": "500,000,111 tags, expected at most 500,000,000",
        "rooted --format msccl-xml -o x": "msccl-xml: found a schedule of broadcast, but the format has no root",
        "run --format csv -o run": "run: is a directory, expected a file to write",
        "run --format chakra -o run": "run: exists and is not a chakra directory of astra_tacos",
    }.items(),
)
def test_bad_input_is_one_line_and_exit_2(saved, arguments, expected, capsys):
    write_run_directory(schedule(topology("ring8"), "broadcast"), "rooted")
    before = sorted(saved.rglob("*"))
    code, error = fails(capsys, f"{arguments}")
    assert code == 2 and expected in error
    assert sorted(saved.rglob("*")) == before


@pytest.mark.parametrize("name", EXPORTERS)
def test_illegal_schedules_are_refused_with_1(saved, name, capsys):
    arrays = dict(np.load("run/schedule.npz"))
    arrays["start_ns"] = arrays["start_ns"] - 1
    np.savez("bad.npz", **arrays)
    code, error = fails(capsys, f"bad.npz --format {name} -o out")
    assert code == 1 and "violations, the first: " in error and not Path("out").exists()
