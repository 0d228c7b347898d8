"""A group's own schedule, on links between members only, as a schedule on the whole network: relays allowed, none used.

Where groups have links of their own, the schedules of all groups together form one schedule, too. The oracle checks whether they
do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import ROOTED, make_collective
from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.planner.group_replay import disjoint
from astra_tacos.planner.solution import Solution
from astra_tacos.planner.whole_network import Extras
from astra_tacos.schedule.partial_sums import NO_NPU
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.topology.topology import Topology
from astra_tacos.verifier.schedule_oracle import verify, verify_together


def with_own_schedule(extras: Extras, case: DistinctCollective, solution: Solution, topology: Topology) -> Extras:
    """Figures that are no worse than what the case's nodes run, where that keeps to links of the groups.

    Parameters
    ----------
    extras
        Figures of schedules that were made for the whole network.
    case, solution
        The case, and what its nodes run.
    topology
        The whole network.
    """
    schedule = solution.schedule
    if schedule is None or (extras.relayed is None and extras.joint is None):
        return extras
    own_ns, chunks = schedule.collective_time_ns, schedule.collective.chunks_per_npu
    groups = disjoint(case.groups)
    schedules = [on_whole_network(schedule, case, group, topology) for group in groups]
    relayed, joint = extras.relayed, extras.joint
    one = schedules[0]
    if one is None:
        return extras
    if relayed is not None and relayed.relay_ns is not None and own_ns < relayed.relay_ns and not verify(one):
        relayed = replace(relayed, relay_ns=own_ns, relay_chunks_per_npu=chunks, relay_algorithm=schedule.synthesizer)
    all_of_them = tuple(each for each in schedules if each is not None)
    if joint is not None and joint.together_predicted_ns is not None and len(all_of_them) == len(groups):
        together_ns = joint.together_predicted_ns
        alone = tuple(own_ns if not verify(each) else ns for each, ns in zip(all_of_them, joint.together_alone_ns, strict=True))
        joint = replace(joint, together_alone_ns=tuple(map(min, alone, joint.together_alone_ns)))
        if own_ns < together_ns and not verify_together(all_of_them):
            joint = replace(
                joint,
                together_predicted_ns=own_ns,
                together_chunks_per_npu=chunks,
                together_algorithm=schedule.synthesizer,
                together_groups_ns=(own_ns,) * len(groups),
            )
    return replace(extras, relayed=relayed, joint=joint)


def on_whole_network(schedule: Schedule, case: DistinctCollective, group: tuple[int, ...], topology: Topology) -> Schedule | None:
    """The schedule of a group's network on the whole one, at the same times; None if that has no such links.

    Parameters
    ----------
    schedule
        On the group's own network.
    case, group
        The case, and which of its groups.
    topology
        The whole network.
    """
    members = np.array(group, np.int64)
    own, what = schedule.topology, schedule.collective
    used = np.unique(schedule.channel)
    ours = _numbered(members[own.channel_src], members[own.channel_dst], topology.num_npus)
    theirs = _numbered(topology.channel_src.astype(np.int64), topology.channel_dst.astype(np.int64), topology.num_npus)
    order = np.argsort(theirs)
    place = np.minimum(np.searchsorted(theirs, ours[used], sorter=order), len(theirs) - 1)
    if not np.array_equal(theirs[order[place]], ours[used]):
        return None
    channel = np.zeros(own.num_channels, np.int32)
    channel[used] = order[place]
    root = group[case.root or 0] if case.collective in ROOTED else None
    collective = make_collective(case.collective, topology.num_npus, case.size_bytes, what.chunks_per_npu, root, group)
    timing = compute_timing(topology, collective, schedule.timing.link_model, schedule.timing.reduce_bandwidth_gbps)
    sums = schedule.sums
    if sums is not None:
        sums = replace(sums, npu=np.where(sums.npu == NO_NPU, NO_NPU, members[sums.npu]).astype(np.int32))
    return replace(
        schedule, topology=topology, collective=collective, timing=timing, channel=channel[schedule.channel], sums=sums
    )


def _numbered(src: NDArray[np.int64], dst: NDArray[np.int64], num_npus: int) -> NDArray[np.int64]:
    """int64[num_channels], a number for each channel by its ends, and its index among parallel ones."""
    pair = src * num_npus + dst
    order = np.argsort(pair, kind="stable")
    begins = np.flatnonzero(np.concatenate(([True], np.diff(pair[order]) != 0)))
    nth = np.empty_like(pair)
    nth[order] = np.arange(len(pair)) - np.repeat(begins, np.diff(np.append(begins, len(pair))))
    numbers: NDArray[np.int64] = nth * np.int64(num_npus) ** 2 + pair
    return numbers
