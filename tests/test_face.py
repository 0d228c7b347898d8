"""Python as a researcher uses it: a path, a name and a text for a size; results that show themselves; own synthesizers."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from helpers.command import run as command

import astra_tacos as at
from astra_tacos.cli.main import cli
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions

NETWORK = Path(__file__).parents[1] / "configs/network/torus_4x4.yml"
PLUGIN = """
from astra_tacos import SYNTHESIZERS, register_synthesizer

@register_synthesizer("mine", collectives=["all-gather"])
def mine(problem):
    return SYNTHESIZERS["ring"].make(problem, 0)
"""


@pytest.fixture(autouse=True)
def _registry():
    before = dict(SYNTHESIZERS)
    yield
    SYNTHESIZERS.clear()
    SYNTHESIZERS.update(before)


def test_a_path_a_name_and_a_text_are_a_request(tmp_path):
    solution = at.solve(NETWORK, "all-reduce", "64KiB", effort="quick", backend="congestion-aware")
    options = SearchOptions(effort="quick", chunks_per_npu="auto")
    same = at.solve(at.Request(at.read_network(NETWORK), "all-reduce", 1 << 16, options=options))
    assert solution.time_ns == same.time_ns and solution.bound_ns <= solution.time_ns <= solution.best_native_ns
    assert solution.efficiency == pytest.approx(solution.bound_ns / solution.time_ns, abs=1e-3)
    assert "ring" in solution.best_native or "direct" in solution.best_native
    assert len(repr(solution)) <= 300 and "all-reduce of 64 KiB" in repr(solution)
    assert "all-reduce of 64 KiB" in solution._repr_html_()
    assert solution.plot().figure is not None
    assert b"all-reduce" in solution.report(tmp_path / "page.html").read_bytes().lower()
    assert len(solution.schedule.to_pandas()) == solution.schedule.num_sends


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        (("no.yml", "all-reduce", "1MiB"), {}, "no.yml: .*"),
        ((NETWORK,), {}, "collective: found None"),
        ((NETWORK, "all-reduce", "1 mile"), {}, "size: "),
        ((NETWORK, "all-reduce", "1MiB"), {"effor": "quick"}, "effor: no such field of a request, expected one of"),
        ((NETWORK, "broadcast", "1MiB"), {"root": 1.5}, "root is 1.5, expected a whole number or None"),
        ((NETWORK, "broadcast", "1MiB"), {"root": True}, "root is True"),
        ((NETWORK, "broadcast", "1MiB"), {"helpers": "ab"}, "helpers is 'ab'"),
        ((NETWORK, "broadcast", "1MiB"), {"checks": "no"}, "checks is 'no'"),
        ((NETWORK, "broadcast", "1MiB"), {"sketch": 3}, "sketch is 3"),
        ((NETWORK, "broadcast", "1MiB"), {"in_flight": "x"}, "in_flight is 'x'"),
        ((NETWORK, "broadcast", "1MiB"), {"budget": "much"}, "budget: found 'much'"),
        ((NETWORK, "all-reduce", "1MiB"), {"seed": 1, "options": SearchOptions()}, "options, seed: found both"),
    ],
)
def test_a_wrong_request_is_one_line(arguments, more, message):
    with pytest.raises(at.ConfigError, match=message) as error:
        at.solve(*arguments, **more)
    assert "\n" not in str(error.value)


def test_compare_gives_a_table():
    compared = at.compare(NETWORK, "all-gather", ["64KiB", 1 << 20], ["ring", "direct"])
    assert {row.synthesizer for row in compared.by_task} == {"ring", "direct", "native"}
    assert list(compared.to_pandas()["size bytes"]) == [1 << 16, 1 << 20]


def test_a_synthesizer_of_ones_own_is_compared_and_solves():
    @at.register_synthesizer("mine", collectives=["all-gather"])
    def mine(problem):
        return SYNTHESIZERS["direct"].make(problem, 0)

    compared = at.compare(NETWORK, "all-gather", ["64KiB"], ["mine", "direct"])
    times = {row.synthesizer: row.time_ns for row in compared.by_task}
    assert times["mine"] == times["direct"]
    assert at.solve(NETWORK, "all-gather", "64KiB", synthesizer="mine").time_ns == times["direct"]


@pytest.mark.parametrize(
    ("name", "collectives", "make", "message"),
    [
        (
            "mine",
            ["all-gather"],
            lambda seed, problem: None,
            r"mine: a function of \(seed, problem\), expected one of \(problem\)",
        ),
        ("ring", ["all-gather"], lambda problem: None, "'ring' is taken"),
        ("Mine!", ["all-gather"], lambda problem: None, "name: found 'Mine!'"),
        ("mine", ["gather-all"], lambda problem: None, "collectives: found 'gather-all'"),
        ("mine", "all-gather", lambda problem: None, "collectives: found 'all-gather', expected a list"),
    ],
)
def test_what_is_registered_is_checked(name, collectives, make, message):
    with pytest.raises(at.ConfigError, match=message):
        at.register_synthesizer(name, collectives)(make)


def test_what_is_no_schedule_is_refused():
    at.register_synthesizer("mine", ["all-gather"])(lambda problem: None)
    with pytest.raises(at.SynthesisError, match="mine: returned NoneType, expected a Schedule"):
        at.solve(NETWORK, "all-gather", "64KiB", synthesizer="mine")


def test_the_command_line_takes_a_plugin(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    done = command(
        *("--plugin", "mine.py", "compare", "--network", str(NETWORK), "--collective", "all-gather", "--sizes", "64KiB"),
        *("--synthesizers", "mine,ring"),
        cwd=tmp_path,
    )
    assert done.returncode == 0 and "mine" in done.stdout
    for text, message in (("import nothing_like_it", "mine.py:1: ModuleNotFoundError"), (None, "mine.py: no such file")):
        (tmp_path / "mine.py").unlink() if text is None else (tmp_path / "mine.py").write_text(text)
        done = command("--plugin", "mine.py", "compare", cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith(f"astra-tacos: error: {message}")
        assert done.stderr.count("\n") == 1


def test_a_sweep_takes_a_plugin_and_computes_anew_what_a_changed_plugin_makes(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    point = f"{{network: {NETWORK}, collective: all-gather, size: 64KiB, synthesizer: mine, chunks_per_npu: 1}}"
    (tmp_path / "sweep.yml").write_text(f"point: {point}")
    arguments = ("--plugin", "mine.py", "sweep", "sweep.yml", "--output", "out", "--json")

    def swept():
        SYNTHESIZERS.pop("mine", None)  # as a new process would begin
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first, again = swept(), swept()
    assert first["statuses"] == {"ok": 1} and (first["reused"], again["reused"]) == (0, 1)
    (tmp_path / "mine.py").write_text(PLUGIN.replace('"ring"', '"direct"'))
    changed = swept()
    assert changed["reused"] == 0
    assert changed["best_time"][0]["time_ns"] != first["best_time"][0]["time_ns"]


def test_what_a_synthesizer_of_ones_own_raises_is_one_line_with_its_place():
    @at.register_synthesizer("mine", ["all-gather"])
    def mine(problem):
        raise ValueError("no idea")

    with pytest.raises(at.SynthesisError, match=r"mine: ValueError: no idea \(test_face\.py:\d+\)"):
        at.solve(NETWORK, "all-gather", "64KiB", synthesizer="mine")
    compared = at.compare(NETWORK, "all-gather", "64KiB", ["mine", "ring"])
    assert "mine" in " ".join(compared.to_pandas().columns)


def test_a_changed_synthesizer_of_ones_own_finds_no_schedule_of_before(tmp_path):
    request = at.PlanRequest(
        at.RunInputs.in_folder(Path("configs/workload/transformer_16").absolute(), "w", None), cache=tmp_path / "cache"
    )
    request = replace(
        request, inputs=replace(request.inputs, network=NETWORK), options=SearchOptions(effort="quick", chunks_per_npu="auto")
    )
    at.register_synthesizer("mine", ["all-gather"], in_auto=True)(lambda problem: SYNTHESIZERS["ring"].make(problem, 0))
    at.plan(request)
    assert not list(tmp_path.rglob("*.npz"))
    del SYNTHESIZERS["mine"]
    at.plan(request)
    assert list(tmp_path.rglob("*.npz"))


def test_sends_that_do_not_exist_are_refused_before_any_kernel_sees_them():
    @at.register_synthesizer("mine", ["all-gather"])
    def mine(problem):
        chunk = np.zeros(1, np.int32)
        return at.dispatch(problem, at.SendGraph(chunk, chunk - 1, chunk > 0, chunk), "mine")

    with pytest.raises(at.SynthesisError, match="mine: send 0 has the channel -1, expected 0 to 63"):
        at.solve(NETWORK, "all-gather", "64KiB", synthesizer="mine")


def test_an_illegal_schedule_of_ones_own_is_a_row_of_the_comparison():
    @at.register_synthesizer("mine", ["all-gather"])
    def mine(problem):
        made = SYNTHESIZERS["ring"].make(problem, 0)
        return replace(made, **{name: getattr(made, name)[:-1] for name in ("chunk", "channel", "reduces", "start_ns", "end_ns")})

    compared = at.compare(NETWORK, "all-gather", ["64KiB"], ["mine", "ring"])
    refusals = {row.synthesizer: row.refusal for row in compared.by_task}
    assert "illegal" in refusals["mine"] and not refusals["ring"]


def test_a_schedule_has_the_name_of_its_synthesizer():
    at.register_synthesizer("mine", ["all-gather"])(lambda problem: SYNTHESIZERS["ring"].make(problem, 0))
    assert at.solve(NETWORK, "all-gather", "64KiB", synthesizer="mine").schedule.synthesizer == "mine"


def test_a_program_starts_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "astra_tacos", "--version"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert done.stdout.startswith("astra-tacos, version")


def other_network(problem):
    fast = at.build_topology(at.NetworkConfig("fast", (at.Dimension("Ring", 16, 5000.0, 1.0),)))
    return SYNTHESIZERS["ring"].make(at.Problem.of(fast, problem.collective, problem.timing.link_model), 0)


def other_collective(problem):
    gather = at.all_gather(problem.topology.num_npus, problem.collective.size_bytes)
    return SYNTHESIZERS["ring"].make(problem.on(problem.topology, gather), 0)


def other_size(problem):
    small = at.all_reduce(problem.topology.num_npus, 4096)
    return SYNTHESIZERS["ring"].make(problem.on(problem.topology, small), 0)


def wrong_channel(problem):
    made = SYNTHESIZERS["ring"].make(problem, 0)
    return replace(made, channel=made.channel + np.int32(999))


def ends(problem):
    sys.exit(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (other_network, "returned a schedule of another network, expected the links of torus_4x4"),
        (other_collective, "another collective: its name is all-gather, expected all-reduce"),
        (other_size, r"another collective: its size_bytes is 4096, expected 1048576"),
        (wrong_channel, "a wrong channel, expected whole numbers from 0 to 63"),
        (ends, "SystemExit: 0"),
    ],
)
def test_a_schedule_of_another_problem_is_no_answer(make, message):
    """The oracle takes the network, the collective and the delays from the schedule: it would prove another one."""
    at.register_synthesizer("mine", ["all-reduce"])(make)
    with pytest.raises(at.SynthesisError, match=message):
        at.solve(NETWORK, "all-reduce", "1MiB", synthesizer="mine")
    compared = at.compare(NETWORK, "all-reduce", ["1MiB"], ["mine", "ring"])
    row = next(row for row in compared.by_task if row.synthesizer == "mine")
    assert row.time_ns is None


@pytest.mark.parametrize(
    ("collective", "sizes", "more", "message"),
    [
        ("nope", ["4KiB"], {}, "collective: found 'nope'"),
        ("all-reduce", [0], {}, "sizes: found 0"),
        ("all-reduce", [True], {}, "sizes: found True"),
        ("all-reduce", [], {}, "sizes: found none"),
        ("broadcast", ["4KiB"], {"root": 99}, "root 99"),
        ("all-reduce", ["4KiB"], {"synthesizer": "ring"}, "synthesizer: found synthesizer and synthesizers"),
    ],
)
def test_a_wrong_comparison_is_one_line(collective, sizes, more, message):
    with pytest.raises(at.ConfigError, match=message):
        at.compare(NETWORK, collective, sizes, ["ring"], **more)


@pytest.mark.parametrize("name", ["optimize", "sweep", "calibrate", "report"])
def test_a_command_and_its_function_have_the_same_defaults(name):
    command = cli.get_command(click.Context(cli), name)
    parameters = inspect.signature(getattr(at, name)).parameters
    compared = 0
    for option in command.params:
        if option.name not in parameters or not isinstance(option.default, int | float | str) or isinstance(option.default, bool):
            continue
        default = parameters[option.name].default
        compared += 1
        assert default in (option.default, None), option.name  # None where the default is only that of some kinds
    assert compared or name in ("sweep", "calibrate")


def test_a_plan_that_is_not_written_yet_writes_the_same(tmp_path):
    planned = at.plan("configs/workload/transformer_16", network=NETWORK)
    at.plan("configs/workload/transformer_16", tmp_path / "at_once", network=NETWORK)
    assert not list(tmp_path.glob("later")) and planned.write(tmp_path / "later") == tmp_path / "later"
    files = [sorted(path.relative_to(folder) for path in folder.rglob("*")) for folder in sorted(tmp_path.iterdir())]
    assert files[0] == files[1]
    same = [name for name in files[0] if (tmp_path / "later" / name).is_file() and name.suffix != ".npz"]
    assert all((tmp_path / "later" / name).read_bytes() == (tmp_path / "at_once" / name).read_bytes() for name in same)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: at.optimize("configs/workload/transformer_16"), r"expected network.yml with it: network='N.yml'"),
        (lambda: at.optimize("configs/workload/transformer_16", NETWORK, refine="often"), "refine: found 'often'"),
        (lambda: at.optimize("configs/workload/transformer_16", NETWORK, backend="congestion-aware"), "backend: is only for"),
        (lambda: at.calibrate([]), "files: found none"),
        (lambda: at.calibrate(["none.log"], place="between"), "place: found 'between'"),
        (lambda: at.sweep("none.yml", "out"), "none.yml: "),
        (lambda: at.sweep("none.yml", "out", timeout=-1.0), "timeout: found -1.0"),
        (lambda: at.report(NETWORK, "x.gif"), "x.gif: expected a name that ends in .html"),
        (lambda: at.report(NETWORK, "x.svg", title="t"), "title: is for pages, and x.svg is a figure"),
        (lambda: at.report(NETWORK, "x.svg", kind="cake"), "kind: found 'cake'"),
        (lambda: at.plan("configs/workload/transformer_16"), "network='N.yml'"),
    ],
)
def test_a_wrong_study_is_one_line_and_leaves_nothing(call, message, tmp_path, monkeypatch):
    (tmp_path / "configs").symlink_to(NETWORK.parents[1])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(at.ConfigError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["configs"]


def test_everything_shows_itself_in_a_line():
    inputs = replace(at.RunInputs.in_folder(NETWORK.parents[1] / "workload/transformer_16", "w"), network=NETWORK)
    run, solution = at.read_run(inputs), at.solve(NETWORK, "all-gather", "64KiB", synthesizer="direct")
    schedule = solution.schedule
    shown = [solution, schedule, *schedule.problem, solution.search, at.replay(schedule), run, run.workload, run.network]
    shown += [at.replay_run(run), at.lint(inputs), at.optimize("configs/workload/transformer_16", NETWORK)]
    shown += [
        at.plan("configs/workload/transformer_16", network=NETWORK).result,
        at.read_network("configs/network/dgx1_cube_mesh.yml"),
    ]
    for each in shown:
        assert len(repr(each)) <= 300 and "\n" not in repr(each), type(each).__name__
    assert "direct" in solution.best_native and ";" not in solution.best_native.partition("(")[0]
