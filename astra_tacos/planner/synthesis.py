"""From a case to the schedule that is fastest where it will run.

Where predictions are exact, it is the search's best. Elsewhere candidates that differ in how much of the network a group uses, in
how finely the buffer is cut and in the algorithm are replayed on the real network, all groups at once. ASTRA-sim's native
collective is a candidate, too.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from astra_tacos.collective import COLLECTIVES
from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.system import SystemConfig
from astra_tacos.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.planner.case_candidates import Task, list_tasks
from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.planner.group_replay import replay_together
from astra_tacos.planner.solution import Options, Solution
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.search.search import AUTO_BUDGET_S, search
from astra_tacos.trace.schema import CommType
from astra_tacos.verifier.schedule_oracle import check
from astra_tacos.version import package_version

_WORTH_MORE_SENDS = 0.99
_FIGURES = {"together_ns": "ns or None", "is_exact": "bool", "was_cut_off": "bool"}
"""What is kept with a schedule: parameters of `Solution`."""
_MOST_JUDGED_SENDS = 400_000
"""Native collectives of about so many messages are replayed to see whether they are faster."""


def solve(
    case: DistinctCollective,
    network: NetworkConfig,
    system: SystemConfig,
    backend: Backend,
    options: Options,
    cache: SynthesisCache,
    threads: int = 1,
) -> Solution:
    """Synthesize a case, or find it in the cache, and compare it with the native collective.

    Raises
    ------
    ConfigError
        If nothing can run it: no synthesizer does its pattern, and ASTRA-sim lacks it too.
    SynthesisError
        If a synthesizer fails.
    """
    is_native = case.pattern in PATTERN_KEYS
    refusal = _refusal(case, options)
    if refusal is not None:
        if is_native:
            return Solution(None, refusal, keeps_custom=True)
        if case.pattern == CommType.BROADCAST:
            return Solution(None, f"{refusal}; ASTRA-sim waits for the node's duration")
        raise ConfigError(f"{CommType(case.pattern).name}: {refusal}, and ASTRA-sim has none: remove its nodes")
    tasks = list_tasks(case, backend, options.synthesizer, options.chunks_per_npu)
    identity = (
        case.identity | asdict(options) | {"version": package_version(), "backend": backend.name, "max_sends": case.max_sends}
    )
    if case.needs_replay:
        identity["network"] = asdict(network) | {"source": ""}
    topologies = tuple({id(task.topology): task.topology for task in tasks}.values())
    found = cache.find(identity, Wanted(topologies, tasks[0].collective, _FIGURES))
    if found is None:
        schedule, best = _best(case, tasks, network, system, backend, options, threads)
        check(schedule)
        figures = {"together_ns": best.together_ns, "is_exact": best.is_exact, "was_cut_off": best.was_cut_off}
        cache.keep(identity, schedule, figures)
    else:
        schedule = found[0]
        best = Solution(schedule, from_cache=True, **found[1])
    native_ns = _native_ns(case, network, system, backend) if is_native else None
    if native_ns is not None and backend.models_congestion and _holds_no_link(schedule):
        reason = "chunks hold a link for less than 1 ns, at which ASTRA-sim stops at the beginning of a run"
        return Solution(None, reason, native_ns=native_ns, from_cache=best.from_cache)
    if native_ns is not None and native_ns < best.time_ns:
        reason = f"native is faster: {native_ns:,} ns against {best.time_ns:,} ns of {schedule.synthesizer}"
        return Solution(None, reason, native_ns=native_ns, from_cache=best.from_cache)
    return replace(best, native_ns=native_ns)


def _refusal(case: DistinctCollective, options: Options) -> str | None:
    """Why no synthesizer does this pattern; None if one does."""
    if case.collective not in COLLECTIVES:
        return f"no synthesizer does {case.collective}"
    if options.synthesizer not in (AUTO, *SYNTHESIZERS):
        raise ConfigError(f"synthesizer: found {options.synthesizer!r}, expected {' or '.join((AUTO, *SYNTHESIZERS))}")
    names = auto_synthesizers() if options.synthesizer == AUTO else (options.synthesizer,)
    if not any(case.collective in SYNTHESIZERS[name].collectives for name in names):
        return f"{'no synthesizer' if options.synthesizer == AUTO else options.synthesizer} does {case.collective}"
    return None


def _best(
    case: DistinctCollective,
    tasks: list[Task],
    network: NetworkConfig,
    system: SystemConfig,
    backend: Backend,
    options: Options,
    threads: int,
) -> tuple[Schedule, Solution]:
    """The best candidate; without a replay where the first of its predictions is exact."""
    best: tuple[Schedule, Solution] | None = None
    failure: AstraTacosError | None = None
    budget = options.budget_s or AUTO_BUDGET_S
    for task in tasks:
        try:
            found = search(
                task.topology,
                task.collective,
                synthesizer=task.synthesizer,
                recut=task.recut,
                max_sends=case.max_sends,
                link_model=task.link_model,
                reduce_bandwidth_gbps=options.reduce_bandwidth_gbps,
                trials=options.trials,
                seed=options.seed,
                budget_s=budget / len(tasks),
                threads=threads,
            )
        except SynthesisError as error:
            failure = error
            continue
        together_ns = None
        if case.needs_replay:
            together_ns = replay_together(found.schedule, case.pattern, case.size_bytes, case.groups, network, system, backend)
        made = Solution(found.schedule, "", together_ns, None, task.is_exact, found.was_cut_off)
        if best is None or _is_better(found.schedule, made, *best):
            best = found.schedule, made
    if best is None:
        raise failure or SynthesisError(f"{case.name}: nothing to try")
    return best


def _holds_no_link(schedule: Schedule) -> bool:
    """Whether some chunk holds some link for 0 ns."""
    used = np.unique(schedule.topology.channel_link[schedule.channel])
    return bool(schedule.timing.link_hold_ns[used].min() < 1)


def _is_better(schedule: Schedule, made: Solution, leader: Schedule, its: Solution) -> bool:
    """Whether a candidate beats the leader: more messages, which ASTRA-sim has to simulate, must gain a hundredth."""
    worth = _WORTH_MORE_SENDS if schedule.num_sends > leader.num_sends else 1.0
    return made.time_ns < its.time_ns * worth


def _native_ns(case: DistinctCollective, network: NetworkConfig, system: SystemConfig, backend: Backend) -> int | None:
    """Replay of the native collective; None where the system has none, or it cannot be replayed."""
    if PATTERN_KEYS[CommType(case.pattern)] not in system.native or case.num_members**2 > _MOST_JUDGED_SENDS:
        return None
    try:
        return replay_together(None, case.pattern, case.size_bytes, case.groups, network, system, backend)
    except AstraTacosError:
        return None
