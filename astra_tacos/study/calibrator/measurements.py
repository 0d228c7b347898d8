"""Measured times of collectives: CSV, or what nccl-tests and rccl-tests print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import parse_decimal, parse_whole, read_text

Placement = bool | None
"""In place (True), out of place (False), or not said (None)."""

PLACEMENT_NAMES: dict[Placement, str] = {True: "in place", False: "out of place", None: "of a placement that is not said"}
_LOG_COLUMNS = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"]
"""Columns of nccl-tests (`src/common.cu`), for logs without their head."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Times of one program.

    Parameters
    ----------
    path
        The file.
    times_us
        By placement of the buffers: times in us by size of the buffer in bytes, sizes ascending.
    skipped
        Times that are missing, such as those of a run that was stopped.
    """

    path: Path
    times_us: dict[Placement, dict[int, float]]
    skipped: int

    def for_program(self, placements: tuple[bool, ...]) -> list[tuple[Placement, int, float]]:
        """Placement, size and time of all measurements that belong to a program for these placements.

        Raises
        ------
        ConfigError
            If the file only has times of the other placement.
        """
        found = [place for place in self.times_us if place is None or not placements or place in placements]
        if not found:
            has, wanted = (" and ".join(PLACEMENT_NAMES[place] for place in places) for places in (self.times_us, placements))
            raise ConfigError(f"{self.path}: has times {has}, but its program runs {wanted}: expected times {wanted}")
        return [(place, size, time) for place in found for size, time in self.times_us[place].items()]


def read_measurements(path: Path) -> Measurements:
    """Read a table of times; of several times of one size and placement, the first counts.

    A CSV has a column `size` (or `size_bytes`), and one of times or two: names that say `inplace` or `in_place`, and
    `outofplace` or `out_of_place`, tell them apart. Of two columns without such a name, the first is out of place, as in the logs
    of nccl-tests. A column `inplace` says the placement of each row.

    Raises
    ------
    ConfigError
        If the file cannot be read, or has no line with a size and a time.
    """
    found: dict[Placement, dict[int, float]] = {}
    skipped = 0
    columns: _Columns | None = None
    for line in read_text(path).splitlines():
        is_table = "," in line
        fields = [field.strip() for field in (line.split(",") if is_table else line.lstrip("# ").split())]
        if (head := _Columns.of(fields)) is not None:
            columns = head
            continue
        if line.lstrip().startswith("#") or (is_table and columns is None):
            continue
        columns = columns or _Columns.of(_LOG_COLUMNS)
        assert columns is not None
        size = parse_whole(fields[columns.size]) if columns.size < len(fields) else None
        if size is None or size <= 0 or (not is_table and len(fields) <= columns.times[0][1]):
            continue
        for placement, at in columns.times:
            time = parse_decimal(fields[at]) if at < len(fields) else None
            if time is None or not time > 0:
                skipped += placement is not True or len(columns.times) == 1  # nccl-tests leaves out times in place
                continue
            found.setdefault(columns.placement_of(fields, placement), {}).setdefault(size, float(time))
    if not found:
        raise ConfigError(
            f"{path}: has no line with a size and a time, expected CSV with columns size,time or a log of nccl-tests"
        )
    return Measurements(path, {place: dict(sorted(times.items())) for place, times in found.items()}, skipped)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the columns of a table are: the size, times with their placement, and the placement of each row (None: not said)."""

    size: int
    times: tuple[tuple[Placement, int], ...]
    row_placement: int | None

    @classmethod
    def of(cls, fields: list[str]) -> _Columns | None:
        """The columns that a head names; None if it is none."""
        names = [field.lower().replace("_", "").replace("-", "").removesuffix("bytes").removesuffix("us") for field in fields]
        times = [(_placement(name), at) for at, name in enumerate(names) if name in _TIMES]
        if "size" not in names or not times:
            return None
        if len(times) > 1 and all(placement is None for placement, _ in times):
            times = [(False, times[0][1]), (True, times[1][1])]
        elif any(placement is True for placement, _ in times):
            times = [(placement or False, at) for placement, at in times]
        return cls(names.index("size"), tuple(times), names.index("inplace") if "inplace" in names else None)

    def placement_of(self, fields: list[str], placement: Placement) -> Placement:
        """The placement of a time of a row."""
        if self.row_placement is None or self.row_placement >= len(fields):
            return placement
        return {"0": False, "1": True}.get(fields[self.row_placement], placement)


_TIMES = ("time", "timeinplace", "inplacetime", "timeoutofplace", "outofplacetime")


def _placement(name: str) -> Placement:
    return None if name == "time" else "outofplace" not in name
