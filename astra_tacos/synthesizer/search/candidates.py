"""The work list of a search: which synthesizers, numbers of chunks and seeds to try, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.topology.topology import Topology

MAX_TRIALS = 32
_SECONDS_OF_ALL_TRIALS = 0.8
_TOO_LONG = 3.0
"""A candidate that is guessed to take so many times the budget is not worth waiting for."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A collective in some number of chunks, with its delays, and a time that no schedule of it beats."""

    collective: Collective
    timing: Timing
    bound_ns: int
    is_fixed: bool = True
    """Whether it is the only one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule to try.

    Parameters
    ----------
    trial
        0 for the first seed of a synthesizer and cut, 1 for the next, and so on.
    seconds
        A guess at how long it takes.
    is_advised
        Whether this number of chunks is the one that its synthesizer advises.
    """

    synthesizer: str
    cut: Cut
    seed: int
    trial: int
    seconds: float
    is_advised: bool = False

    @property
    def stage(self) -> int:
        """0 for first seeds of chunks by powers of two, 1 for those advised, 2 for those in between, 3 for other seeds.

        What is tried in one stage follows from the results of those before, and from who leads.
        """
        if self.trial:
            return 3
        if self.cut.is_fixed:
            return 0
        return 1 if self.is_advised else 2 * is_between(self.cut.collective.chunks_per_npu)

    def make(self, topology: Topology) -> Schedule:
        """Its schedule."""
        return SYNTHESIZERS[self.synthesizer].make(topology, self.cut.collective, self.cut.timing, self.seed)


def list_candidates(
    topology: Topology, cuts: Iterable[Cut], synthesizers: Mapping[str, int], trials: int | None, seed: int, budget_s: float
) -> tuple[list[Candidate], int, dict[str, str]]:
    """All candidates, stage by stage, in each the cheapest first. Synthesizers come with the number of chunks they advise.

    The list depends on the budget only in what it leaves out: what is guessed to take far longer than that, but for the first.

    Returns
    -------
    candidates, num_left_out, refusals
        How many are left out; and by synthesizer, why it is not in the list at all.
    """
    candidates: list[Candidate] = []
    refusals: dict[str, str] = {}
    for name, advised in synthesizers.items():
        entry = SYNTHESIZERS[name]
        for cut in cuts:
            reason = entry.why_not(topology, cut.collective)
            if reason is not None:
                refusals.setdefault(name, reason)
                continue
            seconds = entry.seconds(topology, cut.collective)
            total = (trials or default_trials(seconds)) if entry.is_random else 1
            candidates += [Candidate(name, cut, seed + trial, trial, seconds) for trial in range(total)]
            if cut.collective.chunks_per_npu == advised and not cut.is_fixed:
                candidates.append(Candidate(name, cut, seed, 0, seconds, is_advised=True))
    candidates.sort(key=lambda candidate: (candidate.stage, candidate.seconds))  # stable: portfolio order, then seeds
    kept = [c for index, c in enumerate(candidates) if index == 0 or c.seconds <= _TOO_LONG * budget_s]
    tried = {candidate.synthesizer for candidate in kept}
    for candidate in candidates:
        text = f"one schedule would take about {candidate.seconds:,.0f} s, the budget is {budget_s:g} s"
        refusals.setdefault(candidate.synthesizer, text)
    return kept, len(candidates) - len(kept), {name: reason for name, reason in refusals.items() if name not in tried}


def is_between(chunks_per_npu: int) -> bool:
    """Whether a number of chunks is no power of two."""
    return chunks_per_npu & (chunks_per_npu - 1) != 0


def default_trials(seconds: float) -> int:
    """As many trials of so many seconds as take less than one together, 1 to `MAX_TRIALS`."""
    return max(1, min(MAX_TRIALS, int(_SECONDS_OF_ALL_TRIALS / seconds)))
