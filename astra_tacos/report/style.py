"""What pages and figures have in common: colours, markers, and how names, shapes and times are written."""

from __future__ import annotations

from zlib import crc32

from astra_tacos.support.units import format_time

REDUCE, COPY = "#4477aa", "#ee6677"
"""Colours of sends that reduce and of sends that copy: Paul Tol's `bright`, safe for the colour-blind."""
RANK_STATES = ("#4477aa", "#66ccee", "#ee6677", "#ccbb44", "#e6e6e6")
"""Colours of the states of a rank, in the order of `rank_states.STATES`."""
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
_IMPOSSIBLE = " (impossible)"
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
TIMES = " \N{MULTIPLICATION SIGN} "

_TIME_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def look_of(synthesizer: str) -> tuple[str, str]:
    """Colour and marker (of matplotlib) of a synthesizer, the same in all pictures: both follow from its name."""
    colour, marker = _LOOKS[crc32(synthesizer.removesuffix(_IMPOSSIBLE).encode(), _SALT) % len(_LOOKS)]
    return ("#bbbbbb" if synthesizer.endswith(_IMPOSSIBLE) else colour), marker


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
