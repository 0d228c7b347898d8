"""Rows of a sweep by column, what they are called, and fronts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sweep_tables import naive_front
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.pages.sweep_columns import MEASURES, SweepColumns, measure_of, pareto_front


def test_columns_have_one_length():
    assert SweepColumns("s", ("a",), {"point": [0, 1], "a": [1, None]}).num_rows == 2
    assert SweepColumns("s", (), {}).num_rows == 0
    with pytest.raises(ConfigError, match="s: column a has 1 rows, expected 2 as the others"):
        SweepColumns("s", (), {"point": [0, 1], "a": [1]})
    with pytest.raises(ConfigError, match="s: axis b is no column, expected one of point"):
        SweepColumns("s", ("b",), {"point": [0]})


def test_labels_fit_what_was_swept():
    assert measure_of("time_ns", {"collective"}).label == "collective time"
    assert measure_of("time_ns", {"workload"}).label == "end of the run"
    assert measure_of("time_ns", {"collective", "workload"}).label == "collective time or end of the run"
    assert measure_of("time_ns", {"workload"}).goal == MEASURES["time_ns"].goal
    assert measure_of("b0").label == "b0"


coordinates = st.one_of(st.integers(0, 6).map(float), st.just(float("nan")), st.just(float("inf")))


@given(st.lists(st.tuples(coordinates, coordinates), max_size=30))
def test_front_is_what_nothing_dominates(points):
    x, y = (np.array([point[i] for point in points], float) for i in (0, 1))
    valid = [i for i in range(len(points)) if not np.isnan(x[i]) and not np.isnan(y[i])]
    front = {valid[place] for place in naive_front([points[i] for i in valid])}
    assert set(np.flatnonzero(pareto_front(x, y))) == front
