"""The sweeps in configs/sweep are read, and are of the size that their texts promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sweep_files import CONFIGS

from astra_tacos.sweep.sweep_file import read_sweep_file

SIZES = {"algorithms": 120, "failed_links": 25, "plan_transformer": 4, "split_of_600": 45}
DOCS = Path(__file__).parents[2] / "docs" / "sweep.md"


def test_they_are_all_here() -> None:
    assert {path.stem for path in (CONFIGS / "sweep").iterdir()} == set(SIZES)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_they_are_read(name: str, size: int) -> None:
    sweep = read_sweep_file(CONFIGS / "sweep" / f"{name}.yml")
    assert sweep.name == name and len(sweep.points) == size
    assert not [point.error for point in sweep.points if point.error]


def test_the_documentation_shows_a_shipped_one() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert (CONFIGS / "sweep" / "split_of_600.yml").read_text() in shown
