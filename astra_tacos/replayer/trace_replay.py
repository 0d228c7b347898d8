"""Replay of a custom collective's traces on ASTRA-sim's analytical networks, to the nanosecond.

Semantics and order of events are those of `astra-sim`, `system/astraccl/custom_collectives/CustomAlgorithm.cc`, on
`astra-network-analytical`. One thing has no defined order there: nodes of one rank that become ready at the same event are
issued as a C++ hash set yields them. Here they are issued in the order of their rows in the file. The difference shows only if
several of them are sends that compete for links, or are messages of one (tag, source, destination, size). Traces whose sends
go to neighbours, chained per link or given out one at a time by tokens, do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import Dimension, NetworkConfig
from astra_tacos.errors import ReplayError
from astra_tacos.topology.composition import build_topology
from astra_tacos.topology.topology import NO_LINK, Topology
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import ABSENT, DANGLING, Trace
from astra_tacos.units import MAX_SIZE_BYTES, NS_PER_US, bytes_per_ns

TraceBackend = Literal["congestion-aware", "congestion-unaware"]
TRACE_BACKENDS: tuple[TraceBackend, ...] = ("congestion-aware", "congestion-unaware")
_TAG_MODULUS = 500_000_000
_MAX_TIME_NS = float(1 << 62)
_CHAIN_ENDS = 4


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


@dataclass(frozen=True, slots=True, eq=False)
class _Routes:
    """Entries `first[i] .. end[i]` of `link` are what message i crosses; with no links at all, it takes `direct_ns[i]`."""

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    link: NDArray[np.int64]
    direct_ns: NDArray[np.int64]
    latency_ns: NDArray[np.float64]
    bytes_per_ns: NDArray[np.float64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]


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
    ReplayError
        If ASTRA-sim would stop or stall: a node is of another kind or incomplete, the ranks are not the network's NPUs, nodes
        wait for ever (the message says who waits for what), or a send ends or frees its link at time 0. Also if the backend
        cannot model the network.
    """
    from astra_tacos.replayer import _trace_replay_kernels as kernels

    _check(trace, network, backend)
    sends = np.flatnonzero(trace.kind == NodeType.COMM_SEND)
    rank = trace.rank
    aware = backend == "congestion-aware"
    routes = (_links_crossed if aware else _direct_delays)(network, rank[sends], trace.peer[sends], trace.size_bytes[sends])
    compute_ns = np.where(trace.kind == NodeType.COMP, np.maximum(trace.duration_us * NS_PER_US, 1), 0)
    _check_range(trace, routes, sends, float(compute_ns.sum(dtype=np.float64)))

    key, slot_first = _message_keys(trace, rank)
    child_first, child, waits = _children(trace)
    hop, hop_end, direct_ns = (np.zeros(trace.num_nodes, np.int64) for _ in range(3))
    hop[sends], hop_end[sends], direct_ns[sends] = routes.first, routes.end, routes.direct_ns
    issue_ns, finish_ns = np.full((2, trace.num_nodes + 1), -1, np.int64)
    link_bytes, link_busy_ns = np.zeros((2, len(routes.latency_ns)), np.int64)
    status, row = kernels.replay_nodes(
        rank,
        trace.kind,
        trace.size_bytes,
        compute_ns,
        key,
        slot_first,
        child_first,
        child,
        waits,
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
        raise ReplayError(
            f"{trace.prefix}: {trace.describe_node(row)} sends {trace.size_bytes[row]} bytes at time 0 in under 1 ns of "
            f"{network.name}, where ASTRA-sim stops: expected a larger size"
        )
    issue_ns, finish_ns = issue_ns[:-1], finish_ns[:-1]
    if finish_ns.min() < 0:
        raise ReplayError(f"{trace.prefix}: deadlock: {_wait_chain(trace, key, issue_ns, finish_ns)}")
    sent_bytes = np.zeros(trace.num_ranks, np.int64)
    np.add.at(sent_bytes, rank[sends], trace.size_bytes[sends])
    rank_finish_ns = np.maximum.reduceat(finish_ns, trace.rank_first[:-1])
    results = (rank_finish_ns, sent_bytes, issue_ns, finish_ns, routes.link_src, routes.link_dst, link_bytes, link_busy_ns)
    for result in results:
        result.flags.writeable = False
    return TraceReplay(backend, *results)


def _check(trace: Trace, network: NetworkConfig, backend: str) -> None:
    """Everything that can be told from nodes one by one."""
    if backend not in TRACE_BACKENDS:
        raise ReplayError(f"backend: found {backend!r}, expected {' or '.join(TRACE_BACKENDS)}")
    if trace.num_ranks != network.num_npus:
        raise ReplayError(f"{trace.prefix}: traces of {trace.num_ranks} ranks, but {network.source} has {network.num_npus} NPUs")
    if np.diff(trace.rank_first).min() < 1:
        raise ReplayError(f"{trace.prefix}: rank {np.diff(trace.rank_first).argmin()} has no nodes, expected at least one")
    send, recv, comp = (trace.kind == kind for kind in (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP))
    message = send | recv

    def reject(bad: NDArray[np.bool_], found: str, expected: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            known = trace.kind[row] in [kind.value for kind in NodeType]
            named = found.format(
                kind=NodeType(trace.kind[row]).name if known else f"type {trace.kind[row]}",
                size=trace.size_bytes[row],
                peer=f"{'comm_dst' if send[row] else 'comm_src'} {trace.peer[row]}",
                tag=trace.tag[row],
                duration=trace.duration_us[row],
            ).replace(f" {ABSENT}", " missing")
            raise ReplayError(f"{trace.prefix}: {trace.describe_node(row)}: {named}, expected {expected}")

    kinds = "COMM_SEND, COMM_RECV or COMP (ASTRA-sim stalls on others in a custom collective)"
    reject(~(message | comp), "{kind}", kinds)
    bad_size = (trace.size_bytes < 1) | (trace.size_bytes > MAX_SIZE_BYTES)
    reject(message & bad_size, "{kind} with comm_size {size}", "1 to 2**53 bytes")
    outside = (trace.peer < 0) | (trace.peer >= trace.num_ranks)
    reject(message & outside, "{kind} with {peer}", f"a rank below {trace.num_ranks}")
    reject(message & (trace.peer == trace.rank), "{kind} with {peer}, its own rank", "another rank")
    reject(message & (trace.tag < 0), "{kind} with comm_tag {tag}", "0 or more")
    longest = int(_MAX_TIME_NS) // NS_PER_US
    reject(comp & (trace.duration_us > longest), "COMP with duration_micros {duration}", f"at most {longest}")
    dangling = np.zeros(trace.num_nodes, np.bool_)
    dangling[np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))[trace.dep == DANGLING]] = True
    reject(dangling, "{kind} that waits for a node that does not exist", "dependencies within its file")


def _check_range(trace: Trace, routes: _Routes, sends: NDArray[np.int64], compute_ns: float) -> None:
    """No time may overflow: all delays one after another bound every time."""
    total = compute_ns + float(routes.direct_ns.sum(dtype=np.float64))
    if len(routes.latency_ns) and len(sends):
        slowest = routes.latency_ns.max() + trace.size_bytes[sends] / routes.bytes_per_ns.min()
        total += float(((routes.end - routes.first) * slowest).sum())
    if not total < _MAX_TIME_NS:
        raise ReplayError(f"{trace.prefix}: all delays together make {total:.3g} ns, expected less than 2**62")


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
    """Rows that wait for each row, and how many rows each waits for; those that wait for none wait for a row after the last."""
    waits = np.diff(trace.dep_first)
    roots = np.flatnonzero(waits == 0)
    awaited = np.concatenate((trace.dep, np.full(len(roots), trace.num_nodes)))
    waiting = np.concatenate((np.repeat(np.arange(trace.num_nodes), waits), roots))
    child_first = np.concatenate(([0], np.cumsum(np.bincount(awaited, minlength=trace.num_nodes + 1))))
    return child_first.astype(np.int64), waiting[np.argsort(awaited, kind="stable")], np.maximum(waits, 1)


def _direct_delays(
    network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> _Routes:
    if not network.dimensions or network.link_overrides:
        key = "link_overrides" if network.dimensions else "links"
        raise ReplayError(f"{network.source}: astra_tacos.{key} is beyond the congestion-unaware backend, expected dimensions")
    delay_ns = np.full(len(src), -1.0)
    stride = 1
    for dimension in network.dimensions:
        here, there = (src // stride) % dimension.size, (dst // stride) % dimension.size
        first = (here != there) & (delay_ns < 0)
        hops = 2 if dimension.block == "Switch" else np.abs(_steps(dimension, here, there))
        rate = bytes_per_ns(np.float64(dimension.bandwidth_gibps))  # type: ignore[arg-type]
        delay_ns = np.where(first, hops * dimension.latency_ns + size_bytes / rate, delay_ns)
        stride *= dimension.size
    no_links, no_ends = np.empty(0), np.empty(0, np.int32)
    no_hops = np.zeros(len(src), np.int64)
    return _Routes(
        no_hops, no_hops, np.empty(0, np.int64), delay_ns.astype(np.int64), no_links, no_links, no_ends, no_ends.copy()
    )


def _steps(dimension: Dimension, here: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hops from one coordinate to another, negative towards lower ones; a ring's tie goes upwards (`Ring.cpp`)."""
    if dimension.block == "Ring":
        up = (there - here) % dimension.size
        return np.where(dimension.size - up < up, up - dimension.size, up)
    return there - here if dimension.block == "Mesh" else (there != here).astype(np.int64)


def _links_crossed(
    network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> _Routes:
    topology = build_topology(network)
    num_npus = topology.num_npus
    pairs, pair = np.unique(src * num_npus + dst, return_inverse=True)
    owner, channel = _channels_crossed(topology, network, *np.divmod(pairs, num_npus))
    links = np.stack((topology.channel_link[channel], topology.channel_down_link[channel]), axis=1)
    used = links != NO_LINK
    link = links[used].astype(np.int64)
    pair_first = np.searchsorted(np.repeat(owner, used.sum(axis=1)), np.arange(len(pairs) + 1))
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    direct_ns = np.zeros(len(src), np.int64)
    latency_ns = topology.link_latency_ns.copy()  # a read-only array would make numba compile the kernel twice
    return _Routes(
        pair_first[pair],
        pair_first[pair + 1],
        link,
        direct_ns,
        latency_ns,
        rate,
        topology.link_src,
        topology.link_dst,
    )


def _channels_crossed(
    topology: Topology, network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Channels on the route of each pair of NPUs: the pair's number and the channel, in order of pair, then of travel."""
    owners, sources, targets = [], [], []
    if not network.dimensions:
        owners, sources, targets = [np.arange(len(src))], [src], [dst]
    at, stride = src.copy(), 1
    for dimension in network.dimensions:
        here, there = (at // stride) % dimension.size, (dst // stride) % dimension.size
        left = _steps(dimension, here, there)
        hopping = dimension.block in ("Ring", "Mesh")
        while (moving := np.flatnonzero(left)).size:
            to = (here[moving] + np.sign(left[moving])) % dimension.size if hopping else there[moving]
            target = at[moving] + (to - here[moving]) * stride
            owners.append(moving)
            sources.append(at[moving])
            targets.append(target)
            at[moving], here[moving] = target, to
            left[moving] -= np.sign(left[moving])
        stride *= dimension.size
    if not owners:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owner, source, target = (np.concatenate(column) for column in (owners, sources, targets))
    order = np.argsort(owner, kind="stable")
    channel = topology.channel_of(source, target)
    if channel.size and channel.min() < 0:
        bad = int(np.argmin(channel))
        route = f"from rank {src[owner[bad]]} to rank {dst[owner[bad]]}"
        raise ReplayError(
            f"{network.source}: the route {route} needs the link {source[bad]} -> {target[bad]}, which is not there"
        )
    return owner[order], channel[order]


def _wait_chain(trace: Trace, key: NDArray[np.int64], issue_ns: NDArray[np.int64], finish_ns: NDArray[np.int64]) -> str:
    """Who waits for what, from the first node that never finishes to the message or node that is to blame."""
    row = int(np.argmax(finish_ns < 0))
    steps = [trace.describe_node(row)]
    seen = {row}
    while True:
        if issue_ns[row] < 0:
            awaited = trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]]
            row = int(awaited[np.argmax(finish_ns[awaited] < 0)])
            steps.append(f"waits for {trace.describe_node(row)}")
        else:
            held_back = (key == key[row]) & (trace.kind == NodeType.COMM_SEND) & (issue_ns < 0)
            if not held_back.any():
                steps.append(_missing_message(trace, key, row))
                break
            row = int(np.argmax(held_back))
            steps.append(f"waits for the message of {trace.describe_node(row)}")
        if row in seen:
            steps.append("a cycle")
            break
        seen.add(row)
    if len(steps) > 2 * _CHAIN_ENDS + 1:
        steps[_CHAIN_ENDS:-_CHAIN_ENDS] = [f"... ({len(steps) - 2 * _CHAIN_ENDS} more)"]
    return f"{steps[0]} {', which '.join(steps[1:])}".replace(", which a cycle", ": a cycle").replace(", which ...", ", ...")


def _missing_message(trace: Trace, key: NDArray[np.int64], row: int) -> str:
    """What a receive waits for, and the send that was probably meant."""
    rank, peer = int(trace.rank[row]), int(trace.peer[row])
    size, tag = int(trace.size_bytes[row]), int(trace.tag[row])
    text = f"waits for a message from rank {peer} ({size} bytes, tag {tag}) that "
    candidates = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & (trace.rank == peer) & (trace.peer == rank))
    if np.any(key[candidates] == key[row]):
        return text + "is not sent often enough"
    near = candidates[(trace.size_bytes[candidates] == size) | (trace.tag[candidates] == tag)]
    if not near.size:
        return text + "no node sends"
    other = int(near[0])
    return text + f"no node sends ({trace.describe_node(other)} sends {trace.size_bytes[other]} bytes, tag {trace.tag[other]})"
