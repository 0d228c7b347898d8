"""The frame of every report page: one self-contained HTML file that loads nothing from elsewhere.

Styles, scripts, data and the plotting library are all in the file, and a content security policy keeps the browser from loading
anything else. The other modules of this package make sections and data. Their scripts draw through `AT` (`assets/core.js`,
`figure.js`, `table.js`, `timeline.js`), whose functions are described in those files.

Data are JSON in which arrays refer to one block of little-endian numbers, gzipped, as base64.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.resources import files
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
    narrowest type that holds all of an array, or doubles beyond 32 bits. Dataclasses become objects of their fields. Everything
    else is as in JSON; numbers that are not finite become null.

    Layout before compression: uint32 length of the JSON, the JSON, zeros up to a multiple of 8, then each array at a multiple of
    8. In the JSON, `{"$array": [kind, offset, shape...]}` stands for an array.

    Raises
    ------
    ConfigError
        If an integer of an array is 2**53 or more, which not every double represents exactly.
    TypeError
        If the data contain anything else than JSON types, dataclasses and such arrays.
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
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), block) for field in fields(value)}
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


MOST_PAGE_BYTES = 8_000_000
MOST_DATA_BYTES = 5_000_000
"""Largest size of a page, and of its data in base64, in bytes; the plotting library takes 2 MB of the page."""

_CORE_SCRIPTS = ("core.js", "figure.js", "table_filter.js", "table.js", "timeline_model.js", "timeline_view.js", "timeline.js")
_TEMPLATE = "page.html.j2"
_STYLES = "page.css"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    html
        Content as markup; the caller has escaped everything that comes from a user (`escape`).
    introduction
        Plain text under the heading that says what the section shows, and what was aggregated or left out.
    """

    id: str
    title: str
    html: str
    introduction: str = ""


def render_page(
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    data: Mapping[str, Any],
    scripts: Sequence[str],
) -> bytes:
    """A self-contained page as bytes of HTML; equal arguments give equal bytes.

    Parameters
    ----------
    data
        Data that the scripts read as `AT.data`; see `encode`.
    scripts
        Names of files in `assets`, in the order in which they run; they run after the scripts that every page has.

    Raises
    ------
    ConfigError
        If the page is larger than `MOST_PAGE_BYTES`.
    """
    import jinja2
    from markupsafe import Markup

    # Jinja escapes everything except what is wrapped in Markup: files of this package, and the markup of sections.
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    page = environment.from_string(asset(_TEMPLATE)).render(
        title=title,
        subtitle=subtitle,
        sections=[(section, Markup(section.html)) for section in sections],
        styles=Markup(asset(_STYLES)),
        scripts=[Markup(asset(name)) for name in (*_CORE_SCRIPTS, *scripts)],
        data=encode(data),
        plotly=compress(files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()),
    )
    content = page.encode()
    if len(content) > MOST_PAGE_BYTES:
        raise ConfigError(f"{title}: the page would have {len(content):,} bytes, expected at most {MOST_PAGE_BYTES:,}")
    return content


def escape(text: object) -> str:
    """The text escaped for use in markup."""
    import html

    return html.escape(str(text))


def span(first: int, last: int) -> str:
    """Numbers that follow one another: `3`, `0-7`."""
    return str(first) if first == last else f"{first}-{last}"


def counted(count: int, noun: str) -> str:
    """A count with its noun in singular or plural: `1 rank`, `2 ranks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def asset(name: str) -> str:
    """The text of a file of styles, scripts or markup."""
    return files("astra_tacos.pages.html").joinpath("assets", name).read_text(encoding="utf-8")
