"""Distinct entries against NumPy's own."""

from __future__ import annotations

import numpy as np
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from astra_tacos.distinct import distinct, distinct_places


@examples(20)
@given(
    st.sampled_from((np.int16, np.int32, np.int64, np.uint64)).flatmap(
        lambda kind: arrays(kind, st.integers(0, 40), elements=st.integers(0, 12))
    )
)
def test_the_same_as_numpy_finds(values: np.ndarray) -> None:
    found = distinct(values)
    assert found.dtype == values.dtype
    assert found.tolist() == np.unique(values).tolist()


@given(
    st.tuples(st.sampled_from((np.int16, np.int32, np.int64)), st.sampled_from((3, 200, 1 << 14))).flatmap(
        lambda case: arrays(case[0], st.integers(0, 60), elements=st.integers(-case[1], case[1]))
    )
)
def test_places_are_those_that_numpy_finds(values: np.ndarray) -> None:
    found, place = distinct_places(values)
    expected, inverse = np.unique(values, return_inverse=True)
    assert (found.dtype, place.dtype) == (values.dtype, np.int64)
    assert (found.tolist(), place.tolist()) == (expected.tolist(), inverse.tolist())
