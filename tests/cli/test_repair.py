"""`astra-tacos lint --fix`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.command import invoke
from helpers.lint_runs import RunFiles

BROKEN = RunFiles("comp 0 [9]; coll 1 group=7 | coll 1 group=7", system="boost-mode: 0")


def arguments(folder: Path) -> str:
    BROKEN.write(folder)
    return "--workload workload/w --system system.json --network network.yml --output out"


def test_the_first_change_of_each_step(tmp_path: Path) -> None:
    status, out, err = invoke(f"lint --fix {arguments(tmp_path)}", tmp_path)
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "changes 3 1 of them by assumption" in words
    assert "compute time 1 us unchanged" in words
    assert "rank 0 node 0: no longer depends on 9" in words
    assert "group 7 of ranks 0, 1 added" in out


def test_json_is_what_the_file_says(tmp_path: Path) -> None:
    status, out, _ = invoke(f"lint --fix {arguments(tmp_path)} --json", tmp_path)
    assert status == 0 and json.loads(out) == json.loads((tmp_path / "out" / "repair.json").read_text())


def test_a_step_that_is_switched_off(tmp_path: Path) -> None:
    status, out, err = invoke(f"lint --fix {arguments(tmp_path)} --without dangling-dependencies", tmp_path)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "cannot be repaired: D01: w.0.et node 0: depends on a node that does not exist" in err
    assert not (tmp_path / "out").exists()


def test_the_former_command_names_the_one_that_replaces_it(tmp_path: Path) -> None:
    for removed in ("repair --list", f"repair {arguments(tmp_path)}", "repair --help"):
        status, out, err = invoke(removed, tmp_path)
        assert (status, out) == (2, "") and err.count("\n") == 1
        assert "`astra-tacos lint --fix --output DIR` does the same" in err
    assert not (tmp_path / "out").exists()


def test_options_of_a_repair_need_fix_and_fix_an_output(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    assert "--output, --ranks and --without are for --fix" in invoke(f"lint {given}", tmp_path)[2]
    status, _, err = invoke(f"lint --fix {given.removesuffix('--output out')}", tmp_path)
    assert status == 2 and "Missing option '--output'" in err


def test_another_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    status, _, err = invoke(f"lint --fix {arguments(tmp_path)}", tmp_path)
    assert status == 2 and "is not a repaired or imported run of astra_tacos" in err
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"
