"""The search: the fastest schedule of a portfolio of synthesizers, numbers of chunks and seeds, within a budget of work."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from astra_tacos.bounds import chunked_lower_bound, lower_bound
from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective import cut_into
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.symmetric_schedule import exact_symmetric_ns
from astra_tacos.schedule.timing import LinkModel, compute_timing, timing_of_sizes
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.chunk_counts import choose_chunks, counts_for_trips
from astra_tacos.synthesizer.search.candidate_runner import CandidateRunner
from astra_tacos.synthesizer.search.candidates import Candidate, Cut, in_order, list_candidates
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.synthesizer.search.search_options import EFFORTS, THOROUGH, SearchOptions, handicaps, link_models_of

MAX_CHUNKS_PER_NPU = 512
"""Most chunks per NPU that the search tries, unless a synthesizer advises more."""
_NEAR = 0.995
"""A thorough search is content with a schedule that is known to be optimal up to this share of its time."""
_MOST_OF_UNEQUAL = 16
_SENDS_AT_A_TIME = 20_000_000
_MOST_SENDS_OF_TRIPS = 200_000
"""Where devices forward, of numbers of chunks that no synthesizer advises."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best schedule of a search, and how thorough the search was.

    Parameters
    ----------
    exact_ns
        Its time in arithmetic that truncates nothing (see `exact_time_ns`), by which it was chosen.
    num_candidates, num_tried
        Length of the work list, and how many schedules of it were made. Where nothing was cut off, those that were not could
        not have won: no schedule of their chunks is faster, or their synthesizer had stopped gaining from more chunks.
    work
        Sends examined (see `work`).
    was_cut_off
        Whether the budget was too small for candidates that might have won.
    ran_out_of_time
        Whether the time limit kept such candidates from being tried. Then the result depends on the machine; otherwise it
        follows from the arguments alone.
    refusals
        By synthesizer, why it was not tried.
    is_near_bound
        Whether there was no search, as a synthesizer had a schedule close to what any algorithm needs.
    more_may_help
        Whether a thorough search would have tried candidates that this one did not.

    Examples
    --------
    >>> from astra_tacos import SearchOptions, all_gather, build_topology, read_network, search
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> result = search(topology, all_gather(16, 1 << 20), SearchOptions("direct"))
    >>> result.num_tried, result.was_cut_off
    (1, False)
    """

    schedule: Schedule
    exact_ns: float
    num_candidates: int
    num_tried: int
    work: int
    was_cut_off: bool
    ran_out_of_time: bool
    refusals: dict[str, str]
    is_near_bound: bool = False
    more_may_help: bool = False

    def describe(self) -> dict[str, Any]:
        """The search in the words of a certificate."""
        return {
            "candidates": self.num_candidates,
            "candidates_tried": self.num_tried,
            "sends_examined": self.work,
            "cut_off_by_budget": self.was_cut_off,
            "cut_off_by_time_limit": self.ran_out_of_time,
            "more_may_help": self.more_may_help,
            "refusals": self.refusals,
        }


def search(
    topology: Topology,
    collective: Collective,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    without: Collection[str] = (),
    work_after: float = 0.0,
    rival_ns: float = math.inf,
) -> SearchResult:
    """Try synthesizers, numbers of chunks and seeds; the best exact time wins, then fewer sends, then the first tried.

    What is tried, in which order, and what wins depends on the arguments only, unless the time limit strikes.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    options
        What to try, and how much.
    on_progress
        Called with the number of candidates done and their total.
    without
        Names of synthesizers that are not tried.
    work_after
        Sends examined that each send of the result will count as when the caller checks and judges it: a part of a budget that
        is asked for.
    rival_ns
        The time of a schedule that the caller has. Synthesizers that fall more than 25% behind it get no more chunks or seeds.

    Raises
    ------
    ConfigError
        If topology and collective differ in their number of NPUs.
    SynthesisError
        If chunks are too small or too large for the links, or no synthesizer can do this collective on this network.

    Examples
    --------
    >>> from astra_tacos import SearchOptions, all_reduce, build_topology, read_network, search
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> result = search(topology, all_reduce(16, 1 << 20), SearchOptions("tacos", trials=2))
    >>> result.num_tried, result.schedule.collective_time_ns > 0
    (2, True)
    """
    started = time.monotonic()
    if collective.num_npus != topology.num_npus:
        raise ConfigError(f"{collective.name} has {collective.num_npus} NPUs, {topology.name} has {topology.num_npus}")
    optimum = known_optimum(topology, collective, options, without)
    if optimum is not None:
        on_progress(1, 1)
        return optimum
    if options.chunks_per_npu is not None:
        collective = cut_into(collective, options.first_chunks)
    models = link_models_of(topology, options)[0]
    names = tuple(name for name in options.synthesizers if name not in without)
    candidates, refusals, most_chunks = _all_candidates(topology, collective, models, names, options)

    leaderboard = Leaderboard(most_chunks, EFFORTS[options.effort], handicaps(topology, models), rival_ns)
    deadline = math.inf if options.time_limit_s is None else started + options.time_limit_s
    is_limit = options.budget is not None
    runner = CandidateRunner(leaderboard, options.sends_budget(topology), 1, deadline, is_limit, work_after if is_limit else 0.0)
    if candidates:
        most_sends = candidates[-1].cut.problem.collective.least_sends
        threads = options.threads or os.cpu_count() or 1
        runner.workers = max(1, min(threads, len(candidates), _SENDS_AT_A_TIME // most_sends))
        runner.run(candidates, on_progress)
    was_cut_off, spare = runner.was_cut_off, EFFORTS[options.effort].spare
    if spare and not is_limit:
        runner.use_spare([candidate for candidate in candidates if id(candidate) not in leaderboard.made], spare)
    refusals |= {
        name: reason for (name, _), reason in runner.refusals.items() if len(models) == 1 or name not in leaderboard.tried
    }
    if leaderboard.best is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        raise SynthesisError(f"{collective.name} on {topology.name}: {reasons}")
    for candidate in runner.passed_over:
        if candidate.synthesizer not in leaderboard.tried:
            text = f"one schedule takes about {candidate.work:,} sends examined, more than the rest of the budget"
            refusals.setdefault(candidate.synthesizer, text)
    return SearchResult(
        leaderboard.best.schedule,
        leaderboard.best.exact_ns,
        len(candidates),
        len(leaderboard.made),
        runner.work,
        was_cut_off,
        runner.ran_out_of_time,
        refusals,
        more_may_help=was_cut_off or runner.ran_out_of_time or leaderboard.would_try(candidates, EFFORTS[THOROUGH]),
    )


def _all_candidates(
    topology: Topology,
    collective: Collective,
    models: tuple[LinkModel, ...],
    names: tuple[str, ...],
    options: SearchOptions,
) -> tuple[list[Candidate], dict[str, str], int]:
    """Candidates in the order of trying, by synthesizer why there is none, and the largest number of chunks per NPU.

    Parameters
    ----------
    topology, collective, options
        As for `search`.
    """
    candidates: list[Candidate] = []
    refusals: dict[str, str] = {}
    most_chunks = 1
    for model in models:
        counts: list[int | None] = [None]
        advised = dict.fromkeys(names, 0)
        if options.chooses_chunks:
            most = options.max_sends
            advised = {name: _advice(name, topology, collective, model, most) for name in names}
            numbers = _numbers_of_chunks(topology, collective, model, most)
            counts = [*sorted(numbers.union(filter(None, advised.values())))]
        cuts = [_timed_cut(topology, collective, count, model, options.reduce_bandwidth_gbps) for count in counts]
        bound_ns = _any_algorithm_ns(topology, cuts[0].problem.collective, model)
        is_fixed = not options.chooses_chunks
        timed = [replace(cut, bound_ns=bound_ns, is_smallest=cut is cuts[0], is_fixed=is_fixed) for cut in cuts]
        listed, refused = list_candidates(topology, timed, advised, options)
        candidates += listed
        refusals = refused | refusals
        most_chunks = max(most_chunks, *(cut.problem.collective.chunks_per_npu for cut in cuts))
    tried = {candidate.synthesizer for candidate in candidates}
    return in_order(candidates), {name: reason for name, reason in refusals.items() if name not in tried}, most_chunks


def known_optimum(
    topology: Topology, collective: Collective, options: SearchOptions, without: Collection[str] = ()
) -> SearchResult | None:
    """What `search` returns without a search, as a synthesizer knows that nothing beats its schedule; None if there is none.

    Parameters
    ----------
    topology, collective, options, without
        As `search` takes them.
    """
    finders = [SYNTHESIZERS[name] for name in options.synthesizers if name not in without]
    finders = [entry for entry in finders if entry.optimum is not None and entry.why_not(topology, collective) is None]
    if not finders:
        return None
    if options.chunks_per_npu is not None:
        collective = cut_into(collective, options.first_chunks)
    most = options.max_sends if options.chooses_chunks else None
    models = link_models_of(topology, options)[0]
    for entry in finders:
        assert entry.optimum is not None
        limits = options.reduce_bandwidth_gbps, most, EFFORTS[options.effort].worth
        optima = [entry.optimum(topology, collective, model, *limits) for model in models]
        schedules = [schedule for schedule in optima if schedule is not None]
        if schedules:
            factor = handicaps(topology, models)
            best = min(schedules, key=lambda schedule: schedule.collective_time_ns * factor.get(schedule.task.link_model, 1))
            schedule = best.expand(topology)
            has_one_size = len(schedule.collective.class_size_bytes) == 1
            exact_ns = exact_symmetric_ns(best) if has_one_size else exact_time_ns(schedule)
            reasons = {name: SYNTHESIZERS[name].why_not(topology, collective) for name in options.synthesizers}
            refusals = {name: reason for name, reason in reasons.items() if reason is not None}
            more = options.effort != THOROUGH and _any_algorithm_ns(topology, collective, best.task.link_model) < _NEAR * exact_ns
            return SearchResult(schedule, exact_ns, 1, 1, schedule.num_sends, False, False, refusals, True, more)
    return None


def _numbers_of_chunks(topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int) -> set[int]:
    """Numbers of chunks per NPU to try; 1 alone where even that makes chunks too small for the links."""
    if collective.part_bytes is not None:
        return {1} if topology.forwarding else _numbers_for_unequal_parts(topology, collective, link_model, max_sends)
    if topology.forwarding:
        return counts_for_trips(topology, collective, min(max_sends, _MOST_SENDS_OF_TRIPS))
    try:
        tried = choose_chunks(topology, collective.name, collective.size_bytes, link_model, max_sends)
    except SynthesisError:
        return {1}
    return {candidate.chunks_per_npu for candidate in tried if candidate.chunks_per_npu <= MAX_CHUNKS_PER_NPU}


def _numbers_for_unequal_parts(topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int) -> set[int]:
    """1, 2, 4, ... chunks of the largest part, as long as chunks and sends are not too small or too many."""
    numbers, count = {1}, 2
    while count <= _MOST_OF_UNEQUAL:
        try:
            cut = cut_into(collective, count)
            compute_timing(topology, cut, link_model)
        except (ConfigError, SynthesisError):
            break
        if fewest_crossings(topology, cut) > max_sends or cut.num_chunks == cut_into(collective, count // 2).num_chunks:
            break
        numbers.add(count)
        count *= 2
    return numbers


def _advice(name: str, topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int) -> int:
    """The number of chunks per NPU that a synthesizer advises, 0 if it has nothing to say."""
    entry = SYNTHESIZERS[name]
    if entry.advise is None or collective.part_bytes is not None or entry.why_not(topology, collective) is not None:
        return 0
    try:
        return entry.advise(topology, collective.name, collective.size_bytes, link_model, max_sends)
    except SynthesisError:  # chunks are too small for the links
        return 0


@lru_cache(maxsize=1 << 6)  # `compare` asks for the same bound for each synthesizer
def _any_algorithm_ns(topology: Topology, collective: Collective, link_model: LinkModel) -> int:
    """What any algorithm needs, whatever the number of chunks (but for the rounding of their sizes to whole bytes)."""
    timing = timing_of_sizes(topology, collective.class_size_bytes, link_model, may_be_instant=True)
    return lower_bound(Problem(topology, collective, timing)).time_ns


@lru_cache(maxsize=1 << 7)  # `compare` asks for the same cuts for each synthesizer
def _timed_cut(
    topology: Topology, collective: Collective, count: int | None, link_model: LinkModel, reduce_bandwidth_gbps: float
) -> Cut:
    """A collective in so many chunks per NPU, or as it is, with its delays and the bound for these chunks."""
    collective = collective if count is None else cut_into(collective, count)
    try:
        timing = compute_timing(topology, collective, link_model, reduce_bandwidth_gbps)
    except SynthesisError as error:
        timing = timing_of_sizes(topology, collective.class_size_bytes, link_model, reduce_bandwidth_gbps, may_be_instant=True)
        return Cut(Problem(topology, collective, timing), 0, lambda: 0, refusal=str(error))
    problem = Problem(topology, collective, timing)
    return Cut(problem, 0, cache(lambda: chunked_lower_bound(problem).time_ns))
