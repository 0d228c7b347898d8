"""Lower bounds on the end of a run with classes, whatever algorithms its collectives have.

- *compute*: the longest that a rank computes.
- *crossing*: NPUs with equal coordinates in a set D of dimensions are a part. What has to go between parts uses the links of D,
  of which the network has so many. With P parts among a group of n ranks and nodes of S bytes, an All-Reduce crosses 2 (P - 1) S
  bytes, an All-Gather (P - 1) n S, a Reduce-Scatter (P - 1) S and an All-to-All n S (1 - 1 / P),
  however it is done (`bounds.partition`).
- *path*: the longest way through the dependencies of ranks and their messages. A collective takes as long at least as what
  has to enter one rank takes over all of its links, if all members do the same, so that they begin at the same time.

Truncated delays are allowed for as in `planner.run_bound`, and reductions take no time. Where links carry any number of messages,
collectives count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.bounds.symmetric import dimension_sets
from astra_tacos.network.network_config import Dimension
from astra_tacos.planner.run_bound import PIECES, RunBound, allowance, busiest_rank
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.backend import Backend
from astra_tacos.run.graph.longest_ways import LeastTimes, longest_ways
from astra_tacos.run.graph.merged_graph import merge
from astra_tacos.run.graph.run_graph import RunGraph
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.run import PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.units import bytes_per_ns

_MOST_NODES = 300_000
"""Nodes of the representatives of a run whose paths are followed."""


def class_bound(run: Run, alone_ns: Ints, clock: Backend) -> RunBound:
    """The bound of a run.

    Parameters
    ----------
    alone_ns
        int64[num_nodes], what a collective node takes at least if its members begin and end together and nobody relays for them;
        0 where that is not known.

    Raises
    ------
    ConfigError
        If a node would make ASTRA-sim stop.
    """
    lattice, trace = run.lattice, run.workload
    shapes = shapes_of(run)
    actions = workload_actions(run)
    worst, busy_ns = busiest_rank(run, actions)
    terms = {"compute": (busy_ns, f"the compute of rank {int(lattice.representatives[worst])}")}
    if clock.models_congestion:
        terms["crossing"] = _crossing(run, shapes)
    in_step_ns: int | None = None
    if trace.num_nodes <= _MOST_NODES:
        timed = np.where(actions.is_timed, actions.amount, 0)
        timed[shapes.rows] = _entering_ns(run, shapes) if clock.models_congestion else 0
        path_ns, in_step_ns = _paths_ns(run, timed, np.maximum(timed, alone_ns))
        in_step_ns = in_step_ns if clock.models_congestion else None
        terms["path"] = path_ns, "the longest way through the dependencies"
    return RunBound.of(terms, in_step_ns)


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveShapes:
    """The collective nodes of a run, and their groups.

    Parameters
    ----------
    rows
        int64[num_rows], the nodes, by their rows in the workload.
    counts
        int64[num_rows, num_dimensions], how many values members have in each dimension of the network.
    begins_together
        bool[num_rows], whether all members have one representative, so that all begin at one time.
    """

    rows: Ints
    counts: Ints
    begins_together: Bools

    @property
    def members(self) -> Ints:
        """int64[num_rows]."""
        members: Ints = self.counts.prod(axis=1)
        return members


def shapes_of(run: Run) -> CollectiveShapes:
    """The shapes of the groups of all collective nodes.

    Raises
    ------
    ConfigError
        If a group is no product of coordinates.
    """
    lattice, columns = run.lattice, run.columns
    rows = np.flatnonzero((run.workload.kind == NodeType.COMM_COLL) & np.isin(columns.comm_type, list(PATTERN_KEYS)))
    group = group_ids(columns)[rows]
    counts, together = np.ones((len(rows), len(lattice.size)), np.int64), np.zeros(len(rows), np.bool_)
    for number in np.unique(group).tolist():
        if number == ALL_RANKS:
            num_values, is_one = lattice.size, len(lattice.representatives) == 1
        else:
            members = np.array(run.groups.members[number], np.int64)
            num_values = tuple(len(values) for values in lattice.values(members, f"group {number}"))
            is_one = len(np.unique(lattice.canonical(members)[0])) == 1
        counts[group == number], together[group == number] = num_values, is_one
    involved = columns.involved_dims[rows]
    for index in range(counts.shape[1]):  # a collective of all ranks over some dimensions is one of each part of the network
        counts[(group == ALL_RANKS) & (involved >= 0) & (involved >> index & 1 == 0), index] = 1
    return CollectiveShapes(rows, counts, together)


def _rates(dimensions: tuple[Dimension, ...], largest: bool = False) -> Floats:
    """Bytes per ns into an NPU over its links of each dimension: the mean, or the largest, over the members of a block."""
    blocks = [(dimension.building_block, dimension.size) for dimension in dimensions]
    links = [block.num_links(size) / size / (2 if block.num_switches(size) else 1) for block, size in blocks]
    for index, (block, size) in enumerate(blocks):
        if largest and block.translations(size) is None:  # members differ, as in a Mesh
            into = block.links(size).dst
            links[index] = float(np.bincount(into[into < size]).max())
    per_npu = np.array(links)
    rates: Floats = per_npu * bytes_per_ns(np.array([dimension.bandwidth_gibps for dimension in dimensions]))
    return rates


def _kept(run: Run, shapes: CollectiveShapes) -> Floats:
    """float64[num_rows], what truncation leaves of the time of each collective node (`allowance`)."""
    pattern, size = run.columns.comm_type[shapes.rows], run.workload.size_bytes[shapes.rows].astype(np.float64)
    size_kept = np.where(pattern == CommType.ALL_GATHER, size, size / shapes.members)
    return allowance(size_kept / PIECES, _fastest(run))


def _fastest(run: Run) -> float:
    """Bytes per ns of the fastest link."""
    return float(bytes_per_ns(np.array([dimension.bandwidth_gibps for dimension in run.network.dimensions])).max())


def _crossing(run: Run, shapes: CollectiveShapes) -> tuple[int, str]:
    """The longest that the links of some dimensions need for all that has to cross them."""
    lattice = run.lattice
    trace, rates = run.workload, _rates(run.network.dimensions)
    pattern, size = run.columns.comm_type[shapes.rows], trace.size_bytes[shapes.rows].astype(np.float64)
    members, kept = shapes.members, _kept(run, shapes)
    sends = np.flatnonzero(trace.kind == NodeType.COMM_SEND)
    src = lattice.representatives[trace.rank[sends]]
    differs = lattice.digits(src) != lattice.digits(trace.peer[sends])
    sent = trace.size_bytes[sends] * allowance(trace.size_bytes[sends], _fastest(run))
    best = 0, ""
    for chosen in dimension_sets(len(rates)):
        parts = shapes.counts[:, chosen].prod(axis=1)
        crossed = np.select(
            [pattern == CommType.ALL_REDUCE, pattern == CommType.ALL_GATHER, pattern == CommType.REDUCE_SCATTER],
            [2 * (parts - 1) * size, (parts - 1) * members * size, (parts - 1) * size],
            members * size * (1 - 1 / parts),
        )
        # A node is one of as many as its group has members.
        total = (kept * crossed / members).sum() + sent[differs[list(chosen)].any(axis=0)].sum()
        time = int(total / (trace.num_ranks * rates[list(chosen)].sum()))
        if time > best[0]:
            which = " and ".join(f"dimension {index}" for index in chosen)
            best = time, f"what has to cross the links of {which}"
    return best


def _entering_ns(run: Run, shapes: CollectiveShapes) -> Ints:
    """How long a collective takes at least, 0 where its members may begin at several times."""
    members = shapes.members
    trace = run.workload
    pattern, size = run.columns.comm_type[shapes.rows], trace.size_bytes[shapes.rows].astype(np.float64)
    entering = np.select(
        [pattern == CommType.ALL_REDUCE, pattern == CommType.ALL_GATHER, pattern == CommType.REDUCE_SCATTER],
        [np.where(members > 1, size, 0), (members - 1) * size, size / members],
        size * (1 - 1 / members),
    )
    entering[members < 2] = 0
    latency = min(int(dimension.latency_ns) for dimension in run.network.dimensions)
    entering *= _kept(run, shapes)
    times = (entering / _rates(run.network.dimensions, largest=True).sum()).astype(np.int64) + np.where(entering > 0, latency, 0)
    return np.where(shapes.begins_together, times, 0)


def _paths_ns(run: Run, *durations: Ints) -> list[int]:
    """The longest way through the nodes of representatives, for each of some int64[num_nodes] of what nodes take.

    A receive also comes after the send that certainly meets it, which takes as long as its message at least.
    """
    trace, dimensions, graph = run.workload, run.network.dimensions, RunGraph(run)
    messages = graph.messages
    sends, receives = messages.send[messages.certain], messages.receive[messages.certain]
    took = (trace.size_bytes[sends] / _fastest(run)).astype(np.int64) + min(int(dimension.latency_ns) for dimension in dimensions)
    send = np.full(trace.num_nodes, -1)
    send[receives] = sends
    none, no_time = np.empty(0, np.int64), np.zeros(trace.num_nodes, np.int64)
    order = merge(trace, graph.issue.runs, (none, none), (sends, receives)).order()
    longest = []
    for timed in durations:
        node_ns = timed.copy()
        node_ns[sends] = took
        least = LeastTimes(node_ns, send, no_time, np.empty(0, np.bool_), none, none, none)
        longest.append(longest_ways(trace, order, (np.zeros(1, np.int64), none), least)[0])
    return longest
