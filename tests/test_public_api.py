"""The public API: every name is there, documented, typed, and listed once by hand."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys

import pytest
from helpers.examples import some_of
from helpers.public_api import PAGE, ROOT, STUB, docstring, page, public, stub_contents
from mypy import api as mypy

import astra_tacos
from astra_tacos import EXPORTERS, SYNTHESIZERS
from astra_tacos.collective import COLLECTIVES

PLACES = {name: place for names in public().values() for name, place in names.items()}
FUNCTIONS = sorted(name for name in PLACES if inspect.isfunction(getattr(astra_tacos, name)))
CALLED = "verify, replay, synthesize, export_schedule, lint, plan, make_plan, generate, gather, reduce, search"
every = pytest.mark.parametrize("name", sorted(PLACES))


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@every
def test_is_there_and_documented(name):
    assert name in astra_tacos.__all__ and name in dir(astra_tacos)
    assert docstring(*PLACES[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parameters_of_functions_are_documented(name):
    text, parameters = docstring(*PLACES[name]), inspect.signature(getattr(astra_tacos, name)).parameters
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section or len(parameters) < 4
    described = re.findall(r"^(\w[\w, ]*)$", section[1], re.MULTILINE) if section else []
    assert {word for line in described for word in line.split(", ")} <= set(parameters)


def test_what_readme_promises_is_exported():
    promised = {name.replace("-", "_") for name in COLLECTIVES}
    promised |= {
        "solve",
        "synthesize",
        "make_plan",
        "lint",
        "replay",
        "replay_run",
        "generate",
        "verify",
        "lower_bound",
        "export_schedule",
    }
    promised |= {"read_network", "read_run", "read_trace", "load_schedule", "SYNTHESIZERS", "EXPORTERS"}
    promised |= {name for name in vars(astra_tacos.support.errors) if name.endswith("Error")}
    assert promised <= set(astra_tacos.__all__)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for names in re.findall(r"^from astra_tacos import (.*)$", text, re.MULTILINE):
        assert set(names.split(", ")) <= set(astra_tacos.__all__)


def test_examples_import_what_is_public_from_the_package():
    """What they have to take from elsewhere is no public name."""
    places = set(PLACES.values())
    for program in (ROOT / "examples").glob("*.py"):
        for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not {(node.module, alias.name) for alias in node.names} & places, program.name


def test_stub_and_page_are_those_of_the_list():
    imported, listed = stub_contents(STUB.read_text(encoding="utf-8"))
    assert (imported, sorted(listed)) == (PLACES, astra_tacos.__all__), "the list of names has changed: run 'make api'"
    assert PAGE.read_text(encoding="utf-8") == page(), "a name or its docstring has changed: run 'make api'"


def test_type_checkers_know_every_name(tmp_path):
    """A program of a user, with the types that it asks for; nothing is Any."""
    program = tmp_path / "program.py"
    lines = ["import astra_tacos", *(f"reveal_type(astra_tacos.{name})" for name in [*astra_tacos.__all__, "__version__"])]
    lines += [
        "topology = astra_tacos.build_topology(astra_tacos.read_network('net.yml'))",
        "schedule = astra_tacos.synthesize(topology, astra_tacos.all_reduce(topology.num_npus, 1 << 20), seed=1)",
        "reveal_type(astra_tacos.replay(schedule).collective_time_ns)",
        "reveal_type(astra_tacos.export_schedule(schedule, 'a.xml', 'msccl-xml').notes)",
        "reveal_type(astra_tacos.write_run_directory(schedule, 'run').is_exact)",
        "astra_tacos.no_such_name",
        "astra_tacos.all_reduce('eight')",
    ]
    program.write_text("\n".join(lines))
    options = ("--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"))
    out, err, _ = mypy.run([*options, str(program)])
    assert err == ""
    revealed = re.findall(r'Revealed type is "(.*)"', out)
    assert len(revealed) == len(astra_tacos.__all__) + 4
    assert not [text for text in revealed if text.removeprefix("builtins.") in ("Any", "object")]
    assert [text.replace("builtins.", "") for text in revealed[-3:]] == ["int", "tuple[str, ...]", "bool"]
    errors = [line for line in out.splitlines() if ": error: " in line]
    assert len(errors) == 3 and '"no_such_name"' in errors[0], out


FIRST = ("verifier.schedule_oracle", "replayer.schedule_replay", "synthesizer", "export", "support.errors")


@pytest.mark.parametrize("first", some_of(FIRST, 2))
def test_names_are_there_whatever_was_imported_before(first):
    """No package is called like a public name: it would take its place."""
    code = f"import astra_tacos.{first}\nfrom astra_tacos import *\nprint(all(map(callable, ({CALLED}))))"
    assert run(code).strip() == "True"


def test_every_package_and_name_is_told_apart():
    packages = {path.name for path in (ROOT / "astra_tacos").iterdir() if path.is_dir()} | {
        path.stem for path in (ROOT / "astra_tacos").glob("*.py")
    }
    assert not packages & set(astra_tacos.__all__)


def test_nothing_else_is_there():
    with pytest.raises(AttributeError, match="module 'astra_tacos' has no attribute 'no_such_name'"):
        astra_tacos.no_such_name  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+.*", astra_tacos.__version__)
    assert set(EXPORTERS) and set(SYNTHESIZERS)
