"""`astra-tacos report` on directories of schedules."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import shutil

import pytest
from helpers.networks import TORUS, topology
from helpers.pages import written
from helpers.schedules import schedule

from astra_tacos.cli.main import main
from astra_tacos.schedule.symmetric_schedule import load_rows
from astra_tacos.solver.first_use import silent
from astra_tacos.study.reporter import page as report_page
from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers


def run(command, *more):
    with pytest.raises(SystemExit) as stopped:
        main([*shlex.split(command), *map(str, more)])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return written(schedule(topology(*TORUS)), tmp_path_factory.mktemp("report") / "torus<run>")


def test_a_directory_of_synthesize_is_reported_on(tmp_path, capsys):
    network = tmp_path / "net.yml"
    network.write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    asked = f"--network {network} --collective all-gather --size 1MiB --trials 1 --synthesizer tacos"
    assert run(f"synthesize {asked} --output {tmp_path / 'run'}") == 0
    capsys.readouterr()
    assert run(f"report {tmp_path / 'run'} -o {tmp_path / 'new' / 'page.html'} --title 'A <title>'") == 0
    page = (tmp_path / "new/page.html").read_bytes()
    assert page.startswith(b"<!DOCTYPE html>")
    assert b"A &lt;title&gt;" in page
    assert b"Algorithms that refuse" in page, "four NPUs: at least the double binary tree refuses"
    assert capsys.readouterr().out.startswith(f"written: {tmp_path / 'new' / 'page.html'} (schedule, ")
    # The report is no part of the directory, which synthesize may replace as before.
    assert run(f"synthesize {asked} --output {tmp_path / 'run'}") == 0


def test_a_fabric_is_reported_on_with_the_names_of_its_devices(tmp_path):
    assert run(f"network dgx-a100 --nodes 1 -o {tmp_path / 'net'}") == 0
    asked = "--collective all-gather --size 1MiB --synthesizer direct --chunks-per-npu 1"
    assert run(f"synthesize --network {tmp_path / 'net' / 'network.yml'} {asked} --output {tmp_path / 'run'}") == 0
    assert run(f"report {tmp_path / 'run'} --no-compare -o {tmp_path / 'page.html'}") == 0
    encoded = re.search(r'id="at-data">([^<]*)<', (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert encoded
    block = gzip.decompress(base64.b64decode(encoded[1]))
    data = json.loads(block[4 : 4 + int.from_bytes(block[:4], "little")])
    assert data["npus"] == 8
    assert len(data["others"]) == data["devices"] - 8
    assert "switch 8 (node0.nvswitch0)" in data["others"]


def test_the_comparison_can_be_left_out(directory, tmp_path, capsys):
    assert run(f"report {directory} -o {tmp_path / 'page.html'} --no-compare --json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "kind": "schedule",
        "path": str(tmp_path / "page.html"),
        "size_bytes": (tmp_path / "page.html").stat().st_size,
    }
    assert b"No comparison (--no-compare)" in (tmp_path / "page.html").read_bytes()


def test_every_predefined_algorithm_is_in_the_comparison(directory):
    rows, _ = report_page._comparison(load_rows(directory / "schedule.npz"), None, silent)
    assert rows is not None
    assert [row.synthesizer for row in rows] == [name for name in auto_synthesizers() if not SYNTHESIZERS[name].is_random]
    assert all((row.time_ns is None) == bool(row.refusal) for row in rows)
    assert all(row.verified for row in rows if row.time_ns is not None)


def test_a_comparison_that_would_take_long_is_left_out(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "COMPARISON_SECONDS", 0.001)
    monkeypatch.setattr(report_page, "_MOST_SENDS", 10)
    assert run(f"report {directory} -o {tmp_path / 'page.html'}") == 0
    assert b"Left out: " in (tmp_path / "page.html").read_bytes()


def broken(directory, tmp_path, change):
    copy = tmp_path / "run"
    shutil.copytree(directory, copy)
    change(copy)
    return copy


def edited(without="", **new):
    def change(copy):
        result = json.loads((copy / "result.json").read_text()) | new
        (copy / "result.json").write_text(json.dumps({key: value for key, value in result.items() if key != without}))

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda copy: (copy / "result.json").unlink(),
            "found no output of a command, expected the output of one of these commands: synthesize",
        ),
        (lambda copy: (copy / "result.json").write_text("{"), "not valid JSON"),
        (lambda copy: (copy / "schedule.npz").write_bytes(b"no"), "not a schedule of astra_tacos"),
        (edited(num_sends=3), "num_sends is 3, the schedule beside it has 264: they belong to different runs"),
        (edited(efficiency="much"), "result.json: Expected `int | float | null`, got `str` - at `$.efficiency`"),
        (shutil.rmtree, "does not exist, expected a directory that a command wrote"),
    ],
)
def test_what_is_no_such_directory_is_refused(directory, tmp_path, capsys, change, said):
    assert run(f"report {shlex.quote(str(broken(directory, tmp_path, change)))} -o {tmp_path / 'page.html'}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error
    assert not (tmp_path / "page.html").exists()


def test_an_output_that_is_an_input_is_refused(directory, tmp_path, capsys):
    copy = shutil.copytree(directory, tmp_path / "copy")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    commands = (f"report {copy}", f"report {copy}", f"export {copy} --format csv")
    names = ("page.html", "schedule.svg", "schedule.npz")
    (copy / "page.html").symlink_to("result.json")
    (copy / "schedule.svg").symlink_to("schedule.npz")
    for command, name in zip(commands, names, strict=True):
        assert run(f"{command} -o {copy / name}") == 2
        said = capsys.readouterr().err
        assert (
            said
            == f"astra-tacos: error: {copy / name}: the output would replace an input of this command: choose another output\n"
        )
    (copy / "page.html").unlink()
    (copy / "schedule.svg").unlink()
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
