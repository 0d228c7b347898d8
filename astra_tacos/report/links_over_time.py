"""Links over time: rows of links in the order of drawing, messages as bars, and shares of time in which links are in use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.dependencies import data_dependencies
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import ConfigError

Shares = NDArray[np.float32]
_SENDS_AT_A_TIME = 1 << 22


def shares_of_time(schedule: Schedule, row_of_link: NDArray[np.integer], num_bins: int) -> Shares:
    """Share of time in which links are in use.

    Parameters
    ----------
    schedule
        The schedule.
    row_of_link
        int[num_links], which row a link counts for.
    num_bins
        Equal parts of the collective's time.

    Returns
    -------
    float32[num_rows, num_bins], the mean over the links of a row.
    """
    num_rows = int(row_of_link.max()) + 1
    time = max(schedule.collective_time_ns, 1)
    busy = np.zeros((num_rows, num_bins))
    for first in range(0, schedule.num_messages, _SENDS_AT_A_TIME):
        use = link_use(schedule, first, min(first + _SENDS_AT_A_TIME, schedule.num_messages))
        _spread(busy, row_of_link[use.link], use.start_ns, use.end_ns, time / num_bins)
    links = np.bincount(row_of_link, minlength=num_rows)
    return (busy / (np.maximum(links, 1)[:, None] * (time / num_bins))).astype(np.float32)


def _spread(
    busy: NDArray[np.float64],
    row: NDArray[np.integer],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    width: float,
) -> None:
    """Add intervals to bins of that width, each in proportion to what lies in the bin."""
    num_rows, num_bins = busy.shape
    first = np.minimum((start / width).astype(np.int64), num_bins - 1)
    last = np.minimum((end / width).astype(np.int64), num_bins - 1)
    cells = num_rows * num_bins
    base = row.astype(np.int64) * num_bins
    whole = first == last
    head = np.where(whole, end - start, (first + 1) * width - start)
    tail = np.where(whole, 0.0, end - last * width)
    busy += np.bincount(base + first, head, cells).reshape(busy.shape)
    busy += np.bincount(base + last, tail, cells).reshape(busy.shape)
    # Bins in between are full: +1 after the first, -1 at the last.
    between = np.zeros((num_rows, num_bins + 1))
    flat = between.reshape(-1)
    places, sign = row.astype(np.int64) * (num_bins + 1), np.where(whole, 0.0, 1.0)
    flat += np.bincount(places + first + 1, sign, len(flat)) - np.bincount(places + last, sign, len(flat))
    busy += np.cumsum(between, axis=1)[:, :num_bins] * width


def links_by_dimension(topology: Topology) -> tuple[NDArray[np.int64], list[tuple[str, int]]]:
    """Links in the order in which a picture shows them, and groups of them as (label, number of links).

    By dimension, then by source and destination; an arbitrary graph is one group without a label.
    """
    order = np.lexsort((topology.link_dst, topology.link_src, topology.link_dimension)).astype(np.int64)
    if not topology.dimensions:
        return order, [("", topology.num_links)]
    counts = np.bincount(topology.link_dimension, minlength=len(topology.dimensions))
    names = [f"dimension {index}: {d.block} {d.size}" for index, d in enumerate(topology.dimensions)]
    return order, [(name, int(count)) for name, count in zip(names, counts, strict=True) if count]


NO_ROW = -1
_MOST_BANDWIDTHS = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Rows `first .. first + count - 1`: the links of a dimension, or of one bandwidth in an arbitrary graph."""

    label: str
    first: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class LinkRows:
    """One row for every link that leaves an NPU, sorted by dimension and then by source and destination.

    A send through a switch is drawn on the row of its up-link.

    Parameters
    ----------
    link
        int64[num_rows], the link of each row.
    row
        int64[num_links], the row of each link; `NO_ROW` for links that leave a switch.
    groups
        Groups of neighbouring rows, from the first row to the last.
    """

    link: NDArray[np.int64]
    row: NDArray[np.int64]
    groups: tuple[Group, ...]

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.link)


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Messages as bars: int64[n] row, start and end of the time that its link is held, and bool[n] whether it reduces."""

    row: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    reduces: NDArray[np.bool_]


def link_rows(topology: Topology) -> LinkRows:
    """The rows of a topology."""
    out = np.flatnonzero(topology.link_src < topology.num_npus)
    if topology.dimensions:
        kind = topology.link_dimension[out].astype(np.int64)
        labels = [f"{d.block} {d.size}\n{d.bandwidth_gibps:g} GiB/s" for d in topology.dimensions]
    else:
        distinct, kind = np.unique(-topology.link_bandwidth_gibps[out], return_inverse=True)
        labels = [f"{-bandwidth:g} GiB/s" for bandwidth in distinct.tolist()]
        if len(labels) > _MOST_BANDWIDTHS:
            labels, kind = ["links"], np.zeros(len(out), np.int64)
    link = out[np.lexsort((topology.link_dst[out], topology.link_src[out], kind))]
    row = np.full(topology.num_links, NO_ROW)
    row[link] = np.arange(len(link))
    counts = np.bincount(kind, minlength=len(labels))
    first = np.cumsum(counts) - counts
    groups = [Group(label, int(at), int(n)) for label, at, n in zip(labels, first, counts, strict=True) if n]
    return LinkRows(link, row, tuple(groups))


def bars_of(schedule: Schedule, rows: LinkRows) -> Bars:
    """All messages, in the schedule's order."""
    sizes, row = schedule.sizes, schedule.message_row
    return _bars(schedule, rows, row, sizes.timing, sizes.size_class)


def _bars(schedule: Schedule, rows: LinkRows, row: NDArray[np.int64], timing: Timing, size_class: NDArray[np.integer]) -> Bars:
    """Bars of some rows, whose messages are of those classes of size."""
    link, start = schedule.topology.channel_link[schedule.channel[row]], schedule.start_ns[row]
    held = schedule.end_ns[row] - start if timing.is_blocking else timing.link_hold_ns[link, size_class]
    return Bars(rows.row[link], start, start + held, schedule.reduces[row])


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSends:
    """The sends of one chunk.

    Parameters
    ----------
    bars
        What they hold, of each the whole message.
    waits, source
        int64[...] each: send `waits[i]` of these passes on what send `source[i]` brought, perhaps added to something else.
    done_ns
        int64[num_sends], when the chunk can be used at its destination.
    """

    bars: Bars
    waits: NDArray[np.int64]
    source: NDArray[np.int64]
    done_ns: NDArray[np.int64]


def sends_of_chunk(schedule: Schedule, rows: LinkRows, chunk: int) -> ChunkSends:
    """The sends of one chunk, in order.

    Parameters
    ----------
    schedule
        The schedule.
    rows
        Links in the order of drawing.
    chunk
        Number of the chunk.

    Raises
    ------
    ConfigError
        If the collective has no such chunk.
    """
    count = schedule.collective.num_chunks
    if not 0 <= chunk < count:
        raise ConfigError(f"chunk: found {chunk}, expected 0 to {count - 1:,}")
    own, sizes = np.flatnonzero(schedule.chunk == chunk), schedule.sizes
    bars = _bars(schedule, rows, own, sizes.timing, sizes.size_class[schedule.message_of[own]])
    waits, source = _passed_on(schedule, own)
    return ChunkSends(bars, waits, source, schedule.done_ns[own])


def _passed_on(schedule: Schedule, own: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the sends of one chunk, pairs of one that waits and one that brought what it carries, by their places among them."""
    place = np.full(schedule.num_sends, -1, np.int64)
    place[own] = np.arange(len(own))
    if schedule.sums is None:
        first, source = data_dependencies(schedule)
        waits = place[np.repeat(np.arange(schedule.num_sends), np.diff(first))]
        within = waits >= 0
        return waits[within], place[source[within]]
    sums, src, dst, value = schedule.sums, schedule.src[own], schedule.dst[own], schedule.item[own]
    brought: dict[int, dict[int, frozenset[int]]] = {}
    for number, (npu, what) in enumerate(zip(dst.tolist(), value.tolist(), strict=True)):
        brought.setdefault(npu, {})[what] = frozenset((number,))
    values = np.flatnonzero(np.isin(sums.chunk, schedule.chunk[own])).tolist()
    first = sums.part_first.tolist()
    for at in np.unique(src).tolist():
        known = brought.setdefault(at, {})
        for number in values:  # parts come before their sum
            parts = sums.part[first[number] : first[number + 1]].tolist()
            known.setdefault(number, frozenset[int]().union(*(known.get(part, ()) for part in parts)))
    ends = enumerate(zip(src.tolist(), value.tolist(), strict=True))
    pairs = [(number, source) for number, (npu, what) in ends for source in sorted(brought[npu][what])]
    waiting, awaited = np.array(pairs, np.int64).reshape(-1, 2).T
    return waiting, awaited


def busy_shares(schedule: Schedule, rows: LinkRows, lines: int, bins: int) -> NDArray[np.float64]:
    """The mean share of each bin of time for which the links of each line are held, float64[2, lines, bins].

    The first of the two arrays is for sends that reduce, the second for sends that copy.

    Parameters
    ----------
    schedule
        The schedule.
    rows
        Links in the order of drawing.
    lines
        Number of lines, over which the rows are spread evenly.
    bins
        Number of bins, into which the collective's time is divided evenly.
    """
    line_of_row = np.arange(rows.num_rows) * lines // rows.num_rows
    scale = bins / max(schedule.collective_time_ns, 1)
    shares = np.zeros((2, lines, bins))
    bars = bars_of(schedule, rows)
    for which, part in enumerate((bars.reduces, ~bars.reduces)):
        line = line_of_row[bars.row[part]]
        shares[which] = coverage(line, bars.start_ns[part] * scale, bars.end_ns[part] * scale, (lines, bins))
    shares /= np.bincount(line_of_row, minlength=lines)[:, None]
    return shares


def coverage(
    line: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    shape: tuple[int, ...],
) -> NDArray[np.float64]:
    """The sum over intervals of how much of each bin they cover, float64[lines, bins].

    The part of an interval before a point of time is a ramp that begins at its start, minus a ramp that begins at its end. The
    second differences of a ramp have two entries, in the bin where it begins and in the next one; their cumulative sum gives the
    covered share of each bin.

    Parameters
    ----------
    line
        int64[n], line of each interval.
    start, end
        float64[n], start and end of each interval, in bins.
    shape
        Number of lines and number of bins.
    """
    lines, bins = shape
    width = bins + 2
    bent = np.zeros(lines * width)
    for at, sign in ((start, 1.0), (end, -1.0)):
        at = np.clip(at, 0, bins)
        whole = np.minimum(at.astype(np.int64), bins - 1)
        part = at - whole
        key = line * width + whole + 1
        bent += np.bincount(key, sign * (1 - part), minlength=len(bent))
        bent += np.bincount(key + 1, sign * part, minlength=len(bent))
    slope = np.cumsum(bent.reshape(lines, width), axis=1)
    covered: NDArray[np.float64] = slope[:, 1 : bins + 1]
    return covered
