"""The table: typed columns whatever is in them, in the order of the points, the same bytes again; and its summary."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pyarrow as pa
import pytest
import yaml
from helpers.sweeps import collective_point
from pyarrow import parquet

from astra_tacos import ConfigError
from astra_tacos.study.sweep.point import INPUT_COLUMNS, RESULT_COLUMNS, Outcome
from astra_tacos.study.sweep.table import best_table, read_sweep, summarize, table_columns, table_row, write_table

KINDS = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string(), "floats": pa.list_(pa.float64())}
VALUES = ({"b0": 100, "fast": True, "what": 1, "n": 3}, {"b0": 99.5, "fast": False, "what": "two", "n": None})
POINTS = [replace(collective_point(i, seed=i), inputs={"cost": 5.0, "latency_ns": [1.0, 2.5], **VALUES[i]}) for i in range(2)]
OUTCOMES = (
    Outcome("ok", None, {"time_ns": 2_000_000_000.0, "verified": True, "seconds": 0.5}),
    Outcome("refused", "wants a ring", {"seconds": 0.1}),
)


def written(folder, points=2):
    rows = [table_row(point, outcome) for point, outcome in zip(POINTS[:points], OUTCOMES, strict=False)]
    write_table(folder / "sweep.parquet", "n", ["b0", "fast"], table_columns(POINTS), rows)
    return folder / "sweep.parquet"


@pytest.mark.parametrize("points", [0, 1, 2])
def test_columns_have_their_types_also_without_values(points, tmp_path):
    schema = parquet.read_schema(written(tmp_path, points))
    types = {"point": "int", "key": "str", "status": "str", "error": "str"} | INPUT_COLUMNS | RESULT_COLUMNS
    types |= {"b0": "float", "fast": "bool", "what": "str", "n": "int"}
    assert {field.name: field.type for field in schema} == {name: KINDS[kind] for name, kind in types.items()}
    assert schema.names[:8] == ["point", "key", "status", "error", "b0", "fast", "what", "n"]
    about = json.loads(schema.metadata[b"astra_tacos"])
    assert (about["format"], about["name"], about["axes"]) == ("astra_tacos sweep 2", "n", ["b0", "fast"])


def test_rows_are_read_back(tmp_path):
    written(tmp_path)
    sweep = read_sweep(tmp_path)
    assert (sweep.name, sweep.axes, sweep.num_rows) == ("n", ("b0", "fast"), 2)
    expected = {"key": [point.key for point in POINTS]} | yaml.safe_load(
        """{point: [0, 1], status: [ok, refused], error: [null, wants a ring], b0: [100.0, 99.5], what: ["1", two],
        "n": [3, null], latency_ns: [[1.0, 2.5], [1.0, 2.5]], time_ns: [2000000000, null],
        time_cost: [10.0, null], collective: [null, null]}"""
    )
    assert {name: sweep.columns[name] for name in expected} == expected


def test_the_name_of_a_directory_may_be_any_bytes(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff ? # 100%")
    folder.mkdir()
    written(folder)
    assert read_sweep(folder).num_rows == 2


def test_the_same_rows_are_the_same_bytes(tmp_path):
    first = written(tmp_path).read_bytes()
    assert written(tmp_path).read_bytes() == first


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no sweep\.parquet, expected the output of `astra-tacos sweep`"):
        read_sweep(tmp_path)
    written(tmp_path, 0)
    with pytest.raises(ConfigError, match="the sweep has no results yet: run `astra-tacos sweep` again to continue"):
        read_sweep(tmp_path)
    whole = written(tmp_path).read_bytes()
    (tmp_path / "sweep.parquet").write_bytes(whole[:-20])
    with pytest.raises(ConfigError, match=r"sweep\.parquet: not the table of a sweep"):
        read_sweep(tmp_path)
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "sweep.parquet")
    with pytest.raises(ConfigError, match="not the table of a sweep"):
        read_sweep(tmp_path)


def row(point, time_ns=100, error=None, status="ok", **values):
    return {"point": point, "status": status, "error": error, "time_ns": time_ns, "efficiency": 0.5, **values}


def test_axes_that_vary_are_columns_whatever_the_best_have():
    rows = [row(i, 100 if i < 5 else 200, fraction=i // 5 * 0.1, draw=i % 5, kept=1) for i in range(10)]
    header, lines = best_table(summarize(rows, 10, ["fraction", "draw", "kept"])["best_time"])
    assert header == ("point", "fraction", "draw", "time_ns", "efficiency")
    assert [line[:3] for line in lines] == [(str(i), "0", str(i)) for i in range(5)]


def test_times_are_shown_in_whole_nanoseconds():
    _, lines = best_table(summarize([row(0, 78625.0), row(1, 1190.732), row(2, 1300)], 3, [])["best_time"])
    assert [line[1] for line in lines] == ["1,191", "1,300", "78,625"]


def test_tasks_beyond_those_shown_are_counted():
    rows = [row(i, size_bytes=1 << i, time_cost=2.0) for i in range(15)]
    result = summarize(rows, 15, ["size_bytes"])
    assert len(result["best_time"]) == len(result["best_time_cost"]) == 12
    assert result["best_time_more"] == result["best_time_cost_more"] == 3
    assert summarize(rows[:1] * 9, 9, [])["best_time_more"] == 0


def test_refusals_are_told_after_failures():
    rows = [row(i, None, "wants a ring", "refused") for i in range(3)] + [row(3, None, "wrong", "error"), row(4)]
    result = summarize(rows, 5, [])
    assert result["errors"] == [
        {"status": "error", "error": "wrong", "points": 1},
        {"status": "refused", "error": "wants a ring", "points": 3},
    ]
    assert result["more_errors"] == 0
