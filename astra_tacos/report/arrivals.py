"""Arrivals of the needed chunks at NPUs over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.partial_sums import PartialSums, needed_totals
from astra_tacos.schedule.places import Places
from astra_tacos.schedule.schedule import Schedule

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

    npu: NDArray[np.int64]
    first: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    chunks: NDArray[np.int64]

    def curve(self, which: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Ascending times at which the NPU `npu[which]` gets chunks, and the share that it has from then on."""
        own = slice(self.first[which], self.first[which + 1])
        held = np.cumsum(self.chunks[own])
        return self.time_ns[own], held / held[-1]

    def by_finish(self) -> NDArray[np.int64]:
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


_Events = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


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
        own = (arrival == _NEVER) & (summed >= 0)
        arrival[own] = summed[own]
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


def _reached(npu: NDArray[np.int64], time: NDArray[np.int64]) -> _Events:
    there = time != _NEVER
    return npu[there], time[there], np.ones(int(there.sum()), np.int64)
