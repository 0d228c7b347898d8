"""Links over time: rows of links in the order of drawing, messages as bars, shares of time in use, and how figures draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.devices import SWITCH_KIND
from astra_tacos.network.topology import Topology
from astra_tacos.pages.style import COPY, REDUCE, Kind
from astra_tacos.schedule.dependencies import data_dependencies
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError

Shares = NDArray[np.float32]
_SENDS_AT_A_TIME = 1 << 22


def shares_of_time(schedule: Schedule, row_of_link: NDArray[np.integer], num_bins: int) -> Shares:
    """Share of time in which links are in use.

    Parameters
    ----------
    row_of_link
        int[num_links], which row a link counts for.

    Returns
    -------
    float32[num_rows, num_bins], the mean over the links of a row.
    """
    num_rows = int(row_of_link.max()) + 1
    scale = num_bins / max(schedule.collective_time_ns, 1)
    busy = np.zeros((num_rows, num_bins))
    for first in range(0, schedule.num_messages, _SENDS_AT_A_TIME):
        use = link_use(schedule, first, min(first + _SENDS_AT_A_TIME, schedule.num_messages))
        busy += _coverage(row_of_link[use.link], use.start_ns * scale, use.end_ns * scale, busy.shape)
    links = np.bincount(row_of_link, minlength=num_rows)
    return (busy / np.maximum(links, 1)[:, None]).astype(np.float32)


NO_ROW = -1
_MOST_BANDWIDTHS = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Rows `first .. first + count - 1`: the links of a dimension, or of one bandwidth in an arbitrary graph.

    Parameters
    ----------
    name, facts
        What these links are, and their bandwidth if the name does not tell.
    dimension
        Number of the dimension; None in an arbitrary graph.
    """

    name: str
    facts: str
    dimension: int | None
    first: int
    count: int

    @property
    def label(self) -> str:
        """The name with the number of the dimension."""
        return self.name if self.dimension is None else f"dimension {self.dimension}: {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class LinkRows:
    """A row for every link, or for every link that leaves an NPU, sorted by dimension and then by source and destination.

    Parameters
    ----------
    link
        int64[num_rows], the link of each row.
    row
        int64[num_links], the row of each link; `NO_ROW` for links that have none.
    """

    link: Ints
    row: Ints
    groups: tuple[Group, ...]

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.link)


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Bars over time: int64[n] row, start, end and kind, the number of one of several."""

    row: Ints
    start_ns: Ints
    end_ns: Ints
    kind: NDArray[np.integer]

    def take(self, which: Ints) -> Bars:
        """Some of the bars."""
        return Bars(self.row[which], self.start_ns[which], self.end_ns[which], self.kind[which])

    def shares(self, kinds: int, rows: int, shape: tuple[int, int], end_ns: float) -> Floats:
        """The mean share of each bin of time that bars of each kind cover, float64[kinds, lines, bins].

        Parameters
        ----------
        shape
            Number of lines, over which the rows are spread evenly, and of bins, into which time is divided evenly.
        """
        lines, bins = shape
        line_of_row = np.arange(rows) * lines // rows
        line, scale = self.kind.astype(np.int64) * lines + line_of_row[self.row], bins / max(end_ns, 1)
        covered = _coverage(line, self.start_ns * scale, self.end_ns * scale, (kinds * lines, bins)).reshape(kinds, lines, bins)
        return covered / np.bincount(line_of_row, minlength=lines)[:, None]


def link_rows(topology: Topology, with_down_links: bool = True) -> LinkRows:
    """The rows of a topology; without down-links, a send through a switch has the row of its up-link alone."""
    names: list[tuple[str, str, int | None]]
    chosen = np.arange(topology.num_links)
    if not with_down_links:
        chosen = np.flatnonzero(topology.link_src < topology.num_npus)
    if topology.dimensions:
        kind = topology.link_dimension[chosen].astype(np.int64)
        names = [(f"{d.block} {d.size}", f"{d.bandwidth_gibps:g} GiB/s", at) for at, d in enumerate(topology.dimensions)]
    else:
        distinct, kind = np.unique(-topology.link_bandwidth_gibps[chosen], return_inverse=True)
        names = [(f"{-bandwidth:g} GiB/s", "", None) for bandwidth in distinct.tolist()]
        if len(names) > _MOST_BANDWIDTHS:
            names, kind = [("links", "", None)], np.zeros(len(chosen), np.int64)
    link = chosen[np.lexsort((topology.link_dst[chosen], topology.link_src[chosen], kind))]
    row = np.full(topology.num_links, NO_ROW)
    row[link] = np.arange(len(link))
    counts = np.bincount(kind, minlength=len(names))
    first = np.cumsum(counts) - counts
    groups = [Group(*name, int(at), int(n)) for name, at, n in zip(names, first, counts, strict=True) if n]
    return LinkRows(link, row, tuple(groups))


def bars_of(schedule: Schedule, rows: LinkRows) -> Bars:
    """All messages on the link that they start on, in the schedule's order; kinds are those of `send_kinds`."""
    use, sends = link_use(schedule), slice(schedule.num_messages)
    copies = len(send_kinds(schedule)) - 1
    kind = np.where(schedule.reduces[schedule.message_row], 0, copies)
    return Bars(rows.row[use.link[sends]], use.start_ns[sends], use.end_ns[sends], kind)


def send_kinds(schedule: Schedule | SymmetricSchedule) -> tuple[Kind, ...]:
    """The kinds of sends that a schedule has: those that reduce before those that copy."""
    return (REDUCE,) * bool(schedule.reduces.any()) + (COPY,) * (not schedule.reduces.all())


def device_label(topology: Topology, device: int) -> str:
    """`3` for an NPU, `sw 16`, `nic 20` for other devices."""
    if device < topology.num_endpoints:
        return str(device)
    kind = topology.forwarding[device - topology.num_endpoints].kind if device < topology.num_npus else SWITCH_KIND
    return f"{'sw' if kind == SWITCH_KIND else kind} {device}"


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSends:
    """The sends of one chunk.

    Parameters
    ----------
    waits, source
        int64[...] each: send `waits[i]` of these passes on what send `source[i]` brought, perhaps added to something else.
    done_ns
        int64[num_sends], when the chunk can be used at its destination.
    """

    bars: Bars
    waits: Ints
    source: Ints
    done_ns: Ints


def sends_of_chunk(schedule: Schedule, rows: LinkRows, chunk: int) -> ChunkSends:
    """The sends of one chunk, in order.

    Raises
    ------
    ConfigError
        If the collective has no such chunk.
    """
    count = schedule.collective.num_chunks
    if not 0 <= chunk < count:
        raise ConfigError(f"chunk: found {chunk}, expected 0 to {count - 1:,}")
    chunk_sends = np.flatnonzero(schedule.chunk == chunk)
    bars = bars_of(schedule, rows).take(schedule.message_of[chunk_sends])
    waits, source = _passed_on(schedule, chunk_sends)
    return ChunkSends(bars, waits, source, schedule.done_ns[chunk_sends])


def _passed_on(schedule: Schedule, chunk_sends: Ints) -> tuple[Ints, Ints]:
    """Of the sends of one chunk, pairs of one that waits and one that brought what it carries, by their places among them."""
    place = np.full(schedule.num_sends, -1, np.int64)
    place[chunk_sends] = np.arange(len(chunk_sends))
    if schedule.sums is None:
        first, source = data_dependencies(schedule)
        waits = place[np.repeat(np.arange(schedule.num_sends), np.diff(first))]
        within = waits >= 0
        return waits[within], place[source[within]]
    sums, value = schedule.sums, schedule.item[chunk_sends]
    src, dst = (holder[chunk_sends] for holder in schedule.sends.holders(schedule.topology))
    brought: dict[int, dict[int, frozenset[int]]] = {}
    for number, (npu, sent_value) in enumerate(zip(dst.tolist(), value.tolist(), strict=True)):
        brought.setdefault(npu, {})[sent_value] = frozenset((number,))
    values = np.flatnonzero(np.isin(sums.chunk, schedule.chunk[chunk_sends])).tolist()
    first = sums.part_first.tolist()
    for at in np.unique(src).tolist():
        known = brought.setdefault(at, {})
        for number in values:  # parts come before their sum
            parts = sums.part[first[number] : first[number + 1]].tolist()
            known.setdefault(number, frozenset[int]().union(*(known.get(part, ()) for part in parts)))
    ends = enumerate(zip(src.tolist(), value.tolist(), strict=True))
    pairs = [(number, source) for number, (npu, value) in ends for source in sorted(brought[npu][value])]
    waiting, awaited = np.array(pairs, np.int64).reshape(-1, 2).T
    return waiting, awaited


def _coverage(
    line: NDArray[np.integer],
    start: NDArray[np.floating],
    end: NDArray[np.floating],
    shape: tuple[int, ...],
) -> Floats:
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
    """
    lines, bins = shape
    width = bins + 2
    bent = np.zeros(lines * width)
    for at, sign in ((start, 1.0), (end, -1.0)):
        at = np.clip(at, 0, bins)
        column = np.minimum(at.astype(np.int64), bins - 1)
        part = at - column
        key = line * width + column + 1
        bent += np.bincount(key, sign * (1 - part), minlength=len(bent))
        bent += np.bincount(key + 1, sign * part, minlength=len(bent))
    slope = np.cumsum(bent.reshape(lines, width), axis=1)
    covered: Floats = slope[:, 1 : bins + 1]
    return covered


MOST_VECTOR_BARS = 3_000
"""Number of bars up to which they are drawn as vectors; more are stored as pixels, even in SVG and PDF."""
MOST_BARS = 100_000
"""Number of bars up to which bars are drawn; for more, shares of time are drawn instead."""
_BINS = {"double": 1500, "single": 700}
_BAR_HEIGHT = 0.86
_MOST_RIMS = 600


@dataclass(frozen=True, slots=True)
class TimePanel:
    """A panel with rows from top to bottom and time from left to right.

    Parameters
    ----------
    scale
        Length of the time unit in ns.
    width
        Width of the figure, a key of `WIDTHS`.
    """

    axes: Any
    kinds: tuple[Kind, ...]
    end_ns: int
    scale: float
    width: str

    def add(self, bars: Bars, rows: int, most_rows: int, strength: float = 1.0) -> int:
        """Draw bars, or an image of their shares of time if there are many, or more than `most_rows` rows.

        Returns the largest number of rows that share a line of the image, 0 for bars. `strength` is that of the colours, from 0
        (white) to 1.
        """
        if len(bars.row) <= MOST_BARS and rows <= most_rows:
            self.add_bars(bars, strength)
            return 0
        from matplotlib.colors import to_rgb

        lines, bins = min(rows, most_rows), _BINS[self.width]
        image = np.ones((lines, bins, 3))
        shares = np.clip(bars.shares(len(self.kinds), rows, (lines, bins), self.end_ns), 0, 1)
        for share, kind in zip(shares, self.kinds, strict=True):
            image -= strength * share[:, :, None] * (1 - np.array(to_rgb(kind.colour)))
        extent = (0.0, self.end_ns / self.scale, float(rows), 0.0)
        self.axes.imshow(np.clip(image, 0, 1), extent=extent, aspect="auto", interpolation="nearest", zorder=1)
        return -(-rows // lines)

    def add_bars(self, bars: Bars, strength: float = 1.0, least: tuple[float, float] | None = None) -> None:
        """Draw bars; `least` is the least width (in time units) and height (in rows) of bars that are highlighted."""
        from matplotlib.collections import PolyCollection

        has_rims = least is None and len(bars.row) <= _MOST_RIMS  # separate a bar from the next one where bars are large
        style: dict[str, Any] = {"linewidths": 0.25 if has_rims else 0.0, "edgecolors": "white" if has_rims else "none"}
        style |= {"rasterized": len(bars.row) > MOST_VECTOR_BARS, "zorder": 2 if least is None else 5}
        least_width, least_height = least or (0.0, 0.0)
        half = max(_BAR_HEIGHT, least_height) / 2
        for number, kind in enumerate(self.kinds):
            bars_of_kind = np.flatnonzero(bars.kind == number)
            begin, end = bars.start_ns[bars_of_kind] / self.scale, bars.end_ns[bars_of_kind] / self.scale
            wider = np.maximum(least_width - (end - begin), 0) / 2
            left, right, top, bottom = (
                begin - wider,
                end + wider,
                bars.row[bars_of_kind] + 0.5 - half,
                bars.row[bars_of_kind] + 0.5 + half,
            )
            corners = np.stack((left, top, left, bottom, right, bottom, right, top), axis=1).reshape(-1, 4, 2)
            self.axes.add_collection(PolyCollection(list(corners), facecolors=[mixed(kind.colour, strength)], **style))


def mixed(colour: str, share: float) -> tuple[float, float, float]:
    """A colour mixed with white, as red, green and blue from 0 to 1; `share` is the share of the colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue
