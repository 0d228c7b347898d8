"""How kernels are compiled: one signature, kept on disk, made anew when anything that they use has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import astra_tacos.support.kernels
from astra_tacos.support.kernels.compiled import BOOL, F64, I64, I64_2D_OUT, I64_OUT, Layout, kernel

KERNEL = """
from typing import NamedTuple
from astra_tacos.support.kernels.compiled import I64, I64_OUT, kernel
from astra_tacos.toy._part_kernels import part
from astra_tacos.support.kernels.shared import below

class Pair(NamedTuple):
    left: I64
    right: I64_OUT

@kernel
def total(pair: Pair, factor: int):
    sum_ = 0
    for i in range(len(pair.left)):
        pair.right[i] = pair.left[i]
        sum_ += part(pair.left[i]) * factor
    return sum_

@kernel
def other(left: I64):
    return len(left)
"""
PART = """
from astra_tacos.support.kernels.compiled import helper

@helper
def part(number):
    return number + 1
"""
RUN = """
import numpy as np
from astra_tacos.support.kernels.first_use import compile_kernels, missing_kernels
from astra_tacos.toy._toy_kernels import Pair, total
{before}
is_ready = total.is_ready
print(int(total(Pair(np.arange(3), np.zeros(3, np.int64)), 10)), is_ready, total.is_kept)
"""
TOY = ("astra_tacos.toy._toy_kernels",)


class Tables(NamedTuple):
    """Two arrays and a number."""

    read: I64
    written: I64_OUT
    scale: float


@kernel
def copied(tables: Tables, other: F64, square: I64_2D_OUT, is_on: bool):
    """Sum of what is copied."""
    for i in range(len(tables.read)):
        tables.written[i] = tables.read[i]
        square[i, 0] = tables.read[i]
    return other[0] * tables.scale if is_on else 0.0


def call(read: np.ndarray, written: np.ndarray, other: np.ndarray | None = None) -> float:
    if other is None:
        other = np.ones(1)
    return float(copied(Tables(read, written, 2), other, np.empty((3, 1), np.int64), np.True_))


def test_one_signature_takes_read_only_writable_and_narrower_arrays() -> None:
    frozen = np.arange(3)
    frozen.flags.writeable = False
    for read in (np.arange(3), frozen, np.arange(3, dtype=np.int32), np.arange(6)[::2]):
        written = np.zeros(3, np.int64)
        assert call(read, written) == 2.0
        assert written.tolist() == read.tolist()
    assert len(copied._dispatcher.overloads) == 1


def test_arrays_are_annotated_as_every_numpy_has_them() -> None:
    """From NumPy 2.5 on, `NDArray` is an alias whose one argument is the entries' type."""
    alias: Any = type("Alias", (), {"__class_getitem__": classmethod(GenericAlias)})
    new = Annotated[alias[np.int64], Layout()]

    @kernel
    def total(numbers: I64, flags: BOOL) -> int:
        return numbers.sum() + flags.sum()

    total.py_func.__annotations__["numbers"] = new
    assert total(np.arange(4), np.ones(2, bool)) == 8
    with pytest.raises(TypeError, match="numbers is float64, expected int64"):
        total(np.ones(4), np.ones(2, bool))


def test_what_a_kernel_cannot_take_is_named() -> None:
    frozen = np.zeros(3, np.int64)
    frozen.flags.writeable = False
    for read, written, other, where in (
        (np.arange(3) * 1.0, np.zeros(3, np.int64), None, "copied: tables.read is float64, expected int64"),
        (np.arange(3), frozen, None, "copied: tables.written is int64, expected a writable C-contiguous array of int64"),
        (np.arange(3), np.zeros(3, np.int32), None, "copied: tables.written is int32"),
        (np.arange(3), np.zeros(6, np.int64)[::2], None, "copied: tables.written is int64"),
        (np.arange(3), np.zeros(3, np.int64), np.ones((1, 1)), "copied: other is .1, 1., expected an array of 1 dimensions"),
    ):
        with pytest.raises(TypeError, match=where):
            call(read, written, other)
    with pytest.raises(TypeError, match="copied: tables is a ndarray, expected a Tables"):
        copied(np.ones(1), np.ones(1), np.empty((1, 1), np.int64), False)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        copied(Tables(np.arange(3), np.zeros(3, np.int64), 1.0))


def test_a_kernel_returns_no_array_that_it_was_given() -> None:
    """Nothing would keep it alive."""

    @kernel
    def same(numbers: I64):
        return numbers

    with pytest.raises(TypeError, match="a kernel returns what is not its own"):
        same(np.arange(3))


class Toy:
    """A package of its own, with a copy of the shared kernels, in a process of its own."""

    def __init__(self, path: Path) -> None:
        self.package = path / "astra_tacos"
        self.environment = os.environ | {"PYTHONPATH": str(path)}
        self.environment.pop("NUMBA_CACHE_DIR", None)
        shared = Path(astra_tacos.support.kernels.__file__).parent
        shutil.copytree(shared, self.package / "support/kernels", ignore=lambda *_: ["__pycache__"])
        (self.package / "toy").mkdir()
        (self.package / "support/__init__.py").write_text("", encoding="utf-8")
        shutil.copy(shared.parent / "errors.py", self.package / "support")
        for name, text in {"__init__": "", "toy/__init__": "", "toy/_toy_kernels": KERNEL, "toy/_part_kernels": PART}.items():
            (self.package / f"{name}.py").write_text(text, encoding="utf-8")

    def run(self, before: str = "", **environment: str) -> list[str]:
        command = [sys.executable, "-P", "-c", RUN.format(before=before)]
        done = subprocess.run(command, env=self.environment | environment, capture_output=True, encoding="utf-8", check=True)
        assert done.stderr == ""
        return done.stdout.split()

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.package / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def kept(self) -> list[Path]:
        return sorted((self.package / "toy/__pycache__").glob("*.nb?"))


def test_a_change_of_a_file_that_a_kernel_uses_has_it_compiled_anew(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    assert toy.run() == ["60", "False", "True"]
    assert toy.run() == ["60", "True", "True"]
    toy.edit("toy/_part_kernels.py", "number + 1", "number + 2")
    assert toy.run() == ["90", "False", "True"]
    toy.edit("support/kernels/shared.py", "splitmix64", "Splitmix64")
    assert toy.run() == ["90", "False", "True"]
    assert toy.run() == ["90", "True", "True"]


def test_kernels_are_compiled_ahead_in_other_processes(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    ahead = f"""
missing = missing_kernels({TOY!r})
seen = []
compile_kernels(missing, lambda *done: seen.append(done))
assert seen == [(0, 2), (1, 2), (2, 2)], seen
assert [kernel.__name__ for kernel in missing] == ['total', 'other'], missing
assert not missing_kernels({TOY!r})
"""
    assert toy.run(ahead) == ["60", "True", "True"]


def test_a_call_waits_for_a_kernel_that_another_process_compiles(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    ahead = f"""
first, second = missing_kernels({TOY!r})
compile_kernels([second], later=[first])
assert second.is_ready
first.compile()
assert sum(first._dispatcher.stats.cache_hits.values()) == 1  # loaded, not compiled here
"""
    assert toy.run(ahead) == ["60", "True", "True"]


def test_what_no_process_has_begun_follows_what_is_asked_for_next(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    ahead = f"""
first, second = missing_kernels({TOY!r})
compile_kernels([], later=[first, second], processes=1)
compile_kernels([second], processes=1)
assert second.is_ready
first.compile()
assert sum(first._dispatcher.stats.cache_hits.values()) == 1
"""
    assert toy.run(ahead) == ["60", "True", "True"]


def test_a_kernel_that_cannot_be_compiled_ahead_is_left_to_its_caller(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    toy.edit("toy/_toy_kernels.py", "return len(left)", "return left.no_such_thing")
    assert toy.run(f"compile_kernels(missing_kernels({TOY!r}), processes=1)") == ["60", "True", "True"]


def test_damaged_files_count_as_missing(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    toy.run()
    for path in toy.kept():
        path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    assert toy.run()[0] == "60"
    assert toy.run() == ["60", "True", "True"]


def test_kernels_are_kept_where_the_environment_says(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "package")
    kept = tmp_path / "kept"
    assert toy.run(NUMBA_CACHE_DIR=str(kept)) == ["60", "False", "True"]
    assert not toy.kept() and list(kept.rglob("*.nbi"))
    assert toy.run(NUMBA_CACHE_DIR=str(kept)) == ["60", "True", "True"]


def test_a_package_that_nobody_may_write_uses_the_users_cache_or_none(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "package")
    # A file where the directory would be: that stops even a superuser.
    (toy.package / "toy/__pycache__").write_bytes(b"")
    home = tmp_path / "home"
    home.mkdir()
    user = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    assert toy.run(**user) == ["60", "False", "True"]
    assert toy.run(**user) == ["60", "True", "True"]
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "PYTHONDONTWRITEBYTECODE": "1"}
    assert toy.run(f"assert not missing_kernels({TOY!r})", **nowhere) == ["60", "False", "False"]


def test_another_numba_stays_as_it_is(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    toy.edit("support/kernels/numba_patches.py", "FROM, BEFORE = (0, 62), (0, 69)", "FROM, BEFORE = (0, 62), (0, 62)")
    plain = f"""
from numba.core.types.functions import BaseFunction
from numba import types
from astra_tacos.support.kernels.numba_patches import quicken
before = BaseFunction.get_call_type
quicken()
assert BaseFunction.get_call_type is before
assert type(total.signature[0]) is types.NamedTuple and type(total.signature[0][0]) is types.Array
compile_kernels(missing_kernels({TOY!r}))
"""
    assert toy.run(plain) == ["60", "True", "True"]
