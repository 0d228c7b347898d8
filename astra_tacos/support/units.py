"""All conversions between units.

Inside the package sizes are bytes and times integer nanoseconds, ASTRA-sim's own tick. "GB/s" in ASTRA-sim's network files
means 2**30 bytes per second (`astra-network-analytical`, `common/Type.cpp`), so those bandwidths are called `gibps` here.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted

if TYPE_CHECKING:
    from astra_tacos.support.arrays import Floats, Ints

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000
BYTES_PER_GIB = 1 << 30
BYTES_PER_GB = 1_000_000_000
GIB_PER_GB = BYTES_PER_GB / BYTES_PER_GIB
MAX_SIZE_BYTES = 1 << 53
"""Largest collective: sizes go through double precision, as in ASTRA-sim, and stay exact up to here."""

MAX_SIZES = 64
"""Most sizes that `parse_sizes` takes."""
_SIZE_STEP = 4

_SIZE_PATTERN = re.compile(r"\s*(-?[0-9]{1,40}(?:\.[0-9]{1,40})?)\s*([A-Za-z]*)\s*")
_TIME_PATTERN = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(ns|us|ms|s)")
_TIME_UNITS = {"ns": 1, "us": NS_PER_US, "ms": 1_000_000, "s": NS_PER_S}
_MAX_TIME_NS = 3_600 * NS_PER_S
_PREFIXES = "kmgt"
_SIZE_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate(_PREFIXES, start=1)
    for suffix, base in (("ib", 1024), ("b", 1000))
}


def bytes_per_ns(bandwidth_gibps: Floats) -> Floats:
    """Bandwidth in bytes per nanosecond, in the order of operations that ASTRA-sim uses (the last bit matters)."""
    return bandwidth_gibps * float(BYTES_PER_GIB) / float(NS_PER_S)


def parse_size(text: str, where: str = "size") -> int:
    """Bytes of `64MiB` (2**20), `1GB` (10**9) or `4096`; `where` is what errors call it.

    Raises
    ------
    ConfigError
        If the text is no size, not a whole number of bytes, zero, or above `MAX_SIZE_BYTES`.
    """
    match = _SIZE_PATTERN.fullmatch(text)
    unit = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is not None and match[2] and match[2].lower() in _PREFIXES:
        number, prefix = match[1], match[2].upper()
        raise ConfigError(f"{where}: found {quoted(text)}, expected {number}{prefix}iB (1024s) or {number}{prefix}B (1000s)")
    if match is None or unit is None:
        raise ConfigError(f"{where}: found {quoted(text)}, expected bytes such as 4096, 64MiB or 1GB")
    digits, _, fraction = match[1].partition(".")
    denominator: int = 10 ** len(fraction)
    size, remainder = divmod(int(digits + fraction) * unit, denominator)
    if remainder:
        raise ConfigError(f"{where}: {quoted(text)} is not a whole number of bytes")
    if not 0 < size <= MAX_SIZE_BYTES:
        raise ConfigError(f"{where}: found {quoted(text)}, expected a size above 0 and at most {format_size(MAX_SIZE_BYTES)}")
    return size


def parse_time(text: str) -> int:
    """The ns of `10us`, `1.5ms`, `200ns` or `2s`.

    Raises
    ------
    ConfigError
        If the text is no time, not a whole number of ns, zero, or above an hour.
    """
    match = _TIME_PATTERN.fullmatch(text)
    if match is None:
        raise ConfigError(f"found {quoted(text)}, expected a time such as 200ns, 10us, 1.5ms or 2s")
    digits, _, fraction = match[1].partition(".")
    denominator: int = 10 ** len(fraction)
    time_ns, remainder = divmod(int(digits + fraction) * _TIME_UNITS[match[2]], denominator)
    if remainder or not 0 < time_ns <= _MAX_TIME_NS:
        raise ConfigError(f"found {quoted(text)}, expected a whole number of ns, 1ns to {_MAX_TIME_NS // NS_PER_S}s")
    return time_ns


def parse_sizes(text: str, where: str = "sizes") -> tuple[int, ...]:
    """Sizes of `64KiB,1MiB`, or of `64KiB:1GiB`: every size from the first on, four times larger each, up to the second.

    Errors call them `where`.

    Returns
    -------
    sizes
        In ascending order, each once.

    Raises
    ------
    ConfigError
        If a part is no size or no range of sizes, or there are more than `MAX_SIZES`.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        first, colon, last = part.partition(":")
        size, end = (parse_size(bound, where) for bound in (first, last if colon else first))
        if size > end:
            raise ConfigError(f"{where}: found {part!r}, expected the smaller size first")
        while size <= end:
            sizes.add(size)
            size *= _SIZE_STEP
    if len(sizes) > MAX_SIZES:
        raise ConfigError(f"{where}: found {len(sizes)}, expected at most {MAX_SIZES}")
    return tuple(sorted(sizes))


def format_size(size_bytes: int) -> str:
    """A short text for a size: `64 MiB`, `1.50 KiB`, `17 B`."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.2f} {unit}"


def format_time(time_ns: float) -> str:
    """A short text for a time: `940 ns`, `12.34 us`, `5.60 ms`."""
    unit, scale, digits = _unit_of_time(time_ns)
    return f"{time_ns / scale:,.{digits}f} {unit}"


def shown(time_ns: float) -> float:
    """The time in ns that `format_time` prints for a time."""
    _, scale, digits = _unit_of_time(time_ns)
    return float(f"{time_ns / scale:.{digits}f}") * scale


def _unit_of_time(time_ns: float) -> tuple[str, float, int]:
    """In what unit a time is printed, its nanoseconds, and with how many digits."""
    if time_ns < 10_000:
        return "ns", 1.0, 0
    if time_ns < 10_000_000:
        return "us", 1e3, 2
    return ("ms", 1e6, 2) if time_ns < 10_000_000_000 else ("s", 1e9, 2)


def agreed_text(exact: float, printed: float, digits: int) -> str:
    """A figure with the most digits, at most those asked, with which it is the same from exact and from printed numbers.

    Where there are none, it is the figure of the printed numbers.
    """
    for count in range(digits, -1, -1):
        text = f"{printed:,.{count}f}"
        if text == f"{exact:,.{count}f}":
            return text
    return f"{printed:,.{digits}f}"


def ratio_text(time_ns: float, other_ns: float, digits: int = 2) -> str:
    """The quotient of two times, as `agreed_text` of what `format_time` prints for them."""
    return agreed_text(_quotient(time_ns, other_ns), _quotient(shown(time_ns), shown(other_ns)), digits)


def share_text(time_ns: float, other_ns: float, digits: int = 1) -> str:
    """A time as a percentage of another one, as `agreed_text` of what `format_time` prints for them."""
    printed = _quotient(shown(time_ns), shown(other_ns))
    return f"{agreed_text(100 * _quotient(time_ns, other_ns), 100 * printed, digits)}%"


def rate_text(rate: float, time_ns: float, digits: int = 1) -> str:
    """A rate in so much per time, as `agreed_text` of what `format_time` prints for the time."""
    return agreed_text(rate, rate * _quotient(time_ns, shown(time_ns)), digits)


def _quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 1.0


def reduction_us(size_bytes: Ints, reduce_bandwidth_gbps: float) -> Ints:
    """Whole microseconds, rounded to nearest, to add some numbers of bytes at a decimal GB/s; 0 GB/s is infinitely fast.

    Chakra's `duration_micros` is an integer, which is why the duration is not finer.
    """
    if reduce_bandwidth_gbps == 0:
        return size_bytes * 0
    micros: Ints = (size_bytes / (reduce_bandwidth_gbps * BYTES_PER_GB) * 1e6).round().astype("int64")
    return micros


def reduction_ns(duration_us: Ints) -> Ints:
    """Nanoseconds that ASTRA-sim gives COMP nodes of these `duration_micros`: 1 ns when it is 0."""
    duration_ns: Ints = duration_us * NS_PER_US + (duration_us == 0)
    return duration_ns


def duration(seconds: float) -> str:
    """`0:04:10`, `2 days, 3:00:00`."""
    return str(timedelta(seconds=round(seconds)))
