"""Values of documents, and how error messages show them."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeGuard

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted

_KEYS_SHOWN = 12


def filled_text(value: object, where: object, expected: str) -> str:
    """A value of a document that has to be a text, neither empty nor with zero bytes.

    Raises
    ------
    ConfigError
        If it is something else; `where` names it, and `expected` says what it should be.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{where} is {describe(value)}, expected {expected}")
    return value


def are_texts(values: object) -> TypeGuard[list[str]]:
    """Whether a value is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def are_mappings(value: object) -> TypeGuard[dict[str, Any] | list[dict[str, Any]]]:
    """Whether a value is a mapping, or a list of one or more."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(entry, dict) for entry in values)


def list_value(value: object, where: object, expected: str, least: int = 0) -> list[Any]:
    """A value of a document that has to be a list, of `least` entries or more.

    Raises
    ------
    ConfigError
        As of `filled_text`.
    """
    if not isinstance(value, list) or len(value) < least:
        raise ConfigError(f"{where} is {describe(value)}, expected {expected}")
    return value


def mapping_value(value: object, where: object, expected: str, least: int = 0) -> dict[str, Any]:
    """A value of a document that has to be a mapping, of `least` keys or more.

    Raises
    ------
    ConfigError
        As of `filled_text`.
    """
    if not isinstance(value, dict) or len(value) < least:
        raise ConfigError(f"{where} is {describe(value)}, expected {expected}")
    return value


def describe(value: object) -> str:
    """A value as an error message shows it: short, on one line; of a mapping its keys."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)) and not value:
        return f"an empty {'list' if value == [] else 'mapping'}"
    if isinstance(value, dict):
        text = f"a mapping of {', '.join(map(str, islice(value, _KEYS_SHOWN)))}"
        return text if len(text) <= 120 and len(value) <= _KEYS_SHOWN else text[:117] + "..."
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"a list of {len(value)}"
    return quoted(value)
