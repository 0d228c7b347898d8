"""Expressions mean what Python makes of them, and nothing but expressions is accepted."""

from __future__ import annotations

import math

import pytest
from helpers.examples import examples
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.support.expression import MAX_LENGTH, parse_expression

NAMES = {"a": 3, "b": 2.5, "n": -7, "t": True, "c": [1, 4.0, 7], "s": "tacos", "nothing": None}
FUNCTIONS = {"log2": math.log2, "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor}


def value(text):
    return parse_expression(text, "s.yml: where[0]").value(NAMES)


def python(text):
    """The oracle: text made by the strategies below, or written in this file."""
    return eval(text, {**FUNCTIONS, **NAMES})


def _number(inner, truth):
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner).map(" ".join).map("({})".format),
        st.tuples(st.sampled_from(["-", "+", "not "]), inner).map("".join).map("({})".format),
        st.tuples(st.sampled_from(["abs", "ceil", "floor", "log2", "sqrt", "round"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, st.integers(-3, 3)).map(lambda p: f"round({p[0]}, {p[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        pair.map(lambda p: f"sum([{p[0]}, {p[1]}])"),
        pair.map(lambda p: f"max(({p[0]}, {p[1]}))"),
        pair.map(lambda p: f"[{p[0]}, 5, {p[1]}][{p[0]}]"),
        st.tuples(inner, truth, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join).map("({})".format),
        pair.map(lambda p: f"len([{p[0]}, {p[1]}])"),
    )


def _truth(numbers):
    compare = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
    return st.one_of(
        st.tuples(numbers, compare, numbers).map(" ".join),
        st.tuples(numbers, compare, numbers, compare, numbers).map(" ".join),
        st.tuples(numbers, st.sampled_from(["in", "not in"])).map(lambda p: f"{p[0]} {p[1]} [1, 4.0, {p[0]}, 2]"),
        st.sampled_from(["s == 'tacos'", "s in ('ring', 'tacos')", "'co' in s", "s < 'u'", "s + '!' != s", "len(s) > a", "t"]),
    )


LEAVES = st.one_of(
    st.integers(0, 20).map(str),
    st.floats(0, 20).map(lambda number: repr(round(number, 2))),
    st.sampled_from(
        ["a", "b", "n", "t", "c[0]", "c[1]", "c[-1]", "True", "False", "min(c)", "max(c)", "sum(c)", "len(c)", "len(s)"]
    ),
)
NUMBERS = st.recursive(LEAVES, lambda inner: _number(inner, _truth(inner)), max_leaves=7)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@examples(20)
@given(st.one_of(NUMBERS, _truth(NUMBERS)))
@example("2 ** 62")
@example("(-8) ** 0.5")
@example("0 ** -1")
@example("1 < 2 < a != n")
def test_they_mean_what_python_makes_of_them(text):
    if len(text) > MAX_LENGTH:
        return
    try:
        found = value(text)
    except ConfigError as error:
        assert "\n" not in str(error)
        if "too large" in str(error) and "**" in text:
            return  # Python's whole numbers have no bound
        try:
            expected = python(text)
        except (ArithmeticError, ValueError, IndexError, TypeError):
            return
        assert isinstance(expected, complex) or "root of a negative" in str(error) or "levels" in str(error), (text, error)
        return
    assert repr(found) == repr(python(text))


@given(st.text(alphabet="ab12.()[]{}'\"+-*/%<>=!, :_lamdforinxeceval\n@~^&|", max_size=60))
def test_any_text_is_an_expression_or_refused_in_one_line(text):
    try:
        value(text)
    except ConfigError as error:
        assert str(error).startswith("s.yml: where[0] ") and "\n" not in str(error)
        assert "expected" in str(error)


REFUSED = """
a.real | 'a.real'
().__class__ | '().__class__'
s.format(1) | 's.format(1)'
__import__('os') | "__import__('os')"
eval('1') | "eval('1')"
list(c) | 'list(c)'
(lambda: 1)() | '(lambda: 1)()'
lambda: 1 | 'lambda: 1'
[x for x in c] | '[x for x in c]'
{x for x in c} | '{x for x in c}'
{1: 2} | '{1: 2}'
{1, 2} | '{1, 2}'
f'{a}' | "f'{a}'"
(x := 1) | '(x := 1)'
max | 'max'
a = 1 | no expression
import os | no expression
 | no expression
c[0:2] | '0:2'
s[0] | 'tacos' before [0]
c[1.0] | [1, 4.0, 7] before [1.0]
c[3] | index 3
min(*c) | '*c'
max(c, key=abs) | 'key=abs'
round() | round()
len(c, c) | len([1, 4.0, 7], [1, 4.0, 7])
min(1) | min(1)
min([]) | min(an empty list)
max(1, 's') | max(1, 's')
sum(1) | sum(1)
len(1) | len(1)
round(1.5, 10 ** 9) | round(1.5, 1000000000)
1 @ 2 | the operator MatMult
1 << 2 | the operator LShift
~1 | the operator Invert
a is b | the operator Is
None | 'None'
1j | '1j'
b'x' | "b'x'"
... | '...'
s * 9 | 'tacos'
'%s' % a | '%s'
'%999999999d' % a | '%999999999d'
c + c | [1, 4.0, 7]
c * 999999999 | [1, 4.0, 7]
nothing + 1 | nothing
s < a | Lt('tacos', 3)
a in 3 | In(3, 3)
9 ** 9 ** 9 | a number that is too large
3999999 ** 3999999 | a number that is too large
10 ** 10 ** 10 | a number that is too large
2.5 ** 10000 | a number that is too large
2 ** 63 | a number that is too large
9223372036854775807 + 1 | a number that is too large
1e999 | a number that is too large
1e308 * 10 | a number that is too large
1 / 0 | a division by 0
a % 0 | a division by 0
sqrt(0 - 1) | sqrt(-1)
log2(0) | log2(0)
other | the name other, which has no value here
"""
LONG = {"-" * 499 + "1": "too many levels", "1" + "+1" * 300: "601 characters", "(" * 300 + ")" * 100: "no expression"}


@pytest.mark.parametrize(("text", "found"), [*(line.split(" | ") for line in REFUSED.strip("\n").splitlines()), *LONG.items()])
def test_what_is_refused(text, found):
    with pytest.raises(ConfigError) as caught:
        value(text)
    assert f": found {found}, expected " in str(caught.value)
    assert str(caught.value).startswith("s.yml: where[0] ")


def test_long_strings_are_no_error():
    assert len(str(value("'" + "x" * 400 + "' + " + "s + " * 5 + "''"))) == 425


def test_strings_stay_short():
    expression = parse_expression("+".join(["x"] * 30), "s.yml: define.y")
    with pytest.raises(ConfigError, match=r"a string of \d+ characters"):
        expression.value({"x": "y" * 100})


def test_names_are_told():
    assert parse_expression("a + max(b[0], 'c') if d else e", "x").names == {"a", "b", "d", "e"}
