"""Rows and tables: what every result says of itself, for consoles, pages and notebooks.

A result names its figures once, in `rows()` and `tables()`. Whoever shows them decides how much there is room for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from html import escape
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size, format_time


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that is shown rounded, with its unit or with a mark: `4.5%`, `123 ~`. A data frame has the number.

    Parameters
    ----------
    unit
        The unit of the number, where its text is in another one.
    """

    number: float
    shown: str
    unit: str = ""

    def __str__(self) -> str:
        return self.shown


_LONGEST_REPR = 300
Value = int | float | str | Figure | None
"""A figure: a number, a text that has its unit, or None where it is unknown."""


def share_of(share: float) -> Figure:
    """A share in percent."""
    return Figure(share, f"{share:.1%}")


def time_figure(time_ns: float, mark: str = "") -> Figure:
    """A time in a unit that suits it, with a mark behind."""
    return Figure(time_ns, format_time(time_ns) + mark, "ns")


def size_figure(size_bytes: int) -> Figure:
    """A size in a unit that suits it."""
    return Figure(size_bytes, format_size(size_bytes), "bytes")


class Importance(Enum):
    """How much a row or table matters: it belongs to the answer, to its details, or to the notes that qualify it."""

    ANSWER = "answer"
    DETAIL = "detail"
    NOTE = "note"


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """ASTRA-sim will stall, abort or compute something else."""
    WARNING = "warning"
    """ASTRA-sim may stall, depending on timing, or ignores a setting."""


def figure_of(value: Value, unit: str = "") -> str:
    """A figure as it is shown: thousands apart, the unit behind, `-` where it is unknown."""
    if value is None:
        return "-"
    shown = str(value) if isinstance(value, str | Figure) else f"{value:,}"
    return f"{shown} {unit}" if unit else shown


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a result: its name, its value with a unit, and a remark."""

    name: str
    value: Value = ""
    unit: str = ""
    note: str = ""
    importance: Importance = Importance.ANSWER

    @property
    def figure(self) -> str:
        """The value with its unit."""
        return figure_of(self.value, self.unit)

    @property
    def text(self) -> str:
        """The value with its unit, and the remark, in one line."""
        return ": ".join(filter(None, (self.figure, self.note)))


def detail(name: str, value: Value = "", unit: str = "", note: str = "") -> Row:
    """A row of the details."""
    return Row(name, value, unit, note, Importance.DETAIL)


def notes_of(notes: Iterable[str]) -> list[Row]:
    """Rows of what a reader of the figures should know."""
    return [Row("note", note=note, importance=Importance.NOTE) for note in notes]


@dataclass(frozen=True, slots=True)
class Table:
    """Figures of several things, a row each.

    Parameters
    ----------
    columns
        Names of the columns, with their units.
    left
        Columns that are texts: they begin at the left, as the first column does.
    remarks
        Lines below it.
    short
        The table that stands for a table of details where there is room for the answer alone.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    importance: Importance = Importance.ANSWER
    left: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    short: Table | None = None

    def texts(self) -> list[tuple[str, ...]]:
        """The cells as they are shown."""
        return [tuple(map(figure_of, row)) for row in self.rows]

    def to_pandas(self) -> Any:
        """The table as a data frame of numbers, whose columns name their unit.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        places = range(len(self.columns))
        units = [{cell.unit for row in self.rows if isinstance(cell := row[place], Figure)} for place in places]
        named = zip(self.columns, units, strict=True)
        return data_frame([f"{name} {min(of)}".rstrip() if len(of) == 1 else name for name, of in named], self.rows)


class Result(ABC):
    """What a command answers, in figures."""

    __slots__ = ()

    @abstractmethod
    def title(self) -> str:
        """What the figures are of, in one line."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """All figures, the answer first."""

    def tables(self) -> list[Table]:
        """All tables."""
        return []

    def __repr__(self) -> str:
        title = self.title() or next((table.title for table in self.tables()), "")
        return f"<{type(self).__name__}: {title}>"[:_LONGEST_REPR]

    def to_pandas(self) -> Any:
        """The rows as a data frame; of a result that has no rows its first table.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        rows = self.rows()
        if not rows and self.tables():
            return self.tables()[0].to_pandas()
        return data_frame(("name", "value", "unit", "note"), [(row.name, row.value, row.unit, row.note) for row in rows])

    def _repr_html_(self) -> str:
        from astra_tacos.support.rows_html import rows_html, table_html

        tables = (f"<h4>{escape(table.title)}</h4>{table_html(table)}" for table in self.tables())
        return "".join([f"<h4>{escape(self.title())}</h4>", rows_html(self.rows()), *tables])


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Result):
    """A result of figures that are given: what they are of, the rows, and the tables."""

    of: str
    listed: Sequence[Row] = ()
    tabled: Sequence[Table] = ()

    def title(self) -> str:
        """What the figures are of."""
        return self.of

    def rows(self) -> list[Row]:
        """The rows."""
        return list(self.listed)

    def tables(self) -> list[Table]:
        """The tables."""
        return list(self.tabled)


def data_frame(columns: Sequence[str], rows: Iterable[tuple[Value, ...]]) -> Any:
    """A data frame of pandas, a column for each name.

    Raises
    ------
    ConfigError
        If pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ConfigError("a data frame needs pandas, which is not installed: pip install pandas") from None
    numbers = [[cell.number if isinstance(cell, Figure) else cell for cell in row] for row in rows]
    return DataFrame(numbers, columns=list(columns))
