"""Expressions of sweep files, plots and constraints: `600 - b0 - b1`, `size >= 1024 and synthesizer != "ring"`, `B1 <= 300`.

simpleeval evaluates them; what is accepted, and within which limits, is said here. A value may be of a class of the caller:
then it takes part in the arithmetic that the class defines.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from simpleeval import DEFAULT_OPERATORS, NameNotDefined, SimpleEval

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.values import describe

Value = Any
"""bool, int, float, str, None, or a list or tuple of values."""
Names = Mapping[str, Value]
SCALARS = (bool, int, float, str)
MAX_LENGTH, MAX_INTEGER = 500, (1 << 63) - 1
_MAX_LEVELS = 100
"""Operations within operations: evaluation calls itself for each."""
_MAX_STRING, _MAX_DIGITS, _NAMES_SHOWN = 1000, 30, 16


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


def _applied(name: str, function: Callable[..., Any], *values: Value) -> Value:
    """The value of a function or an operator."""
    try:
        return checked(function(*values))
    except ZeroDivisionError:
        raise UnfitError("a division by 0", "another divisor") from None
    except OverflowError:
        raise UnfitError("a number that is too large", "finite numbers") from None
    except (TypeError, ValueError):
        raise UnfitError(f"{name}({', '.join(map(describe, values))})", f"values that {name} can take") from None


def _calculated(name: str, function: Callable[..., Any], *values: Value) -> Value:
    """The value of an arithmetic operator: for numbers, and `+` for two strings, too."""
    if name != "Add" or not all(isinstance(value, str) for value in values):
        for value in values:
            if value is None or isinstance(value, (str, list, tuple)):
                raise UnfitError(describe(value), f"a number for {name}")
    return _applied(name, function, *values)


def _entry(values: Value, index: Value) -> Value:
    if not isinstance(values, (list, tuple)) or not isinstance(index, int):
        raise UnfitError(f"{describe(values)} before [{describe(index)}]", "a list before [a whole number]")
    if not -len(values) <= index < len(values):
        raise UnfitError(f"index {index}", f"0 to {len(values) - 1}, as the list has {len(values)} entries")
    return values[index]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
FUNCTIONS = {name: partial(_applied, name, function) for name, function in _FUNCTIONS.items()}
_ARITHMETIC = (ast.USub, ast.UAdd, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPARISONS = (ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)
_KNOWN = DEFAULT_OPERATORS | {ast.Pow: _power}
_OPERATORS = {
    symbol: partial(apply, symbol.__name__, _KNOWN[symbol])
    for symbols, apply in ((_ARITHMETIC, _calculated), (_COMPARISONS, _applied))
    for symbol in symbols
}
_SCALAR_NODES = (ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call)
_ACCEPTED = (*_SCALAR_NODES, ast.List, ast.Tuple, ast.Subscript, *_OPERATORS, ast.boolop, ast.Load)


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression."""

    where: str
    text: str
    tree: ast.expr
    names: frozenset[str]
    evaluator: Any

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
        return self._values(names, self.tree)[0]

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
        values = self._values(names, self.tree.left, *self.tree.comparators)
        return [(values[at], type(op).__name__, values[at + 1]) for at, op in enumerate(self.tree.ops)]

    def _values(self, names: Names, *parts: ast.expr) -> list[Value]:
        self.evaluator.names = names
        try:
            return [self.evaluator.eval(self.text, part) for part in parts]
        except UnfitError as error:
            raise self.refuse(error) from None
        except NameNotDefined as error:
            known = ", ".join(islice(names, _NAMES_SHOWN)) + (", ..." if len(names) > _NAMES_SHOWN else "")
            name = describe(error.name)[1:-1]
            raise self.refuse(UnfitError(f"the name {name}, which has no value here", known)) from None


def _evaluator() -> Any:
    evaluator = SimpleEval(_OPERATORS, FUNCTIONS)
    lists = {
        ast.List: lambda node: [evaluator._eval(entry) for entry in node.elts],
        ast.Tuple: lambda node: tuple(evaluator._eval(entry) for entry in node.elts),
        ast.Subscript: lambda node: _entry(evaluator._eval(node.value), evaluator._eval(node.slice)),
    }
    evaluator.nodes = {node: evaluator.nodes[node] for node in _SCALAR_NODES} | lists
    return evaluator


def parse_expression(text: str, where: str, example: str = "600 - b0 - b1") -> Expression:
    """Parse an expression.

    Raises
    ------
    ConfigError
        One line with `where`, the text, what was found and what was expected.
    """
    text = text.strip()
    try:
        if len(text) > MAX_LENGTH:
            raise UnfitError(f"{len(text)} characters", f"at most {MAX_LENGTH}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise UnfitError("no expression", f"one such as {example}") from None
        return Expression(where, text, tree, _names(tree), _evaluator())
    except UnfitError as error:
        raise ConfigError(f"{where} {describe(text)}: {error}") from None


def _names(tree: ast.expr) -> frozenset[str]:
    """The names that an expression uses.

    Raises
    ------
    UnfitError
        If there is something in it that is not accepted.
    """
    functions, names = set(), set()
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise UnfitError("too many levels", f"at most {_MAX_LEVELS}")
    for node in ast.walk(tree):
        is_accepted = isinstance(node, _ACCEPTED)
        if isinstance(node, ast.Constant):
            is_accepted = isinstance(node.value, SCALARS)
            if is_accepted:
                checked(node.value)
        elif isinstance(node, ast.Call):
            functions.add(node.func)
            is_accepted = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS
        elif isinstance(node, ast.Name) and node not in functions:
            is_accepted = node.id not in FUNCTIONS
            names.add(node.id)
        if not is_accepted:
            is_text = isinstance(node, (ast.expr, ast.keyword))
            node_text = describe(ast.unparse(node)) if is_text else f"the operator {type(node).__name__}"
            expected = "numbers, names, strings, + - * / // % **, comparisons, and, or, not, in, lists"
            raise UnfitError(node_text, f"{expected} and {', '.join(FUNCTIONS)}")
    return frozenset(names)


def checked(value: Value) -> Value:
    """Return the value if it is within the limits.

    Raises
    ------
    UnfitError
        If a number is not finite or has more than 64 bits, or a string is too long or no Unicode text.
    """
    if isinstance(value, complex):
        raise UnfitError("a root of a negative number", "a base of 0 or more")
    if (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        raise UnfitError("a number that is too large", "finite numbers, whole ones of 64 bits")
    if isinstance(value, str) and len(value) > _MAX_STRING:
        raise UnfitError(f"a string of {len(value)} characters", f"at most {_MAX_STRING}")
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise UnfitError("half a character (a surrogate)", "Unicode text")
    return value
