"""The table of a sweep: a row per point, with a typed column per axis, input and result; its Parquet file and its summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from astra_tacos.pages.sweep_columns import SweepColumns
from astra_tacos.study.sweep.point import (
    INPUT_COLUMNS,
    OK,
    OLD_FORMAT,
    REFUSED,
    RESULT_COLUMNS,
    ROW_FORMAT,
    STATUSES,
    Outcome,
    Point,
)
from astra_tacos.study.sweep.store import TABLE_FILE
from astra_tacos.study.sweep.sweep_file import Sweep
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import MAX_INTEGER
from astra_tacos.support.files import replaced_file
from astra_tacos.support.formats.json_files import parse_json_object
from astra_tacos.support.input_file import note_input
from astra_tacos.support.installation import package_version, require
from astra_tacos.support.rows import Answer, Row, Table
from astra_tacos.support.units import NS_PER_S, duration, format_size

METADATA = b"astra_tacos"
_OWN_COLUMNS = {"point": "int", "key": "str", "status": "str", "error": "str"}

_BEST = 5
"""Rows of a summary."""
_MOST_KINDS = 12
"""Tasks of a summary, one row each."""
_COMPARABLE = ("kind", "collective", "size_bytes", "workload")
"""Points with equal values in these columns have the same task, so that their times can be compared."""
_ERRORS = 5
"""Different errors of a summary."""


def table_columns(points: Sequence[Point]) -> dict[str, str]:
    """All columns in order, with their types: "int", "float", "bool", "str" or "floats" (a list of numbers).

    Columns of the sweep's own axes and definitions follow the first four columns. Their types depend on all points of the sweep,
    computed or not: a column that mixes integers and other numbers is "float", and any other mixture is "str".
    """
    known = _OWN_COLUMNS | INPUT_COLUMNS | RESULT_COLUMNS
    types_of: dict[str, set[type]] = {}
    for point in points:
        for name, value in point.inputs.items():
            if name not in known:
                is_long = isinstance(value, int) and abs(value) > MAX_INTEGER
                types_of.setdefault(name, set()).add(float if is_long else type(value))
    variables = {name: _kind(types - {type(None)}) for name, types in types_of.items()}
    return {**_OWN_COLUMNS, **variables, **INPUT_COLUMNS, **RESULT_COLUMNS}


def _kind(types: set[type]) -> str:
    if types in ({int}, {bool}):
        return "int" if types == {int} else "bool"
    return "float" if types and types <= {int, float} else "str"


def table_row(point: Point, outcome: Outcome) -> dict[str, Any]:
    """The row of a point, by column; columns without a value may be missing."""
    row: dict[str, Any] = {"point": point.index, "key": point.key, "status": outcome.status, "error": outcome.error}
    row |= point.inputs | outcome.results
    time_ns, cost = row.get("time_ns"), row.get("cost")
    if time_ns is not None and cost is not None:  # not stored with the outcome, as the cost is no part of the key
        row["time_cost"] = time_ns / NS_PER_S * cost
    return row


def write_table(
    path: Path, name: str, axes: Sequence[str], columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows as a Parquet file; equal rows give equal bytes.

    Parameters
    ----------
    columns
        Columns with their types, as `table_columns` returns them.
    rows
        Rows by column, in the order in which they are written; a value that a row lacks is null.
    """
    import pyarrow as pa
    from pyarrow import parquet

    metadata = {"format": ROW_FORMAT, "name": name, "axes": list(axes), "version": package_version()}
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string(), "floats": pa.list_(pa.float64())}
    fields = [pa.field(column, types[kind]) for column, kind in columns.items()]
    schema = pa.schema(fields, {METADATA: json.dumps(metadata).encode()})
    rows, content = list(rows), {}
    for column, kind in columns.items():
        content[column] = [row.get(column) for row in rows]
        if kind in ("str", "float"):
            convert = str if kind == "str" else float
            content[column] = [None if value is None else convert(value) for value in content[column]]
    # Of a path pyarrow makes a URL, which takes no name that is not UTF-8.
    with replaced_file(path) as temporary, temporary.open("wb") as sink:
        parquet.write_table(pa.table(content, schema=schema), sink)


def write_results(sweep: Sweep, results: Iterable[tuple[Point, Outcome]], directory: Path) -> dict[str, Any]:
    """Write the table of the results that there are into the directory of a sweep; returns its summary."""
    rows = [table_row(point, outcome) for point, outcome in results]
    table = directory / TABLE_FILE
    write_table(table, sweep.name, sweep.axes, table_columns(sweep.points), rows)
    sweep_keys = {"name": sweep.name, "output": str(directory), "table": str(table)}
    return sweep_keys | summarize(rows, len(sweep.points), sweep.axes)


def read_sweep(directory: Path) -> SweepColumns:
    """Read the table of a sweep.

    Raises
    ------
    ConfigError
        If there is no table, or it has no rows or is no table of a sweep.
    MissingExtraError
        If pyarrow is not installed.
    """
    require("sweep")
    import pyarrow as pa
    from pyarrow import parquet

    path = directory if directory.name == TABLE_FILE and directory.is_file() else directory / TABLE_FILE
    if not path.is_file():
        raise ConfigError(f"{directory}: has no {TABLE_FILE}, expected the output of `astra-tacos sweep` that has ended")
    note_input(path)
    try:
        with path.open("rb") as source:
            table = parquet.read_table(source)
        metadata = parse_json_object((table.schema.metadata or {})[METADATA].decode(), path)
        if metadata["format"] not in (ROW_FORMAT, OLD_FORMAT):
            raise ConfigError(f"{path}: format is {metadata['format']!r}, expected {ROW_FORMAT!r}")
        if not table.num_rows:
            raise ConfigError(f"{directory}: the sweep has no results yet: run `astra-tacos sweep` again to continue")
        columns = table.to_pydict()
        if metadata["format"] == OLD_FORMAT:
            columns["time_ns"] = columns["predicted_ns"]
        return SweepColumns(str(metadata["name"]), tuple(metadata["axes"]), columns)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, pa.ArrowException) as error:
        detail = " ".join(str(error).split())
        raise ConfigError(f"{path}: not the table of a sweep ({detail})") from None


def summarize(rows: Sequence[dict[str, Any]], num_points: int, axes: Sequence[str]) -> dict[str, Any]:
    """Counts by status, the best points, and the first errors and refusals, as values that JSON can represent.

    Parameters
    ----------
    axes
        Columns of the axes; the best points are listed with those in which rows differ.
    """
    counts = Counter(row["status"] for row in rows)
    result: dict[str, Any] = {
        "points": num_points,
        "statuses": {status: counts[status] for status in STATUSES if counts[status]},
    }
    varying = [name for name in axes if len({row.get(name) for row in rows}) > 1]
    for name, column in (("best_time", "time_ns"), ("best_time_cost", "time_cost")):
        result[name], result[f"{name}_more"] = _best(rows, column, varying)
    messages = Counter((row["status"], row["error"]) for row in rows if row["status"] != OK)
    listed = sorted(messages.items(), key=lambda message: message[0][0] == REFUSED)  # failures first
    result["errors"] = [{"status": status, "error": error, "points": count} for (status, error), count in listed[:_ERRORS]]
    result["more_errors"] = max(len(messages) - _ERRORS, 0)
    return result


def _best(rows: Sequence[dict[str, Any]], column: str, axes: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """The rows with the smallest values of a column, reduced to a few columns, and the number of tasks that are left out.

    If all rows have the same task, these are the best `_BEST` rows; otherwise the best row of each task.
    """
    ranked = sorted((row for row in rows if row.get(column) is not None), key=lambda row: (row[column], row["point"]))
    firsts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ranked:
        firsts.setdefault(tuple(row.get(name) for name in _COMPARABLE), row)
    best = list(firsts.values())[:_MOST_KINDS] if len(firsts) > 1 else ranked[:_BEST]
    names = ["point", *axes, "time_ns", "efficiency", *(["cost", "time_cost"] if column == "time_cost" else [])]
    more = len(firsts) - len(best) if len(firsts) > 1 else 0
    return [{name: row.get(name) for name in names} for row in best], more


def answer(result: dict[str, Any]) -> Answer:
    """A sweep in numbers and its best points, of what `summarize` returns with seconds and the number of results reused."""
    done = sum(result["statuses"].values())
    statuses = ", ".join(f"{count:,} {status}" for status, count in result["statuses"].items()) or "none finished"
    points = f"{done:,}" if done == result["points"] else f"{done:,} of {result['points']:,}"
    rows = [
        Row("points", points, note=statuses),
        Row("time", duration(result["seconds"]), note=f"{result['reused']:,} results reused"),
    ]
    return Answer(result["table"], rows, list(_best_tables(result)))


def _best_tables(result: dict[str, Any]) -> Iterator[Table]:
    """The tables of the best points, and what to say below."""
    for title, name in (("shortest times", "best_time"), ("least time x cost", "best_time_cost")):
        if result[name]:
            more = result[f"{name}_more"]
            remarks = (f"and {more:,} more tasks: see the table",) if more else ()
            yield Table(title, *best_table(result[name]), remarks=remarks)


def remarks(result: dict[str, Any]) -> Iterator[str]:
    """Lines on what went wrong."""
    errors = result["errors"]
    if len(errors) == 1 and errors[0]["points"] == result["points"]:
        result_text = "was refused" if errors[0]["status"] == REFUSED else "failed"
        yield f"\nevery point {result_text}: {errors[0]['error']}"
        return
    if errors:
        yield ""
    for error in errors:
        yield f"{error['points']:,} x {error['status']}: {error['error']}"
    if result["more_errors"]:
        yield f"and {result['more_errors']:,} other messages: see the column `error`"


def best_table(best: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of text of a table of the best points, as `summarize` returns them, without empty columns."""
    names = [name for name in best[0] if any(row[name] is not None for row in best)]
    return tuple(names), [tuple(_text(name, row[name]) for name in names) for row in best]


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "size_bytes":
        return format_size(value)
    if name == "efficiency":
        return f"{value:.1%}"
    if name == "time_ns":
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
