"""Distinct entries against NumPy's own."""

from __future__ import annotations

import numpy as np
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from astra_tacos.support.grouping import distinct, distinct_places, row_places


@examples(20)
@given(
    st.sampled_from((np.int16, np.int32, np.int64, np.uint64)).flatmap(
        lambda kind: arrays(kind, st.integers(0, 40), elements=st.integers(0, 12))
    )
)
def test_the_same_as_numpy_finds(values):
    found = distinct(values)
    assert found.dtype == values.dtype
    assert found.tolist() == np.unique(values).tolist()


@given(
    st.tuples(st.sampled_from((np.int16, np.int32, np.int64)), st.sampled_from((3, 200, 1 << 14))).flatmap(
        lambda case: arrays(case[0], st.integers(0, 60), elements=st.integers(-case[1], case[1]))
    )
)
def test_places_are_those_that_numpy_finds(values):
    found, place = distinct_places(values)
    expected, inverse = np.unique(values, return_inverse=True)
    assert (found.dtype, place.dtype) == (values.dtype, np.int64)
    assert (found.tolist(), place.tolist()) == (expected.tolist(), inverse.tolist())


@given(
    arrays(np.int64, st.tuples(st.integers(0, 40), st.integers(1, 4)), elements=st.sampled_from((-(1 << 40), -1, 0, 3, 1 << 40)))
)
def test_rows_are_those_that_numpy_finds(rows):
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    found = row_places(*rows.T)
    assert (found[0].tolist(), found[1].tolist()) == (first.tolist(), place.reshape(-1).tolist())
