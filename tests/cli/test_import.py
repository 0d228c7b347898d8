"""`astra-tacos import` of a workload text and of several runs, from the command line to runs that other commands take."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.command import answer, invoke

from astra_tacos.cli.main import BAD_INPUT

TEXT = """HYBRID_DATA_MODEL
2
a -1 3000 ALLGATHER 4096 3000 ALLREDUCE 4096 3000 ALLREDUCE 65536 1000
b -1 2000 ALLGATHER 4096 2000 ALLREDUCE 4096 2000 ALLREDUCE 65536 1000
"""


def network(name, sizes):
    keys = {
        "topology": ["Ring"] * len(sizes),
        "npus_count": sizes,
        "bandwidth": [50.0] * len(sizes),
        "latency": [500.0] * len(sizes),
    }
    Path(name).write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))


def test_texts_become_jobs_on_one_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.txt").write_text(TEXT)
    network("n.yml", [2, 2])
    network("both.yml", [2, 2, 2])
    for name, passes in (("first", 1), ("second", 2)):
        made = answer(f"import w.txt --network n.yml --passes {passes} --output {name}")
        assert made["notes"] == [f"HYBRID_DATA_MODEL, 2 neighbours x 2, passes: {passes}: w.txt"]
    status, out, err = invoke("import first second --network both.yml --output joint --verbose")
    assert (status, err) == (0, "") and "ranks 4 to 7: second" in out
    for shown in (out, invoke("replay joint")[1]):
        listed = [line.split("ns") for line in shown.splitlines() if line.startswith("  job ")]
        assert [remark.strip() for _, remark in listed] == ["ranks 0 to 3: first", "ranks 4 to 7: second"]
        ends = [max(answer(f"replay {name}")["finish_ns"]) for name in ("first", "second")]
        assert [int(line.split()[-1].replace(",", "")) for line, _ in listed] == ends
    ends = [answer(f"replay {name}")["finish_ns"] for name in ("first", "second", "joint")]
    assert ends[2] == ends[0] + ends[1]
    planned = answer("plan joint --effort quick --no-cache --output planned")
    assert [job["before_ns"] for job in planned["jobs"]] == [max(ends[0]), max(ends[1])]
    replayed = answer("replay planned")
    times = [[job["time_ns"] for job in result["jobs"]] for result in (planned, replayed)]
    assert times[0] == times[1] == [max(replayed["finish_ns"][:4]), max(replayed["finish_ns"][4:])]
    assert "job 2" in invoke("plan joint --effort quick --no-cache --output planned")[1]
    Path("hello.txt").write_text("hello\n")
    for command, message in {
        "import hello.txt --output x": "hello.txt: begins with 'hello', expected JSON of PyTorch (.json), a workload text of",
        "import w.txt --output x": "w.txt: a workload text of ASTRA-sim 1.0 does not say its ranks, expected --network",
        "import first second --network n.yml --output x": "n.yml: found 4 NPUs, but the 2 runs have 8 ranks together",
        "import first w.txt --network both.yml --output x": "w.txt: not a directory, expected only run directories",
    }.items():
        status, _, err = invoke(command)
        assert status == BAD_INPUT and message in err and err.count("\n") == 1 and not Path("x").exists()
