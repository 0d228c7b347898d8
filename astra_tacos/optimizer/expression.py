"""Linear constraints on bandwidths in plain notation: `B1 + B2 <= 300`, `B0 >= 2 * B1`, `10 <= b[3] <= 50`.

Python's parser reads the text, and only nodes of linear arithmetic are accepted: nothing is ever evaluated or looked up.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from astra_tacos.config.expression_text import parse_expression_text
from astra_tacos.errors import ConfigError

MAX_LENGTH = 300
_NAME = re.compile(r"[Bb](\d{1,3})\Z")
_FLIPPED: dict[type[ast.cmpop], float] = {ast.LtE: 1.0, ast.GtE: -1.0, ast.Eq: 1.0}


@dataclass(frozen=True, slots=True)
class Constraint:
    """sum of coefficients[d] * B_d <= bound, or == bound."""

    text: str
    coefficients: tuple[float, ...]
    is_equality: bool
    bound: float

    def excess(self, split: Sequence[float]) -> float:
        """The excess of the left side, relative to the size of its terms; 0 or less if the constraint holds."""
        terms = [coefficient * value for coefficient, value in zip(self.coefficients, split, strict=True)]
        over = sum(terms) - self.bound
        return (abs(over) if self.is_equality else over) / max(abs(self.bound), *map(abs, terms), 1e-300)


@dataclass(frozen=True, slots=True)
class _Form:
    """constant + sum of coefficients[d] * B_d."""

    coefficients: tuple[float, ...]
    constant: float

    @property
    def is_constant(self) -> bool:
        return not any(self.coefficients)

    def plus(self, other: _Form, sign: float) -> _Form:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return _Form(tuple(mine + sign * theirs for mine, theirs in pairs), self.constant + sign * other.constant)

    def times(self, factor: float) -> _Form:
        return _Form(tuple(factor * coefficient for coefficient in self.coefficients), factor * self.constant)


def parse_constraint(text: str, num_dimensions: int, prices: Sequence[float] | None = None) -> list[Constraint]:
    """Parse the constraints in a text; a chain such as `1 <= B0 <= B1` has several.

    Parameters
    ----------
    text
        The constraint.
    num_dimensions
        Number of dimensions of the network.
    prices
        Dollars of the whole network per GB/s of an NPU in each dimension, for `cost`; None without a cost model.

    Raises
    ------
    ConfigError
        If the text is not a comparison of linear expressions over B0, B1, ... (or b[0], ...), `total` and `cost`.
    """
    parser = _Parser(text, num_dimensions, prices)
    return parser.parse()


class _Parser:
    def __init__(self, text: str, num_dimensions: int, prices: Sequence[float] | None) -> None:
        self.text = text
        self.num_dimensions = num_dimensions
        self.prices = prices

    def refuse(self, found: str, expected: str) -> ConfigError:
        shown = repr(self.text if len(self.text) <= 60 else self.text[:57] + "...")
        return ConfigError(f"constraint {shown}: found {found}, expected {expected}")

    def parse(self) -> list[Constraint]:
        if len(self.text) > MAX_LENGTH:
            raise self.refuse(f"{len(self.text)} characters", f"at most {MAX_LENGTH}")
        expected = "a comparison such as B0 + B1 <= 300"
        tree = parse_expression_text(self.text)
        if tree is None:
            raise self.refuse("no expression", expected)
        if not isinstance(tree, ast.Compare):
            raise self.refuse("no comparison", expected)
        try:
            forms = [self.form(node) for node in (tree.left, *tree.comparators)]
        except RecursionError:
            raise self.refuse("too many levels", "a plain linear expression") from None
        pairs = zip(pairwise(forms), tree.ops, strict=True)
        return [self.constraint(left, right, operator) for (left, right), operator in pairs]

    def constraint(self, left: _Form, right: _Form, operator: ast.cmpop) -> Constraint:
        if type(operator) not in _FLIPPED:
            raise self.refuse(f"the operator {type(operator).__name__}", "<=, >= or ==")
        form = left.plus(right, -1.0).times(_FLIPPED[type(operator)])
        if not all(math.isfinite(value) for value in (*form.coefficients, form.constant)):
            raise self.refuse("a number that is too large", "finite numbers")
        if form.is_constant:
            raise self.refuse("no bandwidth", f"some of B0 to B{self.num_dimensions - 1} on one side")
        return Constraint(self.text.strip(), form.coefficients, isinstance(operator, ast.Eq), -form.constant)

    def form(self, node: ast.expr) -> _Form:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return _Form((0.0,) * self.num_dimensions, self.number(node.value))
        if isinstance(node, ast.Name):
            return self.named(node.id)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in ("b", "B"):
            if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
                return self.bandwidth(f"{node.value.id}[{node.slice.value}]", node.slice.value)
            raise self.refuse("an index that is no number", f"b[0] to b[{self.num_dimensions - 1}]")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            return self.form(node.operand).times(-1.0 if isinstance(node.op, ast.USub) else 1.0)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        raise self.refuse(f"a {type(node).__name__}", "numbers, bandwidths, +, -, * and /")

    def number(self, value: float) -> float:
        try:
            return float(value)
        except OverflowError:
            raise self.refuse("a number that is too large", "finite numbers") from None

    def named(self, name: str) -> _Form:
        if name == "total":
            return _Form((1.0,) * self.num_dimensions, 0.0)
        if name == "cost":
            if self.prices is None:
                raise self.refuse("cost", "a cost model with it (--cost-model)")
            return _Form(tuple(self.prices), 0.0)
        match = _NAME.match(name)
        return self.bandwidth(name[:20], int(match[1]) if match else -1)

    def bandwidth(self, name: str, dimension: int) -> _Form:
        if not 0 <= dimension < self.num_dimensions:
            raise self.refuse(name, f"B0 to B{self.num_dimensions - 1}, total or cost")
        return _Form(tuple(float(index == dimension) for index in range(self.num_dimensions)), 0.0)

    def binary(self, node: ast.BinOp) -> _Form:
        left, right = self.form(node.left), self.form(node.right)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return left.plus(right, 1.0 if isinstance(node.op, ast.Add) else -1.0)
        if isinstance(node.op, ast.Mult):
            if not left.is_constant and not right.is_constant:
                raise self.refuse("a product of bandwidths", "a linear expression")
            return right.times(left.constant) if left.is_constant else left.times(right.constant)
        if isinstance(node.op, ast.Div):
            if not right.is_constant or right.constant == 0:
                raise self.refuse("a division by " + ("0" if right.is_constant else "a bandwidth"), "a linear expression")
            return left.times(1.0 / right.constant)
        raise self.refuse(f"the operator {type(node.op).__name__}", "+, -, * and /")
