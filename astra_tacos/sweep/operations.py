"""Operations of expressions, as in Python but bounded: integers have at most 64 bits, and all numbers are finite."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

Value = Any
"""bool, int, float, str, None, or a list or tuple of values."""
MAX_INTEGER = (1 << 63) - 1
MAX_STRING = 1000
MAX_DIGITS = 30


class UnfitError(Exception):
    """An operation cannot take its values; the message says what was found and what was expected."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")


def checked(value: Value) -> Value:
    """Return the value if it is within the limits.

    Raises
    ------
    UnfitError
        If a number is not finite or has more than 64 bits, or a string is too long.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnfitError("a number that is too large", "finite numbers")
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise UnfitError("a number that is too large", "whole numbers of 64 bits")
    elif isinstance(value, str) and len(value) > MAX_STRING:
        raise UnfitError(f"a string of {len(value)} characters", f"at most {MAX_STRING}")
    return value


def kind(value: Value) -> str:
    """The kind of a value in words, for error messages."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return "a string" if isinstance(value, str) else "a list"


def _numbers(*values: Value) -> None:
    for value in values:
        if not isinstance(value, (int, float)):
            raise UnfitError(kind(value), "a number")


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    def operation(left: Value, right: Value) -> Value:
        _numbers(left, right)
        try:
            return checked(function(left, right))
        except ZeroDivisionError:
            raise UnfitError("a division by 0", "another divisor") from None
        except OverflowError:
            raise UnfitError("a number that is too large", "finite numbers") from None

    return operation


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return checked(left + right)
    return _plus(left, right)


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    if is_whole and exponent * (abs(base).bit_length() - 1) > MAX_INTEGER.bit_length():
        raise OverflowError  # the result would be too large even to compute
    result = base**exponent
    if isinstance(result, complex):
        raise UnfitError("a root of a negative number", "a base of 0 or more")
    return result


_plus = _arithmetic(operator.add)
BINARY: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: _add,
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.Pow: _arithmetic(_power),
}


def _negated(value: Value) -> Value:
    _numbers(value)
    return -value


def _positive(value: Value) -> Value:
    _numbers(value)
    return +value


UNARY: dict[type[ast.unaryop], Callable[[Value], Value]] = {
    ast.USub: _negated,
    ast.UAdd: _positive,
    ast.Not: operator.not_,
}


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    def operation(left: Value, right: Value) -> Value:
        try:
            return function(left, right)
        except TypeError:
            raise UnfitError(f"{kind(left)} beside {kind(right)}", "values that can be compared") from None

    return operation


COMPARISONS: dict[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _comparison(operator.lt),
    ast.LtE: _comparison(operator.le),
    ast.Gt: _comparison(operator.gt),
    ast.GtE: _comparison(operator.ge),
    ast.In: _comparison(lambda left, right: left in right),
    ast.NotIn: _comparison(lambda left, right: left not in right),
}


def subscript(value: Value, index: Value) -> Value:
    """The entry of a list at an index.

    Raises
    ------
    UnfitError
        If the value is no list, or the index is no integer or out of range.
    """
    if not isinstance(value, (list, tuple)):
        raise UnfitError(f"{kind(value)} before [...]", "a list")
    if not isinstance(index, int):
        raise UnfitError(f"{kind(index)} as an index", "a whole number")
    if not -len(value) <= index < len(value):
        raise UnfitError(f"index {index}", f"0 to {len(value) - 1}, as the list has {len(value)} entries")
    return value[index]


def _extreme(function: Callable[[Any], Any]) -> Callable[..., Value]:
    def operation(*values: Value) -> Value:
        if len(values) == 1 and not isinstance(values[0], (list, tuple)):
            raise UnfitError(f"{kind(values[0])} alone", "a list, or several values")
        candidates: Sequence[Value] = values[0] if len(values) == 1 else values
        if not candidates:
            raise UnfitError("an empty list", "a list of at least one value")
        try:
            return function(candidates)
        except TypeError:
            raise UnfitError("values of several kinds", "numbers, or strings") from None

    return operation


def _rounded(value: Value, digits: Value = None) -> Value:
    _numbers(value)
    if digits is None:
        return round(value)
    if not isinstance(digits, int) or abs(digits) > MAX_DIGITS:
        raise UnfitError(f"{digits!r} digits"[:40], f"a whole number up to {MAX_DIGITS}")
    return round(value, digits)


def _of_number(function: Callable[[Any], Any], expected: str) -> Callable[[Value], Value]:
    def operation(value: Value) -> Value:
        _numbers(value)
        try:
            return function(value)
        except ValueError:
            raise UnfitError(f"{value!r}", expected) from None

    return operation


def _sum(values: Value) -> Value:
    if not isinstance(values, (list, tuple)):
        raise UnfitError(f"a sum of {kind(values)}", "a list")
    _numbers(*values)
    return sum(values)


def _length(value: Value) -> Value:
    if not isinstance(value, (list, tuple, str)):
        raise UnfitError(f"the length of {kind(value)}", "a list or a string")
    return len(value)


FUNCTIONS: dict[str, tuple[Callable[..., Value], int, int | None]] = {
    "min": (_extreme(min), 1, None),
    "max": (_extreme(max), 1, None),
    "abs": (_of_number(abs, "a number"), 1, 1),
    "round": (_rounded, 1, 2),
    "log2": (_of_number(math.log2, "a number above 0"), 1, 1),
    "sqrt": (_of_number(math.sqrt, "a number of 0 or more"), 1, 1),
    "ceil": (_of_number(math.ceil, "a number"), 1, 1),
    "floor": (_of_number(math.floor, "a number"), 1, 1),
    "sum": (_sum, 1, 1),
    "len": (_length, 1, 1),
}
"""Functions by name, each with the least and the largest number of arguments (None: no limit)."""
