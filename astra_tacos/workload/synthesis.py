"""From a case to the schedule that is fastest where it will run.

Candidates differ in how much of the network a group uses and in how finely the buffer is cut. Where predictions are exact they
decide, elsewhere the embedded replay of all groups at once does; ASTRA-sim's native collective is a candidate, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import Collective
from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.system import SystemConfig
from astra_tacos.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search import synthesize
from astra_tacos.topology.topology import Topology
from astra_tacos.trace.schema import CommType
from astra_tacos.units import bytes_per_ns
from astra_tacos.verifier.schedule_oracle import check
from astra_tacos.workload.case import Case
from astra_tacos.workload.case_cache import CaseCache
from astra_tacos.workload.group_topology import Reach
from astra_tacos.workload.judge import replay_together
from astra_tacos.workload.solution import Options, Solution

AWARE = "congestion-aware"
_CHUNKS = (1, 2, 4, 8, 16, 32, 64)
_MOST_SENDS = 60_000
"""Finer cuts are tried up to so many sends, ..."""
_LEAST_CHUNK_BYTES = 1024
"""... and down to chunks of this size."""
_MOST_JUDGED_SENDS = 400_000
"""Native collectives of about so many messages are replayed to see whether they are faster."""


def solve(case: Case, network: NetworkConfig, system: SystemConfig, backend: str, options: Options, cache: CaseCache) -> Solution:
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
    identity = case.identity | asdict(options) | {"version": _version(), "backend": backend}
    if "groups" in case.identity:
        identity["network"] = asdict(network) | {"source": ""}
    found = cache.find(identity)
    if found is None:
        schedule, together_ns, is_exact = _best(case, network, system, backend, options)
        check(schedule)
        cache.keep(identity, schedule, {"together_ns": together_ns, "is_exact": is_exact})
    else:
        schedule, figures = found
        check(schedule)
        together_ns, is_exact = figures["together_ns"], figures["is_exact"]
    native_ns = _native_ns(case, network, system, backend) if is_native else None
    solution = Solution(schedule, "", together_ns, native_ns, is_exact, found is not None)
    if native_ns is not None and native_ns < solution.time_ns:
        reason = f"native is faster: {native_ns:,} ns against {solution.time_ns:,} ns of {schedule.synthesizer}"
        return Solution(None, reason, None, native_ns, False, found is not None)
    return solution


def _refusal(case: Case, options: Options) -> str | None:
    """Why no synthesizer does this pattern; None if one does."""
    if case.collective not in COLLECTIVES:
        return f"no synthesizer does {case.collective}"
    names = [options.synthesizer] if options.synthesizer else list(SYNTHESIZERS)
    if not any(name in SYNTHESIZERS and case.collective in SYNTHESIZERS[name].collectives for name in names):
        return f"{' and '.join(names)} cannot do {case.collective}"
    return None


def _best(
    case: Case, network: NetworkConfig, system: SystemConfig, backend: str, options: Options
) -> tuple[Schedule, int | None, bool]:
    """The best candidate, its replay if that was needed, and whether its prediction is exact."""
    needs_replay = any(view.num_routed for view in case.views.values())
    best: tuple[int, Schedule, int | None, bool] | None = None
    failure: AstraTacosError | None = None
    for topology, reach, model, chunks in _cuts(case, backend, options):
        try:
            collective = _collective(case, chunks)
            schedule = synthesize(topology, collective, link_model=model, threads=1, **options.arguments)
        except SynthesisError as error:
            failure = error
            continue
        together_ns = None
        if needs_replay:
            together_ns = replay_together(schedule, case.pattern, case.size_bytes, case.groups, network, system, backend)
        time_ns = together_ns or schedule.collective_time_ns
        if best is None or time_ns < best[0]:
            best = (time_ns, schedule, together_ns, not case.views[reach].num_routed and _is_exact(topology, backend))
    if best is None:
        raise failure or SynthesisError(f"{case.name}: no candidate")
    return best[1], best[2], best[3]


def _cuts(case: Case, backend: str, options: Options) -> Iterator[tuple[Topology, Reach, LinkModel, int]]:
    """Topologies, link models and chunk counts to try, coarse ones first."""
    phases = 2 if case.collective == "all-reduce" else 1
    for reach, view in case.views.items():
        for chunks in [options.chunks_per_npu] if options.chunks_per_npu else _CHUNKS:
            try:
                collective = _collective(case, chunks)
            except ConfigError:
                break  # fewer bytes than chunks
            smallest = int(collective.class_size_bytes[0])
            sends = phases * (case.num_members - 1) * collective.num_chunks
            if chunks > 1 and not options.chunks_per_npu and (sends > _MOST_SENDS or smallest < _LEAST_CHUNK_BYTES):
                break
            yield view.topology, reach, _link_model(view.topology, smallest, backend), chunks


def _collective(case: Case, chunks: int) -> Collective:
    root = {} if case.root is None else {"root": case.root}
    return COLLECTIVES[case.collective](case.num_members, case.size_bytes, chunks, **root)


def _link_model(topology: Topology, chunk_bytes: int, backend: str) -> LinkModel:
    """What the backend does to sends that meet on a link: `pipelined` where it has queues.

    Without queues (congestion-unaware), and where a chunk would hold a link for less than 1 ns, at which the aware backend
    stops, sends have to wait for one another by themselves.
    """
    fastest = float(bytes_per_ns(topology.link_bandwidth_gibps).max())
    return "pipelined" if backend == AWARE and chunk_bytes / fastest >= 1 else "blocking"


def _is_exact(topology: Topology, backend: str) -> bool:
    """Unaware, ASTRA-sim models no contention in switches, and may be faster than predicted."""
    return backend == AWARE or not topology.has_switches


def _native_ns(case: Case, network: NetworkConfig, system: SystemConfig, backend: str) -> int | None:
    """Replay of the native collective; None where the system has none, or it cannot be replayed."""
    if PATTERN_KEYS[CommType(case.pattern)] not in system.native or case.num_members**2 > _MOST_JUDGED_SENDS:
        return None
    try:
        return replay_together(None, case.pattern, case.size_bytes, case.groups, network, system, backend)
    except AstraTacosError:
        return None


def _version() -> str:
    try:
        return version("astra-tacos")
    except PackageNotFoundError:
        return "unknown"
