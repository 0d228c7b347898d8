"""What an installation consists of: extras, versions, and what works without the extras."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from astra_tacos.support.errors import MissingExtraError
from astra_tacos.support.installation import EXTRAS, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in MISSING else find(name, package)
import json, os
from astra_tacos.cli.main import main
for place, arguments in json.loads(sys.argv[1]):
    os.chdir(place)
    try:
        main(arguments)
    except SystemExit as left:
        if left.code:
            print('failed:', place, *arguments)
            raise
"""
"""Commands, each in a folder, where the packages MISSING are not installed."""


def without(packages, *commands):
    code = f"MISSING = {packages!r}\n{WITHOUT}"
    listed = json.dumps([[str(place), list(arguments)] for place, arguments in commands])
    return subprocess.run([sys.executable, "-c", code, listed], capture_output=True, text=True, check=False)


def names(requirements):
    return {requirement.split(">=")[0].lower() for requirement in requirements}


def test_extras_are_those_of_the_project_file():
    optional = PROJECT["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert names(optional[extra]) == set(packages)
        assert not names(PROJECT["dependencies"]) & set(packages)
    assert optional["all"] == [f"astra-tacos[{','.join(EXTRAS)}]"]


def test_one_version_everywhere():
    released = PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == released
    assert f"## {released}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert version("astra-tacos") == released, "the installed package is older than the sources: install it again"


def test_what_is_installed_is_not_missing():
    for extra in EXTRAS:
        require(extra)


def test_the_core_needs_no_extra(tmp_path):
    every = tuple(package for packages in EXTRAS.values() for package in packages)
    (tmp_path / "net.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    quick = ("--network", "net.yml", "--size", "1MiB", "--chunks-per-npu", "1")
    files = ("--workload", "workload/all_reduce", "--system", "system.json", "--network", "network.yml")
    done = without(
        every,
        (tmp_path, ("synthesize", *quick, "--synthesizer", "tacos", "--output", "run")),
        (tmp_path, ("verify", "run")),
        (tmp_path, ("replay", "run")),
        (tmp_path, ("export", "run", "--format", "chrome-trace")),
        (tmp_path, ("inspect", "run/schedule.npz")),
        (tmp_path, ("compare", "--network", "net.yml", "--sizes", "1MiB", "--synthesizers", "ring", "--csv", "rows.csv")),
        (tmp_path / "run", ("lint", *files)),
        (tmp_path / "run", ("plan", *files, "--output", "../planned", "--cache", "../cache")),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("plot", "report net.yml -o figure.svg"),
        ("plot", "compare --network net.yml --sizes 1MiB --plot figure.svg"),
        ("report", "report run -o page.html"),
        ("sweep", "sweep sweep.yml --output rows"),
    ],
)
def test_a_missing_extra_is_named_before_any_work(extra, arguments, tmp_path):
    (tmp_path / "net.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    (tmp_path / "run").mkdir()
    for name in ("schedule.npz", "result.json"):
        (tmp_path / "run" / name).touch()
    before = sorted(tmp_path.rglob("*"))
    done = without(EXTRAS[extra], (tmp_path, arguments.split()))
    assert done.returncode == 2
    first = EXTRAS[extra][0]
    assert done.stderr == (
        f"astra-tacos: error: this needs {first}, which is not installed: pip install 'astra-tacos[{extra}]'\n"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unknown_extra_is_a_mistake_of_ours(monkeypatch):
    monkeypatch.setitem(EXTRAS, "none", ("no_such_package_at_all",))
    with pytest.raises(MissingExtraError, match="no_such_package_at_all"):
        require("none")
