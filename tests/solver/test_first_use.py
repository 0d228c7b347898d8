"""Commands name the kernels that they call, so that these are compiled ahead."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from helpers.command import run, run_process

from astra_tacos.solver import first_use
from astra_tacos.support.kernels import first_use as compiling
from astra_tacos.support.kernels.compiled import Kernel
from astra_tacos.support.kernels.first_use import kernels_of

CONFIGS = Path(__file__).parents[2] / "configs"
WORKLOAD = CONFIGS / "workload" / "transformer_16"
NETWORK = str(CONFIGS / "network" / "hetero_3d_16npus.yml")
RUN = (
    *("--workload", str(WORKLOAD / "workload" / "w"), "--system", str(WORKLOAD / "system.json")),
    *("--comm-group", str(WORKLOAD / "comm_group.json"), "--network", NETWORK),
)
SYNTHESIS = ("synthesize", "--network", NETWORK, "--size", "1MiB", "--chunks-per-npu", "1", "--output", "run")
COMMANDS = {
    "all-reduce": [SYNTHESIS, ("verify", "run"), ("replay", "run")],
    "all-to-all": [(*SYNTHESIS, "--collective", "all-to-all")],
    "lint": [("lint", *RUN)],
    "replay": [("replay", *RUN)],
    "plan": [("plan", *RUN, "--baseline", "ring", "--no-cache", "--synthesizer", "tacos", "--output", "planned")],
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_names_all_kernels_before_it_calls_them(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called, named, early = set(), set(), set()
    call, ahead = Kernel.__call__, compiling.missing_kernels

    def note_call(kernel: Kernel, *arguments: object) -> object:
        called.add(kernel.name)
        early.update({kernel.name} - named)
        return call(kernel, *arguments)

    def note_names(modules: list[str]) -> list[Kernel]:
        named.update(kernel.name for kernel in kernels_of(modules))
        return ahead(modules)

    monkeypatch.setattr(Kernel, "__call__", note_call)
    monkeypatch.setattr(compiling, "missing_kernels", note_names)
    for command in COMMANDS[case]:
        for names in (called, named, early):
            names.clear()
        done = run(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert called and not early, early


def test_a_switched_off_compiler_is_one_line(tmp_path: Path) -> None:
    done = run_process(*SYNTHESIS, cwd=tmp_path, NUMBA_DISABLE_JIT="1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("astra-tacos: error: NUMBA_DISABLE_JIT: found 1, expected 0 or nothing")
    assert list(tmp_path.iterdir()) == []


def test_all_names_are_those_of_modules_of_kernels() -> None:
    for name, value in vars(first_use).items():
        if name.isupper() and isinstance(value, tuple):
            for module in value:
                assert kernels_of([module]), module


def test_what_is_missing_is_compiled_with_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, compiled = [], []
    missing, following = kernels_of(first_use.WRITING), kernels_of(first_use.CHECKING)
    known = {first_use.WRITING: missing, first_use.CHECKING: following}
    monkeypatch.setattr(compiling, "missing_kernels", lambda names: known.get(tuple(names), []))
    monkeypatch.setattr(compiling, "compile_kernels", lambda kernels, report=None, later=(): compiled.append((kernels, later)))
    ahead = partial(first_use.compile_ahead, progress=lambda text: lines.append(text) or _NoProgress())
    ahead(*first_use.READING)
    assert not lines and not compiled
    ahead(*first_use.WRITING)
    assert lines == ["compiling kernels, first use only"] and compiled == [(missing, [])]
    ahead(*first_use.WRITING, later=first_use.CHECKING)
    ahead(*first_use.READING, later=first_use.CHECKING)
    assert len(lines) == 2 and compiled[1:] == [(missing, following), ([], following)]


class _NoProgress:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
