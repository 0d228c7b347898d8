"""`compare --offload` and `--servers`: what devices and servers that add gain."""

from __future__ import annotations

import json

import click
import pytest
from helpers.command import answer, read_json
from helpers.command import run as run_in


def run(directory, command):
    return run_in(command, cwd=directory)


STAR = "topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 100 ]\nlatency: [ 500 ]\nastra_tacos: { reducing: all }\n"


def star(directory):
    path = directory / "star.yml"
    path.write_text(STAR)
    return path


def test_hosts_against_the_network(tmp_path):
    network = star(tmp_path)
    rows = answer(f"compare --offload --network {network} --npus 2,4,8 --sizes 16MiB")["rows"]
    assert [(row["npus"], round(row["gain"], 2)) for row in rows] == [
        (2, pytest.approx(1.0, abs=0.02)),
        (4, pytest.approx(1.5, abs=0.02)),
        (8, pytest.approx(1.75, abs=0.03)),
    ]
    assert all(row["network_bound_ns"] <= row["network_ns"] * 1.005 for row in rows)


def test_what_is_written_has_a_rank_that_adds(tmp_path):
    network, out = star(tmp_path), tmp_path / "out"
    options = f"--synthesizer in-network --chunks-per-npu 2 --output {out}"
    result = run(tmp_path, f"synthesize --network {network} --size 1MiB {options}")
    assert result.returncode == 0 and "verified" in result.stdout
    ranks = read_json(out / "stand_in/rank_map.json")["ranks"]
    assert [rank["rank"] for rank in ranks if rank.get("adds")] == [8]
    assert run(tmp_path, f"verify {out}").returncode == 0
    assert "reducing" in run(tmp_path, f"inspect {network}").stdout


def test_the_crossover_of_servers(tmp_path):
    result = run(
        tmp_path,
        "compare --workers 4 --servers 0:2 --size 4MiB --chunks-per-npu 32 --box 4 --json",
    )
    rows = json.loads(result.stdout)["rows"]
    assert [row["kind"] for row in rows] == ["colocated", "dedicated", "mixed", "dedicated", "mixed", "box"]
    text = run(
        tmp_path,
        "compare --workers 4 --servers 1 --size 1MiB --chunks-per-npu 8 --racks 4 --uplink 1",
    )
    assert "dedicated servers alone win from 3 on" in text.stdout and "servers above racks" in text.stdout


def test_helpers(tmp_path):
    network = tmp_path / "switch.yml"
    network.write_text(STAR.split("astra_tacos")[0].replace("8", "6"))
    out = tmp_path / "out"
    options = f"--helpers 4,5 --chunks-per-npu 8 --synthesizer parameter-server --output {out}"
    result = run(tmp_path, f"synthesize --network {network} --size 1MiB {options}")
    assert result.returncode == 0, result.stderr
    assert (out / "stand_in/run_astra_sim.sh").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "synthesize --size 1MiB --helpers 9": "helpers: found NPU 9",
        "synthesize --size 1MiB --helpers 0:6": "helpers: found 7 of 8 NPUs",
        "compare --offload --npus 9": "found 9 NPUs to take part, expected 2 to 8",
        "compare --offload --npus 2:1": "from the lower to the higher",
    }.items(),
)
def test_bad_options(arguments, message, tmp_path):
    result = run(tmp_path, f"{arguments} --network {star(tmp_path)}")
    assert result.returncode == 2 and message in result.stderr


def test_bad_numbers_of_servers(tmp_path):
    assert "--racks and --uplink go together" in run(tmp_path, "compare --servers --racks 4").stderr
    assert "expected at most 28" in run(tmp_path, "compare --workers 100 --servers 60").stderr
    assert "bandwidth[0] is nan" in run(tmp_path, "compare --servers --bandwidth nan").stderr


@pytest.mark.parametrize("text", ["3,3", "1:4,4"])
def test_numbers_that_are_given_twice_are_refused(text):
    from astra_tacos.cli.shared.options import COUNTS

    with pytest.raises(click.BadParameter, match="after the same number, expected each number once"):
        COUNTS.convert(text, None, None)
    assert COUNTS.convert("1:3,5", None, None) == (1, 2, 3, 5)


def test_a_box_that_is_too_fast_is_refused_with_the_limit(tmp_path):
    done = run(tmp_path, "compare --servers --box 1e308")
    assert done.returncode == 2 and "--box: found 1e+308, expected a number above 0 and below 1,000,000" in done.stderr
