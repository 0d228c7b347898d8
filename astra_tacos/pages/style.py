"""What pages and figures have in common: colours, markers, how names, shapes and times are written; the files of figures."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_writable, replaced_file
from astra_tacos.support.installation import require
from astra_tacos.support.units import format_time

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of bars over time: its entry in the legend, and its colour."""

    label: str
    colour: str


REDUCE, COPY = Kind("reduce", "#4477aa"), Kind("copy", "#ee6677")
"""Kinds of sends; colours are Paul Tol's `bright`, safe for the colour-blind."""
_LOOKS = (
    ("#dd7733", "d"),
    ("#228833", "P"),
    ("#0077bb", "p"),
    ("#999933", "P"),
    ("#ee3377", "h"),
    ("#882255", "X"),
    ("#225555", "s"),
    ("#117733", "s"),
    ("#663333", "o"),
    ("#009988", "8"),
    ("#ee7733", "X"),
    ("#000000", "*"),
    ("#555588", "^"),
    ("#332288", "o"),
    ("#aa3377", "D"),
    ("#ddaa33", "^"),
    ("#aa4499", "<"),
    ("#88ccee", "v"),
    ("#004488", "<"),
    ("#aa7744", "v"),
    ("#cc6677", "D"),
    ("#997700", "H"),
    ("#44aa99", ">"),
    ("#bb5566", "D"),
)
"""Colours and markers of synthesizers: Paul Tol's palettes, safe for the colour-blind."""
_SALT = 56186
"""With this start of the checksum, the names of all synthesizers have different looks."""
MADE_BY = ("synthesizer", "made_by")
"""Columns whose values are synthesizers."""
SERIES_STYLES = (
    ("#4477aa", "o"),
    ("#ee6677", "s"),
    ("#228833", "D"),
    ("#ccbb44", "^"),
    ("#66ccee", "v"),
    ("#aa3377", "P"),
    ("#555555", "X"),
)
"""Colours and markers of series other than synthesizers: Paul Tol's `bright`."""
SHADES = ("#b5de2b", "#6ece58", "#35b779", "#1f9e89", "#26828e", "#31688e", "#3e4989", "#482878", "#440154")
"""Colours from low to high numbers: viridis without what is too pale for thin lines on white."""
TIMES = " \N{MULTIPLICATION SIGN} "

_TIME_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def look_of(synthesizer: str) -> tuple[str, str]:
    """Colour and marker (of matplotlib) of a synthesizer, the same in all pictures: both follow from its name."""
    return _LOOKS[crc32(synthesizer.encode(), _SALT) % len(_LOOKS)]


def between(colours: Sequence[str], share: float) -> str:
    """The colour at a share of 0 to 1 of the way along some colours, `#rrggbb` each."""
    place = share * (len(colours) - 1)
    low = min(int(place), len(colours) - 2)
    ends = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours[low : low + 2]]
    return "#" + "".join(f"{round(a + (place - low) * (b - a)):02x}" for a, b in zip(*ends, strict=True))


def time_unit(least_ns: float) -> tuple[str, float]:
    """The largest unit in which a time is at least 0.1, and its length in ns."""
    return next(((unit, scale) for unit, scale in reversed(_TIME_UNITS) if least_ns >= scale / 10), _TIME_UNITS[0])


def capitalized(collective: str) -> str:
    """The name of a collective with capitals: `All-Reduce` for `all-reduce`."""
    return "-".join(part.capitalize() for part in collective.split("-"))


def shape_text(shape: str) -> str:
    """A network's shape, as `Topology.describe_shape` returns it, with multiplication signs."""
    return shape.replace(" x ", TIMES)


def time_text(time_ns: float) -> str:
    """`format_time` with the micro sign."""
    return format_time(time_ns).replace(" us", " \N{MICRO SIGN}s")


FORMATS = (".svg", ".pdf", ".png")
WIDTHS = ("double", "single")
"""Widths for a two-column paper: "double" has panels side by side, "single" one above the other."""
WIDTH_INCHES = {"double": 7.16, "single": 3.5}

_TITLE_CHARACTERS = {"double": 100, "single": 46}
_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure is the same everywhere
    "font.size": 7.5,
    "text.parse_math": False,  # names may have dollar signs
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "image.interpolation": "nearest",
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "svg.fonttype": "path",
    "svg.hashsalt": "astra_tacos",
    "savefig.dpi": 300,
}
_NO_DATE: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}


def check_figure(path: Path) -> None:
    """Check, before the figure is drawn, that it can be written to `path` and that the suffix names a format.

    Raises
    ------
    ConfigError
        If the suffix names no format or the file cannot be written.
    MissingExtraError
        If matplotlib is not installed.
    """
    require("plot")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    check_writable(path)


def save_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Write the figure that `draw` makes, in the common style and the format of the suffix; equal figures give equal bytes.

    Raises
    ------
    ConfigError
        If the suffix names no format or the file cannot be written; errors of `draw` pass through.
    """
    check_figure(path)
    import matplotlib

    suffix = path.suffix.lower()
    with matplotlib.rc_context(_RC):
        figure = draw()
        content = io.BytesIO()  # matplotlib's PDF writer hides the error of a full disk behind one of its own
        figure.savefig(content, format=suffix[1:], metadata=_NO_DATE[suffix])
    with replaced_file(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def new_figure(width: str, inches: float) -> Figure:
    """An empty figure of a width (a key of `WIDTHS`) and a height, whose parts are laid out without overlaps."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_INCHES[width], inches), layout="constrained")


def legend_columns(entries: int, width: str) -> int:
    """Number of columns of a legend that fills its rows about evenly."""
    rows = -(-entries // (6 if width == "double" else 3))
    return -(-entries // rows)


def colours_from(name: str, first: float, last: float) -> Colormap:
    """A part of one of matplotlib's colour maps, for example without colours too pale for thin lines on white.

    Parameters
    ----------
    first, last
        Ends of the part, from 0 to 1.
    """
    import matplotlib
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"{name}-part", matplotlib.colormaps[name](np.linspace(first, last, 256)))


def wrapped(text: str, width: str, share: float = 1.0) -> str:
    """The text broken into lines that fit into a share of a figure's width at a font size of 8 points.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    most = int(_TITLE_CHARACTERS[width] * share)
    lines = text.split("\n")
    return "\n".join(textwrap.fill(line, most, break_on_hyphens=False) for line in lines)
