"""`astra-tacos compare`: table, CSV, JSON and figures, with refusals in them."""

from __future__ import annotations

import csv
import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.command import answer, run

from astra_tacos.cli.main import cli
from astra_tacos.cli.shared.options import SIZES
from astra_tacos.pages.compare_rows import COLUMNS, NATIVE
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers

RING = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.yml").write_text(RING)
    return "ring.yml"


@pytest.fixture
def proud(monkeypatch):
    """A synthesizer that refuses every network."""
    entry = replace(SYNTHESIZERS["tacos"], refusal=lambda *_: "wants another network")
    monkeypatch.setitem(SYNTHESIZERS, "proud", entry)
    return "proud"


def compare(options):
    return CliRunner().invoke(cli, f"compare --max-sends 2000 --trials 2 {options}")


def test_who_stays_out_of_auto_is_compared_only_by_name(network, monkeypatch):
    monkeypatch.setitem(SYNTHESIZERS, "shy", replace(SYNTHESIZERS["ring"], in_auto=False))
    common = f"--network {network} --sizes 64KiB --json"
    for names, expected in ("", set(auto_synthesizers()) - {"shy"}), ("--synthesizers shy,auto", {"shy", "auto"}):
        rows = json.loads(compare(f"{common} {names}").output)["rows"]
        assert {row["synthesizer"] for row in rows} == expected | {NATIVE}


def test_table_csv_and_json_agree_and_show_refusals(network, proud):
    common = f"--network {network} --collective all-gather --sizes 64KiB:1MiB --synthesizers tacos,{proud},auto"
    done = compare(f"{common} --csv out/rows.csv")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1].startswith("all-gather on ring: Ring 4, 4 NPUs")
    for text in ("64 KiB", "256 KiB", "1 MiB", "bound", "*", f"- {proud}: wants another network", "written: out/rows.csv"):
        assert text.split()[0] in done.output
    with Path("out/rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(int(row["size_bytes"]), row["synthesizer"]) for row in rows] == [
        (size, name) for size in (64 * KIB, 256 * KIB, MIB) for name in ("tacos", proud, "auto", NATIVE)
    ]
    for row in (row for row in rows if row["synthesizer"] != NATIVE):
        if row["synthesizer"] == proud:
            assert row["refusal"].endswith("wants another network")
            assert row["time_ns"] == row["is_best"] == ""
            continue
        assert row["refusal"] == ""
        time_ns = float(row["time_ns"])
        assert time_ns >= int(row["bound_ns"]) and row["backend"] == "congestion-aware"
        assert float(row["efficiency"]) == pytest.approx(int(row["bound_ns"]) / time_ns, rel=1e-5)
        gathered = 4 * int(row["size_bytes"])
        assert float(row["algorithm_bandwidth_gbps"]) == pytest.approx(gathered / time_ns, rel=1e-5)
        assert float(row["bus_bandwidth_gbps"]) == pytest.approx(gathered / time_ns * 3 / 4, rel=1e-5)
        assert row["verified"] == "true"
        assert (row["network"], row["topology"], row["num_npus"], row["collective"]) == ("ring", "Ring 4", "4", "all-gather")
    for size in (64 * KIB, 256 * KIB, MIB):
        own = [row for row in rows if int(row["size_bytes"]) == size and row["time_ns"]]
        assert len({row["bound_ns"] for row in own}) == 1
        least = min(float(row["time_ns"]) for row in own)
        assert all((row["is_best"] == "true") == (float(row["time_ns"]) == least) for row in own)

    printed = json.loads(compare(f"{common} --json").output)
    assert (printed["network"], printed["num_npus"], printed["collective"]) == ("ring", 4, "all-gather")
    assert [row["time_ns"] for row in printed["rows"]] == [float(row["time_ns"]) if row["time_ns"] else None for row in rows]


def test_output_directory_and_reproducible_figures(network):
    for name in ("one", "two"):
        done = compare(f"--network {network} --sizes 64KiB,1MiB --synthesizers tacos --output {name}")
        assert done.exit_code == 0, done.output
        assert {path.name for path in Path(name).iterdir()} == {"compare.csv", "compare.json", "compare.svg", "compare.pdf"}
    for name in ("compare.svg", "compare.pdf"):
        assert (Path("one") / name).read_bytes() == (Path("two") / name).read_bytes()
    assert len(json.loads(Path("one/compare.json").read_text())["rows"]) == 4
    assert compare(f"--network {network} --sizes 1MiB --plot x.png --plot-width single").exit_code == 0
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")


def test_sizes_out_of_reach_are_refusals_too(network):
    done = compare(f"--network {network} --sizes 2,1MiB --chunks-per-npu 1 --synthesizers tacos --json")
    rows = [row for row in json.loads(done.output)["rows"] if row["synthesizer"] == "tacos"]
    assert "2 bytes in 4 chunks" in rows[0]["refusal"]
    assert rows[1]["refusal"] == ""
    table = compare(f"--network {network} --sizes 2,1MiB --chunks-per-npu 1 --synthesizers tacos --verbose").output
    assert "- tacos at 2 B: all-reduce: 2 bytes in 4 chunks" in table
    assert compare(f"--network {network} --sizes 2 --chunks-per-npu 1 --synthesizers tacos --plot none.svg").exit_code == 0


def test_every_schedule_is_checked_unless_told_otherwise(network, monkeypatch):
    def breaks(*arguments):
        schedule = entry.make(*arguments)
        return replace(schedule, start_ns=schedule.start_ns + 1)

    entry = SYNTHESIZERS["tacos"]
    monkeypatch.setitem(SYNTHESIZERS, "broken", replace(entry, make=breaks))
    common = f"--network {network} --sizes 1MiB --synthesizers broken"
    assert isinstance(compare(f"{common}").exception, VerificationError)
    done = compare(f"{common} --no-verify --json")
    assert json.loads(done.output)["rows"][0]["verified"] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "1KiB": (1024,),
        "64KiB:1MiB": (1 << 16, 1 << 18, 1 << 20),
        "1KiB:20KiB,7": (7, 1024, 4096, 16384),
    }.items(),
)
def test_sizes(text, expected):
    assert SIZES.convert(text, None, None) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    {
        "--sizes lots": "sizes: found 'lots'",
        "--sizes 1MiB:1KiB": "expected the smaller size first",
        f"--sizes {','.join(map(str, range(1, 80)))}": "sizes: found 79, expected at most 64",
        "--sizes 1MiB --synthesizers ring-of-fire": "'ring-of-fire', expected names out of auto, symmetric, tacos",
        "--sizes 1MiB --csv figure.svg --plot figure.svg": "name the same file twice",
        "--sizes 1MiB --output ring.yml": "ring.yml/compare.csv: cannot be written",
        "--sizes 1MiB --plot figure.bmp": "figure.bmp: expected a name that ends in .svg, .pdf, .png",
    }.items(),
)
def test_bad_options(network, arguments, expected):
    done = compare(f"--network {network} {arguments}")
    assert done.exit_code != 0
    assert expected in done.output + str(done.exception)
    assert [path.name for path in Path().iterdir()] == [network]


def test_a_directory_with_tables_of_others_stays_as_it_is(network, tmp_path):
    common = f"--network {network} --sizes 64KiB --synthesizers ring,tacos --output out"
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out/compare.csv"
    mine.write_text("size,seconds\n1,2\n")
    result = compare(f"{common}")
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith("out/compare.csv: exists, and out is no comparison of astra_tacos (")
    assert mine.read_text() == "size,seconds\n1,2\n" and [path.name for path in mine.parent.iterdir()] == [mine.name]
    mine.unlink()
    for _ in range(2):
        assert compare(f"{common}").exit_code == 0
    root = compare(f"{common} --output /")
    assert str(root.exception) == "/: is the root directory, which cannot be replaced: choose another output"


def test_files_appear_together_or_not_at_all(network, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("astra_tacos.pages.compare_rows.write_json", full)
    common = f"--network {network} --sizes 64KiB --synthesizers ring,tacos --csv rows.csv --output out"
    result = compare(f"{common}")
    assert str(result.exception) == "out/compare.json: cannot be written (No space left on device)"
    assert [path.name for path in tmp_path.iterdir()] == [network]


def test_networks_with_too_many_sends_to_list_are_refused_before_the_work(tmp_path, monkeypatch):
    def build(*arguments, **options):
        raise AssertionError("the topology was built")

    monkeypatch.setattr("astra_tacos.network.composition.build_topology", build)
    path = tmp_path / "n.yml"
    path.write_text("topology: [Ring, Ring]\nnpus_count: [1000, 1000]\nbandwidth: [50, 50]\nlatency: [500, 500]\n")
    result = compare(f"--network {path} --sizes 1GiB")
    assert str(result.exception) == (
        f"{path}: 1,000,000 NPUs, for which all-reduce has more than 20,000,000 sends, too many to list: use at most 3,162 "
        "NPUs, or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all"
    )


def test_says_where_astra_sim_aborts(tmp_path):
    """The reason is the one that a replay on the network gives."""
    numbers = "npus_count: [ {} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    for npus in (2, 4):
        (tmp_path / f"ring{npus}.yml").write_text("topology: [ Ring ]\n" + numbers.format(npus))
    asking = "compare --sizes 1MiB --synthesizers ring --network"
    reason = "AstraSim_Analytical_Congestion_Aware aborts at its start on a Ring of 2 (lint: N01)"
    assert f"ASTRA-sim aborts here with its own algorithms: {reason}\n" in run(f"{asking} ring2.yml", cwd=tmp_path).stdout
    assert answer(f"{asking} ring2.yml", tmp_path)["astra_sim_aborts"] == [reason]
    for others in ("ring4.yml", "ring2.yml --backend congestion-unaware"):
        assert answer(f"{asking} {others}", tmp_path)["astra_sim_aborts"] == []
