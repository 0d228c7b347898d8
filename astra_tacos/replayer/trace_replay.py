"""Replay of a custom collective's traces on ASTRA-sim's analytical networks, to the nanosecond.

Semantics and order of events are those of `astra-sim`, `system/astraccl/custom_collectives/CustomAlgorithm.cc`, on
`astra-network-analytical`. Nodes of one rank that become ready at the same event are issued there as a C++ hash set of their
ids yields them (Chakra's `dependancy_solver.cpp`), which is a fixed order with GCC's standard library: it is followed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import NetworkConfig
from astra_tacos.errors import ConfigError, ReplayError
from astra_tacos.replayer.routes import direct_delays, links_crossed
from astra_tacos.replayer.trace_check import check_nodes, check_range, wait_chain
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import Trace
from astra_tacos.units import NS_PER_US

TraceBackend = Literal["congestion-aware", "congestion-unaware"]
TRACE_BACKENDS: tuple[TraceBackend, ...] = ("congestion-aware", "congestion-unaware")
_TAG_MODULUS = 500_000_000


@dataclass(frozen=True, slots=True, eq=False)
class TraceReplay:
    """What a replay of traces saw. Arrays are read-only.

    Parameters
    ----------
    backend
        The network model.
    finish_ns
        int64[num_ranks], when the last node of a rank completes: what ASTRA-sim prints as `finished, T cycles` for a
        workload of this one collective.
    sent_bytes
        int64[num_ranks].
    node_issue_ns, node_finish_ns
        int64[num_nodes], by row of the trace. A send is issued when it joins the queue of its first link.
    link_src, link_dst
        int32[num_links], devices at the ends of each directed link, switches after the NPUs (`Topology`'s numbers); empty
        under congestion-unaware, which has no links.
    link_bytes, link_busy_ns
        int64[num_links], what each link carried, and how long it was held: the sum of int(size / bandwidth).
    """

    backend: TraceBackend
    finish_ns: NDArray[np.int64]
    sent_bytes: NDArray[np.int64]
    node_issue_ns: NDArray[np.int64]
    node_finish_ns: NDArray[np.int64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]
    link_bytes: NDArray[np.int64]
    link_busy_ns: NDArray[np.int64]

    @property
    def collective_time_ns(self) -> int:
        """When the last rank has finished."""
        return int(self.finish_ns.max())


def replay_trace(trace: Trace, network: NetworkConfig, backend: TraceBackend) -> TraceReplay:
    """Replay the traces of a custom collective over all NPUs of a network.

    `congestion-aware` (`congestion_aware/Link.cpp`, `Ring.cpp`, `Switch.cpp`): links are first in, first out; each hop takes
    int(latency + size / bandwidth) and holds its link for int(size / bandwidth). It goes beyond ASTRA-sim, which has one
    dimension and no Mesh here: routes cross the dimensions in order, lowest first, on links of their own; link overrides and
    failures count; a graph without dimensions takes messages between neighbours.
    `congestion-unaware` (`congestion_unaware/MultiDimTopology.cpp`, `BasicTopology.cpp`): no queues; a message takes
    int(hops * latency + size / bandwidth) of the first dimension in which its ends differ; link failures have no effect.

    Parameters
    ----------
    trace
        Nodes COMM_SEND, COMM_RECV and COMP; peers are NPUs.

    Raises
    ------
    ConfigError
        If a node is of another kind or incomplete, the ranks are not the network's NPUs, the backend cannot model the network,
        or a send ends or frees its link at time 0, where ASTRA-sim stops.
    ReplayError
        If nodes wait for ever; the message says who waits for what.
    """
    from astra_tacos.replayer import _trace_replay_kernels as kernels

    if backend not in TRACE_BACKENDS:
        raise ConfigError(f"backend: found {backend!r}, expected {' or '.join(TRACE_BACKENDS)}")
    check_nodes(trace, network)
    sends = np.flatnonzero(trace.kind == NodeType.COMM_SEND)
    rank = trace.rank
    aware = backend == "congestion-aware"
    routes = (links_crossed if aware else direct_delays)(network, rank[sends], trace.peer[sends], trace.size_bytes[sends])
    compute_ns = np.where(trace.kind == NodeType.COMP, np.maximum(trace.duration_us * NS_PER_US, 1), 0)
    check_range(trace, routes, sends, float(compute_ns.sum(dtype=np.float64)))

    key, slot_first = _message_keys(trace, rank)
    child_first, child, waits = _children(trace)
    set_level = np.zeros(trace.num_ranks, np.int64)
    most_nodes = int(np.diff(trace.rank_first).max())
    bucket, scratch = np.full(3 * most_nodes + 13, -1, np.int64), np.empty((4, most_nodes), np.int64)
    kernels.order_children(
        trace.node_id, trace.rank_first, trace.dep_first, trace.dep, child_first, child, set_level, bucket, scratch
    )
    hop, hop_end, direct_ns = (np.zeros(trace.num_nodes, np.int64) for _ in range(3))
    hop[sends], hop_end[sends], direct_ns[sends] = routes.first, routes.end, routes.direct_ns
    issue_ns, finish_ns = np.full((2, trace.num_nodes + 1), -1, np.int64)
    link_bytes, link_busy_ns = np.zeros((2, len(routes.latency_ns)), np.int64)
    status, row = kernels.replay_nodes(
        rank,
        trace.node_id,
        trace.kind,
        trace.size_bytes,
        compute_ns,
        key,
        slot_first,
        child_first,
        child,
        waits,
        set_level,
        bucket,
        scratch,
        direct_ns,
        hop,
        hop_end,
        routes.link,
        routes.latency_ns,
        routes.bytes_per_ns,
        issue_ns,
        finish_ns,
        link_bytes,
        link_busy_ns,
    )
    if status == kernels.ENDS_AT_ZERO:
        raise ConfigError(
            f"{trace.prefix}: {trace.describe_node(row)} sends {trace.size_bytes[row]} bytes at time 0 in under 1 ns of "
            f"{network.name}, where ASTRA-sim stops: expected a larger size"
        )
    issue_ns, finish_ns = issue_ns[:-1], finish_ns[:-1]
    if finish_ns.min() < 0:
        raise ReplayError(f"{trace.prefix}: deadlock: {wait_chain(trace, key, issue_ns, finish_ns)}")
    sent_bytes = np.zeros(trace.num_ranks, np.int64)
    np.add.at(sent_bytes, rank[sends], trace.size_bytes[sends])
    rank_finish_ns = np.maximum.reduceat(finish_ns, trace.rank_first[:-1])
    results = (rank_finish_ns, sent_bytes, issue_ns, finish_ns, routes.link_src, routes.link_dst, link_bytes, link_busy_ns)
    for result in results:
        result.flags.writeable = False
    return TraceReplay(backend, *results)


def _message_keys(trace: Trace, rank: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per node the number of its (source, destination, size, tag), and per number the first of its slots.

    A key has as many slots as it has sends or receives, whichever are more (`ChunkIdGenerator.cc`).
    """
    is_send = trace.kind == NodeType.COMM_SEND
    rows = np.flatnonzero(is_send | (trace.kind == NodeType.COMM_RECV))
    own, peer, sends = rank[rows], trace.peer[rows], is_send[rows]
    key = np.where(sends, own, peer) * trace.num_ranks + np.where(sends, peer, own)
    for column in (trace.size_bytes[rows], trace.tag[rows] % _TAG_MODULUS):
        # Numbered afresh before each column, so that the products stay small.
        values, part = np.unique(column, return_inverse=True)
        key = np.unique(key, return_inverse=True)[1] * len(values) + part
    numbers, key = np.unique(key, return_inverse=True)
    counts = [np.bincount(key[chosen], minlength=len(numbers)) for chosen in (sends, ~sends)]
    message_key = np.full(trace.num_nodes, -1, np.int64)
    message_key[rows] = key
    return message_key, np.concatenate(([0], np.cumsum(np.maximum(*counts)))).astype(np.int64)


def _children(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows that wait for each row, and how many rows each waits for; those that wait for none wait for a row after the last.

    A row that names another twice, as a data and a control dependency, waits for it once.
    """
    num_deps = np.diff(trace.dep_first)
    roots = np.flatnonzero(num_deps == 0)
    awaited = np.concatenate((trace.dep, np.full(len(roots), trace.num_nodes)))
    waiting = np.concatenate((np.repeat(np.arange(trace.num_nodes), num_deps), roots))
    order = np.argsort(awaited, kind="stable")
    awaited, waiting = awaited[order], waiting[order]
    repeated = np.flatnonzero((np.diff(awaited) == 0) & (np.diff(waiting) == 0))
    awaited, waiting = np.delete(awaited, repeated), np.delete(waiting, repeated)
    child_first = np.concatenate(([0], np.cumsum(np.bincount(awaited, minlength=trace.num_nodes + 1))))
    return child_first.astype(np.int64), waiting, np.bincount(waiting, minlength=trace.num_nodes)
