"""The work list of a search: synthesizers, numbers of chunks and seeds, in the order of trying."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import busiest_link_ns
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED, LinkModel
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import EFFORTS, SearchOptions

MAX_TRIALS = 32


class Stage(IntEnum):
    """What candidates of a search are tried for, in this order.

    What is tried in one stage follows from the results of those before, and from who leads.
    """

    DOUBLED = 0
    """First seeds of numbers of chunks that are powers of two, or of the only number."""
    ADVISED = 1
    """First seeds of the number of chunks that a synthesizer advises."""
    BETWEEN = 2
    """First seeds of other numbers of chunks."""
    SEEDS = 3
    """Other seeds."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A problem in some number of chunks.

    Parameters
    ----------
    chunked_bound
        Tells the ns below which no algorithm is whose sends carry one of these chunks each. Few cuts are asked for it.
    is_fixed
        Whether it is the only one.
    refusal
        Why these chunks are too small or too large to be sent one by one; None if they are not. Synthesizers that cut for
        themselves may still do the collective.
    """

    problem: Problem
    bound_ns: float
    chunked_bound: Callable[[], float]
    is_smallest: bool = True
    is_fixed: bool = True
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule with its time in arithmetic that truncates nothing, by which schedules are compared.

    Parameters
    ----------
    is_truncated
        Whether truncation to whole nanoseconds makes ASTRA-sim's time more than 0.5% shorter.
    busiest_ns
        What its busiest link needs for its bytes alone.
    """

    schedule: Schedule
    exact_ns: float
    is_truncated: bool
    busiest_ns: float


def timed(schedule: Schedule) -> TimedSchedule:
    """A schedule with its exact time."""
    exact_ns = exact_time_ns(schedule)
    is_truncated = schedule.collective_time_ns < (1 - MOST_TRUNCATED) * exact_ns
    return TimedSchedule(schedule, exact_ns, is_truncated, busiest_link_ns(schedule))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule to try.

    Parameters
    ----------
    trial
        0 for the first seed of a synthesizer and cut, 1 for the next, and so on.
    least_ns
        A time that its synthesizer cannot beat, 0 if it does not tell.
    """

    synthesizer: str
    cut: Cut
    seed: int
    trial: int
    work: int
    is_advised: bool = False
    by_chunk: bool = False
    least_ns: float = 0.0

    @property
    def series(self) -> tuple[str, LinkModel]:
        """What its results are compared to when more chunks or seeds are to be tried: its synthesizer and link model."""
        return self.synthesizer, self.cut.problem.timing.link_model

    @property
    def stage(self) -> Stage:
        """When the candidate is tried."""
        if self.trial:
            return Stage.SEEDS
        if self.cut.is_fixed:
            return Stage.DOUBLED
        if self.is_advised:
            return Stage.ADVISED
        return Stage.BETWEEN if is_between(self.cut.problem.collective.chunks_per_npu) else Stage.DOUBLED

    @property
    def bound_ns(self) -> float:
        """A time that its schedule does not beat."""
        return max(self.least_ns, self.cut.chunked_bound() if self.by_chunk else self.cut.bound_ns)

    def make(self) -> TimedSchedule:
        """Its schedule."""
        return timed(SYNTHESIZERS[self.synthesizer].make(self.cut.problem, self.seed))


def list_candidates(
    topology: Topology, cuts: Iterable[Cut], synthesizers: Mapping[str, int], options: SearchOptions
) -> tuple[list[Candidate], dict[str, str]]:
    """All candidates, stage by stage, in each the cheapest first.

    Parameters
    ----------
    synthesizers
        The number of chunks per NPU that each advises, 0 if it has nothing to say.

    Returns
    -------
    candidates, refusals
        By synthesizer, why none of its candidates is in the list.
    """
    candidates: list[Candidate] = []
    refusals: dict[str, str] = {}
    effort, seed = EFFORTS[options.effort], options.seed
    for name, advised in synthesizers.items():
        entry = SYNTHESIZERS[name]
        for cut in cuts:
            cuts_itself = cut.problem.collective.name in entry.cuts_itself
            if cuts_itself and not cut.is_smallest:
                continue
            reason = entry.why_not(topology, cut.problem.collective) or (None if cuts_itself else cut.refusal)
            if reason is not None:
                refusals.setdefault(name, reason)
                continue
            work = entry.work(topology, cut.problem.collective)
            of_trial = work if entry.trial_work is None else entry.trial_work(topology, cut.problem.collective)
            total = (options.trials or default_trials(of_trial, effort.trials_work)) if entry.is_random else 1
            least_ns = entry.least_ns(topology, cut.problem.collective) if entry.least_ns is not None else 0.0
            first = Candidate(name, cut, seed, 0, work, by_chunk=entry.by_chunk, least_ns=least_ns)
            candidates += [replace(first, seed=seed + trial, trial=trial) for trial in range(total)]
            if cut.problem.collective.chunks_per_npu == advised and not cut.is_fixed:
                candidates.append(replace(first, is_advised=True))
    tried = {candidate.synthesizer for candidate in candidates}
    return in_order(candidates), {name: reason for name, reason in refusals.items() if name not in tried}


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates stage by stage, in each the cheapest first, and equals as they come: portfolio order, then seeds."""
    return sorted(candidates, key=lambda candidate: (candidate.stage, candidate.work))


def is_between(chunks_per_npu: int) -> bool:
    """Whether a number of chunks is not a power of two."""
    return chunks_per_npu & (chunks_per_npu - 1) != 0


def default_trials(work: int, work_of_all: int) -> int:
    """The number of trials that together examine no more than so many sends, 1 to `MAX_TRIALS`."""
    return max(1, min(MAX_TRIALS, work_of_all // max(work, 1)))
