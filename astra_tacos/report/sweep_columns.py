"""The rows of a sweep, by column: the source of its figures and its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from astra_tacos.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class SweepColumns:
    """Rows of a sweep by column; lists of one length, None where there is no value.

    Parameters
    ----------
    name
        The sweep's own name.
    axes
        Names of the axes, in the order of the sweep file; each is a column.
    columns
        By name, one entry a point: int, float, bool, str, None or a list of numbers.

    Raises
    ------
    ConfigError
        If the columns differ in length, or an axis is no column.
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
