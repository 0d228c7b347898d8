"""Schedules under other numbers of NPUs: on a topology that is the same under them, or on one of which theirs is a part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing


def renumbered(schedule: Schedule, topology: Topology, collective: Collective, npu: NDArray[np.int64]) -> Schedule | None:
    """The same sends between the NPUs that take the places of the schedule's, at the same times if chunks are of equal sizes.

    Chunks go along with their owners and targets. None if the schedule has partial sums, or links or chunks have no counterparts.

    Parameters
    ----------
    schedule
        The schedule.
    topology
        The other topology.
    collective
        The same collective there, cut alike.
    npu
        int64[num_npus], which NPU of the other topology each one is.
    """
    own = schedule.collective
    channel = topology.channel_of(npu[schedule.src], npu[schedule.dst])
    if schedule.sums is not None or schedule.trip is not None or own.num_chunks != collective.num_chunks or (channel < 0).any():
        return None
    chunk = _chunks(own, collective, npu)
    if chunk is None:
        return None
    timing = compute_timing(topology, collective, schedule.timing.link_model, schedule.timing.reduce_bandwidth_gbps)
    chunks = chunk[schedule.chunk].astype(np.int32)
    channels = channel.astype(np.int32)
    if np.array_equal(collective.chunk_size_bytes[chunk], own.chunk_size_bytes):
        return replace(schedule, topology=topology, collective=collective, timing=timing, chunk=chunks, channel=channels)
    sends = replace(schedule.sends, chunk=chunks, channel=channels)  # chunks of a byte more are others now
    return settle(topology, collective, timing, sends, schedule.synthesizer, schedule.seed)


def _chunks(own: Collective, other: Collective, npu: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """int64[num_chunks], the k-th chunk of each owner and target is the k-th of those that take their places."""
    if own.reduces and own.gathers:
        return np.arange(own.num_chunks)  # owners are hints
    keys = []
    for collective, place in ((own, npu), (other, np.arange(len(npu)))):
        target = np.zeros(collective.num_chunks, np.int64)
        if collective.chunk_target is not None:
            target = place[collective.chunk_target]
        keys.append((target, place[collective.chunk_owner]))
    first, second = (np.lexsort(key) for key in keys)
    if not all(np.array_equal(one[first], two[second]) for one, two in zip(*keys, strict=True)):
        return None
    chunk = np.empty(own.num_chunks, np.int64)
    chunk[first] = second
    return chunk


def moved_to(schedule: Schedule, topology: Topology, link: NDArray[np.int64]) -> Schedule:
    """The same sends, in the same order on every link, on a topology that has all links of the schedule's and more.

    Parameters
    ----------
    schedule
        The schedule.
    topology
        The whole topology, with the same devices.
    link
        int64[links of the schedule's topology], which link each of them is there.
    """
    own = schedule.topology
    ups = link[own.channel_link]
    downs = np.where(own.channel_down_link == NO_LINK, NO_LINK, link[own.channel_down_link])
    keys = topology.channel_link.astype(np.int64) * (topology.num_links + 1) + topology.channel_down_link
    order = np.argsort(keys)
    channel = order[np.searchsorted(keys[order], ups * (topology.num_links + 1) + downs)].astype(np.int32)
    timing = compute_timing(topology, schedule.collective, schedule.timing.link_model, schedule.timing.reduce_bandwidth_gbps)
    sends = replace(schedule.sends, channel=channel[schedule.channel])
    return settle(topology, schedule.collective, timing, sends, schedule.synthesizer, schedule.seed)
