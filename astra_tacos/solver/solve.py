"""`solve`: from a request to a verified solution. The command line, Python programs and `plan` share it.

1. A schedule that is known to be optimal is taken; else a search finds the fastest one.
2. The oracle and a replay check the schedule.
3. The clock times its traces, and ASTRA-sim's own algorithms beside them.

A network that looks the same from every NPU may be too large to list all sends. `_solve_compact` then makes those of NPU 0 alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from astra_tacos.collective.collective import Collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.sketch import under_sketch
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.run.backend import is_packet_level
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import moved_to
from astra_tacos.schedule.timing import wire_bytes
from astra_tacos.solver.clock import bounds_on, check_clock, symmetric_tasks, symmetric_time_ns, time_on, timed_for
from astra_tacos.solver.first_use import (
    CHECKING,
    CONNECTING,
    REPLAYING,
    SYMMETRIC,
    Progress,
    compile_ahead,
    finding_optimum,
    searching,
    silent,
)
from astra_tacos.solver.many_sends import check_sends, has_many_sends, is_symmetric, lists_all_sends
from astra_tacos.solver.native import best_native_time
from astra_tacos.solver.sketch_cost import SketchCost
from astra_tacos.solver.solution import CompactSolution, Request, Solution
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.search.search import SearchResult, known_optimum, search
from astra_tacos.synthesizer.search.search_options import FASTEST, SearchOptions
from astra_tacos.synthesizer.symmetric.chunks import fastest_symmetric
from astra_tacos.synthesizer.work import CHECKS, JUDGING
from astra_tacos.verifier.schedule_oracle import check
from astra_tacos.verifier.symmetric_oracle import check_symmetric


def solve(
    network: Request | NetworkConfig | str | Path,
    collective: str | None = None,
    size: int | str | None = None,
    progress: Progress = silent,
    **more: Any,
) -> Solution | CompactSolution:
    """The fastest schedule that is found for a collective on a network, verified and timed.

    Parameters
    ----------
    network
        The network, or the path of its file; or a `Request`, which says all.
    collective
        Name of the collective, such as `all-reduce`.
    size
        Bytes of the collective, or a text such as `64MiB`.
    progress
        Shows what is being done.
    **more
        Other fields of `Request` or `SearchOptions`, such as `synthesizer="tacos"` or `backend="congestion-unaware"`.

    Returns
    -------
    solution
        A `CompactSolution` on networks that look the same from every NPU, if the schedule has more sends than
        `request.options.max_sends`.

    Raises
    ------
    ConfigError, SynthesisError
        If the request cannot be met.
    VerificationError
        If the oracle rejects the fastest schedule, or its replay takes another time.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, solve
    >>> network = NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),))
    >>> solution = solve(network, "all-gather", "64KiB", synthesizer="ring")
    >>> solution.bound_ns <= solution.time_ns <= solution.best_native_ns
    True
    """
    if not isinstance(network, Request):
        if collective is None:
            raise ConfigError(
                "collective: found None, expected a name such as 'all-reduce', or a Request in place of the network"
            )
        if size is None and "part_bytes" not in more:
            raise ConfigError("size: found None, expected bytes, or a text such as '64MiB'")
        network = Request.of(network, collective, size or 0, **more)
    elif collective is not None or size is not None or more:
        raise ConfigError("request: found one beside other arguments, expected a Request alone")
    return _solve(network, progress)


def _solve(request: Request, progress: Progress) -> Solution | CompactSolution:
    if _is_compact(request):
        return _solve_compact(request, progress)
    network, checks = request.network, request.checks
    if request.is_plain and not network.reducing and lists_all_sends(request.collective, request.options):
        check_sends(network, request.collective, request.options)
    # Numba compiles what later steps need while earlier steps run.
    later_kernels = (*REPLAYING, *(CHECKING if checks else ()))
    compile_ahead(*CONNECTING, later=later_kernels, progress=progress)
    topology = build_topology(network, may_forward=True)
    collective = request.collective_on(topology)
    if request.is_plain and topology.is_uniform and not topology.has_switches and "tacos" in request.options.synthesizers:
        check_sends(network, request.collective, request.options)
    clock = request.clock
    check_clock(topology, network, clock)
    options, _, reason = timed_for(request.options, topology, clock)
    # Under a sketch, the search sees fewer links than the topology has: `links` are their numbers there.
    searched, links = (topology, None) if request.sketch is None else under_sketch(topology, request.sketch)
    search_kernels = searching(searched, collective)
    compile_ahead(*finding_optimum(searched, collective, options), later=later_kernels, progress=progress)
    result = known_optimum(searched, collective, options)
    if result is None:
        compile_ahead(*search_kernels, later=later_kernels, progress=progress)
    with ThreadPoolExecutor(1) as aside:  # native algorithms are replayed while the search runs
        native = aside.submit(best_native_time, network, collective, clock, options.reduce_bandwidth_gbps)
        if result is None:
            with progress("synthesizing") as on_progress:
                work_after = JUDGING + (CHECKS if checks else 0.0)
                result = search(searched, collective, options, on_progress, work_after=work_after)
        schedule = result.schedule if links is None else moved_to(result.schedule, topology, links)
        schedule = replace(schedule, link_order=request.link_order, in_flight=request.in_flight)
        if checks:
            with progress("verifying"):
                check_schedule(schedule)
        with progress("judging"):
            timed, bounds = time_on(schedule, network, clock), bounds_on(topology, collective, clock)
            best_native = native.result()
    padded, native_ns = _padded(schedule), best_native.time_ns
    is_slower = native_ns is not None and native_ns < timed.time_ns
    slower = f"the best native algorithm is faster: {padded or _why_slower(result, options)}" if is_slower else ""
    notes = tuple(text for text in (*timed.notes, padded, slower) if text)
    cost = None if request.sketch is None else SketchCost.of(request.sketch, searched, schedule)
    return Solution(request, schedule, result, timed, bounds, best_native, reason, notes, cost)


def _is_compact(request: Request) -> bool:
    """Whether the schedule has more sends than may be listed even in one chunk per NPU, and `symmetric` can make it."""
    question = request.network, request.collective, request.options
    if not request.is_plain or not is_symmetric(*question) or not has_many_sends(*question):
        return False
    if is_packet_level(request.backend):
        raise ConfigError(
            f"--backend {request.backend}: the schedule has too many sends for its messages to be timed, expected fewer NPUs"
        )
    return True


def _solve_compact(request: Request, progress: Progress) -> CompactSolution:
    options = request.options
    tasks, reason = symmetric_tasks(request.network, request.collective, request.size_bytes, options, request.clock)
    compile_ahead(*SYMMETRIC, progress=progress)
    with progress("synthesizing"):
        schedule = fastest_symmetric(tasks, None, options.chooses_chunks)
    if symmetric_time_ns(schedule, request.clock) is None:
        raise ConfigError(
            f"--backend {request.clock}: only a replay could time the schedule there, and it has too many sends, expected "
            "--backend congestion-aware"
        )
    if request.checks:
        with progress("verifying"):
            check_symmetric(schedule)
    note = (
        f"{schedule.num_sends:,} sends, more than --max-sends {options.max_sends:,}: kept as the {schedule.num_rows:,} sends of "
        "NPU 0's chunks, which all other NPUs make alike"
    )
    return CompactSolution(request, schedule, reason, (note,))


def _padded(schedule: Schedule) -> str:
    """A note on messages that are longer on links than what they carry, "" if there are none."""
    channel = schedule.channel[schedule.message_row]
    sent = wire_bytes(schedule.topology, schedule.message_bytes, channel, schedule.timing.link_model)
    longer = sent[sent > schedule.message_bytes]
    if not len(longer):
        return ""
    size = format_size(int(longer.min())) if longer.min() == longer.max() else f"{format_size(int(longer.min()))} and more"
    return f"shorter messages are sent as {size}, which take a link 1 ns: ASTRA-sim's queues stop at less at time 0"


def _why_slower(result: SearchResult, options: SearchOptions) -> str:
    """Why a search found no schedule as fast as a native algorithm."""
    if result.schedule.timing.is_blocking and options.link_model != FASTEST:
        return "sends of the schedule hold their links until they arrive: --link-model fastest may find a faster one"
    if result.was_cut_off:
        return "the budget cut the search off: a larger --budget may find a faster schedule"
    if result.is_near_bound:
        return "the schedule is close to what any algorithm needs, and no other one was tried"
    return "no schedule that was tried is as fast"


def check_schedule(schedule: Schedule) -> None:
    """Check that the oracle accepts the schedule and that the embedded replay takes exactly the predicted time.

    Raises
    ------
    VerificationError
        If the oracle finds an error or the replay takes another time.
    """
    try:
        check(schedule)
    except VerificationError as error:
        raise VerificationError(f"a schedule of {schedule.synthesizer or 'no synthesizer'} is illegal: {error}") from None
    replayed = replay_schedule(schedule).collective_time_ns
    if replayed != schedule.collective_time_ns:
        raise VerificationError(f"the replay takes {replayed} ns, {schedule.collective_time_ns} ns were predicted")


def synthesize(
    topology: Topology,
    collective: Collective,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Schedule:
    """The fastest schedule that a `search` with these options finds, by default of the `auto` portfolio, verified.

    Parameters
    ----------
    topology
        The network.
    collective
        Its number of chunks is kept, unless `chunks_per_npu` is a number or `auto`.
    on_progress
        Called with the number of candidates done and their total.
    options
        The parameters of `SearchOptions`: `synthesizer`, `chunks_per_npu`, `seed`, `budget`, ...

    Raises
    ------
    ConfigError, SynthesisError
        As `SearchOptions` and `search` do.
    VerificationError
        If the oracle rejects the fastest schedule, or its replay takes another time: the synthesizer that it names is wrong.

    Examples
    --------
    >>> from astra_tacos import all_reduce, build_topology, read_network, synthesize
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> schedule = synthesize(topology, all_reduce(16, 1 << 20), synthesizer="tacos", trials=2, seed=1)
    >>> schedule.synthesizer, schedule.num_sends >= 2 * 16 * 15
    ('tacos', True)
    """
    schedule = search(topology, collective, SearchOptions(**options), on_progress).schedule
    check_schedule(schedule)
    return schedule
