"""Encoding of a page's data: JSON in which arrays refer to one block of little-endian numbers, gzipped, as base64."""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import TYPE_CHECKING, Any

from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALIGNMENT = 8
_EXACT = 1 << 53
_INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4")


def encode(data: Any) -> str:
    """Encode data as text for `AT.decode` in the browser; equal data give equal text.

    One-dimensional NumPy arrays of numbers become typed arrays, two-dimensional ones lists of typed arrays. Integers get the
    narrowest type that holds all of an array, or doubles beyond 32 bits. Everything else is as in JSON; numbers that are not
    finite become null.

    Layout before compression: uint32 length of the JSON, the JSON, zeros up to a multiple of 8, then each array at a multiple of
    8. In the JSON, `{"$array": [kind, offset, shape...]}` stands for an array.

    Raises
    ------
    ConfigError
        If an integer of an array is 2**53 or more, which not every double represents exactly.
    TypeError
        If the data contain anything else than JSON types and such arrays.
    """
    block = bytearray()
    text = json.dumps(_plain(data, block), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    head = len(text).to_bytes(4, "little") + text
    return compress(head + bytes(-len(head) % _ALIGNMENT) + bytes(block))


def compress(content: bytes) -> str:
    """The content gzipped without a date, in base64; the highest level would take six times as long and save 1%."""
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def _plain(value: Any, block: bytearray) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item, block) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, block) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    import numpy as np

    if isinstance(value, np.generic):
        return _plain(value.item(), block)
    if isinstance(value, np.ndarray):
        return _packed(value, block)
    raise TypeError(f"a page cannot hold a {type(value).__name__}")


def _packed(array: NDArray[Any], block: bytearray) -> dict[str, Any]:
    import numpy as np

    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise TypeError(f"a page cannot hold a {array.ndim}-dimensional array of {array.dtype}")
    kind = _kind(array)
    offset = len(block)
    content = np.ascontiguousarray(array, f"<{kind}").tobytes()
    block += content + bytes(-len(content) % _ALIGNMENT)
    return {"$array": [kind, offset, *array.shape]}


def _kind(array: NDArray[Any]) -> str:
    import numpy as np

    if array.dtype.kind == "f":
        return "f4" if array.dtype.itemsize <= 4 else "f8"
    if array.dtype.kind == "b" or not array.size:
        return "u1"
    low, high = int(array.min()), int(array.max())
    if max(-low, high) >= _EXACT:
        raise ConfigError(f"{high if high > -low else low} is no number that a browser holds exactly, expected less than 2**53")
    return next((kind for kind in _INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max), "f8")
