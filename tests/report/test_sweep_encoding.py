"""Columns of a sweep packed for a page, and which points stay when there are too many; test_sweep_page has the browser's side."""

from __future__ import annotations

import math

import numpy as np
import yaml
from helpers.sweep_tables import as_columns, made_up_sweep
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.report.html import sweep_data as module
from astra_tacos.report.html.page import encode
from astra_tacos.report.html.sweep_data import as_numbers, encode_column, is_number, round_to, sweep_data, varying_columns
from astra_tacos.report.sweep_columns import as_one_value, pareto_front

numbers = st.floats(1e-100, 1e100) | st.floats(-1e100, -1e-100) | st.integers(-(10**9), 10**9).map(float)


@given(st.lists(numbers), st.integers(4, 6))
def test_rounding_keeps_the_digits(values, digits):
    for value, rounded in zip(values, round_to(np.array(values, float), digits), strict=True):
        place = math.floor(math.log10(abs(value))) + 1 - digits if value else 0
        assert abs(rounded - value) <= 0.5000001 * 10.0**place
        if value == int(value) and abs(value) < 10**digits:
            assert rounded == value


def test_rounding_keeps_order_and_what_is_no_number():
    values = np.sort(np.random.default_rng(0).exponential(1e5, 10_000))
    assert np.all(np.diff(round_to(values, 4)) >= 0)
    odd = round_to(np.array([math.nan, math.inf, -math.inf, 0.0]), 4)
    assert math.isnan(odd[0]) and odd[1:].tolist() == [math.inf, -math.inf, 0.0]


def test_what_a_browser_cannot_hold_is_text():
    assert is_number([1, 2.5, None]) and not is_number([True]) and not is_number(["1"]) and not is_number([2**60])
    assert encode_column([2**60, None], None)["values"] == [str(2**60)]
    assert encode_column([[1.0, None, 2.5]], None)["values"] == ["1, -, 2.5"]


def test_columns_that_vary_are_apart_from_those_that_do_not():
    rows = yaml.safe_load("""
- {point: 0, status: ok, a: 1, kind: collective, key: x, cost: 5.0, verified: true, error: null}
- {point: 1, status: ok, a: 1, kind: collective, key: "y", cost: null, verified: true, error: null}
- {point: 2, status: error, a: 1, kind: collective, key: z, cost: null, error: bad, root: null}
""")
    varying, constant = varying_columns(as_columns("s", ("a",), rows))
    assert varying == ["point", "status", "a", "cost", "error"]  # cost: a point that is ok lacks it
    assert constant == {"kind": "collective", "verified": "yes"}


def test_fractions_that_agree_are_one_value():
    values = [599.99998, 600.0, None, 600.0000001, 601.0, "600", 5, math.nan, math.inf]
    assert as_one_value(values)[:7] == [600.0, 600.0, None, 600.0, 601.0, "600", 5]
    assert as_one_value([1000001, 1000002]) == [1000001, 1000002]  # seeds are no measurements
    assert as_one_value([-1.0, -1.0000001, 0.0, 1e-12]) == [-1.0, -1.0, 0.0, 1e-12]
    assert as_one_value([1.0, 1.00001]) == [1.0, 1.00001]


def test_all_points_where_they_fit(monkeypatch):
    table = made_up_sweep(3000)
    varying, _ = varying_columns(table)
    data = sweep_data(table, varying)
    assert (data["count"], data["digits"], data["rules"]) == (3000, None, None)
    most = len(encode(data)) * 3 // 4
    monkeypatch.setattr(module, "MOST_DATA_BYTES", most)
    data = sweep_data(table, varying)
    assert data["digits"] in (4, 5, 6) and data["rules"] is None and len(encode(data)) <= most
    monkeypatch.setattr(module, "MOST_DATA_BYTES", most // 3)
    data = sweep_data(table, varying)
    assert data["rules"] is not None and 0 < data["count"] < 3000 and len(encode(data)) <= most // 3


def test_of_too_many_points_those_that_pictures_show_stay(monkeypatch):
    table = made_up_sweep(6000)
    varying, _ = varying_columns(table)
    monkeypatch.setattr(module, "MOST_POINTS", 5000)
    data = sweep_data(table, varying)
    (point,) = (column for column in data["columns"] if column["name"] == "point")
    kept = set(np.cumsum(point["steps"]).tolist())
    assert len(kept) == data["count"] == 5000 and data["num_points"] == 6000
    assert "drawn by chance" in data["rules"][-1] and "front of any two" in data["rules"][0]
    size, time, cost, b0, b1 = (as_numbers(table.columns[name]) for name in ("size_bytes", "time_ns", "cost", "b0", "b1"))
    for task in np.unique(size):
        mine = np.flatnonzero(size == task)
        assert set(mine[pareto_front(cost[mine], time[mine])].tolist()) <= kept
        for cell in {(b0[row], b1[row]) for row in mine}:
            rows = [row for row in mine if (b0[row], b1[row]) == cell and not np.isnan(time[row])]
            for best in (min, max):
                value = best(time[row] for row in rows)
                assert any(time[row] == value for row in rows if row in kept)
    assert encode(sweep_data(table, varying)) == encode(data)
