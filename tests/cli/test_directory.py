"""A directory is a run: what one command writes, the others take without options, and the next command works when pasted."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from helpers.command import answer, invoke
from helpers.examples import examples
from helpers.generated import write_network
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.cli.main import BAD_INPUT
from astra_tacos.network.network_files import NETWORK
from astra_tacos.run.directory import CompactInputs, Given, find_run, next_command, workloads_in
from astra_tacos.run.run import GROUPS, MEMORY, SYSTEM
from astra_tacos.support.errors import ConfigError

SIZES = "--layers 2 --hidden 64 --heads 8 --sequence 64 --vocab 512"
QUICK = "--effort quick"
OPTIONAL = (SYSTEM, NETWORK, GROUPS, MEMORY)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Directories that each command wrote, by its name."""
    folder = tmp_path_factory.mktemp("made")
    write_network(folder / "n.yml", "Ring 4", "Ring 2")
    for name, command in {
        "generate": f"generate --output generate --network n.yml --dp 4 --tp 2 {SIZES}",
        "bare": f"generate --output bare --dp 4 --tp 2 {SIZES}",
        "lint": "lint --fix bare --network n.yml --output lint",
        "plan": f"plan generate --output plan {QUICK}",
        "placed": "plan --only-place generate --output placed",
        "divided": "plan --endpoint host generate --output divided",
        "mended": "lint --fix plan --output mended",
        "compact": f"generate --output compact --compact --network n.yml --dp 8 {SIZES}",
        "compact plan": f"plan compact --output compact_plan {QUICK}",
        "export": "export compact --format run --output export",
    }.items():
        status, _, err = invoke(command, folder)
        assert status == 0, (name, err)
    return folder


ORDINARY = ("generate", "lint", "plan", "placed", "divided", "mended", "export")


@pytest.mark.parametrize("name", (*ORDINARY, "compact", "compact_plan"))
def test_what_a_command_wrote_others_take_without_options(made, name, tmp_path):
    run = shlex.quote(str(made / name))
    replayed = answer(f"replay {run}")
    assert replayed["end_ns"] > 0
    assert not [each for each in answer(f"lint {run}") if each["severity"] == "error"]
    about = answer(f"inspect {run}")
    assert about["ranks"] == 8 and about["collectives"] and about["network"]["topology"]
    assert about["planned"] == (name in ("plan", "divided", "compact_plan"))
    assert answer(f"optimize {run}")["num_npus"] == 8
    page = tmp_path / "page.html"
    assert answer(f"report {run} -o {page}")["kind"] in ("plan", "replay") and page.stat().st_size


@pytest.mark.parametrize("name", ORDINARY)
def test_all_write_the_same_layout(made, name):
    assert {GROUPS, SYSTEM, NETWORK, "workload"} <= {path.name for path in (made / name).iterdir()}
    assert [prefix.name for prefix in workloads_in(made / name)] == ["w"]
    for script in (made / name).glob("run_astra_sim.sh"):
        assert f"--comm-group-configuration={GROUPS}" in script.read_text()


@pytest.mark.parametrize("name", ORDINARY)
def test_the_directory_says_what_the_options_say(made, name):
    run = made / name
    files = f"--workload {run}/workload/w --system {run / SYSTEM} --network {run / NETWORK} --comm-group {run / GROUPS}"
    files += f" --remote-memory {run / MEMORY}" if (run / MEMORY).is_file() else ""
    assert answer(f"replay {files} --directory {run}") == answer(f"replay {run}") == answer(f"replay --workload {run}")


@pytest.mark.parametrize(
    "command",
    [
        f"generate --output out --network n.yml --dp 8 {SIZES}",
        f"generate --output out --dp 8 {SIZES}",
        f"generate --output 'a run' --network n.yml --compact --dp 8 {SIZES}",
        "lint --fix bare --network n.yml --output out",
        "export compact --format run --output out",
    ],
)
def test_the_last_line_is_the_next_command_to_paste(made, command, tmp_path):
    for name in ("bare", "compact"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copyfile(made / "n.yml", tmp_path / "n.yml")
    status, out, err = invoke(command, tmp_path)
    assert (status, err) == (0, "")
    label, words = out.splitlines()[-1].split(maxsplit=1)
    assert label == "next" and words.startswith("astra-tacos plan ")
    assert ("--network N.yml" in words) == ("--network" not in command and "generate" in command)
    write_network(tmp_path / "N.yml", "Ring 8")  # any: a run that was made for none has one list of algorithms
    assert invoke(f"{words.removeprefix('astra-tacos ')} {QUICK}", tmp_path)[0] == 0
    assert (tmp_path / "planned/plan.json").is_file()


def test_the_next_command_never_plans_into_its_own_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("planned").mkdir()
    assert next_command(Path("planned")).endswith("--output planned_again")


@examples(30)
@given(st.sets(st.sampled_from(OPTIONAL)), st.sets(st.sampled_from(("system", "network", "groups", "remote_memory"))))
def test_what_is_given_counts_before_what_is_inside(made, missing, over):
    run, other = made / "subset", made / "lint"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(made / "generate", run)
    for name in missing:
        (run / name).unlink()
    names = dict(zip(("system", "network", "groups", "remote_memory"), OPTIONAL, strict=True))
    asked = Given(**{field: other / names[field] for field in over})
    if NETWORK in missing and "network" not in over:
        with pytest.raises(ConfigError, match=r"expected network.yml with it: `COMMAND --network N.yml`"):
            find_run(run, "COMMAND", asked)
        return
    found = find_run(run, "COMMAND", asked)
    assert found.workload == run / "workload/w" and found.directory == run
    for field, name in names.items():
        place = getattr(found, field)
        if field in over:
            assert place == other / name
        elif name not in missing:
            assert place == run / name
        elif field == "system":
            assert json.loads(place.read_text())["all-reduce-implementation"] == ["ring", "ring"]
        else:
            assert place is None


def test_an_empty_file_of_groups_and_a_missing_system(made, tmp_path):
    assert invoke(f"generate --output run --network {made}/n.yml --pp 8 --layers 8 {SIZES[10:]}", tmp_path)[0] == 0
    run = tmp_path / "run"
    assert json.loads((run / GROUPS).read_text()) == {}
    end = answer(f"replay {run}")["end_ns"]
    for content in ("", None):
        (run / GROUPS).unlink() if content is None else (run / GROUPS).write_text(content)
        assert answer(f"replay {run}")["end_ns"] == end
    (run / SYSTEM).unlink()
    status, _, err = invoke(f"replay {run}")
    assert status == 0 and f"{run}: no system.json: native rings, as lint --fix writes" in err


def test_what_is_not_found_is_listed_with_the_command(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "generate", "two")
    for file in list(Path("two/workload").iterdir()):
        shutil.copyfile(file, file.with_name(f"a{file.name}"))
    Path("none").mkdir()
    Path("none/x.0.et").touch()
    shutil.copytree(made / "bare", "bare")
    for command, message in {
        "plan two --output p": "aw, w, expected one: `astra-tacos plan two --output p --workload two/workload/aw`",
        "replay none": "none: found x.0.et, expected the traces of a run, workload/PREFIX.<rank>.et: `astra-tacos replay none",
        "lint --fix none --output p": "none: found x.0.et, expected the traces of a run",
        "plan --only-place bare --output p": "with it: `astra-tacos plan --only-place bare --output p --network N.yml`",
        "optimize bare": "bare: found comm_group.json, generated.json, remote_memory.json, system.json, workload, e",
        "report bare": "expected network.yml with it: `astra-tacos report bare --network N.yml`",
        "plan nowhere --output p": "nowhere: no such directory, expected the directory of a run",
        "plan --output p": "Missing DIR, the directory of a run, or --workload, --system and --network.",
        f"verify {made}/divided": f"`astra-tacos lint {made}/divided` checks its files",
        "verify bare": "bare: a run says no collective to prove: `astra-tacos lint bare` checks its files",
        f"plan --compact {made}/compact --output p": "--compact is gone: `astra-tacos plan DIR` does the same.",
        f"plan {made}/compact --seed 3 --no-cache --output p": f"--seed, --no-cache: {made}/compact is a compact run, expected",
        f"plan {made}/compact --backend packet --output p": f"--backend packet: {made}/compact is a compact run, expected",
        f"plan --only-place {made}/compact --output p": "/compact --format run --network ",
        f"plan {made}/compact --system n.json --output p": "is a compact run, which has all files: expected --network alone",
    }.items():
        status, out, err = invoke(command)
        assert (status, out) == (BAD_INPUT, "") and message in err and len(err.splitlines()) == 1, command
    assert not Path("p").exists()
    assert invoke("replay two --workload two/workload/w")[0] == 0


def test_verify_takes_planned_runs(made):
    """A copy of one says no more what its traces have to compute."""
    assert answer(f"verify {made}/plan")["ok"]
    status, out, err = invoke(f"verify {made}/mended")
    assert (status, out) == (BAD_INPUT, "") and "a run says no collective to prove" in err


def test_a_compact_directory_is_found(made):
    assert find_run(made / "compact", "") == CompactInputs(made / "compact", made / "compact" / NETWORK)


def test_a_sweep_takes_the_directory_of_an_ordinary_run(made, tmp_path):
    points = {"point": {"network": str(made / "n.yml"), "workload": str(made / "generate"), "synthesizer": "ring"}}
    (tmp_path / "sweep.yml").write_text(json.dumps(points))
    status, _, err = invoke("sweep sweep.yml --output out", tmp_path)
    assert status == 0, err
    points["point"]["workload"] = str(made / "compact_plan/ordinary/workload/w")
    (tmp_path / "sweep.yml").write_text(json.dumps(points))
    status, _, err = invoke("sweep sweep.yml --output other", tmp_path)
    assert (
        status == BAD_INPUT and "system is missing, expected a value there, an axis, or a file in the directory of the run" in err
    )


def test_the_page_of_a_comparison(made, tmp_path):
    command = f"compare --network {made}/n.yml --collective all-gather --sizes 64KiB,1MiB --output compared {QUICK}"
    assert invoke(command, tmp_path)[0] == 0
    status, out, err = invoke("report compared", tmp_path)
    assert (status, err) == (0, "") and "comparison" in out
    page = (tmp_path / "report.html").read_text()
    assert all(text in page for text in ("64 KiB", "1 MiB", "all-gather on n", "of the bound"))


def test_many_ranks_take_an_order_with_few_classes(tmp_path):
    write_network(tmp_path / "n.yml", "FullyConnected 4", "Ring 4", "Switch 1040")
    command = f"generate --output run --dp 1040 --tp 4 --pp 4 --network n.yml --layers 4 {SIZES[10:]}"
    status, out, err = invoke(command, tmp_path)
    assert (status, err) == (0, "") and "tp,pp,dp,ep" in out and "of 4 classes of ranks" in out
    assert answer("replay run", tmp_path)["ranks"] == [0, 4, 8, 12]
    status, _, err = invoke(f"{command} --order tp,dp,pp", tmp_path)
    assert status == BAD_INPUT and "classes of ranks, expected at most 1,024" in err
