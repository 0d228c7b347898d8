"""Files of others on the command line: `import` of programs and traces, and `--candidate` of `compare` and `plan`."""

from __future__ import annotations

import json

from helpers.command import answer, read_json, run
from helpers.msccl_programs import direct_program, ring_all_reduce
from helpers.mscclpp_plans import all_reduce
from helpers.pytorch_traces import training_step

NETWORK = "topology: [ FullyConnected ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"


def write(folder):
    (folder / "net.yml").write_text(NETWORK)
    (folder / "ring.xml").write_text(ring_all_reduce(4))
    (folder / "gather.xml").write_text(direct_program("allgather", 4, 1, in_place=True))


def test_import(tmp_path):
    write(tmp_path)
    left = run("import ring.xml --size 1MiB --output out --verbose", cwd=tmp_path)
    assert (left.returncode, left.stderr) == (0, "")
    text = " ".join(left.stdout.split())
    assert "in 24 messages (ring.xml, seed 0)" in text or "24 sends (ring.xml, seed 0)" in text
    assert "program and schedule verified; the replay takes exactly the predicted time" in text
    assert run("verify out", cwd=tmp_path).returncode == 0
    result = read_json(tmp_path / "out/result.json")
    assert result["file"] == "ring.xml" and result["in_thread_blocks_ns"] <= result["predicted_ns"]
    files = "--workload out/workload/all_reduce --system out/system.json --network out/network.yml --directory out"
    assert answer(f"replay {files}", tmp_path)["end_ns"] == result["predicted_ns"]


def test_import_refuses(tmp_path):
    write(tmp_path)
    for arguments, message in {
        "ring.xml": "Missing option '--size'",
        "ring.xml gather.xml --size 1MiB": "is imported alone",
        "ring.xml --size 2B": "2 bytes in 4 chunks",
    }.items():
        left = run(f"import {arguments} --output out", cwd=tmp_path)
        assert left.returncode == 2 and message in left.stderr, left.stderr
        assert not (tmp_path / "out").exists()


def test_compare(tmp_path):
    write(tmp_path)
    arguments = "compare --network net.yml --sizes 1MiB --synthesizers direct --candidate ring.xml --candidate gather.xml"
    left = run(f"{arguments} --json", cwd=tmp_path)
    assert (left.returncode, left.stderr) == (1, "")  # one of them does not fit
    rows = json.loads(left.stdout)["rows"]
    ring, gather = rows[1:3]
    assert (ring["synthesizer"], ring["made_by"], ring["verified"]) == ("ring.xml", "ring.xml", True)
    assert rows[0]["time_ns"] < ring["time_ns"] and ring["num_sends"] == 24
    assert gather["refusal"].endswith("gather.xml: is of all-gather, not of all-reduce")


def test_graphs_with_devices_that_forward(tmp_path):
    """Chunks take fixed routes over a switch: no NPU takes in its three shards faster than its port does."""
    write(tmp_path)
    links = "".join(f"{npu},4,50,500\n4,{npu},50,500\n" for npu in range(4))
    (tmp_path / "links.csv").write_text("src,dst,bandwidth,latency\n" + links)
    (tmp_path / "fabric.yml").write_text("npus_count: [ 4 ]\nastra_tacos: { links: links.csv, switches: 1 }\n")
    made = run("import gather.xml --size 1MiB --network fabric.yml --output out", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "") and "in thread blocks" not in made.stdout
    time_ns = read_json(tmp_path / "out/result.json")["time_ns"]
    assert time_ns >= 3 * 2**20 / (50 * 2**30) * 1e9 + 1000
    assert run("verify out", cwd=tmp_path).returncode == 0
    asking = "compare --network fabric.yml --sizes 1MiB --synthesizers direct --candidate"
    (row,) = answer(f"{asking} gather.xml --collective all-gather", tmp_path)["rows"][1:2]
    assert row["time_ns"] == time_ns
    left = run(f"{asking} gather.xml --collective all-reduce", cwd=tmp_path)
    assert left.returncode == 1 and "is of all-gather, not of all-reduce" in left.stdout


def test_plan(tmp_path):
    """The program of a file is taken where a synthesizer's schedule is slower, and runs with the time of its own run."""
    write(tmp_path)
    made = answer("import gather.xml --size 1MiB --network net.yml --output out", tmp_path)
    planning = "plan --workload out/workload/all_gather --system out/system.json --network net.yml --directory out --no-cache "
    planning += "--synthesizer ring --chunks-per-npu 1 --output"
    found = answer(f"{planning} plan --candidate gather.xml", tmp_path)
    assert [case["algorithm"] for case in found["cases"]] == ["gather.xml"]
    assert made["predicted_ns"] == found["after_ns"]
    left = run(f"{planning} other --candidate gather.xml --candidate ring.xml", cwd=tmp_path)
    assert (left.returncode, left.stdout, left.stderr.count("\n")) == (2, "", 1) and not (tmp_path / "other").exists()
    assert "ring.xml: fits no collective of the run: is of all-reduce, not of all-gather" in left.stderr
    left = run(f"{planning} other --candidate gather.xml --schedule fuse --keep-collectives", cwd=tmp_path)
    assert left.returncode == 2 and "candidates, keep_collectives: found both" in left.stderr


def test_frontier(tmp_path):
    write(tmp_path)
    asking = "compare --frontier --network net.yml --collective all-gather"
    found = answer(f"{asking} --chunks 2 --output front", tmp_path)
    assert [(row["chunks"], row["steps"], row["rounds"], row["proven"]) for row in found["points"]] == [(1, 1, 1, True)]
    assert run("verify front/rounds_1_1_1", cwd=tmp_path).returncode == 0
    left = run(f"{asking} --point 3,1,2", cwd=tmp_path)
    assert left.returncode == 1
    assert left.stdout == "3 chunks, 1 steps, 2 rounds: infeasible (bound); 1 steps need at least 1 rounds per chunk\n"
    assert run(f"{asking} --point 2,1,2", cwd=tmp_path).stdout.startswith("2 chunks, 1 steps, 2 rounds: feasible (solved)")
    assert run(f"{asking} --point 2,1", cwd=tmp_path).returncode == 2
    most = run(f"{asking} --chunks 1000000", cwd=tmp_path)
    assert (most.returncode, most.stdout) == (2, "") and "1000000 is not in the range 1<=x<=1024" in most.stderr


def test_plans(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(all_reduce(3)))
    left = run("verify plan.json", cwd=tmp_path)
    assert (left.returncode, left.stdout) == (0, "plan.json: ok: all-reduce on 3 NPUs, 9 messages\n")
    shown = answer("inspect plan.json", tmp_path)
    assert (shown["collective"], shown["npus"], shown["operations"]["rres"], shown["proven"]) == ("all-reduce", 3, 3, True)
    assert answer("import plan.json --size 1MiB --output out", tmp_path)["synthesizer"] == "plan.json"


def write_traces(folder):
    for rank in range(2):
        (folder / f"rank{rank}.json").write_text(json.dumps(training_step(rank).document()))
    return [f"rank{rank}.json" for rank in range(2)]


def test_import_of_traces(tmp_path):
    left = run("import", *write_traces(tmp_path), "--output", "out", "--verbose", cwd=tmp_path)
    assert (left.returncode, left.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in left.stdout.splitlines()]
    assert "source rank 0: rank0.json" in lines and "end of the run 43,000 ns by congestion-aware" in lines
    assert "assumed system.json: native rings, one chunk per collective" in lines
    written = read_json(tmp_path / "out/repair.json")
    assert written["notes"] == ["rank 0: rank0.json", "rank 1: rank1.json"] and written["finish_ns"] == [43_000] * 2
    again = run("import", *write_traces(tmp_path), "--output", "out", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == written


def test_import_of_traces_refuses_in_one_line(tmp_path):
    left = run("import", *write_traces(tmp_path)[:1] * 2, "--output", "out", cwd=tmp_path)
    assert left.returncode == 2 and left.stdout == ""
    assert "rank0.json: a second trace of rank 0" in left.stderr and left.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_inspect_of_traces(tmp_path):
    name = write_traces(tmp_path)[0]
    left = run(f"inspect {name}", cwd=tmp_path)
    assert left.returncode == 0
    text = " ".join(left.stdout.split())
    assert "compute nodes: 4, total_us: 38, most_us_of_a_rank: 38" in text and "critical path us: 43, rank: 0" in text
    assert "ALL_REDUCE all ranks 4 KiB 1 1 1 8" in text
    shown = answer(f"inspect {name}", tmp_path)
    assert shown["collectives"][0]["duration_us"] == 8 and shown["has_times"] is True
    assert run(f"verify {name}", cwd=tmp_path).returncode == 2


def test_attributes_that_nobody_reads_are_counted(tmp_path):
    write(tmp_path)
    plain = (tmp_path / "ring.xml").read_text()
    changed = plain.replace("<step ", '<step netdepid="-1" netdeps="-1" ').replace("<algo ", '<algo redop="nop" ')
    steps = plain.count("<step ")
    (tmp_path / "net.xml").write_text(changed)
    counted = f"net.xml: not read: {steps} netdepid of <step>, {steps} netdeps of <step>, 1 redop of <algo>"
    for arguments in (
        "verify net.xml",
        "inspect net.xml",
        "import net.xml --size 1MiB --output out",
        "compare --network net.yml --sizes 1MiB --synthesizers direct --candidate net.xml",
    ):
        said = run(arguments, cwd=tmp_path)
        assert said.returncode == 0 and said.stderr.count("\n") == said.stderr.count(counted) == 1, said.stderr
    assert run("verify ring.xml", cwd=tmp_path).stderr == ""
