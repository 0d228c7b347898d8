"""Joint schedules of collectives that run at once: all their ranks pass chunks on for one another, at common prices of links.

A workload in which collectives that run one joint schedule are one collective.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.planner.group_topology import group_topology
from astra_tacos.planner.joint.joint_sets import JointSet
from astra_tacos.planner.synthesis import WORTH_MORE_SENDS
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.planner.workload import NO_CASE, Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.chunks import TracePart, part_of
from astra_tacos.run.graph.instances import Instances
from astra_tacos.schedule.dependencies import holds_no_link
from astra_tacos.schedule.joint import join
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.installation import package_version
from astra_tacos.support.records import Keyed
from astra_tacos.synthesizer.algorithms.routed import together
from astra_tacos.synthesizer.search.search_options import THOROUGH, SearchOptions
from astra_tacos.verifier.schedule_oracle import verify_together

_CHUNKS = (1, 2, 4, 8, 16, 32, 64)
MOST_SENDS = 1 << 14
"""Of a joint schedule: routing them takes some seconds."""
_PATIENCE = 2
"""So many numbers of chunks that are not faster than fewer end a search that is not thorough."""
NO_JOINT = -1
"""Of a collective that is in no joint schedule."""


@dataclass(frozen=True, slots=True, eq=False)
class JointCollective:
    """Several collectives as one, with the schedule that they run."""

    of: JointSet
    schedule: Schedule
    parts: tuple[TracePart, ...]

    @property
    def name(self) -> str:
        """The name of its traces: joint_all_to_all_2097152B_of_8_3f2a91bc."""
        kinds = sorted({f"{name.replace('-', '_')}_{size}B" for name, size, _, _ in self.of.parts})
        kind = kinds[0] if len(kinds) == 1 else f"{len(kinds)}_kinds"
        digest = hashlib.sha256(json.dumps(self.of.parts).encode()).hexdigest()
        return f"joint_{kind}_of_{len(self.of.ranks)}_{digest[:8]}"

    @property
    def time_ns(self) -> int:
        """Its predicted time."""
        return self.schedule.collective_time_ns


def synthesize_joint(
    joint: JointSet,
    network: Topology,
    config: NetworkConfig,
    backend: Backend,
    options: SearchOptions,
    cache: SynthesisCache,
    most_messages: int,
) -> JointCollective | None:
    """The fastest joint schedule of any number of chunks that the oracle passes; None if there is none."""
    ranks = joint.ranks
    try:
        view = group_topology(network, config, ranks, "needed")
    except ConfigError:
        return None
    if view.num_routed:
        return None
    place = {rank: at for at, rank in enumerate(ranks)}
    cuts = _cuts(joint, place, min(most_messages, MOST_SENDS))
    if not cuts:
        return None
    identity: dict[str, Any] = {
        "joint": joint.parts,
        "network": asdict(config) | {"source": ""},
        "backend": backend.name,
        "seed": options.seed,
        "effort": options.effort,
        "reduce_bandwidth_gbps": options.reduce_bandwidth_gbps,
        "most_messages": most_messages,
        "version": package_version(),
    }
    identities = [identity | {"number": number} for number in range(len(joint.parts))]
    schedules = _cached(identities, cuts[0], view.topology, cache)
    if schedules is None:
        schedules = _best(cuts, view.topology, backend, options, most_messages)
        if schedules is None:
            return None
        for part_identity, schedule in zip(identities, schedules, strict=True):
            cache.keep(part_identity, schedule, {"alone_ns": schedule.collective_time_ns})
    return JointCollective(joint, join(schedules), tuple(part_of(schedule.collective) for schedule in schedules))


def _cached(
    identities: list[dict[str, Any]], collectives: list[Collective], topology: Topology, cache: SynthesisCache
) -> tuple[Schedule, ...] | None:
    """Schedules of all collectives, on one topology; None if one is missing, or they do not go together."""
    schedules = []
    pairs = zip(identities, collectives, strict=True)
    # All are looked at, as each that is damaged is named in the log.
    entries = [cache.find(identity, Wanted((topology,), collective, {"alone_ns": "ns"})) for identity, collective in pairs]
    for entry in entries:
        if entry is None:
            return None
        timing = entry[0].timing
        again = timing.of(topology, entry[0].collective)
        schedules.append(replace(entry[0], topology=topology, timing=again))
    violations = verify_together(schedules)
    if violations:
        cache.refuse(identities, f"do not go together: {violations[0]}")
        return None
    return tuple(schedules)


def _best(
    cuts: list[list[Collective]], topology: Topology, backend: Backend, options: SearchOptions, most_messages: int
) -> tuple[Schedule, ...] | None:
    best: tuple[Schedule, ...] | None = None
    best_ns, best_messages, patience = 0, 0, len(cuts) if options.effort == THOROUGH else _PATIENCE
    for collectives in cuts:
        if patience == 0:
            break
        schedules = _made(topology, collectives, backend.link_model, options)
        if schedules is None:
            continue
        messages = sum(schedule.num_messages for schedule in schedules)
        if messages > most_messages:
            continue
        time_ns = max(schedule.collective_time_ns for schedule in schedules)
        if best is None or time_ns < best_ns * (WORTH_MORE_SENDS if messages > best_messages else 1):
            best, best_ns, best_messages = schedules, time_ns, messages
        else:
            patience -= 1
    return best


def _made(
    topology: Topology, collectives: list[Collective], link_model: LinkModel, options: SearchOptions
) -> tuple[Schedule, ...] | None:
    """Schedules of some collectives together that the oracle passes; None if there are none.

    Stages of a pipeline ask for the same at once, as do runs whose communication was moved: the second one gets the first one's.
    """
    request = Keyed((_values(topology), *map(_values, collectives)), (topology, collectives))
    with _turn(request.key):
        return _checked(request, link_model, options.reduce_bandwidth_gbps, options.seed)


def _values(record: Topology | Collective) -> tuple[object, ...]:
    """All that a record is made of."""
    values = (getattr(record, field.name) for field in fields(record) if field.init)
    return tuple((value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value for value in values)


@lru_cache(maxsize=1 << 7)
def _turn(key: tuple[object, ...]) -> Lock:
    """What keeps a thread waiting while another one makes what both ask for."""
    return Lock()


@lru_cache(maxsize=1 << 7)
def _checked(
    request: Keyed[tuple[Topology, list[Collective]]], link_model: LinkModel, reduce_bandwidth_gbps: float, seed: int
) -> tuple[Schedule, ...] | None:
    try:
        schedules = together(*request.value, link_model, reduce_bandwidth_gbps, seed)
    except (ConfigError, SynthesisError):
        return None  # chunks too small for the links, or some rank cannot be reached
    return None if any(holds_no_link(schedule) for schedule in schedules) or verify_together(schedules) else schedules


def _cuts(joint: JointSet, place: dict[int, int], most_sends: int) -> list[list[Collective]]:
    """The collectives among the ranks of all, in as many chunks as sends allow; other ranks may at least double them."""
    cuts = []
    for count in _CHUNKS:
        try:
            collectives = [
                make_collective(
                    name, len(place), size, count, None if root is None else place[root], [place[rank] for rank in ranks]
                )
                for name, size, root, ranks in joint.parts
            ]
        except ConfigError:
            continue  # fewer bytes than chunks
        if sum(collective.least_sends for collective in collectives) <= most_sends:
            cuts.append(collectives)
    return cuts


@dataclass(frozen=True, slots=True, eq=False)
class JointWorkload:
    """A workload whose collectives may be joint.

    Parameters
    ----------
    workload
        Joint collectives are one instance each, of a group of all their ranks, and of no case.
    of_instance
        int64[num_instances], which of them each instance is, NO_JOINT for the others.
    """

    workload: Workload
    joints: tuple[JointCollective, ...]
    of_instance: Ints
    groups: dict[int, tuple[int, ...]]


def apart(workload: Workload) -> JointWorkload:
    """A workload of which nothing is joint."""
    none = np.full(workload.instances.num_instances, NO_JOINT, np.int64)
    return JointWorkload(workload, (), none, dict(workload.run.groups.members))


def joined(workload: Workload, joints: Sequence[JointCollective]) -> JointWorkload | None:
    """The workload with some collectives joined; None if they would wait for one another in a cycle.

    Parameters
    ----------
    joints
        Joint collectives, no instance in two of them.
    """
    instances, groups = workload.instances, dict(workload.run.groups.members)
    members = dict(instances.nodes.members)
    number_of = np.arange(instances.num_instances)
    joint_of = np.full(instances.num_instances, NO_JOINT, np.int64)
    group = instances.group.copy()
    root = instances.root.copy()
    for number, joint in enumerate(joints):
        ranks = joint.of.ranks
        group_id = _named_already(workload, joint)
        if group_id is None:
            group_id = max(groups, default=0) + 1
            groups[group_id] = ranks
        members[group_id] = ranks
        for times in joint.of.instances:
            number_of[list(times)] = times[0]
            joint_of[times[0]], group[times[0]], root[times[0]] = number, group_id, -1
    kept, renumbered = np.unique(number_of, return_inverse=True)
    nodes = replace(instances.nodes, members=members)
    columns = (group[kept], instances.pattern[kept], instances.size_bytes[kept], root[kept], instances.certain[kept])
    together = Instances(nodes, renumbered[instances.instance], *columns)
    graph = workload.graph.with_instances(together)
    if graph.has_cycle:
        return None
    of_instance = np.where(joint_of[kept] == NO_JOINT, workload.of_instance[kept], NO_CASE)
    return JointWorkload(replace(workload, graph=graph, of_instance=of_instance), tuple(joints), joint_of[kept], groups)


def _named_already(workload: Workload, joint: JointCollective) -> int | None:
    """The group that all nodes of a joint collective name, if they do, as a plan of a plan is the same plan."""
    instances = workload.instances
    chosen = np.isin(instances.instance, [number for times in joint.of.instances for number in times])
    named = instances.nodes.named_group[chosen]
    is_own = (named == instances.nodes.group[chosen]).any()
    if is_own or (named != named[0]).any() or workload.run.groups.members.get(int(named[0])) != joint.of.ranks:
        return None
    return int(named[0])
