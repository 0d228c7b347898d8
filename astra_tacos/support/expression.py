"""Expressions of sweep files, plots and constraints: `600 - b0 - b1`, `size >= 1024 and synthesizer != "ring"`, `B1 <= 300`.

Python's parser reads the text, and only the nodes listed here are accepted. They have the meaning that they have in Python,
within limits of length, depth and size; no code is run. Names get their values from the caller alone. A value may be of a class
of the caller: then it takes part in the arithmetic that the class defines.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe

Value = Any
"""bool, int, float, str, None, or a list or tuple of values."""
Names = Mapping[str, Value]
SCALARS = (bool, int, float, str)
MAX_LENGTH, MAX_DEPTH, MAX_INTEGER = 500, 40, (1 << 63) - 1
_MAX_STRING, _MAX_DIGITS, _NAMES_SHOWN = 1000, 30, 16
_ACCEPTED = (ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Subscript)
_SILENT = (ast.Load, ast.boolop)
_IN_WORDS = {"Attribute": "an attribute (.name)", "Slice": "a slice", "JoinedStr": "an f-string", "keyword": "a named argument"}
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
    type(None): "no value",
}


class UnfitError(Exception):
    """An expression has no value; the message says what was found and what was expected."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    if is_whole and exponent * (abs(base).bit_length() - 1) > MAX_INTEGER.bit_length():
        raise OverflowError  # the result would be too large even to compute
    return base**exponent


def _rounded(value: Any, digits: Any = None) -> Any:
    if digits is not None and abs(digits) > _MAX_DIGITS:
        raise ValueError
    return round(value, digits)


_Operation = Callable[..., Any]
OPERATIONS: dict[type[ast.AST], _Operation] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
FUNCTIONS: dict[str, _Operation] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": _rounded,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "ceil": math.ceil,
    "floor": math.floor,
    "sum": sum,
    "len": len,
}


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression.

    Parameters
    ----------
    where
        File and key of the expression, for error messages.
    text
        The expression as it was written.
    tree
        Its syntax; all nodes are accepted ones.
    names
        Names that the expression uses.
    """

    where: str
    text: str
    tree: ast.expr
    names: frozenset[str]

    def refuse(self, problem: object) -> ConfigError:
        """An error about this expression."""
        return ConfigError(f"{self.where} {describe(self.text)}: {problem}")

    def value(self, names: Names) -> Value:
        """The value of the expression for given values of its names; the values of the names themselves are not checked.

        Raises
        ------
        ConfigError
            If an operation cannot take its values, a number becomes too large, or a name has no value.
        """
        try:
            return _value(self.tree, names)
        except UnfitError as error:
            raise self.refuse(error) from None

    def holds(self, names: Names) -> bool:
        """The value, as that of a condition.

        Raises
        ------
        ConfigError
            If it is neither true nor false, or there is none.
        """
        value = self.value(names)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where} {describe(self.text)} is {describe(value)}, expected true or false")
        return value

    def sides(self, names: Names) -> list[tuple[Value, str, Value]]:
        """The comparisons of a chain such as `a <= b == c`: left value, name of the operator in `ast`, right value.

        Raises
        ------
        ConfigError
            If the expression is no comparison, or a side has no value.
        """
        if not isinstance(self.tree, ast.Compare):
            raise self.refuse(UnfitError("no comparison", "one with <=, >= or =="))
        try:
            values = [_value(side, names) for side in (self.tree.left, *self.tree.comparators)]
        except UnfitError as error:
            raise self.refuse(error) from None
        return [(values[at], type(op).__name__, values[at + 1]) for at, op in enumerate(self.tree.ops)]


def parse_expression(text: str, where: str, example: str = "600 - b0 - b1") -> Expression:
    """Parse an expression.

    Parameters
    ----------
    text
        The expression.
    where
        File and key of the expression, for error messages.
    example
        An expression that error messages show.

    Raises
    ------
    ConfigError
        One line with `where`, the text, what was found and what was expected.
    """
    text = text.strip()
    names: set[str] = set()
    try:
        if len(text) > MAX_LENGTH:
            raise UnfitError(f"{len(text)} characters", f"at most {MAX_LENGTH}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise UnfitError("no expression", f"one such as {example}") from None
        _check(tree, names, MAX_DEPTH)
    except UnfitError as error:
        raise ConfigError(f"{where} {describe(text)}: {error}") from None
    return Expression(where, text, tree, frozenset(names))


def _check(node: ast.AST, names: set[str], depth: int) -> None:
    """Accept a node and all below it, and collect the names; `depth` levels are still allowed."""
    if not depth:
        raise UnfitError(f"more than {MAX_DEPTH} levels", "a simpler expression")
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Constant) and isinstance(node.value, SCALARS):
        checked(node.value)
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            found = f"the function {describe(node.func.id)}" if isinstance(node.func, ast.Name) else "a call of something else"
            raise UnfitError(found, ", ".join(FUNCTIONS))
        children.remove(node.func)
    elif isinstance(node, ast.Name):
        names.add(node.id)
    elif not isinstance(node, _ACCEPTED + _SILENT) and type(node) not in OPERATIONS:
        name = type(node).__name__
        is_operator = isinstance(node, (ast.operator, ast.unaryop, ast.cmpop))
        other = f"the operator {name}" if is_operator else f"a {name}"
        found = describe(node.value) if isinstance(node, ast.Constant) else _IN_WORDS.get(name, other)
        raise UnfitError(found, "numbers, names, strings, + - * / // % **, comparisons, and, or, not, in, lists and functions")
    for child in children:
        _check(child, names, depth - 1)


def _value(node: ast.expr, names: Names) -> Value:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id=name):
            if name not in names:
                known = ", ".join(islice(names, _NAMES_SHOWN)) + (", ..." if len(names) > _NAMES_SHOWN else "")
                raise UnfitError(f"the name {describe(name)[1:-1]}, which has no value here", known)
            return names[name]
        case ast.UnaryOp():
            return _applied(node.op, _value(node.operand, names))
        case ast.BinOp():
            return _applied(node.op, _value(node.left, names), _value(node.right, names))
        case ast.BoolOp():
            result: Value = None
            for part in node.values:
                result = _value(part, names)
                if bool(result) is isinstance(node.op, ast.Or):
                    break
            return result
        case ast.Compare():
            left = _value(node.left, names)
            for operation, other in zip(node.ops, node.comparators, strict=True):
                right = _value(other, names)
                if not _applied(operation, left, right):
                    return False
                left = right
            return True
        case ast.IfExp():
            return _value(node.body if _value(node.test, names) else node.orelse, names)
        case ast.List() | ast.Tuple():
            entries = [_value(entry, names) for entry in node.elts]
            return entries if isinstance(node, ast.List) else tuple(entries)
        case ast.Subscript():
            return _entry(_value(node.value, names), _value(node.slice, names))
        case ast.Call(func=ast.Name(id=name)):
            return _called(name, [_value(argument, names) for argument in node.args])
    raise AssertionError(node)  # `_check` accepts no other


def _applied(symbol: ast.AST, *values: Value) -> Value:
    """The value of an operator; arithmetic is for numbers, and only `+` is for strings, too."""
    kinds = [_KINDS.get(type(value)) for value in values]
    if isinstance(symbol, (ast.operator, ast.USub, ast.UAdd)) and (kinds != ["a string"] * 2 or not isinstance(symbol, ast.Add)):
        for kind in kinds:
            if kind in ("no value", "a string", "a list"):
                raise UnfitError(kind, "a number")
    try:
        return checked(OPERATIONS[type(symbol)](*values))
    except ZeroDivisionError:
        raise UnfitError("a division by 0", "another divisor") from None
    except OverflowError:
        raise UnfitError("a number that is too large", "finite numbers") from None
    except TypeError:
        raise UnfitError(" beside ".join(map(_kind, values)), f"values that {type(symbol).__name__} can take") from None


def _entry(value: Value, index: Value) -> Value:
    if not isinstance(value, (list, tuple)) or not isinstance(index, int):
        raise UnfitError(f"{_kind(value)} before [{_kind(index)}]", "a list before [a whole number]")
    if not -len(value) <= index < len(value):
        raise UnfitError(f"index {index}", f"0 to {len(value) - 1}, as the list has {len(value)} entries")
    return value[index]


def _called(name: str, values: list[Value]) -> Value:
    try:
        return checked(FUNCTIONS[name](*values))
    except OverflowError:
        raise UnfitError("a number that is too large", "finite numbers") from None
    except (TypeError, ValueError):
        raise UnfitError(f"{name}({', '.join(map(describe, values))})", f"arguments that {name} can take") from None


def checked(value: Value) -> Value:
    """Return the value if it is within the limits.

    Raises
    ------
    UnfitError
        If a number is not finite or has more than 64 bits, or a string is too long.
    """
    if isinstance(value, complex):
        raise UnfitError("a root of a negative number", "a base of 0 or more")
    if (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        raise UnfitError("a number that is too large", "finite numbers, whole ones of 64 bits")
    if isinstance(value, str) and len(value) > _MAX_STRING:
        raise UnfitError(f"a string of {len(value)} characters", f"at most {_MAX_STRING}")
    return value


def _kind(value: Value) -> str:
    return _KINDS.get(type(value)) or describe(value)
