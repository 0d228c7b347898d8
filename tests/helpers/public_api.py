"""The public API, as type checkers read it and as docs/api.md lists it: both are made from the list in `astra_tacos/__init__.py`.

Run as a program, this writes them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import astra_tacos

ROOT = Path(astra_tacos.__file__).parents[1]
STUB = ROOT / "astra_tacos" / "__init__.pyi"
PAGE = ROOT / "docs" / "api.md"
_HEAD = """# Python API

Import every name from `astra_tacos`. Commands and functions have the same words: `solve` is the command `synthesize`; `compare`,
`plan`, `lint`, `generate`, `sweep`, `optimize`, `calibrate` and `report` are called like their commands.

    import astra_tacos as at

    solution = at.solve("configs/network/torus_8x8.yml", "all-reduce", "64MiB")
    solution.time_ns, solution.bound_ns, solution.efficiency, solution.best_native
    solution.write("run")
    planned = at.plan("configs/workload/transformer_16", network="configs/network/torus_4x4.yml")
    planned.write("planned")
    at.compare("configs/network/torus_4x4.yml", "all-gather", ["64KiB", "1MiB"]).to_pandas()

`help(astra_tacos.solve)` lists parameters, results and errors, with an example. Options are those of the command line, with
underscores: `help(astra_tacos.SearchOptions)`. A notebook shows every result as a table.

Sizes are bytes, or texts such as `64MiB`. Times are nanoseconds. Names with `gibps` are in 2^30 bytes per second
([units](glossary.md)). Every error is an `AstraTacosError` of one line. Modules of the package may change without notice.
"""


def public() -> dict[str, dict[str, tuple[str, str]]]:
    """By task, each public name with its module and its name there."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for group, names in astra_tacos._PUBLIC.items():
        places = {name: home.partition(":") for name, home in names.items()}
        found[group] = {name: (f"astra_tacos.{home}", original or name) for name, (home, _, original) in places.items()}
    return found


def stub() -> str:
    """The text of `__init__.pyi`, which ruff brings into order."""
    entries = sorted((*place, name) for names in public().values() for name, place in names.items())
    lines = ["# Written by `make api` from the list in __init__.py.", ""]
    for module, original, name in entries:
        lines.append(f"from {module} import {original}{'' if name == original else f' as {name}'}")
    return "\n".join([*lines, "", f"__all__ = {astra_tacos.__all__!r}", "__version__: str", ""])


def stub_contents(text: str) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """What a stub imports, each name with its module and its name there; and its `__all__`."""
    imported: dict[str, tuple[str, str]] = {}
    listed: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign):
            listed = ast.literal_eval(node.value)
    return imported, listed


def docstring(module: str, name: str) -> str:
    """What a name says of itself: the docstring of a function or class, or the text under a constant."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for at, node in enumerate(body[:-1]):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        after = body[at + 1]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and isinstance(after, ast.Expr):
            return inspect.cleandoc(ast.literal_eval(after.value))
    return ""


def page() -> str:
    """The text of docs/api.md."""
    parts = [_HEAD]
    for group, names in public().items():
        parts.append(f"## {group}\n\n| name | what it is |\n|---|---|")
        for name, place in names.items():
            summary = " ".join(docstring(*place).split("\n\n")[0].split()).replace("|", "\\|")
            parts[-1] += f"\n| `{name}` | {summary} |"
        parts[-1] += "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    for command in (("format", "--quiet"), ("check", "--fix", "--quiet")):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(STUB)], check=True)
    PAGE.write_text(page(), encoding="utf-8")
