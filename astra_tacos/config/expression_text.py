"""Parsing of expressions into syntax trees with Python's parser; nothing is evaluated."""

from __future__ import annotations

import ast
import warnings


def parse_expression_text(text: str) -> ast.expr | None:
    """Syntax tree of one expression; None if the text is none, or nested too deeply for the parser.

    Callers accept the nodes that they know, and refuse all others.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
