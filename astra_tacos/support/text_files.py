"""XML of unknown origin: bounded, without document types and entities.

Numbers as text, where they mean the same to ASTRA-sim as here.

ASTRA-sim reads numbers by yaml-cpp: `010` is 8 where it wants a whole number and 10 where it wants another one, `0x10` only
the former. Only plain decimal numbers are numbers here.

Strict JSON for configuration files: one object, no duplicate keys; an error is one line that names the file.

ASTRA-sim reads JSON with nlohmann::json, where the last of two equal keys wins without a warning. Here they are an error.

CSV files with a header line that names their columns, in any order; blank lines and `#` lines are skipped.

CSV files with a matrix of sizes: a line for each source, a field for each target; blank lines and `#` lines are skipped.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import read_bounded, refuse_foreign
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import parse_size

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def read_xml(path: Path, max_bytes: int, expected: str, tag: str) -> Element:
    """The root element of an XML file.

    Parameters
    ----------
    max_bytes
        More than these are not read.

    Raises
    ------
    ConfigError
        If it cannot be read, is not XML, has a document type or entities, or another root element.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    content = read_bounded(path, max_bytes, expected)
    refuse_foreign(path, content)
    try:
        root: Element = fromstring(content, forbid_dtd=True)
    except DefusedXmlException:
        raise ConfigError(f"{path}: has a document type or entities, expected plain elements") from None
    except (ParseError, ValueError, LookupError) as error:  # LookupError: an encoding that nobody knows
        raise ConfigError(f"{path}: not XML ({' '.join(str(error).split())})") from None
    if root.tag != tag:
        raise ConfigError(f"{path}: found element {quoted(str(root.tag))}, expected {tag!r}")
    return root


WHOLE_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
NUMBER = re.compile(r"[-+]?(?!0[0-9]+\Z)(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_MAX_DIGITS = 400
"""The largest double has 309."""


def parse_whole(text: str) -> int | None:
    """A decimal whole number; None if the text is not one, or has more than 400 digits."""
    return int(text) if len(text) <= _MAX_DIGITS and WHOLE_NUMBER.match(text) else None


def short_number(text: str) -> int:
    """The whole number of up to nine digits that a text is; -1 if it is something else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def parse_decimal(text: str) -> float | None:
    """A decimal number, infinite if it is too large for a double; None if the text is not one."""
    return float(text) if NUMBER.match(text) else None


def finite_number(value: object) -> float | None:
    """A finite number of a document, also one in quotes, which yaml-cpp does not tell from others; None for other values."""
    number = parse_decimal(str(value))
    return None if number is None or math.isinf(number) else number


def is_whole(value: object, least: int, most: float) -> TypeGuard[int]:
    """Whether a value of a document is a whole number within bounds; true and false are no numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float, most: float) -> TypeGuard[float]:
    """As `is_whole`, also for fractions."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


_MAX_FILE_BYTES = 64 << 20
_KEYS_SHOWN = 12


def read_text(path: Path, max_bytes: int = _MAX_FILE_BYTES) -> str:
    """Text of a UTF-8 file.

    Raises
    ------
    ConfigError
        If it cannot be read, is too large for a configuration, is not UTF-8, or is a file of another tool.
    """
    content = read_bounded(path, max_bytes, "a text file")
    refuse_foreign(path, content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8 text, expected a text file") from None


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
    found: list[tuple[int, Any]] = []
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
        found.append((line, value))
    return found


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


def _csv_lines(path: Path, max_bytes: int = _MAX_FILE_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is neither blank nor begins with `#`."""
    reader = csv.reader(read_text(path, max_bytes).splitlines(), skipinitialspace=True)
    try:
        for line in reader:
            fields = [field.strip() for field in line]
            if any(fields) and not fields[0].startswith("#"):
                yield reader.line_num, fields
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def read_table(path: Path, columns: Sequence[str], row: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and fields of each line after the header, in the order of `columns`.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header has other columns or a line has another number of fields.
    """
    expected = ",".join(columns)
    order: list[int] = []
    for line, fields in _csv_lines(path):
        if not order:
            if sorted(fields) != sorted(columns):
                raise ConfigError(f"{path}:{line}: header is {describe(','.join(fields))}, expected {expected}")
            order = [fields.index(column) for column in columns]
            continue
        if len(fields) != len(order):
            raise ConfigError(f"{path}:{line}: {len(fields)} fields, expected {len(order)}")
        yield line, tuple(fields[index] for index in order)
    if not order:
        raise ConfigError(f"{path}: file is empty, expected a header {expected} and one {row} a line")


_MOST_ROWS = 4096
_MOST_FILE_BYTES = 1 << 28


def read_matrix(path: Path) -> Ints:
    """int64[n, n], bytes; fields are sizes such as 0, 4096 or 64KiB.

    Raises
    ------
    ConfigError
        If the file cannot be read, a field is no size, or there are not as many rows as columns, 2 to 4,096.
    """
    rows: list[list[int]] = []
    known = {"0": 0}
    for line, fields in _csv_lines(path, _MOST_FILE_BYTES):
        for number, field in enumerate(fields, 1):
            if field not in known:
                known[field] = parse_size(field, f"{path}:{line}: field {number}")
        rows.append([known[field] for field in fields])
        if len(fields) != len(rows[0]):
            raise ConfigError(f"{path}:{line}: {len(fields)} fields, expected {len(rows[0])}")
        if len(rows) > _MOST_ROWS:
            raise ConfigError(f"{path}: more than {_MOST_ROWS:,} rows, expected at most so many")
    if not rows:
        raise ConfigError(f"{path}: file is empty, expected a line of sizes for each NPU, like {describe('0,64KiB,4096')}")
    if len(rows) != len(rows[0]) or len(rows) < 2:
        raise ConfigError(f"{path}: {len(rows)} rows of {len(rows[0])} sizes, expected as many rows as columns, 2 or more")
    return np.array(rows, np.int64)
