"""What a case could gain if NPUs outside a group relayed chunks and its groups were synthesized together: for the report only.

ASTRA-sim runs a custom trace on the members of a group only, and all groups of a case run one trace, so these schedules are not
written. `routed` computes them on the whole network, and the oracle verifies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.config.network import NetworkConfig
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.planner.defects import defect_note
from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.planner.group_replay import disjoint
from astra_tacos.planner.synthesis import case_identity
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.run.backend import Backend
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.routing.joint_routing import together
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.work import AUTO_BUDGET
from astra_tacos.topology.topology import Topology
from astra_tacos.verifier.schedule_oracle import verify, verify_together

_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_JOINT_SENDS = 1 << 16
"""Of all groups together, for several chunks each: some seconds."""
_MOST_SENDS = 1 << 20
"""For the smallest number of chunks: what takes more is left out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Options: times `with_relays`, and of the groups `together`."""

    with_relays: bool = False
    together: bool = False


@dataclass(frozen=True, slots=True)
class WithRelays:
    """The first group of a case alone on the whole network, other NPUs passing chunks on.

    Parameters
    ----------
    relay_ns, relay_chunks_per_npu, relay_algorithm
        Predicted time, how finely it is cut, and by what; None where all NPUs are members, or chunks do not fit the links.
    relay_was_cut_off, relay_ran_out_of_time
        Whether the budget was too small for the search, and whether the time limit ended it.
    """

    relay_ns: int | None = None
    relay_chunks_per_npu: int | None = None
    relay_algorithm: str | None = None
    relay_was_cut_off: bool = False
    relay_ran_out_of_time: bool = False


@dataclass(frozen=True, slots=True)
class Together:
    """The groups of a case at once (of those that share a rank, the first), without contention by construction.

    Parameters
    ----------
    together_predicted_ns, together_chunks_per_npu, together_algorithm
        Predicted time until the last is done, how finely it is cut, and by what; None where only one group can run, there are
        too many sends, or chunks do not fit the links.
    together_groups_ns, together_alone_ns
        Of each group, when it is done, and the least time that it was found to take with the whole network for itself.
    """

    together_predicted_ns: int | None = None
    together_chunks_per_npu: int | None = None
    together_algorithm: str | None = None
    together_groups_ns: tuple[int, ...] = ()
    together_alone_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Extras:
    """Extra figures of a case, None for those that were not asked for; and what to say of schedules that the oracle refused."""

    relayed: WithRelays | None = None
    joint: Together | None = None
    defects: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Figures that were asked for."""
        return {name: value for part in (self.relayed, self.joint) if part is not None for name, value in asdict(part).items()}


def with_relays(
    case: DistinctCollective,
    topology: Topology,
    network: NetworkConfig,
    backend: Backend,
    options: SearchOptions,
    cache: SynthesisCache,
) -> Extras:
    """Synthesize the collective of a case's first group on the whole network, or find it in the cache.

    Parameters
    ----------
    case, topology, network, backend
        The distinct collective, and what it would run on.
    options
        What is asked of its searches; budget and time limit are for all of them together.
    cache
        Where results are kept.
    """
    group = case.groups[0]
    if case.num_members == topology.num_npus or case.collective not in COLLECTIVES:
        return Extras(WithRelays())
    identity = _identity(case, network, backend, options) | {"relays": group}
    cuts = _cuts(case, topology, [group], options, case.most_sends)
    if not cuts:
        return Extras(WithRelays())
    found = cache.find(identity, Wanted((topology,), cuts[0][0], {"was_cut_off": "bool"}))
    if found is not None:
        return Extras(_relayed(found[0], bool(found[1]["was_cut_off"]), False))
    best: Schedule | None = None
    defects: list[str] = []
    was_cut_off = ran_out_of_time = False
    for (collective,) in cuts:
        asked = replace(
            options,
            synthesizer="routed",
            chunks_per_npu=None,
            link_model=backend.link_model,
            budget=max((options.budget or AUTO_BUDGET) // len(cuts), 1),
            time_limit_s=None if options.time_limit_s is None else options.time_limit_s / len(cuts),
        )
        try:
            tried = search(topology, collective, asked)
        except SynthesisError:
            continue  # chunks too small for the links
        was_cut_off |= tried.was_cut_off
        ran_out_of_time |= tried.ran_out_of_time
        violations = verify(tried.schedule)
        if violations:
            defects.append(defect_note(case, tried.schedule.synthesizer, violations))
            continue
        if best is None or tried.schedule.collective_time_ns < best.collective_time_ns:
            best = tried.schedule
    if best is None:
        return Extras(WithRelays(), defects=tuple(defects))
    if not ran_out_of_time and not defects:
        cache.keep(identity, best, {"was_cut_off": was_cut_off})
    return Extras(_relayed(best, was_cut_off, ran_out_of_time), defects=tuple(defects))


def at_once(
    case: DistinctCollective,
    topology: Topology,
    network: NetworkConfig,
    backend: Backend,
    options: SearchOptions,
    cache: SynthesisCache,
) -> Extras:
    """Synthesize the collectives of a case's groups together, or find them in the cache.

    Parameters
    ----------
    case, topology, network, backend
        The distinct collective, and what it would run on.
    options
        Its number of chunks, seed and speed of reductions.
    cache
        Where results are kept.
    """
    groups = disjoint(case.groups)
    if len(groups) < 2 or case.collective not in COLLECTIVES:
        return Extras(joint=Together())
    identity = _identity(case, network, backend, options) | {"together": groups}
    identities = [identity | {"number": number} for number in range(len(groups))]
    cuts = _cuts(case, topology, groups, options, _JOINT_SENDS)
    found = find_all(identities, cuts[0], topology, cache) if cuts else None
    defects: list[str] = []
    if found is not None:
        schedules, alone = found
    else:
        best = _best_together(case, cuts, topology, backend, options, defects)
        if best is None:
            return Extras(joint=Together(), defects=tuple(defects))
        schedules, alone = best
        for each, schedule, alone_ns in zip(identities, schedules, alone, strict=True):
            if not defects:
                cache.keep(each, schedule, {"alone_ns": alone_ns})
    times = tuple(schedule.collective_time_ns for schedule in schedules)
    joint = Together(max(times), schedules[0].collective.chunks_per_npu, schedules[0].synthesizer, times, alone)
    return Extras(joint=joint, defects=tuple(defects))


def _best_together(
    case: DistinctCollective,
    cuts: list[list[Collective]],
    topology: Topology,
    backend: Backend,
    options: SearchOptions,
    defects: list[str],
) -> tuple[tuple[Schedule, ...], tuple[int, ...]] | None:
    """The fastest joint schedule of any number of chunks, and the best time of each group alone; None if there is none.

    Parameters
    ----------
    case, cuts, topology, backend, options
        What is asked, by numbers of chunks.
    defects
        Filled in: what there is to say of schedules that the oracle refused.
    """
    best: tuple[Schedule, ...] = ()
    best_ns = -1
    alone: list[int] = []
    for collectives in cuts:
        model = backend.link_model
        try:
            made = together(topology, collectives, model, options.reduce_bandwidth_gbps, options.seed)
        except SynthesisError:
            continue  # chunks too small for the links
        by_itself = [SYNTHESIZERS["routed"].make(topology, each.collective, each.timing, options.seed) for each in made]
        violations = verify_together(made) + tuple(violation for schedule in by_itself for violation in verify(schedule))
        if violations:
            defects.append(defect_note(case, "routed", violations))
            continue
        # What a group does among others it could do alone.
        times = [min(each.collective_time_ns for each in pair) for pair in zip(made, by_itself, strict=True)]
        alone = [min(pair) for pair in zip(times, alone or times, strict=True)]
        time_ns = max(schedule.collective_time_ns for schedule in made)
        if best_ns < 0 or time_ns < best_ns:
            best, best_ns = made, time_ns
    return (best, tuple(alone)) if best else None


def _cuts(
    case: DistinctCollective, topology: Topology, groups: Sequence[tuple[int, ...]], options: SearchOptions, max_sends: int
) -> list[list[Collective]]:
    """The groups' collectives on the whole network, in as many chunks as sends allow, or as asked for."""
    cuts: list[list[Collective]] = []
    for count in [options.chunks_per_npu] if isinstance(options.chunks_per_npu, int) else _CHUNKS:
        try:
            collectives = [
                make_collective(
                    case.collective,
                    topology.num_npus,
                    case.size_bytes,
                    count,
                    group[case.root or 0] if case.collective in ROOTED else None,
                    group,
                )
                for group in groups
            ]
        except ConfigError:
            continue  # fewer bytes than chunks
        sends = sum(collective.least_sends for collective in collectives)
        if sends <= (max_sends if cuts else _MOST_SENDS):
            cuts.append(collectives)
    return cuts


def _identity(case: DistinctCollective, network: NetworkConfig, backend: Backend, options: SearchOptions) -> dict[str, Any]:
    return case_identity(case, backend, options) | {"network": asdict(network) | {"source": ""}, "synthesizer": "routed"}


def _relayed(schedule: Schedule, was_cut_off: bool, ran_out_of_time: bool) -> WithRelays:
    found = schedule.collective_time_ns, schedule.collective.chunks_per_npu, schedule.synthesizer
    return WithRelays(*found, was_cut_off, ran_out_of_time)


def find_all(
    identities: list[dict[str, Any]], collectives: list[Collective], topology: Topology, cache: SynthesisCache
) -> tuple[tuple[Schedule, ...], tuple[int, ...]] | None:
    """Schedules of all groups, on one topology, and their times alone; None if one is missing, or they do not go together."""
    schedules, alone = [], []
    pairs = zip(identities, collectives, strict=True)
    entries = [cache.find(identity, Wanted((topology,), collective, {"alone_ns": "ns"})) for identity, collective in pairs]
    for found in entries:
        if found is None:
            return None
        timing = found[0].timing
        again = compute_timing(topology, found[0].collective, timing.link_model, timing.reduce_bandwidth_gbps)
        schedules.append(replace(found[0], topology=topology, timing=again))
        alone.append(found[1]["alone_ns"])
    violations = verify_together(schedules)
    if violations:
        cache.refuse(identities, f"do not go together: {violations[0]}")
        return None
    return tuple(schedules), tuple(alone)
