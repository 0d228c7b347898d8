"""The sweeps in configs/sweep are read, and are of the size that their texts promise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from helpers.sweep_files import CONFIGS

from astra_tacos.study.sweep.axes import DERIVED, POINT_KEYS
from astra_tacos.study.sweep.point import INPUT_COLUMNS
from astra_tacos.study.sweep.sweep_file import read_sweep_file
from astra_tacos.support.expression import FUNCTIONS

SIZES = {"algorithms": 120, "endpoints": 8, "failed_links": 25, "plan_transformer": 4, "split_of_600": 45}
DOCS = Path(__file__).parents[3] / "docs" / "sweep.md"
SHOWN = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)


def test_they_are_all_here():
    assert {path.stem for path in (CONFIGS / "sweep").iterdir()} == set(SIZES)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_they_are_read(name, size):
    sweep = read_sweep_file(CONFIGS / "sweep" / f"{name}.yml")
    assert sweep.name == name and len(sweep.points) == size
    assert not [point.error for point in sweep.points if point.error]


def test_the_documentation_shows_a_shipped_one():
    assert (CONFIGS / "sweep" / "split_of_600.yml").read_text() in SHOWN


def test_what_the_documentation_shows_is_read(tmp_path):
    (template,) = (text for text in SHOWN if text.startswith("network:"))
    (axes,) = (text for text in SHOWN if text.startswith("axes:"))
    shown = yaml.safe_load(template) | {"size": "1KiB", "seed": "= b1"}
    document = {"point": shown, "axes": [*yaml.safe_load(axes)["axes"], {"grid": {"n": [2, 3]}}], "where": "b0 < 300"}
    (tmp_path / "s.yml").write_text(json.dumps(document))
    assert len(read_sweep_file(tmp_path / "s.yml").points) == 3 * 5 * 2 * 2 * 2


def test_the_documentation_lists_every_key_and_column():
    text = DOCS.read_text()
    names = {*POINT_KEYS, *INPUT_COLUMNS, *DERIVED, *FUNCTIONS}
    assert {name for name in names if not re.search(rf"[`\s]{name}[`\s]", text)} == set()
