"""Rows of a comparison of synthesizers: one per size and synthesizer, including those that could not synthesize it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from astra_tacos.pages.csv_table import original_text, write_table
from astra_tacos.pages.style import check_figure, save_figure
from astra_tacos.support.errors import ConfigError, OutputError
from astra_tacos.support.files import check_folder, check_writable, output_place, replaced_file, together, write_json
from astra_tacos.support.formats.json_files import parse_json_object
from astra_tacos.support.formats.numbers import parse_decimal, parse_whole
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.input_file import forget_inputs

NATIVE = "native"
"""What rows name as the synthesizer where ASTRA-sim's own algorithms were replayed: the fastest on the clock."""
_IMPOSSIBLE_NATIVE = "native (impossible)"
"""Rows of files of earlier releases, which are left out: what ASTRA-sim prints for messages that links cannot carry so fast."""


@dataclass(frozen=True, slots=True)
class CompareRow:
    """The result of one synthesizer for a collective of one size; figures are None if the synthesizer refused.

    Parameters
    ----------
    network, topology, num_npus, collective, root
        The task: name and shape of the network, its number of NPUs, and the collective.
    size_bytes
        Size of the collective, as `comm_size` of a workload node.
    synthesizer, link_model, reduce_bandwidth_gbps
        The requested synthesizer, or `NATIVE`; and the timing model.
    made_by, seed
        Synthesizer and seed of the schedule; for `auto` `made_by` differs from `synthesizer`, for `NATIVE` it is
        the configuration.
    time_ns, bound_ns, bound, chunked_bound_ns, efficiency, optimal
        Time on the clock, not truncated; lower bound over all algorithms, one for a size, and the name of its argument; lower
        bound for these chunks, with truncated delays; the bound over all algorithms divided by the time, and whether they are
        equal. There is no bound where links carry any number of messages.
    algorithm_bandwidth_gbps, bus_bandwidth_gbps
        Decimal GB/s, as nccl-tests defines them, at that time.
    prints
        What programs of ASTRA-sim print for the traces, or for the native algorithm, as text.
    exact_ns, stock_ns, congested_ns, packets_ns
        Columns that the next release will not have: the time once more, and what ASTRA-sim's programs print.
    verified
        Whether the oracle and the replay checked the schedule; a schedule that fails a check gets no row.
    refusal
        Why there is no schedule; empty if there is one.
    """

    network: str
    topology: str
    num_npus: int
    collective: str
    root: int | None
    size_bytes: int
    synthesizer: str
    link_model: str | None = None
    reduce_bandwidth_gbps: float | None = None
    made_by: str | None = None
    seed: int | None = None
    chunks_per_npu: int | None = None
    num_chunks: int | None = None
    num_sends: int | None = None
    backend: str | None = None
    time_ns: float | None = None
    bound_ns: int | None = None
    bound: str | None = None
    chunked_bound_ns: int | None = None
    efficiency: float | None = None
    optimal: bool | None = None
    algorithm_bandwidth_gbps: float | None = None
    bus_bandwidth_gbps: float | None = None
    prints: str = ""
    notes: str = ""
    exact_ns: float | None = None
    stock_ns: int | None = None
    congested_ns: int | None = None
    packets_ns: int | None = None
    is_best: bool | None = None
    candidates: int | None = None
    candidates_tried: int | None = None
    sends_examined: int | None = None
    cut_off_by_budget: bool | None = None
    cut_off_by_time_limit: bool | None = None
    seconds: float | None = None
    verified: bool | None = None
    refusal: str = ""


COLUMNS = tuple(field.name for field in fields(CompareRow))
_KINDS: dict[str, str] = {field.name: str(field.type) for field in fields(CompareRow)}
_REQUIRED = COLUMNS[: COLUMNS.index("synthesizer") + 1]
_GONE = ("possible", "packets_are_exact", "packets_ratio", "judge_notes")
"""Columns of files of earlier releases, which nothing reads."""
_TIMES = ("time_ns", "exact_ns")
_SUFFIXES = (".csv", ".json")
FILES = ("compare.csv", "compare.json", "compare.svg", "compare.pdf")
"""What a directory of a comparison has."""
_NAMES = FILES[:2]


def write_csv(rows: Iterable[CompareRow], file: TextIO) -> None:
    """Write a header with the names of the fields, and one line per row; None becomes an empty cell."""
    write_table(file, [COLUMNS, *([_cell(name, getattr(row, name)) for name in COLUMNS] for row in rows)])


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if name in _TIMES and value is not None:
        return f"{value:.3f}".removesuffix(".000")
    return f"{value:.6g}" if isinstance(value, float) else value


def best_bound_ns(rows: Iterable[CompareRow]) -> dict[int, int]:
    """The lower bound over all algorithms in ns, by size in bytes.

    In files of earlier releases the bounds of one size can differ slightly; the smallest counts.
    """
    least: dict[int, int] = {}
    for row in rows:
        if row.bound_ns is not None:
            least[row.size_bytes] = min(row.bound_ns, least.get(row.size_bytes, row.bound_ns))
    return least


def read_rows(path: Path) -> list[CompareRow]:
    """Read rows that `compare` wrote, from its CSV or JSON file or from the directory of its --output.

    Raises
    ------
    ConfigError
        If the file is no such table, has no rows, or a value does not fit its column. The message is one line with the place.
    """
    if path.is_dir():
        inside = next((path / name for name in _NAMES if (path / name).is_file()), None)
        if inside is None:
            raise ConfigError(f"{path}: has no {' or '.join(_NAMES)}, expected the --output of astra-tacos compare")
        path = inside
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"{path}: expected rows of astra-tacos compare, in a file that ends in {' or '.join(_SUFFIXES)}")
    text = read_text(path)
    table = list(_csv_table(path, text)) if path.suffix.lower() == ".csv" else _json_table(path, text)
    rows = [CompareRow(**_values(where, entries)) for where, entries in table]
    rows = [row for row in rows if row.synthesizer != _IMPOSSIBLE_NATIVE]
    if not rows:
        raise ConfigError(f"{path}: has no rows, expected a row per size and synthesizer")
    titles = list(dict.fromkeys((row.network, row.collective, row.root) for row in rows))
    if len(titles) > 1:
        comparisons = " and ".join(f"{collective} on {network}" for network, collective, _ in titles[:2])
        raise ConfigError(f"{path}: has rows of {comparisons}, expected one collective on one network")
    return rows


def _csv_table(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        _check_columns(str(path), header)
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if len(cells) != len(header):
                raise ConfigError(f"{where}: has {len(cells)} cells, expected {len(header)} as the first line")
            yield where, {name: _from_text(where, name, cell) for name, cell in zip(header, cells, strict=True)}
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _from_text(where: str, name: str, cell: str) -> Any:
    kind = _KINDS.get(name, "str")
    if cell == "" and "str" not in kind.split(" ")[0]:
        return None
    if kind.startswith(("int", "float")):
        number = parse_whole(cell) if kind.startswith("int") else parse_decimal(cell)
        if number is None:
            raise ConfigError(f"{where}: {name} is {describe(cell)}, expected {_expected(kind)}")
        return number
    if kind.startswith("bool"):
        return {"true": True, "false": False}.get(cell, cell)
    return None if cell == "" and "None" in kind else original_text(cell)


def _json_table(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    rows = parse_json_object(text, path).get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{path}: has no list of rows, expected what astra-tacos compare --json writes")
    for index, row in enumerate(rows):
        _check_columns(f"{path}: rows[{index}]", row)
    return [(f"{path}: rows[{index}]", row) for index, row in enumerate(rows)]


def _check_columns(where: str, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        if name not in _KINDS and name not in _GONE:
            raise ConfigError(f"{where}: has the column {describe(name)}, expected {', '.join(COLUMNS)}")
    for name in _REQUIRED:
        if name not in names:
            raise ConfigError(f"{where}: lacks the column {name}, expected a table of astra-tacos compare")


def _values(where: str, entries: dict[str, Any]) -> dict[str, Any]:
    """Check that each entry has the type of its column, and return the entries.

    Raises
    ------
    ConfigError
        If an entry has another type, or the size is not positive.
    """
    types = {"str": str, "int": int, "bool": bool, "float": (int, float)}
    if entries.get("possible") in (False, "false") and entries.get("exact_ns") is not None:
        entries = entries | {"time_ns": entries["exact_ns"]}
    entries = {name: value for name, value in entries.items() if name not in _GONE}
    for name, value in entries.items():
        kind = _KINDS[name]
        is_allowed = "None" in kind if value is None else isinstance(value, types[kind.split(" ")[0]])  # type: ignore[arg-type]
        if not is_allowed or (isinstance(value, bool) and not kind.startswith("bool")):
            raise ConfigError(f"{where}: {name} is {describe(value)}, expected {_expected(kind)}")
    if entries["size_bytes"] <= 0:
        raise ConfigError(f"{where}: size_bytes is {describe(entries['size_bytes'])}, expected 1 or more")
    return entries


def _expected(kind: str) -> str:
    words = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}
    return words[kind.split(" ")[0]] + (" or nothing" if "None" in kind else "")


@dataclass(frozen=True, slots=True)
class ComparisonFiles:
    """Where a comparison is written: a table, a figure (None for none), and a directory that gets both; width of figures."""

    table: Path | None
    figure: Path | None
    directory: Path | None
    width: str

    def _all(self) -> list[tuple[Path, Callable[[Sequence[CompareRow], Path], None]]]:
        """The files, and how to write them."""
        writers_of = [(self.table, _write_table), (self.figure, self._draw)]
        if self.directory is not None:
            writers = (_write_table, _write_json, self._draw, self._draw)
            writers_of += [(self.directory / name, write) for name, write in zip(FILES, writers, strict=True)]
        return [(path, write) for path, write in writers_of if path is not None]

    def _draw(self, rows: Sequence[CompareRow], path: Path) -> None:
        from astra_tacos.pages.figure.compare_plot import draw_comparison

        save_figure(path, lambda: draw_comparison(rows, self.width))

    def check(self) -> None:
        """Check, before any work is done, that all files may be written.

        Raises
        ------
        ConfigError
            If two are one, one cannot be written, or the directory has files of such names that are no comparison.
        """
        files = self._all()
        if len({output_place(path) for path, _ in files}) < len(files):
            raise ConfigError("--csv, --plot and --output name the same file twice.")
        if self.directory is not None:
            _check_earlier(self.directory)
        for path, write in files:
            check_figure(path) if write == self._draw else check_writable(path)

    def write(self, rows: Sequence[CompareRow]) -> list[Path]:
        """Write all files, or none; returns their paths."""
        with together():
            for path, write in self._all():
                write(rows, path)
        return [path for path, _ in self._all()]


def comparison_result(rows: Sequence[CompareRow], files: Sequence[Path]) -> dict[str, Any]:
    """A comparison as values that JSON can represent, with the files that it was written to."""
    subject = {name: getattr(rows[0], name) for name in ("network", "topology", "num_npus", "collective", "root")}
    return subject | {"files": [str(path) for path in files], "rows": [asdict(row) for row in rows]}


def _write_table(rows: Sequence[CompareRow], path: Path) -> None:
    with replaced_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        write_csv(rows, file)


def _write_json(rows: Sequence[CompareRow], path: Path) -> None:
    with replaced_file(path) as temporary:
        write_json(temporary, comparison_result(rows, []))


def _check_earlier(directory: Path) -> None:
    """Check that files of these names in the directory, if there are any, are those of an earlier comparison."""
    check_folder(directory, output_place(directory))
    tables = [directory / name for name in _NAMES]
    there = [directory / name for name in FILES if (directory / name).exists()]
    try:
        for table in tables if there else []:
            read_rows(table)
    except ConfigError as error:
        text = f"{there[0]}: exists, and {directory} is no comparison of astra_tacos ({error}): choose another output"
        raise OutputError(text) from None
    finally:
        forget_inputs(*tables)
