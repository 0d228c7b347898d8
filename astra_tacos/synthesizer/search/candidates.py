"""The work list of a search: synthesizers, numbers of chunks and seeds, in the order of trying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.topology.topology import Topology

MAX_TRIALS = 32
_WORK_OF_ALL_TRIALS = 500_000
"""Most sends that all seeds of one synthesizer and number of chunks examine together, unless `trials` is given."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A collective in some number of chunks, with its delays and lower bounds on its time."""

    collective: Collective
    timing: Timing
    bound_ns: int
    """No schedule that sends these chunks one at a time is predicted to take less."""
    joined_bound_ns: int
    """Nor one whose messages carry several chunks."""
    is_fixed: bool = True
    """Whether there is no other number of chunks to try."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule to try.

    Parameters
    ----------
    trial
        0 for the first seed of a synthesizer and cut, 1 for the next, and so on.
    work
        An estimate of how many sends it examines.
    is_advised
        Whether this number of chunks is the one that its synthesizer advises.
    joins_chunks
        Whether its messages may carry several chunks.
    """

    synthesizer: str
    cut: Cut
    seed: int
    trial: int
    work: int
    is_advised: bool = False
    joins_chunks: bool = False

    @property
    def bound_ns(self) -> int:
        """It is not predicted to take less."""
        return self.cut.joined_bound_ns if self.joins_chunks else self.cut.bound_ns

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
    topology: Topology, cuts: Iterable[Cut], synthesizers: Mapping[str, int], trials: int | None, seed: int
) -> tuple[list[Candidate], dict[str, str]]:
    """All candidates, stage by stage, in each the cheapest first.

    Parameters
    ----------
    topology
        The network.
    cuts
        Versions of the collective with different numbers of chunks.
    synthesizers
        The number of chunks per NPU that each advises, 0 if it has nothing to say.
    trials, seed
        See `SearchOptions`.

    Returns
    -------
    candidates, refusals
        By synthesizer, why none of its candidates is in the list.
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
            work = entry.work(topology, cut.collective)
            total = (trials or default_trials(work)) if entry.is_random else 1
            candidates += [
                Candidate(name, cut, seed + trial, trial, work, joins_chunks=entry.joins_chunks) for trial in range(total)
            ]
            if cut.collective.chunks_per_npu == advised and not cut.is_fixed:
                candidates.append(Candidate(name, cut, seed, 0, work, is_advised=True, joins_chunks=entry.joins_chunks))
    candidates.sort(key=lambda candidate: (candidate.stage, candidate.work))  # stable: portfolio order, then seeds
    tried = {candidate.synthesizer for candidate in candidates}
    return candidates, {name: reason for name, reason in refusals.items() if name not in tried}


def is_between(chunks_per_npu: int) -> bool:
    """Whether a number of chunks is not a power of two."""
    return chunks_per_npu & (chunks_per_npu - 1) != 0


def default_trials(work: int) -> int:
    """The number of trials that together examine fewer than half a million sends, 1 to `MAX_TRIALS`."""
    return max(1, min(MAX_TRIALS, _WORK_OF_ALL_TRIALS // max(work, 1)))
