"""Columns of a sweep as compact arrays for a page: exact if they fit, otherwise rounded to a number of significant digits.

sweep_model.js reads this encoding: `codes` into `values`, plain `numbers`, `steps` of numbers that ascend by whole ones, or
`planes` and `exponents` of decimals.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DIGITS = 6
"""Decimals of more digits would not fit the three bytes of a mantissa."""
_INFINITE, _MISSING = 127, -128
_LARGEST_EXPONENT = 120
_MANTISSA_OFFSET = 1 << 23
_LARGEST_EXACT = 1 << 53


def is_number(values: list[Any]) -> bool:
    """Whether a column has numbers only, all of which a browser holds exactly; None is no value in any column."""
    kinds = {type(value) for value in values}
    if not kinds <= {type(None), int, float}:
        return False
    return int not in kinds or all(abs(value) <= _LARGEST_EXACT for value in values if type(value) is int)


def as_numbers(values: list[Any]) -> NDArray[np.float64]:
    """A column of numbers, NaN where there is none."""
    return np.array([math.nan if value is None else value for value in values], np.float64)


def as_texts(values: list[Any]) -> list[str | None]:
    """A column of anything as texts; lists with commas."""
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join("-" if entry is None else f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value)
    return str(value)


def encode_column(values: list[Any], digits: int | None) -> dict[str, Any]:
    """One column for the page.

    Parameters
    ----------
    values
        Of the points on the page.
    digits
        Significant digits that numbers of many different values are rounded to, or None to keep them as they are.
    """
    if not is_number(values):
        return _coded_texts(as_texts(values))
    numbers = as_numbers(values)
    steps = np.diff(numbers, prepend=0.0)
    if np.all((steps >= 0) & (steps < 1 << 31) & (steps == np.rint(steps))):  # numbers of points
        return {"type": "number", "steps": steps.astype(np.int32)}
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if len(distinct) <= max(16, len(numbers) // 16):
        codes = np.searchsorted(distinct, numbers)
        codes[np.isnan(numbers)] = len(distinct)
        return {"type": "number", "values": distinct, "codes": codes.astype(_code_type(len(distinct)))}
    if digits is not None:
        return {"type": "number"} | _decimals(numbers, digits)
    finite = numbers[np.isfinite(numbers)]
    whole = len(finite) == len(numbers) and bool(np.all(finite == np.rint(finite))) and bool(np.all(np.abs(finite) < 2**31))
    return {"type": "number", "numbers": numbers.astype(np.int32) if whole else numbers}


def _coded_texts(texts: list[str | None]) -> dict[str, Any]:
    distinct = {text: code for code, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([len(distinct) if text is None else distinct[text] for text in texts], _code_type(len(distinct)))
    return {"type": "text", "values": list(distinct), "codes": codes}


def _code_type(largest: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32


def _decimals(numbers: NDArray[np.float64], digits: int) -> dict[str, Any]:
    mantissas, exponents = _rounded(numbers, digits)
    shifted = (mantissas + _MANTISSA_OFFSET).astype(np.uint32)
    # Bytes of one weight side by side compress better than numbers one after the other.
    planes = [((shifted >> shift) & 0xFF).astype(np.uint8) for shift in (0, 8, 16)]
    return {"planes": planes, "exponents": exponents.astype(np.int8)}


def _rounded(numbers: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mantissas and powers of ten; whole numbers keep powers of at least 0 and with it stay whole."""
    usable = np.isfinite(numbers) & (np.abs(numbers) > 10.0**-_LARGEST_EXPONENT)
    safe = np.where(usable, numbers, 1.0)
    exponents = np.floor(np.log10(np.abs(safe))).astype(np.int64) - digits + 1
    exponents = np.where(safe == np.rint(safe), np.maximum(exponents, 0), exponents)
    mantissas = np.rint(_scaled(safe, -exponents)).astype(np.int64)
    carried = np.abs(mantissas) >= 10**digits
    mantissas, exponents = np.where(carried, mantissas // 10, mantissas), exponents + carried
    mantissas = np.where(usable, mantissas, np.sign(np.nan_to_num(numbers)).astype(np.int64) * np.isinf(numbers))
    special = np.where(np.isnan(numbers), _MISSING, np.where(np.isinf(numbers), _INFINITE, 0))
    return mantissas, np.where(usable, exponents, special)


def _scaled(numbers: NDArray[np.float64], powers: NDArray[np.int64]) -> NDArray[np.float64]:
    scale = 10.0 ** np.abs(powers)  # positive powers are exact up to 22, negative ones never are
    with np.errstate(over="ignore"):
        return np.where(powers < 0, numbers / scale, numbers * scale)


def round_to(numbers: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """What a page shows of numbers that were rounded to this many significant digits."""
    mantissas, exponents = _rounded(numbers, digits)
    values = _scaled(mantissas.astype(np.float64), exponents)
    return np.where(np.isfinite(numbers), values, numbers)
