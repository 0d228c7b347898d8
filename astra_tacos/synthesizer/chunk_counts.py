"""Candidate numbers of chunks, within a maximum of sends, the most promising first.

With few chunks, links have nothing useful to send at the end; with many, each pays latency and the schedule takes more memory.
The estimated time is the bandwidth bound of ports in whole chunks or, if larger, the bound for what enters a group of NPUs
connected by faster links, plus the time that the last chunk to enter takes within the group. An All-Reduce takes that twice or,
where links can carry both phases at once in less, that bound plus three times the diameter. Personalised chunks take the time of
the worst known cut, plus the longest path of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from astra_tacos.bounds.cut import worst_chosen_cut
from astra_tacos.bounds.delivery import diameter
from astra_tacos.bounds.port import egress, fewest_crossings, ingress, volume
from astra_tacos.collective import COLLECTIVES, cut_into, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.arrays import Bools, Floats, Ints32
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.graph import Graph
from astra_tacos.support.units import bytes_per_ns

MAX_SENDS = 2_000_000
"""Sends that a schedule has at most, unless more are asked for."""

# Estimates closer than this count as equal, and fewer chunks win.
_RESOLUTION = 1.005
_MOST_CHUNKS = 4096
_MOST_SOURCES = 32
_MOST_CHUNKS_OF_TRIPS = 1 << 16
_FEW = 8
_HOPS = 2.2
"""Links of a trip, about."""
_SHORT_NS, _OF_LATENCY = 250.0, 0.25
"""Holds that are short: truncated to whole ns they are still right, and a latency is long beside them."""


@dataclass(frozen=True, slots=True)
class ChunkCandidate:
    """A number of chunks per NPU, with its number of sends and an estimate of the collective time."""

    chunks_per_npu: int
    num_sends: int
    estimate_ns: int


def round_counts(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ... up to `most`."""
    return sorted({multiple << power for multiple in (1, 3) for power in range(most.bit_length()) if multiple << power <= most})


@lru_cache(maxsize=8)
def choose_chunks(
    topology: Topology, collective_name: str, size_bytes: int, link_model: LinkModel, max_sends: int
) -> tuple[ChunkCandidate, ...]:
    """Candidates 1, 2, 3, 4, 6, 8, 12, 16, ... chunks per NPU, the most promising first; the first one is the best guess.

    Threes are among them because links that are twice as fast as others divide an NPU's data in three. One chunk per NPU is
    always a candidate, even if that makes more than `max_sends`.

    Parameters
    ----------
    collective_name, size_bytes
        As `COLLECTIVES` takes them.
    max_sends
        At least 1.

    Raises
    ------
    SynthesisError
        If even one chunk per NPU is too small or too large for the links.
    """
    candidates: list[ChunkCandidate] = []
    sends = 0
    for chunks in round_counts(_MOST_CHUNKS):
        if chunks > 1 and chunks * sends > max_sends:
            break
        try:
            collective = COLLECTIVES[collective_name](topology.num_npus, size_bytes, chunks)
            if chunks == 1:
                sends = fewest_crossings(topology, collective) if collective.is_personalised else collective.least_sends
            timing = compute_timing(topology, collective, link_model)
        except (ConfigError, SynthesisError):
            if not candidates:
                raise
            break
        candidates.append(ChunkCandidate(chunks, chunks * sends, _estimate_ns(Problem(topology, collective, timing))))
    as_good = min(candidate.estimate_ns for candidate in candidates) * _RESOLUTION
    return tuple(sorted(candidates, key=lambda candidate: max(candidate.estimate_ns, as_good)))


def most_promising(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU of the most promising candidate."""
    return choose_chunks(topology, name, size_bytes, link_model, max_sends)[0].chunks_per_npu


def advise_for_trips(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU with which it should come close to its best: links hold chunks briefly, and few trips fill the pipeline.

    Parameters
    ----------
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.
    """
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    uncut = make_collective(name, topology.num_npus, size_bytes, 1, members=topology.endpoints)
    count = _most_of_trips(topology, uncut, float(rate.min() if link_model == "blocking" else rate.max()), max_sends)
    shift = max(count.bit_length() - 3, 0)  # round numbers, so that similar networks get the same
    return count >> shift << shift


def counts_for_trips(topology: Topology, collective: Collective, max_sends: int) -> set[int]:
    """Numbers of chunks per NPU to try where devices forward: 1, and powers of two from long holds of slow links to short ones.

    A trip waits at every device, longest at slow links; a fast link, though, may hold small chunks for few nanoseconds only.
    Where these powers are few, there is one more: latencies are long beside holds then, and twice as many chunks gain up to a
    sixth.
    """
    uncut = cut_into(collective, 1)
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    least, most = (_most_of_trips(topology, uncut, float(bound), max_sends) for bound in (rate.max(), rate.min()))
    powers = range((least // 2).bit_length(), most.bit_length() + (most < _FEW))
    return {1} | {1 << power for power in powers if 1 << power <= int(uncut.class_size_bytes[0])}


def _most_of_trips(topology: Topology, uncut: Collective, rate: float, max_sends: int) -> int:
    """Chunks per NPU that hold links of a rate in bytes/ns for a short time, if schedules and collectives may be so large."""
    short_ns = max(_SHORT_NS, _OF_LATENCY * float(topology.link_latency_ns.max()))
    most = float(uncut.class_size_bytes[0]) / (rate * short_ns)
    return int(max(min(most, max_sends / (_HOPS * uncut.least_sends), _MOST_CHUNKS_OF_TRIPS / uncut.num_chunks), 1.0))


def _estimate_ns(problem: Problem) -> int:
    topology, collective, timing = problem
    carried = max(bound(problem).time_ns for bound in (ingress, egress, volume))
    farthest = diameter(problem).time_ns
    if collective.is_personalised:
        # Links hold small chunks for whole nanoseconds, rounded down; this gain is no reason to prefer small chunks.
        held = timing.link_delay_ns if timing.is_blocking else timing.link_hold_ns
        exact_ns = collective.class_size_bytes[0] / bytes_per_ns(topology.link_bandwidth_gibps)
        exact_ns += topology.link_latency_ns if timing.is_blocking else 0
        rounded = float((exact_ns / np.maximum(held[:, 0], 1)).max())
        return int(max(carried, worst_chosen_cut(problem).time_ns) * rounded) + farthest
    grouped = _into_groups_ns(problem)
    if not (collective.reduces and collective.gathers):
        return max(carried, farthest, grouped)
    shard = COLLECTIVES["all-gather"](topology.num_npus, max(collective.size_bytes // topology.num_npus, 1), 1)
    per_npu = collective.num_chunks / topology.num_npus
    period = timing.channel_delay_ns[:, 0] if timing.is_blocking else timing.link_hold_ns[topology.channel_link, 0]
    into = np.bincount(*_ports(topology, np.ones(len(period), np.bool_), 1 / period), topology.num_npus)
    one_phase = max(
        int(per_npu * (topology.num_npus - 1) / into.min()), diameter(Problem(topology, shard, timing)).time_ns, grouped
    )
    return min(2 * one_phase, max(carried, 2 * grouped) + 3 * farthest)


def _ports(topology: Topology, used: Bools, rate: Floats) -> tuple[Ints32, Floats]:
    """The NPU that the last link of each used channel leads to, each link once, and its highest rate among these channels."""
    last = np.where(topology.channel_down_link == NO_LINK, topology.channel_link, topology.channel_down_link)
    highest = np.zeros(topology.num_links)
    np.maximum.at(highest, last[used], rate[used])
    links = np.flatnonzero(highest)
    return topology.link_dst[links], highest[links]


def _into_groups_ns(problem: Problem) -> int:
    """The longest time, over groups of NPUs connected by faster links, to enter the group over slower links and spread there."""
    topology, collective, timing = problem
    num_npus = topology.num_npus
    src, dst, ns = topology.channel_src, topology.channel_dst, timing.channel_delay_ns[:, 0]
    period = ns if timing.is_blocking else timing.link_hold_ns[:, 0][topology.channel_link]
    longest = 0
    for limit_ns in np.unique(ns)[1:][-_MOST_SOURCES:].tolist():
        fast = ns < limit_ns
        graph = Graph.of(num_npus, src[fast], dst[fast], ns[fast])
        number, group = graph.strong_groups()
        if number in (1, num_npus):
            continue
        crossing = group[src] != group[dst]
        npu, rate = _ports(topology, crossing, 1 / period)
        into, doors = np.bincount(group[npu], rate, number), np.bincount(group[npu], minlength=number)
        npu, rate = _ports(topology, fast, 1 / period)
        within = np.bincount(npu, rate, num_npus)
        members = np.bincount(group, minlength=number)
        enter_ns = collective.num_chunks * (1 - members / num_npus) / into
        worst = np.argsort(-enter_ns)[:_MOST_SOURCES]
        one_of_each = np.unique(group, return_index=True)[1][worst]
        reach = graph.distances(one_of_each)
        reach[~np.isfinite(reach) | (group != group[one_of_each][:, None])] = 0
        # Each link into the group brings a last chunk at about the same time, and every NPU needs all of these chunks.
        spread_ns = np.maximum(reach.max(axis=1), (doors[worst] - 1) / np.maximum(within[one_of_each], 1e-12))
        longest = max(longest, int((enter_ns[worst] + np.where(members[worst] > 1, spread_ns, 0)).max()))
    return longest
