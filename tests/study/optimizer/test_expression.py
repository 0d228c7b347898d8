"""Constraints as text: linear arithmetic is read exactly, everything else is refused in one line."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.study.optimizer.space import parse_constraint

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
LEAVES = st.one_of(NUMBERS.map(lambda value: f"({value!r})"), st.sampled_from(["B0", "b1", "B[2]", "total"]))


def combined(inner):
    nonzero = NUMBERS.filter(lambda value: abs(value) > 0.01)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(nonzero, inner).map(lambda parts: f"({parts[0]!r}) * {parts[1]}"),
        st.tuples(inner, nonzero).map(lambda parts: f"{parts[0]} / ({parts[1]!r})"),
        inner.map(lambda text: f"-{text}"),
    )


@given(st.recursive(LEAVES, combined, max_leaves=5), st.sampled_from(["<=", ">=", "=="]), st.integers(0, 2**32))
def test_it_means_what_python_would_make_of_it(text, operator, seed):
    if "B" not in text.upper() and "total" not in text:
        return
    split = np.random.default_rng(seed).uniform(0.5, 2.0, 3)
    names = {"B0": split[0], "b1": split[1], "B": split, "total": split.sum()}
    value, limit = eval(text, names), 7.5  # the oracle: trusted text, made above
    try:
        (constraint,) = parse_constraint(f"{text} {operator} {limit}", 3)
    except ConfigError as error:
        assert "no bandwidth" in str(error) or "too large" in str(error) or "characters" in str(error)
        return
    over = float(np.dot(constraint.coefficients, split)) - constraint.bound
    expected = (limit - value) if operator == ">=" else value - limit
    assert over == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert constraint.is_equality == (operator == "==")


def test_examples():
    (sum_of_two,) = parse_constraint("B1 + B2 <= 300", 4)
    assert (sum_of_two.coefficients, sum_of_two.bound, sum_of_two.is_equality) == ((0, 1, 1, 0), 300, False)
    (ordered,) = parse_constraint("B0 >= 2 * B1", 2)
    assert (ordered.coefficients, ordered.bound) == ((-1, 2), 0)
    low, high = parse_constraint("10 <= b[1] <= 50", 2)
    assert (low.coefficients, low.bound, high.coefficients, high.bound) == ((0, -1), -10, (0, 1), 50)
    (fixed,) = parse_constraint("B1 == 40", 2)
    assert fixed.is_equality and fixed.excess([1, 40]) == 0 < fixed.excess([1, 41])
    (listed,) = parse_constraint("sum(b) - max(1, 2) * b[-1] <= 2 ** 3", 3)
    assert (listed.coefficients, listed.bound) == ((1, 1, -1), 8)
    (budget,) = parse_constraint("cost / 2 <= 10", 2, [3.0, 5.0])
    assert (budget.coefficients, budget.bound) == ((1.5, 2.5), 10)


HOSTILE = """
B0
B0 < 5
B0 != 5
B0 = 5
B0 is 5
B0 in (1, 2)
B4 <= 1
B00000 <= 1
B-1 <= 1
b[0:1] <= 1
b[B0] <= 1
x <= 1
cost <= 1
1 <= 2
B0 - B0 <= 2
B0 * B1 <= 2
1 / B0 <= 2
B0 / 0 <= 2
B0 / (1 - 1) <= 2
B0 ** 2 <= 4
9 ** 9 ** 9 ** 9 <= B0
B0 // 2 <= 4
B0 % 2 <= 4
~B0 <= 1
not B0 <= 1
B0 <= 1 and B1 <= 1
B0 <= 'a'
B0 <= 1j
max(B0, B1) <= 1
(B0 < B1) + B0 <= 1
abs(B0) <= 1
B0 <= True
B0 <= None
B0 <= 1e999
B0 * 1e308 * 1e308 <= 1
B0 / 5e-324 <= 1
B0 <= __import__('os').getpid()
(lambda: B0)() <= 1
[B0 for _ in ()][0] <= 1
B0.real <= 1
f'{B0}' <= 1
(B0 := 5) <= 1
B0 if B1 else B2 <= 1
B0 <= 1; import os
B0 <=
B0 <= \x00
🙂 <= 1
"""
LONG = ("B0 <= 1" + "0" * 310, "(" * 250 + "B0 <= 1", "-" * 290 + "B0<=1e999", "(" * 100 + "B0" + ")" * 100 + "<= x")


@pytest.mark.parametrize("text", [*HOSTILE.split("\n"), "B0 <= 1\nB1 <= 2", *LONG])
def test_hostile_text_gets_one_line(text):
    with pytest.raises(ConfigError, match=r"^constraint ") as raised:
        parse_constraint(text, 4)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 250


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(ConfigError):
        assert parse_constraint(text, 3)
