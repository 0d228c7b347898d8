"""A lower bound on the end of a run: what no algorithms for its collectives, however they overlap, can beat on its network.

Three arguments, each of which holds for every run with the same compute and the same dependencies:

- **compute**: a rank computes one node at a time;
- **cut**: what all collectives and messages together must bring into a set of NPUs, over the bandwidth of the links into it;
- **path**: the longest way through the dependencies, and from sends to receives that certainly wait for them. A member of a
  collective has its result no earlier than the last member has begun, and no earlier than the links into it can bring what it
  needs after the first one has begun. The whole collective ends no earlier than its own bound after the first member has begun.

A member may be done long before the last one, and NPUs that are no members may relay, so a chain of collectives counts for less
on a path than their bounds together. If all members of each collective began and ended together, and no others helped them, the
run would take at least `in_step_ns`. What a run takes above `in_step_ns` is lost to order and overlap.

ASTRA-sim truncates the time of each message on each link to whole nanoseconds, so a run may end a little earlier than bytes over
bandwidth say. The bound allows for that (`allowance`): it holds for all algorithms that cut what a rank has of a collective into
at most `PIECES` messages, or lose at most `MOST_TRUNCATED` of their time.

Where links carry any number of messages, no bandwidth bound holds: compute, and paths on which collectives take no time, do.

Durations of nodes and collectives are estimated here, too, to choose an order of collectives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.bounds.cut import chosen_sides, describe_side, links_into
from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import collective_of_group, largest_bound, least_ns
from astra_tacos.planner.workload import NO_CASE, DistinctCollective, Workload
from astra_tacos.replayer.workload_actions import Actions, workload_actions
from astra_tacos.run.backend import Backend
from astra_tacos.run.graph.longest_ways import LeastTimes, longest_ways
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.solver.native_search import MOST_SPLITS
from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by
from astra_tacos.support.units import bytes_per_ns

MOST_NODES = 1 << 20
"""Most nodes of a run whose longest way is looked for."""
_MOST_GROUPS = 512
"""Groups over all cases that are looked at one by one; collectives of others count for nothing, which only lowers the bound."""
_MOST_EXACT = 64
"""Groups whose bounds take distances into account."""


def estimate_durations(workload: Workload, solutions: tuple[CaseSolution, ...]) -> tuple[Ints, Ints]:
    """int64[num_nodes] and int64[num_instances], ns of each node and each collective.

    Raises
    ------
    ConfigError
        If a node would make ASTRA-sim stop.
    """
    run, instances = workload.run, workload.instances
    trace = run.workload
    duration_ns = workload_actions(workload.carried_run).amount.astype(np.float64)
    rate = float(bytes_per_ns(np.array([_slowest(run)]))[0])
    duration_ns[trace.kind == NodeType.COMM_SEND] /= rate  # of messages, amounts are bytes
    guess = np.array([*(solution.time_ns for solution in solutions), 0], np.int64)[workload.of_instance]
    instance_ns = np.where(guess > 0, guess, (instances.size_bytes / rate).astype(np.int64) + 1)
    return duration_ns.astype(np.int64), instance_ns


def _slowest(run: Run) -> float:
    """GiB/s of the slowest link."""
    links = run.network.dimensions or run.network.links
    return min(link.bandwidth_gibps or 1.0 for link in links)


PIECES = MOST_SPLITS
"""Messages that what a rank has of a collective is cut into at most: as many as the splits of native collectives."""


@dataclass(frozen=True, slots=True)
class RunBound:
    """What a run takes at least.

    Parameters
    ----------
    parts_ns
        Every bound by name: `compute`, `cut`, `path`.
    in_step_ns
        What the run takes at least if the members of every collective begin and end together and nobody relays for them; None if
        paths are not looked at.
    """

    end_ns: int
    where: str
    parts_ns: dict[str, int]
    in_step_ns: int | None

    @classmethod
    def of(cls, terms: dict[str, tuple[int, str]], in_step_ns: int | None) -> RunBound:
        """The largest of some bounds, which have an end and what makes it so long."""
        return cls(
            *max(terms.values(), key=lambda term: term[0]), {name: end_ns for name, (end_ns, _) in terms.items()}, in_step_ns
        )

    def to_json(self) -> dict[str, Any]:
        """Figures for `plan.json`."""
        return {
            "bound_ns": self.end_ns,
            "bound_where": self.where,
            "bounds_ns": dict(self.parts_ns),
            "in_step_ns": self.in_step_ns,
        }


@dataclass(frozen=True, slots=True)
class _Least:
    """What the collective of one group takes at least, in ns: all of it, and until its first member has what it needs.

    `entering` and `leaving` are float64[members], bytes that go into and out of each member, less what truncation may save.
    """

    all_ns: int
    first_ns: int
    entering: Floats
    leaving: Floats


def allowance(message_bytes: Ints | Floats, bytes_per_ns: float) -> Floats:
    """The share of a time that remains where messages are truncated: k / (k + 1), the shortest holds a link for k whole ns.

    Parameters
    ----------
    message_bytes
        [n], sizes of the shortest messages.
    """
    whole_ns = np.floor(np.asarray(message_bytes, np.float64) / max(bytes_per_ns, 1e-300))
    kept: Floats = np.minimum(whole_ns / (whole_ns + 1), 1 - MOST_TRUNCATED)
    return kept


def run_bound(workload: Workload, topology: Topology, solutions: tuple[CaseSolution, ...], clock: Backend) -> RunBound:
    """The largest lower bound on the end of a run, whatever algorithms its collectives are given.

    Reductions take no time.

    Parameters
    ----------
    solutions
        The result of each distinct collective, whose bounds on the group's own links count for `in_step_ns`.

    Raises
    ------
    ConfigError
        If a node would make ASTRA-sim stop.
    """
    actions = workload_actions(workload.carried_run)
    has_queues, terms = clock.models_congestion, {"compute": _compute(workload, actions)}
    groups = _groups(workload, topology) if has_queues else {}
    ports = _ports(topology)
    least = {
        key: _least(topology, ports, ports_of_group, number < _MOST_EXACT)
        for number, (key, (ports_of_group, _)) in enumerate(groups.items())
    }
    if has_queues:
        terms["cut"] = _cut(workload, topology, groups, least)
    in_step_ns = None
    if workload.run.workload.num_nodes <= MOST_NODES:
        least_alone = [least_ns(*case) if has_queues else None for case in zip(workload.cases, solutions, strict=True)]
        terms["path"], in_step_ns = _path(workload, topology, actions, least, least_alone)
    return RunBound.of(terms, in_step_ns if has_queues else None)


def _fastest(topology: Topology) -> float:
    """Bytes per ns of the fastest link."""
    return float(bytes_per_ns(topology.link_bandwidth_gibps).max())


def share_kept(collective: str, size_bytes: int, members: int, bytes_per_ns: float) -> float:
    """What truncation leaves of the time of a collective, see `allowance`."""
    size_kept = size_bytes / (1 if collective == "all-gather" else members)
    return float(allowance(np.array([size_kept / PIECES]), bytes_per_ns)[0])


def less_truncated(least_ns: int, collective: str, size_bytes: int, members: int, bandwidth_gibps: Floats) -> int:
    """The bound of a collective on links of these bandwidths, less what truncated messages may save, see `allowance`."""
    rate = float(bytes_per_ns(bandwidth_gibps).max())
    return int(least_ns * share_kept(collective, size_bytes, members, rate))


def _share_kept(topology: Topology, collective: Collective) -> float:
    return share_kept(collective.name, collective.size_bytes, collective.num_members, _fastest(topology))


_Groups = dict[tuple[int, int], tuple[Collective, int]]
"""By case and group of the workload: the collective on the whole network, and how often the run has it."""


def _groups(workload: Workload, topology: Topology) -> _Groups:
    instances = workload.instances
    keys = zip(workload.of_instance.tolist(), instances.group.tolist(), strict=True)
    count = Counter(key for key in keys if key[0] != NO_CASE)
    groups: _Groups = {}
    for (case, group), times in sorted(count.items())[:_MOST_GROUPS]:
        members = tuple(sorted(instances.nodes.members[group]))
        collective = _on_network(workload.cases[case], members, topology)
        if collective is not None:
            groups[case, group] = collective, times
    return groups


def _on_network(case: DistinctCollective, members: tuple[int, ...], topology: Topology) -> Collective | None:
    """The collective of a group on the whole network; None where nothing is known: of some patterns, of less than a byte each."""
    if case.collective not in COLLECTIVES:
        return None
    try:
        return collective_of_group(case, members, topology)
    except ConfigError:
        return None  # fewer bytes than members: the case stays as it was, for that reason


def _ports(topology: Topology) -> tuple[Floats, Floats]:
    """Bytes per ns into and out of each device, float64[num_devices] each."""
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    into, out_of = (
        np.bincount(end, rate, topology.num_devices).astype(np.float64) for end in (topology.link_dst, topology.link_src)
    )
    return into, out_of


def _least(topology: Topology, ports: tuple[Floats, Floats], collective: Collective, with_distances: bool) -> _Least:
    members = np.asarray(collective.member_npus)
    alone = np.zeros((len(members), topology.num_npus), np.bool_)
    alone[np.arange(len(members)), members] = True
    into, out_of = ports
    kept = _share_kept(topology, collective)
    entering, leaving = kept * bytes_of(collective).entering(alone), kept * bytes_of(collective).entering(~alone)
    needed = entering / np.maximum(into[members], 1e-300)
    least_ns = int(max(needed.max(), (leaving / np.maximum(out_of[members], 1e-300)).max()))
    if with_distances:
        least_ns = max(least_ns, int(kept * largest_bound(topology, collective)))
    return _Least(least_ns, int(needed.min()), entering, leaving)


def _compute(workload: Workload, actions: Actions) -> tuple[int, str]:
    """The longest that a rank computes."""
    worst, busy_ns = busiest_rank(workload.run, actions, workload.graph.issue.runs)
    return busy_ns, f"the compute of rank {worst}"


def busiest_rank(run: Run, actions: Actions, runs: Bools | bool = True) -> tuple[int, int]:
    """The rank that computes longest, and for how long in ns; `runs` are the nodes that run."""
    trace = run.workload
    computes = actions.is_timed & (trace.kind == NodeType.COMP) & ~run.columns.is_cpu_op & runs
    busy = np.bincount(trace.rank[computes], actions.amount[computes].astype(np.float64), trace.num_ranks)
    worst = int(busy.argmax())
    return worst, int(busy[worst])


def _cut(workload: Workload, topology: Topology, groups: _Groups, least: dict[tuple[int, int], _Least]) -> tuple[int, str]:
    """The longest that links into a set of NPUs need for everything that has to enter it."""
    sides = chosen_sides(topology)
    inside = sides.sum(axis=1)
    # What enters and leaves single NPUs is known.
    single, all_but_one = (np.flatnonzero(inside == count) for count in (1, topology.num_npus - 1))
    others = np.flatnonzero((inside > 1) & (inside < topology.num_npus - 1))
    blocks = sides[others]
    into, out_of = np.zeros(topology.num_npus), np.zeros(topology.num_npus)
    entering = np.zeros(len(sides))
    for key, (collective, times) in groups.items():
        members = collective.member_npus
        into[members] += times * least[key].entering
        out_of[members] += times * least[key].leaving
        entering[others] += times * _share_kept(topology, collective) * bytes_of(collective).entering(blocks)
    entering[single] = into[sides[single].argmax(axis=1)]
    entering[all_but_one] = out_of[sides[all_but_one].argmin(axis=1)]
    trace = workload.run.workload
    send = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & workload.graph.issue.runs)
    ends, which = np.unique(np.stack((trace.rank[send], trace.peer[send])), axis=1, return_inverse=True)
    sizes = trace.size_bytes[send] * allowance(trace.size_bytes[send], _fastest(topology))
    amounts = np.bincount(which.ravel(), sizes, ends.shape[1])
    for (src, dst), amount in zip(ends.T.tolist(), amounts.tolist(), strict=True):
        entering += amount * (sides[:, dst] & ~sides[:, src])
    links = [links_into(topology, side) for side in sides]
    capacity = bytes_per_ns(np.array([topology.link_bandwidth_gibps[links_of_cut].sum() for links_of_cut in links]))
    time = entering / np.maximum(capacity, 1e-300)
    worst = int(time.argmax())
    return int(time[worst]), f"what has to enter {describe_side(topology, np.flatnonzero(sides[worst]), links[worst])}"


def _path(
    workload: Workload,
    topology: Topology,
    actions: Actions,
    least: dict[tuple[int, int], _Least],
    own_bounds: list[int | None],
) -> tuple[tuple[int, str], int]:
    """The longest way through the dependencies, and the longest one if the members of collectives keep in step."""
    instances = workload.instances
    keys, number = np.unique(np.stack((workload.of_instance, instances.group)), axis=1, return_inverse=True)
    unknown = _Least(0, 0, np.empty(0), np.empty(0))
    some = [least.get((case, group), unknown) for case, group in keys.T.tolist()]
    first_ns, all_ns = np.array([(bound.first_ns, bound.all_ns) for bound in some], np.int64).reshape(-1, 2).T
    alone = np.array([-1 if ns is None else ns for ns in (*own_bounds, None)], np.int64)[keys[0]]
    # Members of a rooted collective need not wait for one another, nor do those of one without a case, which moves nothing.
    waits = (instances.root < 0) & (workload.of_instance != NO_CASE)
    times = (column[number.ravel()] for column in (first_ns, all_ns, np.where(alone < 0, all_ns, alone)))
    duration = np.where(actions.is_timed & workload.graph.issue.runs, actions.amount, 0)
    collectives = group_by(instances.instance, instances.nodes.row, instances.num_instances)
    least_times = LeastTimes(duration, *_messages(workload, topology), waits, *times)
    longest, in_step = longest_ways(workload.run.workload, workload.graph.order, collectives, least_times)
    return (longest, "the longest way through the dependencies"), in_step


def _messages(workload: Workload, topology: Topology) -> tuple[Ints, Ints]:
    """int64[num_nodes]: the row of a send that each receive waits for, -1 for none; and what the message takes at least in ns."""
    trace = workload.run.workload
    received, sent = workload.graph.awaited
    fastest = np.zeros(topology.num_devices)
    np.maximum.at(fastest, topology.link_src, topology.link_bandwidth_gibps)
    away = trace.peer[sent] != trace.rank[sent]
    rate = bytes_per_ns(np.maximum(fastest[trace.rank[sent]], 1e-300))
    send, took = np.full(trace.num_nodes, -1), np.zeros(trace.num_nodes, np.int64)
    send[received] = sent
    took[received] = np.where(away, topology.link_latency_ns.min() + trace.size_bytes[sent] / rate, 0.0).astype(np.int64)
    return send, took
