"""The data of a synthesis report: the network, the use of its links, the sends or a summary of them, and arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from astra_tacos.network.topology import Topology
from astra_tacos.pages.compare_rows import CompareRow
from astra_tacos.pages.links_over_time import LinkRows, device_label, link_rows, send_kinds, shares_of_time
from astra_tacos.pages.topology_picture import topology_picture, use_shades
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.partial_sums import PartialSums, Places, needed_totals
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Floats, Ints

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """When NPUs have what they need in the end, in its final form (a sum with all contributions in it).

    Parameters
    ----------
    npu
        int64[num_needy], the NPUs that need anything, ascending.
    first
        int64[num_needy + 1]: what the i-th of them gets is in entries `first[i]` to `first[i + 1]` (exclusive).
    time_ns, chunks
        int64[...], a time and how many chunks arrive at it, by NPU and ascending; time 0 for what it had from the beginning.
    """

    npu: Ints
    first: Ints
    time_ns: Ints
    chunks: Ints

    def curve(self, which: int) -> tuple[Ints, Floats]:
        """Ascending times at which the NPU `npu[which]` gets chunks, and the share that it has from then on."""
        span = slice(self.first[which], self.first[which + 1])
        held = np.cumsum(self.chunks[span])
        return self.time_ns[span], held / held[-1]

    def by_finish(self) -> Ints:
        """Indices of NPUs from the one that has everything first to the one that has it last; then by their mean times."""
        weighted = np.add.reduceat(self.time_ns * self.chunks.astype(np.float64), self.first[:-1])
        mean = weighted / np.add.reduceat(self.chunks, self.first[:-1])
        return np.lexsort((self.npu, mean, self.time_ns[self.first[1:] - 1]))


def arrivals(schedule: Schedule) -> Arrivals:
    """Times at which every NPU that needs chunks gets them."""
    npu, time, chunks = _rows(schedule)
    order = np.lexsort((time, npu))
    npu, time, chunks = npu[order], time[order], chunks[order]
    new = np.flatnonzero(np.concatenate(([True], (npu[1:] != npu[:-1]) | (time[1:] != time[:-1]))))
    npus, first = np.unique(npu[new], return_index=True)
    return Arrivals(npus, np.append(first, len(new)), time[new], np.add.reduceat(chunks, new))


_Events = tuple[Ints, Ints, Ints]


def _rows(schedule: Schedule) -> _Events:
    """NPU, time and number of the chunks that an NPU needs and has in the end."""
    if schedule.sums is not None:
        return _totals(schedule, schedule.sums)
    collective, done, dst = schedule.collective, schedule.done_ns, schedule.dst
    owner = collective.chunk_owner.astype(np.int64)
    if collective.chunk_target is not None:
        target = collective.chunk_target.astype(np.int64)
        arrival = np.full(collective.num_chunks, _NEVER)
        there = dst == target[schedule.chunk]
        np.minimum.at(arrival, schedule.chunk[there], done[there])
        return _reached(target, arrival)
    if not collective.gathers:
        arrival = np.zeros(collective.num_chunks, np.int64)
        there = dst == owner[schedule.chunk]
        np.maximum.at(arrival, schedule.chunk[there], done[there])
        return _reached(owner, arrival)
    place = dst.astype(np.int64) * collective.num_chunks + schedule.chunk
    arrival = np.full(schedule.topology.num_npus * collective.num_chunks, _NEVER)
    copies = ~schedule.reduces
    np.minimum.at(arrival, place[copies], done[copies])
    if collective.reduces:  # who gets no copy has summed the chunk up itself
        summed = np.full(len(arrival), -1)
        np.maximum.at(summed, place[schedule.reduces], done[schedule.reduces])
        is_summed = (arrival == _NEVER) & (summed >= 0)
        arrival[is_summed] = summed[is_summed]
    else:
        arrival[owner * collective.num_chunks + np.arange(collective.num_chunks)] = 0
    members = collective.member_npus
    needed = arrival.reshape(-1, collective.num_chunks)[members].ravel()
    return _reached(np.repeat(members, collective.num_chunks), needed)


def _totals(schedule: Schedule, sums: PartialSums) -> _Events:
    """The same where rows carry values: an NPU has a chunk when the whole sum of it arrives, or is made there."""
    npu, value = needed_totals(sums, schedule.collective)
    additions = schedule.additions
    places = Places.of(sums.num_values, (schedule.dst, schedule.item), (additions.npu, additions.value))
    arrival = np.full(len(places) + 1, _NEVER)
    np.minimum.at(arrival, places.find(schedule.dst, schedule.item), schedule.end_ns)
    np.minimum.at(arrival, places.find(additions.npu, additions.value), schedule.addition_end_ns)
    return _reached(npu, arrival[places.find(npu, value)])


def _reached(npu: Ints, time: Ints) -> _Events:
    there = time != _NEVER
    return npu[there], time[there], np.ones(int(there.sum()), np.int64)


MOST_INTERVALS = 400_000
"""Uses of links by sends that a page holds one by one: 2 to 4 MB, and a tenth of a second to look through in a browser."""
MOST_DRAWN_DEVICES = 600
MOST_DRAWN_LINKS = 4_200
MOST_LISTED_LINKS = 20_000
_HEAT_ROWS = 256
_HEAT_BINS = 400
_MATRIX_GROUPS = 64
_CURVE_POINTS = 400

Data = dict[str, Any]


def collect(schedule: Schedule, result: Mapping[str, Any]) -> Data:
    """Everything but the comparison."""
    topology, collective = schedule.topology, schedule.collective
    busy = schedule.link_busy_ns / max(schedule.collective_time_ns, 1)
    rows = link_rows(topology)
    data: Data = {
        "name": topology.name,
        "npus": topology.num_endpoints,
        "others": [topology.describe_device(device) for device in range(topology.num_endpoints, topology.num_npus)],
        "devices": topology.num_devices,
        "labels": [device_label(topology, device) for device in range(topology.num_devices)],
        "time": schedule.collective_time_ns,
        "bound": result["bound_ns"],
        "collective": {
            "name": collective.name,
            "chunks": collective.num_chunks,
            "reduces": collective.reduces,
            "root": collective.root,
        },
        "dimensions": _dimensions(topology, busy),
        "arrivals": _curves(schedule),
        "binding": _binding(topology, result),
    }
    if topology.num_devices <= MOST_DRAWN_DEVICES and topology.num_links <= MOST_DRAWN_LINKS:
        data["picture"] = topology_picture(topology, busy, use_shades())
    else:
        data["matrix"] = _matrix(topology, busy)
    if topology.num_links <= MOST_LISTED_LINKS:
        data["links"] = _links(topology, busy)
    if schedule.num_sends * (1 + topology.has_switches) <= MOST_INTERVALS:
        data |= _sends(schedule, rows)
    else:
        data["heat"] = _heat(schedule, rows)
    return data


def _links(topology: Topology, busy: Floats) -> Data:
    return {
        "src": topology.link_src,
        "dst": topology.link_dst,
        "dimension": topology.link_dimension,
        "bandwidth": topology.link_bandwidth_gibps,
        "latency": topology.link_latency_ns,
        "busy": busy.astype(np.float32),
    }


def _sends(schedule: Schedule, rows: LinkRows) -> Data:
    """Sends in columns, and which messages hold the link of which row of the timeline, by time.

    What follows from other columns is left to the script (`AT.synthesis.expand`).
    """
    topology, collective, sizes = schedule.topology, schedule.collective, schedule.sizes
    timing = sizes.timing
    use = link_use(schedule)
    row = rows.row[use.link]
    by_row = np.lexsort((use.start_ns, row))
    data: Data = {
        "sends": {
            "chunk": schedule.chunk,
            "channel": schedule.channel,
            "reduces": schedule.reduces,
            "start": schedule.start_ns,
            "took": schedule.end_ns - schedule.start_ns,
        },
        "channels": {
            "src": topology.channel_src,
            "dst": topology.channel_dst,
            "up": topology.channel_link,
            "down": topology.channel_down_link,
        },
        "kinds": send_kinds(schedule),
        "bars": {"row": row[by_row], "message": use.message[by_row]},
        "messages": {"first": schedule.message_first, "class": sizes.size_class, "reduction": timing.reduction_ns},
        "rows": rows.link,
        "groups": [{"label": group.label, "rows": group.count} for group in rows.groups],
        "chunks": {
            "owner": collective.chunk_owner,
            "bytes": collective.chunk_size_bytes,
        },
    }
    if not timing.is_blocking:
        data["hold"], data["delay"] = list(timing.link_hold_ns.T), list(timing.link_delay_ns.T)
    if collective.members is not None:
        data["chunks"]["members"] = collective.members
    if schedule.sums is not None:
        data["sums"] = _sums(schedule, schedule.sums)
    return data


def _sums(schedule: Schedule, sums: PartialSums) -> Data:
    """What rows carry, the sums that NPUs make and when, and of each value its chunk, whose it is and how many contributed."""
    contributors = np.ones(sums.num_values, np.int64)
    for whole in np.flatnonzero(np.diff(sums.part_first)).tolist():  # parts come before their sum
        added = contributors[sums.part[sums.part_first[whole] : sums.part_first[whole + 1]]].sum()
        contributors[whole] = min(int(added), schedule.topology.num_npus)  # more only if some counts twice
    additions = schedule.additions
    return {
        "value": schedule.value,
        "chunk": sums.chunk,
        "npu": sums.npu,
        "contributors": contributors,
        "total": sums.total,
        "made": {"npu": additions.npu, "value": additions.value, "end": schedule.addition_end_ns},
    }


def _heat(schedule: Schedule, rows: LinkRows) -> Data:
    """Shares of time in use by groups of links that follow one another in a dimension, and by time."""
    topology = schedule.topology
    row_of_link = np.empty(topology.num_links, np.int64)
    labels: list[str] = []
    for group in rows.groups:
        lines = max(1, min(group.count, round(_HEAT_ROWS * group.count / topology.num_links)))
        links = rows.link[group.first : group.first + group.count]
        row = np.arange(group.count) * lines // group.count
        row_of_link[links] = len(labels) + row
        edges = np.searchsorted(row, np.arange(lines + 1))
        sources = topology.link_src[links]
        for first, last in pairwise(edges):
            ends = [topology.describe_device(int(sources[at])) for at in (first, last - 1)]
            where = f"from {ends[0]}" if ends[0] == ends[1] else f"from {ends[0]} to {ends[1]}"
            labels.append(f"{group.label}, {where}")
    shares = shares_of_time(schedule, row_of_link, _HEAT_BINS)
    counts = np.bincount(row_of_link, minlength=len(labels))
    return {"labels": labels, "links": counts, "bins": _HEAT_BINS, "shares": np.round(shares, 4)}


def _dimensions(topology: Topology, busy: Floats) -> list[Data]:
    """Per dimension what its links are and how busy; an arbitrary graph is one."""
    rows: list[Data] = []
    names = [f"{index}: {d.block} {d.size}" for index, d in enumerate(topology.dimensions)] or [topology.describe_shape()]
    for index, name in enumerate(names):
        inside = topology.link_dimension == index if topology.dimensions else np.ones(topology.num_links, bool)
        if not inside.any():
            continue
        shares, bandwidth = busy[inside], topology.link_bandwidth_gibps[inside]
        row: Data = {
            "name": name,
            "links": int(inside.sum()),
            "least": float(shares.min()),
            "mean": float(shares.mean()),
        }
        row |= {"most": float(shares.max()), "slowest": float(bandwidth.min()), "fastest": float(bandwidth.max())}
        rows.append(row)
    return rows


def _matrix(topology: Topology, busy: Floats) -> Data:
    """Mean use of the links between groups of NPUs of consecutive numbers, and the other devices."""
    groups = min(_MATRIX_GROUPS, topology.num_endpoints)
    device = np.arange(topology.num_endpoints)
    of = np.full(topology.num_devices, groups)
    of[device] = device * groups // topology.num_endpoints
    edges = np.searchsorted(of[device], np.arange(groups + 1))
    labels = [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in pairwise(edges.tolist())]
    others = ["other devices" if topology.forwarding else "switches"] * (topology.num_devices > topology.num_endpoints)
    size = groups + len(others)
    cell = of[topology.link_src] * size + of[topology.link_dst]
    links = np.bincount(cell, minlength=size * size).reshape(size, size)
    total = np.bincount(cell, busy, size * size).reshape(size, size)
    share = np.where(links > 0, total / np.maximum(links, 1), np.nan).astype(np.float32)
    return {"labels": labels + others, "links": links, "shares": share}


def _curves(schedule: Schedule) -> Data:
    """Shares of their chunks that the fastest, the median and the slowest NPU have over time, and that all have together."""
    arrived = arrivals(schedule)
    ranked = arrived.by_finish()
    end = schedule.collective_time_ns
    picks = {"fastest": ranked[0], "median": ranked[len(ranked) // 2], "slowest": ranked[-1]}
    curves = []
    for label, which in picks.items():
        time, share = arrived.curve(int(which))
        curves.append(
            {"label": label, "npu": int(arrived.npu[which]), "chunks": _chunks(arrived.chunks, arrived.first, int(which))}
        )
        curves[-1] |= _thinned(time, share, end)
    order = np.argsort(arrived.time_ns, kind="stable")
    held = np.cumsum(arrived.chunks[order])
    together = _thinned(arrived.time_ns[order], held / held[-1], end)
    finish = arrived.time_ns[arrived.first[1:] - 1]
    return {"curves": curves, "together": together, "needy": len(ranked), "finish": [int(finish.min()), int(finish.max())]}


def _chunks(chunks: Ints, first: Ints, which: int) -> int:
    return int(chunks[first[which] : first[which + 1]].sum())


def _thinned(time: Ints, share: Floats, end: int) -> Data:
    """A step curve from time 0 to the end; a long one at so many equal steps of its length, with its last point."""
    last = np.append(time[1:] != time[:-1], True)  # of several steps at an instant, the last
    time, share = time[last], share[last]
    if len(time) > _CURVE_POINTS:
        kept = np.unique(np.linspace(0, len(time) - 1, _CURVE_POINTS).astype(np.int64))
        time, share = time[kept], share[kept]
    start = [0] if time[0] else []
    return {
        "time": np.concatenate((start, time, [end])).astype(np.int64),
        "share": np.concatenate(([0.0] * len(start), share, share[-1:])),
    }


def _binding(topology: Topology, result: Mapping[str, Any]) -> list[int]:
    """Links that the bound which binds is about, as the certificate names them."""
    wanted = set(result.get("bound_links") or [])
    return [link for link in range(topology.num_links) if topology.describe_link(link) in wanted] if wanted else []


def compared(rows: Sequence[CompareRow], result: Mapping[str, Any]) -> Data:
    """Times of algorithms, the one reported first, and why others cannot."""
    able = [row for row in rows if row.time_ns is not None]
    names = [f"{result['synthesizer']} (this schedule)", *(row.synthesizer for row in able)]
    return {
        "names": names,
        "times": [result["time_ns"], *(row.time_ns for row in able)],
        "chunks": [result["chunks_per_npu"], *(row.chunks_per_npu for row in able)],
        "bus": [result["bus_bandwidth_gbps"], *(row.bus_bandwidth_gbps for row in able)],
        "sends": [result["num_sends"], *(row.num_sends for row in able)],
        "bound": result["bound_ns"],
    }
