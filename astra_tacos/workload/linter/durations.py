"""What lasts less than 1 ns at time 0, and what takes a run beyond the times that ASTRA-sim represents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.groups import sorted_position
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.workload.linter.collectives import Collectives
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.trace_view import TraceView

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


def first_issued(view: TraceView) -> NDArray[np.bool_]:
    """bool[num_nodes], compute nodes, collectives, sends and accesses of the workload that are certainly issued at time 0.

    Of each rank's nodes without dependencies, these are the lowest id of each slot (`workload/HardwareResource.cc`).
    """
    ready = ~view.depends & view.runs & ~view.columns.is_cpu_op
    first = np.zeros(view.trace.num_nodes, np.bool_)
    network = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.MEM_LOAD, NodeType.MEM_STORE)
    for kinds in ((NodeType.COMP,), network):
        rows = np.flatnonzero(ready & view.rows(*kinds))
        rows = rows[np.lexsort((view.trace.node_id[rows], view.rank[rows]))]
        _, lowest = np.unique(view.rank[rows], return_index=True)
        first[rows[lowest]] = True
    return first


def first_sends(facts: Facts, first: NDArray[np.bool_]) -> dict[int, NDArray[np.int64]]:
    """Rows of sends of custom traces that are certainly issued at time 0, by the trace's place among the prefixes."""
    collectives = facts.collectives
    found: dict[int, NDArray[np.int64]] = {}
    started = first[collectives.row] & (collectives.run != NATIVE)
    for number in np.unique(collectives.run[started]).tolist():
        if number not in facts.custom:
            continue
        view = facts.custom[number]
        chosen = started & (collectives.run == number)
        positions = {
            int(sorted_position(collectives.members[group], np.array([rank]))[0])
            for group, rank in zip(collectives.group[chosen].tolist(), collectives.rank[chosen].tolist(), strict=True)
        }
        sends = view.rows(NodeType.COMM_SEND) & ~view.depends & np.isin(view.rank, sorted(positions))
        found[number] = np.flatnonzero(sends & (view.trace.size_bytes > 0))
    return found


def serialisation_ns(facts: Facts, view: TraceView, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[len(rows)], ns that messages hold a link, the slowest of all dimensions; NaN without dimensions."""
    network = facts.inputs.network
    if network is None or not network.dimensions:
        return np.full(len(rows), np.nan)
    rates = bytes_per_ns(np.array([dimension.bandwidth_gibps for dimension in network.dimensions]))
    times: NDArray[np.float64] = view.trace.size_bytes[rows] / rates.min()
    return times


def shortest_ns(facts: Facts, view: TraceView, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[len(rows)], ns until the first event of a send: it frees its link, or arrives if the model has no links."""
    network = facts.inputs.network
    if facts.queues or network is None or not network.dimensions:
        return serialisation_ns(facts, view, rows)
    size = view.trace.size_bytes[rows]
    times = [
        dimension.building_block.fewest_crossed(dimension.size) * dimension.latency_ns
        + size / bytes_per_ns(np.array([dimension.bandwidth_gibps]))[0]
        for dimension in network.dimensions
    ]
    longest: NDArray[np.float64] = np.max(times, axis=0)
    return longest


def roofline_ns(facts: Facts, view: TraceView, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[len(rows)], ns of compute nodes under the roofline (`workload/Workload.cc`, `issue_comp`); NaN without it."""
    system, columns = facts.system, view.columns
    ops, size = columns.num_ops[rows].astype(np.float64), columns.tensor_size[rows].astype(np.float64)
    applies = (ops > 0) & (size > 0) & ~columns.is_cpu_op[rows]
    if not system.roofline_enabled or system.peak_perf_tflops == 0 or system.local_mem_bw_gbps == 0:
        return np.full(len(rows), np.nan)
    size[~applies] = ops[~applies] = np.nan
    rate = np.minimum(system.peak_perf_tflops * 1e12, ops / size * system.local_mem_bw_gbps * 1e9)
    times: NDArray[np.float64] = ops / rate * 1e9
    return times


def access_ns(facts: Facts, view: TraceView, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[len(rows)], ns of loads and stores (`AnalyticalRemoteMemory.cc`); NaN without remote memory or bandwidth."""
    memory = facts.inputs.remote_memory
    if memory is None or memory.kind == "none" or memory.bytes_per_ns == 0:
        return np.full(len(rows), np.nan)
    times: NDArray[np.float64] = memory.latency_ns + view.columns.tensor_size[rows] / memory.bytes_per_ns
    return times
