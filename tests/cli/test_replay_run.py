"""`astra-tacos replay --workload ...`: whole runs on the command line, embedded and by a (stand-in for a) real ASTRA-sim."""

from __future__ import annotations

import csv
import itertools
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from helpers.command import answer, read_json, run
from helpers.runs import make_run

from astra_tacos.run.recording import load_recording

STAND_IN = """#!{python}
import sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
assert all(open(options[name]) for name in options if name in ("system-configuration", "network-configuration"))
print(open(options["remote-memory-configuration"]).read())
print(open("says.txt").read())
"""


def files_of(case):
    groups = "--comm-group comm_group.json" if (case / "comm_group.json").is_file() else ""
    return f"--workload workload/w --system system.json --network network.yml {groups}"


@pytest.mark.golden_cases("e2e_*")
def test_prints_what_astra_sim_prints(golden, golden_case):
    case = golden / golden_case
    expected = read_json(case / "expected.json")
    done = run(f"replay {files_of(case)} --backend", expected["backend"].replace("_", "-"), "--json", cwd=case)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["finish_ns"] == expected["finish_ns"]
    assert result["exposed_comm_ns"] == expected["exposed_comm_ns"]
    assert result["approximate"] is False
    assert {finding["severity"] for finding in result["findings"]} <= {"warning"}


def test_prints_a_table_and_writes_csv(golden, tmp_path):
    case = golden / "e2e_per_node_ring8"
    done = run(f"replay {files_of(case)} --csv {tmp_path / 'run.csv'} --verbose", cwd=case)
    assert done.returncode == 0, done.stderr
    for text in ("congestion-aware  exact", "92,632 ns", "exposed", "collective/ar_1m", "busiest of 16 links"):
        assert text in done.stdout
    with (tmp_path / "run.csv").open() as file:
        ranks = list(csv.DictReader(file))
    assert [row["finish_ns"] for row in ranks] == ["92632"] * 8
    assert {"exposed_comm_ns", "compute_ns", "collective/ar_1m ALL_REDUCE 1048576 B, ns"} <= set(ranks[0])
    with (tmp_path / "run.links.csv").open() as file:
        links = list(csv.DictReader(file))
    assert len(links) == 16
    assert all(0 < float(link["busy_share"]) <= 1 for link in links)


def test_claims_no_exactness_where_lint_finds_errors(tmp_path):
    """ASTRA-sim stalls: a COMP of 1 ns after 2**53 ns is lost."""
    make_run(tmp_path, "send 0 1; comp 1 [0] us=0 | recv 0 0", "FullyConnected 2 50 1e+16")
    result = answer(f"replay {files_of(tmp_path)}", tmp_path)
    assert result["exact_to"] is None
    assert result["beyond_astra_sim"] == ["lint finds errors: N06"]
    shown = run(f"replay {files_of(tmp_path)}", cwd=tmp_path).stdout
    assert "exact by this model, not to ASTRA-sim" in shown
    assert "lint errors 1 N06; `astra-tacos lint` on the same files says more" in " ".join(shown.split())


def test_says_that_astra_sim_aborts(tmp_path):
    make_run(tmp_path, "comp 0; coll 1 [0] | comp 0; coll 1 [0]", "Ring 2")
    done = run(f"replay {files_of(tmp_path)}", cwd=tmp_path)
    first = done.stdout.splitlines()[2]
    assert first.split("  ")[1] == "ASTRA-sim aborts here" and "aborts at its start on a Ring of 2" in first
    on_another = answer(f"replay {files_of(tmp_path)} --backend congestion-unaware", tmp_path)
    assert on_another["astra_sim_aborts"] == []


def test_the_chrome_trace_has_every_node_and_no_overlaps(golden, tmp_path):
    case = golden / "e2e_p2p_pipeline_ring8"
    timeline = tmp_path / "trace.json"
    result = answer(f"replay {files_of(case)} --chrome-trace {timeline}", case)
    events = read_json(timeline)["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert {"NPU 0 compute", "NPU 7 compute", "NPU 0 communication", "NPU 1 receives", "0 -> 1"} - names <= {"0 -> 1"}
    assert any("->" in name for name in names)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for intervals in tracks.values():
        intervals.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(intervals))
    nodes = [event for event in events if event["pid"] == 1 and event["ph"] in "Xb"]
    assert len({event["args"]["node"] for event in nodes}) > 1
    assert max(event["ts"] + event.get("dur", 0) for event in events if "ts" in event) * 1000 == max(result["finish_ns"])
    busy = sum(event["dur"] for event in events if event["ph"] == "X" and event["pid"] == 2)
    assert round(busy * 1000) == sum(link["busy_ns"] for link in result["links"])


def test_a_directory_for_reports(golden, tmp_path):
    case = golden / "e2e_p2p_pipeline_ring8"
    output = tmp_path / "replayed"
    done = run(f"replay {files_of(case)} --output {output} --json", cwd=case)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in output.iterdir()) == ["replay.json", "replay.npz"]
    assert read_json(output / "replay.json") == json.loads(done.stdout)
    mine = tmp_path / "mine/replay.json"
    mine.parent.mkdir()
    mine.write_text("mine")
    refused = run(f"replay {files_of(case)} --output {mine.parent}", cwd=case)
    assert (refused.returncode, mine.read_text()) == (2, "mine") and "is not a replay of astra_tacos" in refused.stderr
    recording = load_recording(output / "replay.npz")
    assert recording.after.finish_ns.tolist() == json.loads(done.stdout)["finish_ns"]
    assert recording.before is None
    reported = run(f"report {output} --title 'A run & its <ranks>'", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert "(replay, " in reported.stdout
    page = (tmp_path / "report.html").read_text()
    assert "A run &amp; its &lt;ranks&gt;" in page
    before = (output / "replay.npz").read_bytes()
    assert run(f"replay {files_of(case)} --output {output}", cwd=case).returncode == 0
    assert (output / "replay.npz").read_bytes() == before


def stand_in(directory, says):
    """A program that takes ASTRA-sim's options and prints `says`."""
    (directory / "says.txt").write_text(says)
    program = directory / "AstraSim_Analytical_Congestion_Aware"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def copied(golden, name, tmp_path):
    import shutil

    return Path(shutil.copytree(golden / name, tmp_path / name))


def lines(times):
    told = [f"[x] sys[{rank}] finished, {ns} cycles, exposed communication {ns - 5} cycles." for rank, ns in enumerate(times)]
    return "\n".join(["\x1b[32m[info]\x1b[0m starting", *reversed(told)])


def test_a_real_astra_sim_is_run_and_read(golden, tmp_path):
    case = copied(golden, "e2e_overlap_ring8", tmp_path)
    program = stand_in(case, lines(list(range(100, 108))))
    found_by = ({"arguments": f"--astra-sim-bin {program}"}, {"ASTRA_SIM_BIN": program}, {"PATH": f"{case}:{os.environ['PATH']}"})
    for how in found_by:
        arguments = how.pop("arguments", "")
        result = answer(f"replay {files_of(case)} --backend astra-sim {arguments}", case, **how)
        assert result["finish_ns"] == list(range(100, 108))
        assert result["exposed_comm_ns"] == list(range(95, 103))
        assert result["binary"] == program
    done = run(f"replay {files_of(case)} --backend astra-sim --astra-sim-bin {program}", cwd=case)
    assert "107 ns  rank 7" in done.stdout


def test_an_aborted_astra_sim_is_to_run_again(golden, tmp_path):
    case = copied(golden, "e2e_overlap_ring8", tmp_path)
    program = Path(stand_in(case, lines(list(range(100, 106)))))
    program.write_text(program.read_text() + "\nimport os, sys\nsys.stdout.flush()\nos.abort()\n")
    done = run(f"replay {files_of(case)} --backend astra-sim --astra-sim-bin {program}", cwd=case)
    assert done.returncode == 1
    assert "no end in the log" in done.stdout and "2 of 8 ranks  6, 7 (exit status -6: run it again)" in done.stdout


def test_a_rank_that_astra_sim_leaves_behind_is_explained(tmp_path):
    ranks = "comp 0 | recv 4 0 size=64 tag=1 | send 7 1 size=64 tag=1; recv 8 1 [7]"
    make_run(tmp_path, ranks)
    program = stand_in(tmp_path, "sys[0] finished, 9 cycles, exposed communication 9 cycles.\n[critical] it broke\n")
    done = run(f"replay {files_of(tmp_path)} --backend astra-sim --astra-sim-bin {program}", cwd=tmp_path)
    assert done.returncode == 1
    assert "2 of 3 ranks  1, 2" in done.stdout
    assert "[critical] it broke" in done.stdout
    reason = "rank 1, node 4 waits for a message from rank 0 (64 bytes, tag 1) that no node sends"
    assert reason in " ".join(done.stdout.split())
    as_json = run(f"replay {files_of(tmp_path)} --json", cwd=tmp_path)
    assert as_json.returncode == 1
    assert reason in json.loads(as_json.stdout)["reason"]
    embedded = run(f"replay {files_of(tmp_path)}", cwd=tmp_path)
    assert embedded.returncode == 1
    more = "1 more rank never finishes; for details, run `astra-tacos lint` on the same files"
    assert embedded.stderr == f"astra-tacos: error: workload/w: deadlock: {reason}; {more}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "--workload w": "Missing option '--system'",
        "": "Missing PATH",
        "x --workload w --system s --network n.yml": "expected one of them",
        "workload/w --csv f.csv": "need a whole run",
        "--workload w --system system.json --network network.yml": "w.0.et: no such file",
        "--workload workload/w --system system.json --network network.yml --backend astra-sim": (
            "AstraSim_Analytical_Congestion_Aware: not on PATH"
        ),
        "--workload workload/w --system system.json --network network.yml --directory workload": "--directory",
    }.items(),
)
def test_bad_command_lines_get_one_line(golden, arguments, message):
    done = run(f"replay {arguments}", cwd=golden / "e2e_overlap_ring8", ASTRA_SIM_BIN="")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "--csv .": "is a directory, expected a file",
        "--csv network.yml": "would replace another file",
        "--csv network.yml/a.csv": "cannot be written",
    }.items(),
)
def test_outputs_that_cannot_be_written_are_refused(golden, arguments, message):
    case = golden / "e2e_overlap_ring8"
    before = {path: path.read_bytes() for path in case.rglob("*") if path.is_file()}
    done = run(f"replay {files_of(case)} {arguments}", cwd=case)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert {path: path.read_bytes() for path in case.rglob("*") if path.is_file()} == before


def test_packets(tmp_path):
    """Of a run, as ns-3 would be configured for it; options that do not fit are named."""
    link = ("FullyConnected", 2, 4e11 / 8 / 2**30, 500.0)
    make_run(tmp_path, "send 0 1 size=1000 | recv 0 0 size=1000", link)
    (tmp_path / "ns3.txt").write_text("PACKET_PAYLOAD_SIZE 500\n")
    files = f"{files_of(tmp_path)} --backend packet"
    done = run(f"replay {files} --json", cwd=tmp_path)
    assert json.loads(done.stdout)["finish_ns"] == [21 + 1 + 1000] * 2
    done = run(f"replay {files} --ns3-config ns3.txt", cwd=tmp_path)
    assert "packet exact to ASTRA-sim's ns-3 backend (8fd3604)" in " ".join(done.stdout.split())
    assert f"{11 + 11 + 1 + 1000:,} ns" in done.stdout
    done = run(f"replay {files_of(tmp_path)} --ns3-config ns3.txt", cwd=tmp_path)
    assert (done.returncode, "--ns3-config needs --backend packet" in done.stderr) == (2, True)
    done = run(f"replay {files} --chrome-trace t.json", cwd=tmp_path)
    assert (done.returncode, "--chrome-trace needs an analytical backend" in done.stderr) == (2, True)
    done = run(f"replay {files} --ns3-config none.txt", cwd=tmp_path)
    assert (done.returncode, "none.txt: cannot be read" in done.stderr) == (2, True)
