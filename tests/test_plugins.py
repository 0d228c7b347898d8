"""Plugins: parts of a user's own, by public names alone, on the command line and in help; a wrong one is one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run as command

import astra_tacos as at
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.workload.lint import RULES

DOCS = Path(__file__).parents[1] / "docs/extending.md"
REGISTRIES = (at.SYNTHESIZERS, at.BUILDING_BLOCKS, at.EXPORTERS, RULES, POLICIES)
NAMES = ("mine", "OneWayRing", "pairs", "X01", "small-first")
NETWORK = """topology: [FullyConnected]
npus_count: [4]
bandwidth: [50]
latency: [500]
astra_tacos: {topology: [OneWayRing]}
"""
MODEL = ["--dp", "4", "--layers", "1", "--hidden", "64", "--heads", "2", "--sequence", "32", "--vocab", "64"]


@pytest.fixture(autouse=True)
def _registries():
    before = [set(registry) for registry in REGISTRIES]
    yield
    for registry, names in zip(REGISTRIES, before, strict=True):
        for name in set(registry) - names:
            del registry[name]


@pytest.fixture
def plugin(tmp_path):
    """The examples of docs/extending.md as one file, and a network."""
    plugins = DOCS.read_text(encoding="utf-8").partition("## Plugins")[2].partition("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", plugins, re.DOTALL)
    (tmp_path / "mine.py").write_text("\n".join(examples), encoding="utf-8")
    (tmp_path / "n.yml").write_text(NETWORK, encoding="utf-8")

    def run(*arguments, loads=True):
        """A process of its own: commands that were imported before know the names of then."""
        words = [*(("--plugin", "mine.py") if loads else ()), *arguments]
        done = subprocess.run(
            [sys.executable, "-m", "astra_tacos", *words], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_documented_plugins_are_in_help_and_without_them_nothing_is(plugin):
    for arguments in (("--help",), ("export", "--help"), ("plan", "--help")):
        added = plugin(*arguments).partition("Added by plugins:")[2]
        assert all(name in added for name in NAMES)
    assert "Added by plugins" not in plugin("--help", loads=False)


def test_the_documented_plugins_do_their_work(plugin, tmp_path):
    task = ("--network", "n.yml", "--collective", "all-gather", "--size", "64KiB", "--synthesizer", "mine")
    assert "OneWayRing 4" in plugin("synthesize", *task, "-o", "made")
    plugin("export", "made", "--format", "pairs", "-o", "pairs.txt")
    pairs = [tuple(map(int, line.split())) for line in (tmp_path / "pairs.txt").read_text(encoding="ascii").splitlines()]
    assert pairs and all((src + 1) % 4 == dst for src, dst in pairs)
    plugin("generate", "-o", "run", "--network", "n.yml", *MODEL)
    assert "X01 warning" in plugin("lint", "run")
    assert "collective" in plugin("lint", "--explain", "X01") and "X01" in plugin("lint", "--list")
    assert "small-first" in plugin(
        "plan", "run", "--schedule", "small-first", "--keep-collectives", "--no-cache", "-o", "planned"
    )


def a_block(**members):
    def links(self, size):
        return at.BlockLinks(np.arange(size), (np.arange(size) + 1) % size)

    return type("Mine", (at.BuildingBlock,), {"name": "Mine", "links": links, "estimated_channels": lambda _, n: n} | members)


def an_exporter(name="mine", writes="file", write=lambda schedule, path: at.Exported(path), **more):
    return at.Exporter(name, "text", writes, ".txt", write, **more)


def to_itself(self, size):
    return at.BlockLinks(np.arange(size), np.arange(size))


def beyond(self, size):
    return at.BlockLinks(np.arange(size), np.arange(size) + 1)


def untold(facts):
    yield from ()


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: at.register_building_block(a_block(name="Ring")), "register_building_block: name: 'Ring' is taken"),
        (lambda: at.register_building_block(a_block(name="my ring")), "found 'my ring', expected letters and digits"),
        (lambda: at.register_building_block(a_block(is_in_astra_sim=True)), "block Mine: is_in_astra_sim is True"),
        (lambda: at.register_building_block(a_block(links=to_itself)), "size 2: a link leads from 0 to itself"),
        (lambda: at.register_building_block(a_block(links=beyond)), "dst of the links is 1 to 2, expected 0 to 1"),
        (lambda: at.register_building_block(a_block(estimated_channels=lambda *_: 1)), "is 1, expected at least 2"),
        (lambda: at.register_building_block(type("Few", (at.BuildingBlock,), {"name": "Few"})), "lacks estimated_channels and"),
        (lambda: at.register_building_block(a_block(links=lambda *_: [])), "links returned list, expected BlockLinks"),
        (lambda: at.register_exporter(an_exporter("csv")), "register_exporter: name: 'csv' is taken"),
        (lambda: at.register_exporter(an_exporter("run")), "name: 'run' is taken"),
        (lambda: at.register_exporter(an_exporter(writes="both")), "format mine: writes: found 'both', expected file or"),
        (lambda: at.register_exporter(an_exporter(write=lambda path: None)), r"a function of \(path\), expected one of"),
        (lambda: at.register_rule("C01", "mine"), "register_rule: code: 'C01' is taken"),
        (lambda: at.register_rule("mine", "mine"), "found 'mine', expected a letter and two digits"),
        (lambda: at.register_rule("X01", "mine", "bad"), "severity: found 'bad', expected error or warning"),
        (lambda: at.register_rule("X01", "mine")(untold), "rule X01: untold has no docstring"),
        (lambda: at.register_rule("X01", "mine")(lambda: None), r"rule X01: found '<lambda>', expected a function of \(facts\)"),
        (lambda: at.register_policy("fuse", "mine"), "register_policy: name: 'fuse' is taken"),
        (lambda: at.register_policy("ddp", "mine"), "name: 'ddp' is taken"),
        (lambda: at.register_policy("mine", "mine", variants=[{"a": 1}]), "variants: found 'a', expected no options"),
        (lambda: at.register_policy("mine", "mine")(lambda graph: []), r"a function of \(graph\), expected one of \(graph, sett"),
    ],
)
def test_what_is_registered_is_checked(register, message):
    with pytest.raises(at.ConfigError, match=message) as error:
        register()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yield 1 / 0", r"mine.py:5: ZeroDivisionError: division by zero, expected a plugin that does not fail"),
        ("yield 1", "rule X01: yielded int, expected Found"),
        ("return None", "rule X01: returned NoneType, expected a function that yields findings"),
    ],
)
def test_a_plugin_that_fails_is_one_line(plugin, tmp_path, text, message):
    (tmp_path / "n.yml").write_text(NETWORK.partition("astra_tacos")[0], encoding="utf-8")
    plugin("generate", "-o", "run", "--network", "n.yml", *MODEL, loads=False)
    head = "import astra_tacos as at\n@at.register_rule('X01', 'mine')\ndef mine(facts):\n    'Mine.'\n    "
    (tmp_path / "mine.py").write_text(head + text, encoding="utf-8")
    done = command("--plugin", "mine.py", "lint", "run", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert re.search(message, done.stderr)


def test_what_a_format_returns_is_checked(tmp_path):
    at.register_exporter(an_exporter(write=lambda schedule, path: path.write_text("x")))
    network = at.build_topology(at.NetworkConfig("n", (at.Dimension("Ring", 4, 50.0, 500.0),)))
    schedule = at.SYNTHESIZERS["ring"].make(at.Problem.of(network, at.all_gather(4, 4096)), 0)
    with pytest.raises(at.ConfigError, match="mine: write returned int, expected Exported"):
        at.export_schedule(schedule, tmp_path / "x.txt", "mine")
    assert not list(tmp_path.iterdir())
