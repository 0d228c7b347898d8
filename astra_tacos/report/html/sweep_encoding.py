"""Columns of a sweep as compact arrays for a page: exact, or rounded to a number of significant digits to save space.

sweep_model.js reads this encoding: `codes`, which are indices of `values`; plain `numbers`; `steps` between numbers that ascend
by whole amounts; or `planes` and `exponents` of decimals.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DIGITS = 6
"""Largest number of digits that fits into the three bytes of a mantissa."""
_INFINITE, _MISSING = 127, -128
_LARGEST_EXPONENT = 120
_MANTISSA_OFFSET = 1 << 23
_LARGEST_EXACT = 1 << 53


def is_number(values: list[Any]) -> bool:
    """Whether all values of a column are None or numbers that a browser represents exactly."""
    kinds = {type(value) for value in values}
    if not kinds <= {type(None), int, float}:
        return False
    return int not in kinds or all(abs(value) <= _LARGEST_EXACT for value in values if type(value) is int)


def as_numbers(values: list[Any]) -> NDArray[np.float64]:
    """A column of numbers as float64[n], with NaN for None."""
    return np.array([math.nan if value is None else value for value in values], np.float64)


def as_texts(values: list[Any]) -> list[str | None]:
    """The values of a column as texts, lists with commas between their entries; None stays None."""
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join("-" if entry is None else f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value)
    return str(value)


def encode_column(values: list[Any], digits: int | None) -> dict[str, Any]:
    """Encode one column for the page, as described above.

    Parameters
    ----------
    values
        Values of the points on the page.
    digits
        Number of significant digits to which a column of many different numbers is rounded; None for no rounding.
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
    # Bytes of equal significance stand together, because they compress better than whole numbers one after another.
    planes = [((shifted >> shift) & 0xFF).astype(np.uint8) for shift in (0, 8, 16)]
    return {"planes": planes, "exponents": exponents.astype(np.int8)}


def _rounded(numbers: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mantissas and powers of ten, int64[n] each, of rounded numbers; powers of whole numbers are at least 0."""
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
    """The numbers that a page shows after they were rounded to this many significant digits, float64[n]."""
    mantissas, exponents = _rounded(numbers, digits)
    values = _scaled(mantissas.astype(np.float64), exponents)
    return np.where(np.isfinite(numbers), values, numbers)
