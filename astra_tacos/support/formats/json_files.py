"""Strict JSON for configuration files: one object, no duplicate keys; an error is one line that names the file.

ASTRA-sim reads JSON with nlohmann::json, where the last of two equal keys wins without a warning. Here they are an error.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe


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

    Raises
    ------
    ConfigError
        If the text is not JSON, nested too deeply or something else than an object.
    """
    try:
        document = _decoder().decode(text)
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except json.JSONDecodeError as error:
        refuse_json_lines(path, text)
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


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_json, parse_float=_finite)


_JSON_LINES = re.compile(r"\s*\{[^\n]*\}[ \t]*\r?\n\s*\{")


def refuse_json_lines(path: object, text: str) -> None:
    """Refuse a text of one JSON object a line, where one object is expected.

    Raises
    ------
    ConfigError
        If it is one.
    """
    if _JSON_LINES.match(text):
        raise ConfigError(f"{path}: is a log in lines of JSON, expected one JSON object")


_BEGINS_JSON = re.compile(r'^[ \t]*(?=(?:\[\s*)?\{\s*")', re.MULTILINE)


def parse_json_values(text: str, path: object) -> list[tuple[int, Any]]:
    """JSON objects, and lists of them, that begin a line of a text, with the numbers of their lines.

    Raises
    ------
    ConfigError
        If what begins as an object with a key is none, or one has duplicate keys, is nested too deeply or has numbers that
        are none.
    """
    decoder = _decoder()
    values: list[tuple[int, Any]] = []
    line, counted, end = 1, 0, 0
    for begin in _BEGINS_JSON.finditer(text):
        if begin.end() < end:
            continue
        line, counted = line + text.count("\n", counted, begin.end()), begin.end()
        try:
            value, end = decoder.raw_decode(text, begin.end())
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}: not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
        except _Refused as error:
            raise ConfigError(f"{path}:{line}: not valid JSON: {error}") from None
        except RecursionError:
            raise ConfigError(f"{path}:{line}: not valid JSON: nested too deeply") from None
        except ValueError:  # Python's limit on the digits of an integer
            raise ConfigError(f"{path}:{line}: not valid JSON: a number of too many digits") from None
        values.append((line, value))
    return values


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
    raise _Refused(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{describe(text)} is too large")
    return number
