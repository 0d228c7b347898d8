"""The rows of a sweep, stored by column; figures and the page of a sweep are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class SweepColumns:
    """Rows of a sweep by column.

    Parameters
    ----------
    name
        Name of the sweep.
    axes
        Names of the axes, in the order of the sweep file; each is a column.
    columns
        Values by column, one per point: int, float, bool, str, a list of numbers, or None for no value.

    Raises
    ------
    ConfigError
        If the columns differ in length, or an axis is not among them.
    """

    name: str
    axes: tuple[str, ...]
    columns: dict[str, list[Any]]

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if len(values) != self.num_rows:
                raise ConfigError(f"{self.name}: column {name} has {len(values)} rows, expected {self.num_rows} as the others")
        for axis in self.axes:
            if axis not in self.columns:
                raise ConfigError(f"{self.name}: axis {axis} is no column, expected one of {', '.join(self.columns)}")

    @property
    def num_rows(self) -> int:
        """Number of points."""
        return len(next(iter(self.columns.values()), []))
