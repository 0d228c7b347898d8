"""The public API, as type checkers read it and as docs/api.md lists it: both are made from the list in `astra_tacos/__init__.py`.

Run as a program, this writes them.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import astra_tacos
from astra_tacos.support.options import help_of, options_of

ROOT = Path(astra_tacos.__file__).parents[1]
STUB = ROOT / "astra_tacos" / "__init__.pyi"
PAGE = ROOT / "docs" / "api.md"
_HEAD = """# Python API

Every name below is imported from `astra_tacos`, is typed, and says in its docstring what it takes, returns and raises:
`help(astra_tacos.synthesize)`. Names load on first use; other modules of the package may change without notice.

    from astra_tacos import Request, export_schedule, read_network, solve

    network = read_network("configs/network/torus_4x4_degraded.yml")
    solution = solve(Request(network, "all-reduce", 4 << 20))
    export_schedule(solution.schedule, "all_reduce.xml", "msccl-xml")

`solve` is what the command `synthesize` does, and `plan` what the command `plan` does. `synthesize` is the search alone, on a
topology and a collective that a program builds.

Sizes are bytes, times nanoseconds; bandwidths called `gibps` are 2^30 bytes per second ([units](glossary.md)). Errors are kinds
of `AstraTacosError`, with one line that says where, what was found and what was expected.
"""


def public() -> dict[str, dict[str, tuple[str, str]]]:
    """By group, each public name with its module and its name there."""
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


def options_table(public_name: str, module: str, name: str) -> str:
    """The options of a request as a table, "" for what has none."""
    value = getattr(importlib.import_module(module), name)
    options = options_of(value) if dataclasses.is_dataclass(value) else {}
    defaults = {field.name: field.default for field in dataclasses.fields(value)} if options else {}
    rows = [f"| `{field}` | `{defaults[field]!r}` | {help_of(option)} |" for field, option in options.items()]
    head = [f"Options of `{public_name}`:\n\n| field | default | what it is for |\n|---|---|---|"]
    return "\n".join([*head, *(row.replace("\n", " ") for row in rows), ""]) if rows else ""


def page() -> str:
    """The text of docs/api.md."""
    parts = [_HEAD]
    for group, names in public().items():
        parts.append(f"## {group}\n\n| name | what it is |\n|---|---|")
        for name, place in names.items():
            summary = " ".join(docstring(*place).split("\n\n")[0].split()).replace("|", "\\|")
            parts[-1] += f"\n| `{name}` | {summary} |"
        parts[-1] += "\n"
        parts += [table for name, place in names.items() if (table := options_table(name, *place))]
    return "\n".join(parts)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    for command in (("format", "--quiet"), ("check", "--fix", "--quiet")):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(STUB)], check=True)
    PAGE.write_text(page(), encoding="utf-8")
