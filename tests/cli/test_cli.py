"""The command line, end to end."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shlex
import subprocess

import click
import numpy as np
import pytest
from click.testing import CliRunner
from helpers.command import PROGRAM, answer, read_json, run, run_process
from helpers.examples import some_of

from astra_tacos.cli.main import COMMANDS, cli, main
from astra_tacos.cli.shared.command import _RARE, Command
from astra_tacos.support.errors import ConfigError

NETWORK = "topology: [ Ring, Switch ]\nnpus_count: [ 2, 4 ]\nbandwidth: [ 100.0, 25.0 ]\nlatency: [ 50.0, 500.0 ]\n"
RING = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
QUICK = "--synthesizer tacos --chunks-per-npu 1"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A directory with two networks and a run directory for each."""
    directory = tmp_path_factory.mktemp("cli")
    for name, text in (("net.yml", NETWORK), ("ring.yml", RING)):
        (directory / name).write_text(text)
        done = run(f"synthesize --network {name} --size 1MiB {QUICK} --output {name[:-4]}", cwd=directory)
        assert done.returncode == 0, done.stderr
    return directory


def in_process(command):
    return CliRunner().invoke(cli, command)


def test_help_names_every_command():
    text = in_process("--help").output
    for name, summary in COMMANDS.items():
        assert name in text
        assert summary in " ".join(text.split())
        assert in_process(f"{name} --help").exit_code == 0
    assert "astra-tacos, version" in in_process("--version").output


def test_help_shows_what_people_set_and_help_all_the_rest():
    rare = {option for options in _RARE.values() for option in options.split()}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if not isinstance(command, Command):
            continue
        options = {option for parameter in command.params for option in parameter.opts if isinstance(parameter, click.Option)}
        rows = re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", in_process(f"{name} --help").output, re.MULTILINE)
        assert len(rows) <= 19, (name, rows)
        full = in_process(f"{name} --help-all").output
        assert all(option in full for option in options), name
        rare -= options
    assert not rare, "options that no command has"


@pytest.mark.parametrize("name", ["pareto", "offload", "servers", "place", "endpoint", "fabric"])
def test_a_former_name_is_answered_with_the_command_that_does_it(name, tmp_path):
    done = run(f"{name} --help", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    command = done.stderr.split("`")[1].removeprefix("astra-tacos ")
    assert f"Usage: cli {command.split()[0]}" in in_process(f"{command} --help").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "compare --frontier --csv x": "--csv is an option of `compare`, not of `compare --frontier`.",
        "compare --point 1,1,1": "--point is an option of `compare --frontier`, not of `compare`.",
        "compare --frontier --offload": "Got --frontier and --offload, expected at most one of them.",
        "plan --only-place --schedule": "--schedule is an option of `plan`, not of `plan --only-place`.",
    }.items(),
)
def test_options_of_another_mode_are_refused(arguments, message, tmp_path):
    done = run(arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"astra-tacos: error: {message}\n")


def test_synthesize_prints_the_answer_in_one_screen(workspace):
    size = "--collective all-gather --size 64KiB"
    done = run(f"synthesize --network net.yml {size} --budget 100k", cwd=workspace)
    lines = done.stdout.splitlines()
    assert len(lines) <= 14 and max(map(len, lines)) <= 100
    assert lines[0] == "all-gather of 64 KiB on net: Ring 2 x Switch 4, 8 NPUs"
    labels = [line[2:].split("  ")[0] for line in lines[2:] if line.startswith("  ") and line[2] != " "]
    assert labels == ["time", "algorithm", "bus bandwidth", "best native", "at least", "prints", "files"]
    assert ", verified" in lines[2] and "--output DIR" in done.stdout


def test_synthesize_prints_the_certificate(workspace):
    size = "--collective all-gather --size 64KiB"
    done = run(f"synthesize --network net.yml {size} --budget 100k --verbose", cwd=workspace)
    assert done.returncode == 0
    assert done.stderr == ""
    for label in (
        "Ring 2 x Switch 4",
        "truncated",
        "bound (any algorithm)",
        "bound (these chunks)",
        "efficiency",
        "bus bandwidth",
        "busiest link",
        "idlest link",
    ):
        assert label in done.stdout
    assert "verified" in done.stdout
    assert "--output DIR" in done.stdout


def test_the_certificate_says_which_cut_binds(workspace):
    text = NETWORK.replace("25.0", "5.0")
    (workspace / "slow.yml").write_text(text)
    common = "--network slow.yml --collective all-gather --size 1MiB --chunks-per-npu 8"
    result = answer(f"synthesize {common} --output slow", workspace)
    assert (result["bound"], result["bound_where"]) == ("cut", "2 NPUs behind 2 links, 10 GiB/s")
    assert result["bound_npus"] == [0, 1]
    assert result["bound_links"] == ["switch 8 -> 0", "switch 9 -> 1"]
    assert result["bounds_ns"]["cut"] == result["bound_ns"] == max(result["bounds_ns"].values())
    assert "2 NPUs behind 2 links" in run("inspect slow --verbose", cwd=workspace).stdout


def test_synthesize_as_json_is_one_object(workspace):
    result = answer("synthesize --network ring.yml --size 1GB --seed 7 --output j", workspace)
    assert result["num_npus"] == 4
    assert result["collective"] == "all-reduce"
    assert result["size_bytes"] == 10**9
    assert result["efficiency"] == result["bound_ns"] / result["time_ns"] > 0.9
    assert result["bound_ns"] == result["bounds_ns"][result["bound"]]
    assert result["optimal"] == (result["time_ns"] - result["bound_ns"] <= 1)
    assert result["chunked_bound_ns"] <= result["predicted_ns"]
    assert {"bound", "num_sends", "seed", "synthesizer", "output", "link_model"} <= set(result)
    assert result["output"] == "j"
    stored = read_json(workspace / "j/result.json")
    assert stored.items() <= result.items()


def test_the_same_command_gives_the_same_bytes(workspace):
    """On another number of threads, in a process that has another order of sets."""
    for name, threads, start in (("one", "1", run), ("two", "2", run_process)):
        done = start(
            f"synthesize --network net.yml --size 1MiB --budget 100k --threads {threads} --output {name}",
            cwd=workspace,
        )
        assert done.returncode == 0, done.stderr
    files = [path for path in (workspace / "one").rglob("*") if path.is_file()]
    assert len(files) == 8 + 8 + 7
    for path in files:
        assert path.read_bytes() == (workspace / "two" / path.relative_to(workspace / "one")).read_bytes()


@pytest.mark.parametrize(
    ("status", "arguments"),
    {
        0: f"synthesize --network ring.yml --size 64KiB {QUICK}",
        1: "verify net/collective/all_reduce --network ring.yml --json",
        2: "synthesize --network none.yml --size 1MiB",
    }.items(),
)
def test_a_process_leaves_with_what_the_other_tests_see(workspace, status, arguments):
    alone, here = run_process(f"{arguments}", cwd=workspace), run(arguments, cwd=workspace)
    assert (alone.returncode, alone.stdout, alone.stderr) == (status, here.stdout, here.stderr)
    assert here.returncode == status


def test_a_search_says_when_the_wall_clock_cut_it_off(workspace):
    command = "synthesize --network net.yml --size 1MiB --synthesizer tacos --trials 5 --time-limit 1e-9"
    found = answer(command, workspace)["search"]
    assert (found["candidates_tried"], found["cut_off_by_time_limit"], found["cut_off_by_budget"]) == (1, True, False)
    assert "by --time-limit: the result depends on the machine" in run(command, cwd=workspace).stdout
    done = run(f"{command} --time-limit 0", cwd=workspace)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("time limit: found 0.0, expected more than 0 s")


@pytest.mark.parametrize("collective", some_of(["broadcast", "reduce"], 1))
def test_a_root_all_the_way_from_the_option_to_a_run(workspace, collective):
    """The workload of All-Reduce nodes runs the rooted collective's traces, and takes the predicted time."""
    common = f"--network ring.yml --collective {collective} --chunks-per-npu 4 --link-model blocking"
    result = answer(f"synthesize {common} --size 1MiB --root 2 --output {collective}", workspace)
    assert (result["root"], result["num_chunks"], result["num_sends"]) == (2, 4, 12)
    printed = run(f"inspect {collective}", cwd=workspace).stdout
    assert "from NPU 2" in printed
    verdict = answer(f"verify {collective}", workspace)
    assert verdict["ok"] and len(verdict["checked"]) == 2
    files = f"--workload workload/{collective} --system system.json --network network.yml"
    outcome = answer(f"replay {files} --backend congestion-aware", workspace / collective)
    assert outcome["end_ns"] == result["predicted_ns"]
    assert [finding for finding in outcome["findings"] if finding["severity"] == "error"] == []


@pytest.mark.parametrize("target", ["net", "net/schedule.npz", "net/collective/all_reduce", "net/all_reduce.xml"])
def test_verify_passes_all_that_was_written(workspace, target):
    done = run(f"verify {target} --json", cwd=workspace)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["ok"] is True
    assert result["violations"] == []
    assert len(result["checked"]) == (3 if target == "net" else 1)
    options = "" if target.endswith(".npz") else "--network net.yml"
    assert "ok: all-reduce on 8 NPUs" in run(f"verify {target} {options}", cwd=workspace).stdout


def test_verify_never_calls_ok_what_it_could_not_check(workspace):
    steps = "".join(
        f'<gpu id="{npu}" i_chunks="0" o_chunks="2" s_chunks="0"><tb id="0" send="{1 - npu}" recv="{1 - npu}" chan="0">'
        + "".join(
            f'<step s="{s}" type="{kind}" srcbuf="o" srcoff="{at}" dstbuf="o" dstoff="{at}" cnt="1" '
            'depid="-1" deps="-1" hasdep="0"/>'
            for s, (kind, at) in enumerate((("s", npu), ("r", 1 - npu)))
        )
        + "</tb></gpu>"
        for npu in range(2)
    )
    algo = '<algo name="a" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="custom" inplace="1">'
    text = f"{algo}{steps}</algo>"
    (workspace / "custom.xml").write_text(text)
    done = run("verify custom.xml", cwd=workspace)
    assert done.returncode == 1 and "custom.xml: not proven: no known collective on 2 NPUs, 2 messages" in done.stdout
    assert "result not checked: the file does not say what a custom collective has to compute" in done.stdout
    result = answer("verify custom.xml", workspace, 1)
    assert not result["ok"] and not result["checked"][0]["proven"] and result["violations"] == []
    named = run("verify custom.xml --collective all-gather", cwd=workspace)
    assert named.returncode == 0 and "custom.xml: ok: all-gather on 2 NPUs" in named.stdout
    (workspace / "gather.xml").write_text(text.replace('coll="custom"', 'coll="allgather"'))
    assert run("verify gather.xml", cwd=workspace).returncode == 0
    for name, proven in (("custom.xml", False), ("gather.xml", True)):
        shown = answer(f"inspect {name}", workspace)
        assert shown["proven"] is proven and shown["steps"] == {"s": 2, "r": 2} and shown["copies"] == 0


def test_verify_lists_violations_and_leaves_with_1(workspace):
    arrays = dict(np.load(workspace / "ring/schedule.npz"))
    arrays["start_ns"][3] += 1
    np.savez(workspace / "bad.npz", **arrays)
    done = run("verify bad.npz", cwd=workspace)
    assert done.returncode == 1
    assert "violations" in done.stdout
    assert "wrong-delay: send 3" in done.stdout
    result = answer("verify bad.npz", workspace, 1)
    assert result["ok"] is False
    assert {violation["send"] for violation in result["violations"]} >= {3}
    wrong = run("verify net/collective/all_reduce --collective all-gather", cwd=workspace)
    assert wrong.returncode == 1
    elsewhere = run("verify net/collective/all_reduce --network ring.yml", cwd=workspace)
    assert elsewhere.returncode == 1
    assert run("verify ring/schedule.npz --collective all-gather", cwd=workspace).returncode == 1
    assert run("replay bad.npz", cwd=workspace).returncode == 0  # the shifted send fits: only its start was wrong
    arrays["end_ns"] += 1
    np.savez(workspace / "late.npz", **arrays)
    late = run("replay late.npz", cwd=workspace)
    assert late.returncode == 1
    assert "the prediction is" in late.stdout


@pytest.mark.parametrize("arguments", ["ring", "ring/schedule.npz", "ring/collective/all_reduce --network ring/network.yml"])
def test_replay_agrees_with_the_prediction(workspace, arguments):
    predicted = read_json(workspace / "ring/result.json")["predicted_ns"]
    result = answer(f"replay {arguments}", workspace)
    assert len(result["finish_ns"]) == 4
    assert predicted <= max(result["finish_ns"]) <= predicted * 1.001 + 10
    assert "collective time" in run(f"replay {arguments}", cwd=workspace).stdout


@pytest.mark.parametrize(
    ("target", "expected"),
    {
        "net.yml": "Ring 2 x Switch 4",
        "net": "predicted ns",
        "net/schedule.npz": "num sends",
        "net/collective/all_reduce": "COMM_SEND",
        "net/workload/all_reduce": "COMM_COLL: 8",
        "net/all_reduce.xml": "all-reduce",
    }.items(),
)
def test_inspect(workspace, target, expected):
    done = run(f"inspect {target} --verbose", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert answer(f"inspect {target}", workspace)["path"] == target


BAD = {
    "synthesize --network none.yml --size 1MiB": "none.yml: cannot be read",
    "synthesize --network net.yml --size lots": "size: found 'lots', expected bytes such as",
    "synthesize --network net.yml": "Missing option '--size'",
    "synthesize --network net.yml --size 1MiB --reduce-bandwidth nan": "reduce bandwidth: found nan",
    "synthesize --network net.yml --size 1MiB --output precious": "choose another output",
    "synthesize --network ring.yml --size 64 --chunks-per-npu 8 --synthesizer ring": "less than 1 ns",
    "synthesize --network net.yml --size 1MiB --root 1": "--root is for broadcast, gather, reduce, scatter",
    "verify none": "no such file or trace prefix",
    "verify ring/schedule.npz --network ring.yml": "--network is for traces and XML",
    "replay ring --backend congestion-aware": "--network and --backend are for traces",
    "replay precious/rows.npz": "channel 9999, expected 0 to 7",
    "verify precious/text.txt": "not recognised",
    "replay ring/all_reduce.xml": "a MSCCL XML, expected",
    "replay ring/collective/all_reduce --network net.yml": "traces of 4 ranks, but net.yml has 8 NPUs",
    "inspect precious/no.npz": "not a schedule of astra_tacos",
    "fly": "No such command 'fly': astra-tacos --help lists them",
    "synthesise": "No such command 'synthesise': did you mean synthesize?",
    "synthesize --network net.yml --size 64M": "found '64M', expected 64MiB (1024s) or 64MB (1000s)",
    "synthesize --network net.yml --collective allreduce": "did you mean all-reduce? 'allreduce' is not one of",
    "synthesize --network net.yml --synthesizer taco": "did you mean tacos? 'taco' is not one of",
}


@pytest.mark.parametrize(("arguments", "expected"), BAD.items())
def test_bad_input_is_one_line_and_exit_2(workspace, arguments, expected):
    precious = workspace / "precious"
    precious.mkdir(exist_ok=True)
    (precious / "text.txt").write_text("mine")
    (precious / "no.npz").write_text("mine")
    arrays = dict(np.load(workspace / "ring/schedule.npz"))
    arrays["channel"][2] = 9999
    np.savez(precious / "rows.npz", **arrays)
    before = sorted(workspace.rglob("*"))
    done = run(arguments, cwd=workspace)
    assert done.returncode == 2
    assert done.stdout == ""
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(workspace.rglob("*")) == before


def test_a_reader_that_stops_is_no_error(workspace):
    command = f"{shlex.join(PROGRAM)} inspect net.yml | head -c 1"
    done = subprocess.run(command, shell=True, cwd=workspace, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_network_of_astra_sim(astra_sim_inputs, tmp_path):
    collectives = itertools.cycle(("all-reduce", "all-gather", "reduce-scatter"))
    for network, collective in zip(sorted((astra_sim_inputs / "network").glob("*.yml")), collectives, strict=False):
        output = tmp_path / network.stem / collective
        common = f"--network {network} --collective {collective} --size 1MiB {QUICK} --trials 1"
        done = in_process(f"synthesize {common} --output {output} --json")
        if network.name == "dgx_v100_8gpu.yml":
            assert isinstance(done.exception, ConfigError)
            assert not output.exists()
            continue
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["verified"] is True
        assert in_process(f"verify {output}").exit_code == 0


def test_a_network_whose_name_is_not_utf8(tmp_path):
    """Its bytes are escapes in what is written, which is then read as any other."""
    name = os.fsdecode(b"n\xff.yml")
    (tmp_path / name).write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n")
    arguments = "--size 64KiB --synthesizer ring --output out"
    assert run(f"synthesize --network {name} {arguments}", cwd=tmp_path).returncode == 0
    assert read_json(tmp_path / "out/result.json")["network"] == r"n\xff"
    for command in ("verify out", "replay out", "inspect out", "report out --output r.html"):
        done = run(command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size, column", [("64MiB", "end_ns"), ("64MiB --collective all-gather --synthesizer ring", "channel")])
def test_inspect_gives_no_figures_of_a_schedule_that_is_not_legal(tmp_path, size, column):
    (tmp_path / "n.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n")
    assert run(f"synthesize --network n.yml --size {size} --output out", cwd=tmp_path).returncode == 0
    arrays = dict(np.load(tmp_path / "out/schedule.npz"))
    arrays[column] = np.append(arrays[column][:-1], 0).astype(arrays[column].dtype)
    np.savez(tmp_path / "bad.npz", **arrays)
    done = run("inspect bad.npz", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and " violations, the first: " in done.stderr


def test_without_arguments_help_that_nobody_reads_is_no_crash(tmp_path):
    done = subprocess.run(f"{shlex.join(PROGRAM)} >/dev/full", shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "standard output: No space left on device" in done.stderr and "Traceback" not in done.stderr


def test_a_current_directory_that_was_removed_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), pytest.raises(SystemExit) as left:
        main(["network", "leaf-spine", "--output", "out"])
    assert left.value.code == 2
    assert printed.getvalue() == "astra-tacos: error: the current directory does not exist any more: change to another one\n"
