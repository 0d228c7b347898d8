"""Bounds on the sum of the latencies of a run's messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.linter.collectives import Collectives
from astra_tacos.linter.facts import Facts
from astra_tacos.linter.trace_view import TraceView
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.trace.schema import CommType, NodeType

EXACT_NS = 1 << 53
"""Time in ns up to which ASTRA-sim is exact, as it passes times as doubles (`CommonNetworkApi.cc`, `sim_get_time`)."""


def shortest_rank_ns(facts: Facts, view: TraceView) -> NDArray[np.float64]:
    """float64[num_ranks], lower bound on the time of each rank, in ns.

    A rank runs one collective or send at a time (`workload/HardwareResource.cc`), so that their latencies add up.
    """
    ranks = view.trace.num_ranks
    latency_ns = _latencies_ns(facts)
    if not latency_ns.size or not facts.communicates:
        return np.zeros(ranks)
    sends = view.rows(NodeType.COMM_SEND) & view.runs
    sent_ns: NDArray[np.float64] = np.bincount(view.rank[sends], minlength=ranks) * latency_ns.min()
    collectives = facts.collectives
    if collectives is not None:
        sent_ns += np.bincount(collectives.rank, _shortest_native_ns(facts, view, collectives, latency_ns), ranks)
    return sent_ns


def longest_latency_ns(facts: Facts, view: TraceView) -> float:
    """Upper bound on the sum of a run's latencies, in ns: every message in sequence, every collective a ring over all NPUs."""
    latency_ns = _latencies_ns(facts)
    if not latency_ns.size or not facts.communicates:
        return 0.0
    messages = int(view.rows(NodeType.COMM_SEND).sum()) + 2 * facts.num_npus * int(view.rows(NodeType.COMM_COLL).sum())
    messages += sum(int(custom.rows(NodeType.COMM_SEND).sum()) for custom in facts.custom.values())
    return messages * float(latency_ns.max())


def _latencies_ns(facts: Facts) -> NDArray[np.float64]:
    """float64[...], the latencies of all dimensions or links, and of links that override theirs."""
    network = facts.inputs.network
    if network is None:
        return np.empty(0)
    links = (*network.links, *network.link_overrides)
    own = [link.latency_ns for link in links if link.latency_ns is not None]
    return np.array([*(dimension.latency_ns for dimension in network.dimensions), *own])


def _shortest_native_ns(
    facts: Facts, view: TraceView, collectives: Collectives, latency_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64[num_collectives], lower bound on the latencies of native collectives, in ns; 0 for custom ones."""
    network = facts.inputs.network
    shortest = np.zeros(len(collectives.row))
    if network is None:
        return shortest
    least = float(latency_ns.min())
    for pattern, key in PATTERN_KEYS.items():
        given = facts.system.native.get(key, ())
        native = (collectives.comm_type == pattern) & (collectives.run == NATIVE)
        for group in np.unique(collectives.group[native]).tolist() if given else ():
            size, names = facts.group_size(group), given
            sizes = [dimension.size for dimension in network.dimensions]
            if size < facts.num_npus or not sizes:  # some of the network's NPUs are one dimension
                sizes, names = [size], names if len(names) == 1 else ("ring",)
            steps = sum(_steps(name, pattern, count) for name, count in zip(names, sizes, strict=False))
            shortest[native & (collectives.group == group)] = max(steps, 1) * least
    chooses_dimensions = view.columns.involved_count[collectives.row] > 0
    return np.where(chooses_dimensions, np.minimum(shortest, least), shortest)


def _steps(name: str, pattern: int, count: int) -> int:
    """Lower bound on the number of messages in sequence in a dimension of `count` NPUs; 1 for an unknown algorithm."""
    halves = max(count - 1, 1).bit_length()
    phases = 2 if pattern == CommType.ALL_REDUCE else 1
    if pattern == CommType.ALL_TO_ALL:
        return 1
    return phases * {"ring": count - 1, "halvingDoubling": halves, "doubleBinaryTree": 1}.get(name.rstrip("0123456789"), 1)
