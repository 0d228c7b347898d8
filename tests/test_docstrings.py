"""The examples of public docstrings run as they are written, each in a folder of its own beside the configurations."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from helpers.public_api import ROOT, docstring, public

PLACES = {name: place for names in public().values() for name, place in names.items()}


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTRA_TACOS_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("name", sorted(PLACES))
@pytest.mark.usefixtures("here")
def test_an_example_runs(name):
    text = docstring(*PLACES[name])
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"{name} has no example"
    assert not any(example.options.get(doctest.SKIP) for example in test.examples), f"the example of {name} is skipped"
    told: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    assert not failed, "".join(told)
    assert Path.cwd().is_dir()
