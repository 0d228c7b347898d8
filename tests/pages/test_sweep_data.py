"""The table of a sweep as its page holds it; test_sweep_page has the browser's side."""

from __future__ import annotations

import math

import numpy as np
import yaml
from helpers.sweep_tables import as_columns
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.pages.html.sweep_data import sweep_data, varying_columns
from astra_tacos.pages.sweep_columns import SweepColumns, as_one_value


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


@given(st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False)), min_size=1, max_size=20))
def test_a_column_has_every_number_as_it_is(values):
    table = SweepColumns("s", (), {"a": values})
    (column,) = sweep_data(table, ["a"])["columns"]
    for value, held in zip(values, column["values"], strict=True):
        if column["type"] == "text":
            assert held == (None if value is None else str(value))
        else:
            assert isinstance(column["values"], np.ndarray)
            assert math.isnan(held) if value is None else held == value


def test_what_is_no_number_is_text():
    table = SweepColumns("s", (), {"a": [True, False], "b": [[1.0, None], [2.5]], "c": ["1", "x"], "d": [2**60, None]})
    found = {column["name"]: (column["type"], column["values"]) for column in sweep_data(table, ["a", "b", "c", "d"])["columns"]}
    assert found == {
        "a": ("text", ["yes", "no"]),
        "b": ("text", ["1, -", "2.5"]),
        "c": ("text", ["1", "x"]),
        "d": ("text", [str(2**60), None]),
    }
