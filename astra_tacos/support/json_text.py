"""Strict JSON for configuration files: one object, no duplicate keys; an error is one line that names the file.

ASTRA-sim reads JSON with nlohmann::json, where the last of two equal keys wins without a warning. Here they are an error.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.yaml_text import describe, read_text


class _Refused(ValueError):
    """A construct that Python's parser accepts, and nlohmann::json or this project does not."""


def read_json_object(path: Path) -> dict[str, Any]:
    """The object at the top of a JSON file.

    Raises
    ------
    ConfigError
        If the file is unreadable, empty, not JSON, nested too deeply or something else than an object.
    """
    text = read_text(path)
    if not text.strip():
        raise ConfigError(f"{path}: file is empty, expected a JSON object")
    return parse_json_object(text, path)


def parse_json_object(text: str, path: object) -> dict[str, Any]:
    """The JSON object in a text.

    Parameters
    ----------
    text
        The JSON text.
    path
        Where the text is from, for messages.

    Raises
    ------
    ConfigError
        If the text is not JSON, nested too deeply or something else than an object.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_json, parse_float=_finite)
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except _Refused as error:
        raise ConfigError(f"{path}: not valid JSON: {error}") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{path}: not valid JSON: half a surrogate pair in a string") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid JSON: nested too deeply") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise ConfigError(f"{path}: not valid JSON: a number of too many digits") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: found {describe(document)} at the top, expected a JSON object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"key {describe(key)} is given twice")
            seen.add(key)
    return mapping


def _not_json(name: str) -> NoReturn:
    raise _Refused(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{describe(text)} is too large")
    return number
