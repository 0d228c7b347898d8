"""Which small faults the tests of a room find: seeded mutants of its code, each against `tests/ROOM`.

    python tests/helpers/mutants.py [--count 100] [--seed 0] [--room NAME] [--output FILE]

A mutant changes one operator, comparison, constant or condition outside kernels, in a copy of the checkout. One that the tests of
its room let pass is dead code, a rule that no test needs, or a missing test: each is printed as `file:line: before -> after`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "astra_tacos"
LONGEST_S = 600
"""A mutant that makes its tests take longer counts as killed."""
_PASSED = (0, 5)
"""What pytest returns if all tests passed, or there are none; `-x` on several processes returns failures as interruptions."""
_BINARY = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//")}
_COMPARED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_JOINED = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the text from one place to another becomes a different one."""

    file: str
    line: int
    start: int
    stop: int
    before: str
    after: str

    @property
    def room(self) -> str:
        return self.file.split("/")[1]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"


def mutants_of(file: Path) -> Iterator[Mutant]:
    """All mutants of a module; docstrings and annotations stay."""
    text = file.read_text(encoding="utf-8")
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line.encode()))
    content = text.encode()

    def at(line: int, column: int) -> int:
        return begins[line - 1] + column

    def between(left: ast.expr, right: ast.expr, signs: tuple[str, str]) -> Iterator[Mutant]:
        first, last = at(left.end_lineno or 0, left.end_col_offset or 0), at(right.lineno, right.col_offset)
        place = content[first:last].find(signs[0].encode())
        if place >= 0:
            yield made(left.end_lineno or 0, first + place, first + place + len(signs[0]), signs[1])

    def made(line: int, start: int, stop: int, after: str) -> Mutant:
        return Mutant(file.relative_to(ROOT).as_posix(), line, start, stop, content[start:stop].decode(), after)

    for node in _code(ast.parse(text)):
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            yield from between(node.left, node.right, _BINARY[type(node.op)])
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            yield from between(node.left, node.comparators[0], _COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], _JOINED[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = at(node.lineno, node.col_offset)
            yield made(node.lineno, start, start + len("not "), "")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            start, stop = at(node.lineno, node.col_offset), at(node.end_lineno or 0, node.end_col_offset or 0)
            yield made(node.lineno, start, stop, str(not node.value) if isinstance(node.value, bool) else f"{node.value + 1}")


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run: no annotations."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                yield child
                yield from _code(child)


def drawn(count: int, seed: int, room: str | None) -> list[Mutant]:
    """Mutants of code outside kernels, each equally likely."""
    files = [path for path in sorted((ROOT / PACKAGE).rglob("*.py")) if not path.stem.endswith(("_kernels", "_pb2"))]
    files = [path for path in files if "kernels" not in path.parts and path.parent.name != PACKAGE]
    every = [mutant for path in files for mutant in mutants_of(path) if room in (None, mutant.room)]
    return random.Random(seed).sample(every, min(count, len(every)))


def survives(mutant: Mutant, copy: Path, workers: str) -> bool:
    """Whether all tests of its room pass, or it has none."""
    path = copy / mutant.file
    kept, stamp = path.read_bytes(), path.stat()
    path.write_bytes(kept[: mutant.start] + mutant.after.encode() + kept[mutant.stop :])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", workers, "-p", "no:cacheprovider", f"tests/{mutant.room}"]
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(LONGEST_S) in _PASSED
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        path.write_bytes(kept)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room")
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--output", type=Path, help="also write a JSON line for each mutant")
    asked = parser.parse_args()
    found = drawn(asked.count, asked.seed, asked.room)
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants.") as folder:
        copy = Path(folder) / "checkout"
        left_out = shutil.ignore_patterns(".git", ".venv", "site", ".mypy_cache", ".ruff_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
        for number, mutant in enumerate(found, 1):
            begin = time.monotonic()
            alive = survives(mutant, copy, asked.workers)
            killed += not alive
            said = "SURVIVES" if alive else "killed"
            print(f"{number:3} {said:8} {time.monotonic() - begin:4.0f} s  {mutant}", flush=True)
            if asked.output:
                with asked.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(mutant) | {"survives": alive}) + "\n")
    print(f"{killed} of {len(found)} mutants killed by the tests of their room")


if __name__ == "__main__":
    main()
