"""`astra-tacos import`, and `inspect` of the same traces."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.command import answer, run
from helpers.pytorch_traces import training_step


def write(folder: Path) -> list[str]:
    for rank in range(2):
        (folder / f"rank{rank}.json").write_text(json.dumps(training_step(rank).document()))
    return [f"rank{rank}.json" for rank in range(2)]


def test_import(tmp_path: Path) -> None:
    left = run("import", *write(tmp_path), "--output", "out", "--verbose", cwd=tmp_path)
    assert (left.returncode, left.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in left.stdout.splitlines()]
    assert "trace rank 0: rank0.json" in lines and "end of the run 43,000 ns by congestion-aware" in lines
    assert "default system.json: native rings, one chunk per collective" in lines
    written = json.loads((tmp_path / "out" / "repair.json").read_text())
    assert written["notes"] == ["rank 0: rank0.json", "rank 1: rank1.json"] and written["finish_ns"] == [43_000] * 2
    again = run("import", *write(tmp_path), "--output", "out", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == written


def test_import_refuses_in_one_line(tmp_path: Path) -> None:
    left = run("import", *write(tmp_path)[:1] * 2, "--output", "out", cwd=tmp_path)
    assert left.returncode == 2 and left.stdout == ""
    assert "rank0.json: a second trace of rank 0" in left.stderr and left.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_inspect(tmp_path: Path) -> None:
    name = write(tmp_path)[0]
    left = run(f"inspect {name}", cwd=tmp_path)
    assert left.returncode == 0
    text = " ".join(left.stdout.split())
    assert "compute nodes: 4, total_us: 38, most_us_of_a_rank: 38" in text and "critical path us: 43, rank: 0" in text
    assert "ALL_REDUCE all ranks 4 KiB 1 1 1 8" in text
    shown = answer(f"inspect {name}", tmp_path)
    assert shown["collectives"][0]["duration_us"] == 8 and shown["has_times"] is True
    assert run(f"verify {name}", cwd=tmp_path).returncode == 2
