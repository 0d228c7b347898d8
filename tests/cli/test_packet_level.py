"""`--backend packet` of `synthesize`, `compare` and `plan`: predictions, replays of every packet, and comparisons."""

from __future__ import annotations

import csv
import json

import pytest
from helpers.command import answer, options_of, run
from helpers.lint_runs import RunFiles, coll, comp

QUICK = "--synthesizer tacos --trials 1 --chunks-per-npu 1"


@pytest.fixture
def folder(tmp_path):
    for name, block, size in (("torus", "Ring, Ring", "3, 3"), ("switch", "Switch", "4")):
        rates = ", ".join("50.0" for _ in block.split(","))
        latencies = ", ".join("500.0" for _ in block.split(","))
        lists = f"topology: [ {block} ]\nnpus_count: [ {size} ]\nbandwidth: [ {rates} ]\nlatency: [ {latencies} ]\n"
        (tmp_path / f"{name}.yml").write_text(lists)
    return tmp_path


@pytest.mark.parametrize("network", ["torus", "switch"])
def test_a_schedule_for_packets_takes_what_is_replayed(folder, network):
    arguments = f"--network {network}.yml --size 1MiB --backend packet {QUICK} --link-model blocking"
    result = answer(f"synthesize {arguments} --collective all-reduce --output made", folder)
    assert (result["backend"], result["link_model"], result["verified"]) == ("packet", "blocking", True)
    assert any(note.startswith("packet level: ") for note in result["notes"])
    assert result["time_ns"] == result["packets_ns"] > result["predicted_ns"]
    written = answer(f"replay made/collective/all_reduce --network {network}.yml --backend packet", folder)
    assert written["collective_time_ns"] == result["packets_ns"]


def test_comparisons_on_packets(folder):
    options = "--sizes 64KiB --synthesizers ring,tacos --trials 1 --chunks-per-npu 1 --link-model blocking"
    done = run(f"compare --network torus.yml --collective all-gather {options} --backend packet --csv rows.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    with (folder / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["backend"] for row in rows} == {"packet"}
    for row in rows[:2]:
        assert row["time_ns"] == row["packets_ns"] and float(row["efficiency"]) < 1
    assert min(float(row["time_ns"]) for row in rows if row["is_best"] == "true") == min(float(row["time_ns"]) for row in rows)


def test_compact_schedules_have_no_packets(folder):
    asked = "synthesize --network torus.yml --size 256KiB --max-sends 50 --backend packet"
    refused = run(asked, cwd=folder)
    assert refused.returncode == 2 and "too many sends for its messages to be timed" in refused.stderr


def test_schedules_for_packets_are_those_of_links_with_queues(folder):
    """Through a switch, messages to all NPUs at once: about as fast as ASTRA-sim's own, faster than one at a time."""
    asked = "synthesize --network switch.yml --collective all-to-all --size 64KiB --backend packet"
    options = "--budget 20000 --trials 1"
    fastest, serial = (answer(f"{asked} {options} {more}", folder) for more in ("", "--link-model blocking"))
    assert fastest["link_model"] == "pipelined"
    assert fastest["time_ns"] <= 1.1 * fastest["best_native_ns"]
    is_slower = fastest["time_ns"] > fastest["best_native_ns"]
    assert any("the best native algorithm is faster" in note for note in fastest["notes"]) == is_slower
    assert fastest["time_ns"] < serial["time_ns"]
    assert (fastest["link_order"], serial["link_order"]) == ("tokens", "serial")


FAKE = """#!/bin/sh
echo "$@" >> arguments.txt
for argument in "$@"; do case $argument in
  --network-configuration=*) cp "${argument#*=}" config.txt ;;
  --logical-topology-configuration=*) grep -q '{"logical-dims": \\["4"\\]}' "${argument#*=}" || exit 5 ;;
  --workload-configuration=*) for rank in 0 1 2 3; do test -f "${argument#*=}.$rank.et" || exit 6; done ;;
esac; done
grep -q '^PACKET_PAYLOAD_SIZE 512' config.txt || exit 3
test -f "$(sed -n 's/^TOPOLOGY_FILE //p' config.txt)" || exit 4
for rank in 0 1 2 3; do echo "sys[$rank] finished, 1${rank}0 cycles, exposed communication 90 cycles."; done
"""


def test_a_binary_of_ns3_gets_its_files(folder):
    program = folder / "AstraSimNetwork"
    program.write_text(FAKE)
    program.chmod(0o755)
    (folder / "ns3.txt").write_text("PACKET_PAYLOAD_SIZE 512\n")
    files = RunFiles(ranks=[[comp(0, us=5), coll(1, [0], size=1 << 18)] for _ in range(4)], topology=("Ring",)).write(folder)
    given = options_of(files)
    asked = f"replay {given} --backend ns-3 --ns3-config ns3.txt --json"
    done = run(f"{asked} --astra-sim-bin {program}", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["backend"], result["finish_ns"]) == ("ns-3", [100, 110, 120, 130])
    arguments = next(folder.rglob("arguments.txt")).read_text()
    assert "--logical-topology-configuration=" in arguments and "--comm-group-configuration=empty" in arguments
    missing = run(asked, cwd=folder, PATH="", ASTRA_SIM_BIN="")
    assert missing.returncode == 2 and "AstraSimNetwork: not on PATH" in missing.stderr


def test_packets_are_replayed_only_where_they_are_the_clock(folder):
    asked = "--network switch.yml --collective all-gather"
    result = answer(f"synthesize {asked} --size 1MiB --synthesizer symmetric --effort thorough", folder)
    assert result["backend"] == "congestion-aware" and result["packets_ns"] is None
    assert not any("packet level" in note for note in result["notes"])
    rows = answer(f"compare {asked} --sizes 64KiB --synthesizers tacos --chunks-per-npu 1 --trials 1", folder)["rows"]
    assert [(row["synthesizer"], row["packets_ns"]) for row in rows] == [("tacos", None), ("native", None)]


def test_a_plan_is_run_by_a_binary_of_ns3(folder, monkeypatch):
    """Before and after, each where its traces are, on links and a configuration that are written for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    program = folder / "AstraSimNetwork"
    (folder / "ns3.txt").write_text("PACKET_PAYLOAD_SIZE 512\n")
    ranks = [[comp(0, us=5), coll(1, [0], size=1 << 18), coll(2, [1], size=1 << 16, group=1)] for _ in range(4)]
    files = RunFiles(ranks=ranks, topology=("Ring",), groups="'1': [0, 1, 2, 3]").write(folder)
    given = options_of(files)
    asked = f"plan {given} --backend ns-3 --ns3-config ns3.txt {QUICK} --output"
    program.write_text(FAKE)
    program.chmod(0o755)
    done = run(f"{asked} plan --json", cwd=folder, PATH=f"{folder}:/usr/bin:/bin", ASTRA_SIM_BIN="")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["astra_sim"] == {"binary": str(program), "after": 130, "before": 130}
    assert result["backend"] == "packet" and result["after_ns"] == result["time_ns"]
    arguments = [path.read_text().splitlines() for path in (folder / "plan/arguments.txt", folder / "arguments.txt")]
    assert [len(lines) for lines in arguments] == [1, 1]
    for (line,), groups in zip(arguments, (folder / "plan/comm_group.json", files["groups"]), strict=True):
        assert f"--comm-group-configuration={groups}" in line and "--logical-topology-configuration=" in line
    stalls = FAKE.replace("for rank in 0 1 2 3; do echo", "for rank in 0 1 3; do echo")
    program.write_text(stalls)
    again = run(f"{asked} again", cwd=folder, ASTRA_SIM_BIN=str(program))
    assert again.returncode == 0 and "ASTRA-sim, after" in again.stdout and "stalls" in again.stdout, again.stderr
    missing = run(f"{asked} other", cwd=folder, PATH="", ASTRA_SIM_BIN="")
    assert missing.returncode == 2 and "AstraSimNetwork: not on PATH" in missing.stderr
    assert not (folder / "other").exists()
