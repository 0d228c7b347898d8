"""The work list of a search: which synthesizers, numbers of chunks and seeds to try, in which order."""

from __future__ import annotations

from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule to try.

    Parameters
    ----------
    trial
        0 for the first seed of a synthesizer and cut, and so on.
    seconds
        A guess at how long it takes.
    """

    synthesizer: str
    cut: Cut
    seed: int
    trial: int
    seconds: float

    def make(self, topology: Topology) -> Schedule:
        """Its schedule."""
        return SYNTHESIZERS[self.synthesizer].make(topology, self.cut.collective, self.cut.timing, self.seed)


def list_candidates(
    topology: Topology, cuts: Iterable[Cut], synthesizers: Iterable[str], trials: int | None, seed: int, budget_s: float
) -> tuple[list[Candidate], int, dict[str, str]]:
    """All candidates, the cheapest first, and more seeds only after every synthesizer and cut had one.

    The list depends on the budget only in what it leaves out: what is guessed to take far longer than that, but for the first.

    Returns
    -------
    candidates, num_left_out, refusals
        How many are left out; and by synthesizer, why it is not in the list at all.
    """
    candidates: list[Candidate] = []
    refusals: dict[str, str] = {}
    for name in synthesizers:
        entry = SYNTHESIZERS[name]
        for cut in cuts:
            reason = entry.why_not(topology, cut.collective)
            if reason is not None:
                refusals.setdefault(name, reason)
                continue
            seconds = entry.seconds(topology, cut.collective)
            total = (trials or default_trials(seconds)) if entry.is_random else 1
            candidates += [Candidate(name, cut, seed + trial, trial, seconds) for trial in range(total)]
    candidates.sort(key=lambda candidate: (candidate.trial > 0, candidate.seconds))  # stable: portfolio order, then seeds
    kept = [c for index, c in enumerate(candidates) if index == 0 or c.seconds <= _TOO_LONG * budget_s]
    tried = {candidate.synthesizer for candidate in kept}
    for candidate in candidates:
        text = f"one schedule would take about {candidate.seconds:,.0f} s, the budget is {budget_s:g} s"
        refusals.setdefault(candidate.synthesizer, text)
    return kept, len(candidates) - len(kept), {name: reason for name, reason in refusals.items() if name not in tried}


def default_trials(seconds: float) -> int:
    """As many trials of so many seconds as take less than one together, 1 to `MAX_TRIALS`."""
    return max(1, min(MAX_TRIALS, int(_SECONDS_OF_ALL_TRIALS / seconds)))
