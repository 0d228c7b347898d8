"""Expressions over the axes of a sweep: `600 - b0 - b1`, `size >= 1024 and synthesizer != "ring"`.

Python's parser reads the text, and only these nodes are accepted: numbers, strings, names, arithmetic, comparisons, `and`, `or`,
`not`, lists, an index, a conditional expression, and a few functions. They have the meaning that they have in Python
(`operations`), within limits of length, depth and size. Names get their values from the caller alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from astra_tacos.config.expression_text import parse_expression_text
from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.sweep.operations import BINARY, COMPARISONS, FUNCTIONS, UNARY, UnfitError, Value, checked, subscript

MAX_LENGTH = 500
MAX_DEPTH = 40
Names = Mapping[str, Value]
_Evaluate = Callable[[Names], Value]


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression that can be evaluated.

    Parameters
    ----------
    where
        File and key of the expression, for error messages.
    text
        The expression as it was written.
    names
        Names that the expression uses.
    evaluate
        Computes the value from the values of the names; raises `UnfitError`.
    """

    where: str
    text: str
    names: frozenset[str]
    evaluate: _Evaluate

    def value(self, names: Names) -> Value:
        """The value of the expression for given values of its names; the values of the names themselves are not checked.

        Raises
        ------
        ConfigError
            If an operation cannot take its values, a number becomes too large, or a name has no value.
        """
        try:
            return self.evaluate(names)
        except UnfitError as error:
            raise ConfigError(f"{self.where} {describe(self.text)}: {error}") from None


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
    names: set[str] = set()
    text = text.strip()
    try:
        if len(text) > MAX_LENGTH:
            raise UnfitError(f"{len(text)} characters", f"at most {MAX_LENGTH}")
        tree = parse_expression_text(text)
        if tree is None:
            raise UnfitError("no expression", f"one such as {example}")
        evaluate = _compile(tree, names, MAX_DEPTH)
    except UnfitError as error:
        raise ConfigError(f"{where} {describe(text)}: {error}") from None
    return Expression(where, text, frozenset(names), evaluate)


def _compile(node: ast.expr, names: set[str], depth: int) -> _Evaluate:
    """Make a function that evaluates a node for given values of names.

    Parameters
    ----------
    node
        The node.
    names
        Receives the names that the node uses.
    depth
        Number of levels of nodes that are still allowed.
    """
    if not depth:
        raise UnfitError(f"more than {MAX_DEPTH} levels", "a simpler expression")

    def inner(child: ast.expr) -> _Evaluate:
        return _compile(child, names, depth - 1)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return _constant(value)
        case ast.Name(id=name):
            names.add(name)
            return _named(name)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
            return _applied(UNARY[type(op)], [inner(operand)])
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in BINARY:
                raise UnfitError(f"the operator {type(op).__name__}", "+, -, *, /, //, % or **")
            return _applied(BINARY[type(op)], [inner(left), inner(right)])
        case ast.BoolOp(op=op, values=values):
            return _first(isinstance(op, ast.Or), [inner(value) for value in values])
        case ast.Compare(left=left, ops=ops, comparators=others):
            for operation in ops:
                if type(operation) not in COMPARISONS:
                    raise UnfitError(f"the operator {type(operation).__name__}", "<, <=, ==, !=, >=, >, in or not in")
            return _chain(inner(left), [(COMPARISONS[type(op)], inner(other)) for op, other in zip(ops, others, strict=True)])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _choice(inner(test), inner(body), inner(orelse))
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return _collected(list if isinstance(node, ast.List) else tuple, [inner(entry) for entry in entries])
        case ast.Subscript(value=value, slice=index) if not isinstance(index, ast.Slice):
            return _applied(subscript, [inner(value), inner(index)])
        case ast.Call():
            return _call(node, inner)
    raise UnfitError(_in_words(node), "numbers, names, strings, operators, comparisons, lists and functions")


def _call(node: ast.Call, inner: Callable[[ast.expr], _Evaluate]) -> _Evaluate:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        found = f"the function {describe(node.func.id)}" if isinstance(node.func, ast.Name) else "a call of something else"
        raise UnfitError(found, ", ".join(FUNCTIONS))
    function, least, most = FUNCTIONS[node.func.id]
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise UnfitError(f"named or starred arguments of {node.func.id}", "plain ones")
    if len(node.args) < least or (most is not None and len(node.args) > most):
        expected = f"{least} or more" if most is None else str(least) if least == most else f"{least} or {most}"
        raise UnfitError(f"{node.func.id} with {len(node.args)} arguments", expected)
    return _applied(lambda *values: checked(function(*values)), [inner(argument) for argument in node.args])


def _in_words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return describe(node.value) if node.value is not None else "None"
    return {"Attribute": "an attribute (.name)", "Subscript": "a slice", "JoinedStr": "an f-string"}.get(
        type(node).__name__, f"a {type(node).__name__}"
    )


def _constant(value: Value) -> _Evaluate:
    checked(value)
    return lambda names: value


def _named(name: str) -> _Evaluate:
    def evaluate(names: Names) -> Value:
        try:
            return names[name]
        except KeyError:
            raise UnfitError(f"the name {name}, which has no value here", ", ".join(names)) from None

    return evaluate


def _applied(function: Callable[..., Value], arguments: list[_Evaluate]) -> _Evaluate:
    if len(arguments) == 1:
        (only,) = arguments
        return lambda names: function(only(names))
    if len(arguments) == 2:
        left, right = arguments
        return lambda names: function(left(names), right(names))
    return lambda names: function(*[argument(names) for argument in arguments])


def _first(wanted: bool, values: list[_Evaluate]) -> _Evaluate:
    """Make a function that returns the first value whose truth is `wanted`, or else the last value, as `or` and `and` do."""

    def evaluate(names: Names) -> Value:
        result: Value = None
        for value in values:
            result = value(names)
            if bool(result) is wanted:
                break
        return result

    return evaluate


def _chain(first: _Evaluate, rest: list[tuple[Callable[[Value, Value], Value], _Evaluate]]) -> _Evaluate:
    def evaluate(names: Names) -> Value:
        left = first(names)
        for compare, other in rest:
            right = other(names)
            if not compare(left, right):
                return False
            left = right
        return True

    return evaluate


def _choice(test: _Evaluate, body: _Evaluate, otherwise: _Evaluate) -> _Evaluate:
    return lambda names: body(names) if test(names) else otherwise(names)


def _collected(collect: Callable[[list[Value]], Value], entries: list[_Evaluate]) -> _Evaluate:
    return lambda names: collect([entry(names) for entry in entries])
