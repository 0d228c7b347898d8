"""`astra-tacos lint`: what it prints, and how it leaves; with `--fix` what it writes and refuses."""

from __future__ import annotations

import json
import re

import pytest
from helpers.command import invoke, read_json
from helpers.lint_runs import RunFiles, coll, comp

from astra_tacos.cli.main import BAD_INPUT, CHECK_FAILED
from astra_tacos.workload.lint import RULES
from astra_tacos.workload.mends import MENDS

FINE = RunFiles("comp 0 | comp 0")
BROKEN = RunFiles([[coll(id, group=9) for id in range(700)], [comp(0, [7])]], system="boost-mode: 1")


def lint(run, folder, more=""):
    run.write(folder)
    return invoke(f"lint --workload workload/w --system system.json --network network.yml {more}")


@pytest.fixture(autouse=True)
def started_in_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_nothing_found(tmp_path):
    status, out, err = lint(FINE, tmp_path)
    assert (status, err) == (0, "")
    assert out == "nothing found in 2 ranks of 2 nodes on 2 NPUs, congestion-aware\n"


def test_the_first_finding_of_a_code(tmp_path):
    status, out, _ = lint(BROKEN, tmp_path)
    assert status == CHECK_FAILED
    assert all(len(line) <= 100 for line in out.splitlines())
    words = " ".join(out.split())
    remedy = "(ids count within a rank's file); --fix may mend this"
    assert words.startswith(f"D01 error workload/w.1.et node 0: depends on a node that does not exist {remedy}")
    assert "G04 error workload/w.0.et node 0: uses group 9, which does not exist (give a file" in words
    assert "... and 699 more of G04 (add --verbose to read all)" in words
    assert (
        "S09 warning system.json: boost-mode has no effect (take it out); --fix may mend this 701 errors and 1 warning" in words
    )
    assert words.endswith("in 2 ranks of 701 nodes on 2 NPUs, congestion-aware; --explain D01 says more about D01")


def test_json(tmp_path):
    status, out, _ = lint(BROKEN, tmp_path, "--json")
    findings = json.loads(out)
    assert status == CHECK_FAILED and len(findings) == 702
    assert findings[0] == {
        "code": "D01",
        "severity": "error",
        "message": "depends on a node that does not exist",
        "remedy": "ids count within a rank's file",
        "file": "workload/w.1.et",
        "rank": 1,
        "node": 0,
        "repair": "dangling-dependencies",
    }


def test_files_that_are_not_there_are_findings(tmp_path):
    status, out, err = invoke("lint --workload w --system s.json --network n.yml")
    assert (status, err) == (CHECK_FAILED, "")
    assert re.findall(r"^(F\d\d) error +(\S+):", out, re.M) == [("F01", "n.yml"), ("F02", "s.json"), ("F06", "w.0.et")]


@pytest.mark.parametrize(
    ("more", "says"),
    {"--backend garnet": "garnet", "--directory nowhere": "nowhere", "--explain Z99": "No such code: Z99"}.items(),
)
def test_bad_options(tmp_path, more, says):
    status, _, err = lint(FINE, tmp_path, more)
    assert status == BAD_INPUT and says in err


@pytest.mark.parametrize("code", RULES)
def test_explain(code):
    status, out, _ = invoke(f"lint --explain {code.lower()}")
    assert status == 0
    assert out.startswith(f"{code}, {RULES[code].severity}: {RULES[code].title}\n\n")
    assert "\nRemedy: " in out and max(map(len, out.splitlines())) <= 100


def test_list():
    status, out, _ = invoke("lint --list")
    assert status == 0
    codes, steps = out.split("\n\nsteps of --fix:\n")
    assert [line.split()[0] for line in codes.splitlines()] == list(RULES)
    assert [line.split()[0] for line in steps.splitlines()] == [mend.name for mend in MENDS]


FAULTY = RunFiles("comp 0 [9]; coll 1 group=7 | coll 1 group=7", system="boost-mode: 0")


def arguments(folder):
    FAULTY.write(folder)
    return "--workload workload/w --system system.json --network network.yml --output out"


def test_the_first_change_of_each_step(tmp_path):
    status, out, err = invoke(f"lint --fix {arguments(tmp_path)}", tmp_path)
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "changes 3 1 of them by assumption" in words
    assert "compute time 1 us unchanged" in words
    assert "rank 0 node 0: no longer depends on 9" in words
    assert "group 7 of ranks 0, 1 added" in out


def test_json_is_what_the_file_says(tmp_path):
    status, out, _ = invoke(f"lint --fix {arguments(tmp_path)} --json", tmp_path)
    assert status == 0 and json.loads(out) == read_json(tmp_path / "out/repair.json")


def test_a_step_that_is_switched_off(tmp_path):
    status, out, err = invoke(f"lint --fix {arguments(tmp_path)} --without dangling-dependencies", tmp_path)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "cannot be repaired: D01: w.0.et node 0: depends on a node that does not exist" in err
    assert not (tmp_path / "out").exists()


def test_the_former_command_names_the_one_that_replaces_it(tmp_path):
    for removed in ("repair --list", f"repair {arguments(tmp_path)}", "repair --help"):
        status, out, err = invoke(removed, tmp_path)
        assert (status, out) == (2, "") and err.count("\n") == 1
        assert "`astra-tacos lint --fix --output DIR` does the same" in err
    assert not (tmp_path / "out").exists()


def test_options_of_a_repair_need_fix_and_fix_an_output(tmp_path):
    given = arguments(tmp_path)
    assert "--output, --ranks and --without are for --fix" in invoke(f"lint {given}", tmp_path)[2]
    status, _, err = invoke(f"lint --fix {given.removesuffix('--output out')}", tmp_path)
    assert status == 2 and "Missing option '--output'" in err


def test_another_directory_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("keep")
    status, _, err = invoke(f"lint --fix {arguments(tmp_path)}", tmp_path)
    assert status == 2 and "is not a repaired or imported run of astra_tacos" in err
    assert (tmp_path / "out/mine.txt").read_text() == "keep"
