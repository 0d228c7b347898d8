"""Figures of `astra-tacos report`, and the examples of their page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.damage import refusal

from astra_tacos.cli.main import cli
from astra_tacos.pages.compare_rows import COLUMNS, read_rows
from astra_tacos.study.sweep.table import write_table
from astra_tacos.support.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/report.md"
PROGRAM = "    astra-tacos "
MOST_PICTURE_BYTES = 600_000
COARSER = {
    "algorithms.yml": {
        "64KiB:64MiB": "[64KiB, 1MiB]",
        "        - ../network/hetero_3d_64npus.yml\n": "",
        "tacos, ring, direct": "ring",
    },
    "split_of_600.yml": {"step: 50": "step: 150"},
}
"""Values of shipped sweeps, and fewer ones: test_shipped_sweeps reads them as they are."""
QUICKER = {
    "sweep": "--workers 1",
    "plan": "--trials 1",
    "compare": "--sizes 64KiB,1MiB --max-sends 2000",
    "synthesize": "--backend congestion-unaware --chunks-per-npu 1",
}
"""Options with which commands of the page take less: other schedules, pictures of the same kind."""
TORUS = "topology: [ Ring, Ring ]\nnpus_count: [ 4, 4 ]\nbandwidth: [ 50.0, 50.0 ]\nlatency: [ 500.0, 500.0 ]\n"


def invoke(command):
    return CliRunner().invoke(cli, command)


def plot(words):
    return invoke(f"report {words}")


def write_sweep(directory):
    columns = {"point": "int", "status": "str", "collective": "str", "size_bytes": "int", "synthesizer": "str"}
    columns |= {"cost": "float", "time_ns": "int", "bus_bandwidth_gbps": "float"}
    rows = [
        {"point": 0, "status": "ok", "cost": 5.0, "time_ns": 40, "bus_bandwidth_gbps": 25.6},
        {"point": 1, "status": "ok", "cost": 7.0, "time_ns": 20, "bus_bandwidth_gbps": 51.2},
        {"point": 2, "status": "ok", "cost": 7.0, "time_ns": 90, "bus_bandwidth_gbps": 45.5},
        {"point": 3, "status": "timeout", "cost": None},
    ]
    for row, size, synthesizer in zip(rows, (1024, 1024, 4096, 4096), ("ring", "tacos", "ring", "tacos"), strict=True):
        row |= {"collective": "all-reduce", "size_bytes": size, "synthesizer": synthesizer}
    directory.mkdir()
    write_table(directory / "sweep.parquet", "mini", ("size_bytes", "synthesizer"), columns, rows)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A network, a schedule of it, a comparison and a sweep."""
    folder = tmp_path_factory.mktemp("plot")
    (folder / "torus.yml").write_text(TORUS)
    network = folder / "torus.yml"
    quick = f"--network {network} --synthesizer tacos --chunks-per-npu 1"
    assert invoke(f"synthesize {quick} --size 1MiB --output {folder / 'run'}").exit_code == 0
    options = "--sizes 64KiB,1MiB --synthesizers tacos,ring,halving-doubling --max-sends 2000 --trials 1"
    done = invoke(f"compare --network {network} {options} --output {folder / 'compared'}")
    assert done.exit_code == 0, done.output
    write_sweep(folder / "swept")
    return folder


@pytest.fixture
def here(workspace, monkeypatch, tmp_path):
    """The workspace as the current directory; figures go to a folder of the test's own."""
    monkeypatch.chdir(workspace)
    return tmp_path


@pytest.mark.parametrize(
    "what",
    [
        "torus.yml",
        "run --kind topology",
        "run/schedule.npz --kind topology",
        "run",
        "run/schedule.npz --kind timeline --chunk 3",
        "compared",
        "compared/compare.csv --kind compare",
        "compared/compare.json",
        "swept",
        "swept --kind heatmap",
        "swept --kind pareto --where 'size_bytes == 1024'",
    ],
)
def test_every_kind_of_input_is_drawn(here, what):
    for width, suffix in (("double", "svg"), ("single", "png")):
        output = here / f"figure.{suffix}"
        done = plot(f"{what} -o {output} --width {width}")
        assert done.exit_code == 0, done.output + str(done.exception)
        assert done.output.startswith(f"written: {output} (")
        assert output.stat().st_size > 2_000


def test_a_page_of_a_sweep_has_the_points_of_a_condition(here):
    done = plot("swept --where 'size_bytes == 1024' -o few.html")
    assert done.exit_code == 0, done.output + str(done.exception)
    assert "Of 4 points, those where size_bytes == 1024: 2 points: 2 ok" in Path("few.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("what", "expected"),
    {
        "report run -o x.svg --title a": "title: is for pages, and x.svg is a figure: leave out title",
        "report run -o x.html --width single": "width: is for figures, and x.html is a page: leave out width",
        "report compared -o x.html --where cost>1": "where: is for sweeps, and compared is the output of another command",
        "report torus.yml -o x.svg --chunk 0": "chunk: found for a figure of the kind topology, expected for",
        "plot topology torus.yml -o x.svg": "plot is gone: `astra-tacos report INPUT -o x.svg` does the same.",
    }.items(),
)
def test_an_option_of_the_other_kind_of_output_is_refused(here, what, expected):
    done = invoke(what)
    assert done.exit_code != 0
    assert expected in done.output + str(done.exception)
    assert not list(Path().glob("x.*"))


def test_rows_of_a_comparison_come_back_as_they_were(here):
    rows = read_rows(Path("compared/compare.json"))
    again = read_rows(Path("compared/compare.csv"))
    assert len(rows) == len(again) == 8
    for row, other in zip(rows, again, strict=True):
        for name in COLUMNS:
            value, found = getattr(row, name), getattr(other, name)
            assert type(value) is type(found)
            assert found == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("what", "expected"),
    {
        "torus.yml --kind topology -o x.bmp": "x.bmp: expected a name that ends in .html, .svg, .pdf, .png",
        "none.yml --kind topology -o x.svg": "none.yml: no such file or directory, expected a network (.yml), a schedule (.npz)",
        "compared --kind topology -o x.svg": "compared: a directory without schedule.npz, expected a network",
        "torus.yml --kind timeline -o x.svg": (
            "torus.yml: found a network, expected a schedule (.npz), or the directory of synthesize"
        ),
        "run --kind timeline --chunk 16 -o x.svg": "chunk: found 16, expected 0 to 15",
        "run --kind compare -o x.svg": "run: has no compare.csv or compare.json",
        "run --kind lines -o x.svg": "run: has no sweep.parquet, expected the output of `astra-tacos sweep`",
        "swept --where sise>1 -o x.svg": (
            "--where 'sise>1': found 'sise', expected a column of the sweep, such as size_bytes, synthesizer; texts need quotes"
        ),
        "swept --where 'collective == all-reduce' -o x.svg": (
            "found the text all-reduce without quotes, expected collective == 'all-reduce'"
        ),
        "swept --where 'size_bytes == 64KiB' -o x.svg": (
            "expected one such as size_bytes >= 65536 and collective == 'all-reduce'; sizes are in bytes, and texts in quotes"
        ),
        "swept --where point>9 -o x.svg": "--where: 'point>9' holds for none of 4 points",
        "swept --where point -o x.svg": "--where 'point' is 0, expected true or false",
        "swept --where point -o x.html": "--where 'point' is 0, expected true or false",
        "swept --where point>9 -o x.html": "--where: 'point>9' holds for none of 4 points",
    }.items(),
)
def test_what_cannot_be_drawn_is_said_and_leaves_nothing(here, what, expected):
    before = sorted(Path().rglob("*"))
    done = plot(what)
    assert done.exit_code != 0
    assert isinstance(done.exception, ConfigError), done.output
    assert expected in str(done.exception)
    assert sorted(Path().rglob("*")) == before


HEADER = "network,topology,num_npus,collective,root,size_bytes,synthesizer,time_ns"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.csv: lacks the column network"),
        (HEADER, "x.csv: has no rows"),
        (f"{HEADER}\nn,t,4,all-reduce,,1024,ring\n", "x.csv:2: has 7 cells, expected 8"),
        (f"{HEADER}\nn,t,four,all-reduce,,1024,ring,5\n", "x.csv:2: num_npus is 'four', expected a whole number"),
        (f"{HEADER}\nn,t,4,all-reduce,,0,ring,5\n", "x.csv:2: size_bytes is 0, expected 1 or more"),
        (f"{HEADER}\nn,t,4,all-reduce,,8,ring,5\nn,t,4,reduce,,8,ring,5\n", "has rows of all-reduce on n and reduce on n"),
    ],
)
def test_csv_that_is_no_comparison(tmp_path, text, expected):
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert expected in refusal(read_rows, path)


def test_json_that_is_no_comparison(tmp_path):
    path = tmp_path / "x.json"
    good = dict(zip(HEADER.split(",")[:7], ("n", "t", 4, "all-reduce", None, 8, "ring"), strict=True))
    for content, expected in (
        ("{", "x.json: not valid JSON"),
        ('{"rows": 3}', "x.json: has no list of rows"),
        (json.dumps({"rows": [good, {"network": "n"}]}), "x.json: rows[1]: lacks the column topology"),
        (json.dumps({"rows": [good | {"time_ns": True}]}), "rows[0]: time_ns is True, expected a number or nothing"),
        (json.dumps({"rows": [good | {"time_ns": "5"}]}), "rows[0]: time_ns is '5', expected a number or nothing"),
    ):
        path.write_text(content)
        assert expected in refusal(read_rows, path)


def test_replays_have_no_chunks(here):
    (here / "replay.npz").write_bytes(b"nothing")
    done = plot(f"{here} --chunk 1 -o {here / 'x.svg'}")
    assert "chunk: found for a training run" in str(done.exception)
    done = plot(f"{here} -o {here / 'x.svg'}")
    assert "not a recorded replay of astra_tacos" in str(done.exception)
    done = plot(f"{here} --kind topology -o {here / 'x.svg'}")
    assert f"{here}: found a recorded replay, expected a network (.yml)" in str(done.exception)
    assert [path.name for path in here.iterdir()] == ["replay.npz"]


def test_the_examples_of_the_page_run_and_draw_its_pictures(tmp_path, monkeypatch):
    page = PAGE.read_text()
    shutil.copytree(REPOSITORY / "configs", tmp_path / "configs")
    for name, replaced in COARSER.items():
        path = tmp_path / "configs/sweep" / name
        text = path.read_text()
        for values, fewer in replaced.items():
            assert values in text
            text = text.replace(values, fewer)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    commands = [line.removeprefix(PROGRAM) for line in page.splitlines() if line.startswith(PROGRAM)]
    assert len(commands) > 10
    for arguments in commands:
        quicker = "--no-compare" if arguments.endswith(".html") else QUICKER.get(arguments.split()[0], "")
        done = invoke(f"{arguments} {quicker}")
        assert done.exit_code == 0, (arguments, done.output, done.exception)
    pictures = {name for word in page.split("](images/")[1:] if (name := word.split(")")[0]).endswith(".svg")}
    assert pictures == {path.name for path in tmp_path.glob("*.svg")}
    for name in pictures:
        assert 2_000 < (PAGE.parent / "images" / name).stat().st_size < MOST_PICTURE_BYTES
        assert (tmp_path / name).stat().st_size > 2_000
