"""The frontier of a collective: the algorithms of which none has fewer steps and fewer rounds per chunk (SCCL).

An instance with C chunks per NPU, S steps and R rounds takes S latencies and R / C times what an NPU's bytes take on one lane.
The relaxation for S steps bounds R / C, so points that reach it are proven; others are proven among so many chunks as are tried.
Reductions are the same on the reversed links; an All-Reduce is a Reduce-Scatter and then an All-Gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from astra_tacos.synthesizer.rounds.lanes import Demand, Lanes, demands_of
from astra_tacos.synthesizer.rounds.programme import Unknown, least_rounds, sends_of_instance

_IMAGE = {"reduce-scatter": "all-gather", "reduce": "broadcast"}
_MOST_TRIES = 24
_MORE_ROUNDS = 3
"""So many rounds from the least on are tried for each number of chunks."""


@dataclass(frozen=True, slots=True)
class Point:
    """An algorithm of the frontier.

    Parameters
    ----------
    chunks, steps, rounds
        Chunks per NPU (of the root's buffer, if it has one), steps and rounds.
    least
        Lower bound on rounds per chunk for so many steps, whatever the chunks.
    is_proven
        Whether no algorithm of so many steps has fewer rounds per chunk: it reaches the bound.
    undecided
        Instances of so many steps with fewer rounds per chunk that the solver gave up on, as (chunks, rounds).
    sends
        Steps, chunks and channels of the phase that spreads data (on the reversed links for one that reduces).
    """

    chunks: int
    steps: int
    rounds: int
    least: Fraction
    is_proven: bool
    undecided: tuple[tuple[int, int], ...]
    sends: tuple[tuple[int, int, int], ...]

    @property
    def ratio(self) -> Fraction:
        """Rounds per chunk."""
        return Fraction(self.rounds, self.chunks)


@dataclass(frozen=True, slots=True)
class Task:
    """What a frontier is asked for.

    Parameters
    ----------
    lanes
        The network.
    collective, root
        Key of `COLLECTIVES`, but All-Reduce, and the root of a rooted one.
    time_limit_s
        Seconds after which the solver gives up on an instance; None for no limit.
    """

    lanes: Lanes
    collective: str
    root: int | None = None
    time_limit_s: float | None = None
    _bounds: dict[int, Fraction | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those that were asked for: each is a linear programme."""

    @property
    def image(self) -> str:
        """The collective that spreads data, of which this one is the mirror image or itself."""
        return _IMAGE.get(self.collective, self.collective)

    @property
    def links(self) -> Lanes:
        """The links on which that one runs."""
        return self.lanes.reversed() if self.collective in _IMAGE else self.lanes

    @property
    def unit(self) -> int:
        """Chunks come in multiples of this."""
        return self.lanes.num_npus if self.collective == "all-to-all" else 1

    def demands(self, chunks: int) -> list[Demand]:
        """The chunks, so many of each NPU."""
        return demands_of(self.image, self.lanes.num_npus, chunks, self.root)

    @property
    def least_steps(self) -> int:
        """No algorithm has fewer."""
        far = self.links.distances()
        return int(max(far[demand.source, target] for demand in self.demands(self.unit) for target in demand.targets))

    def bound(self, steps: int) -> Fraction | None:
        """Lower bound on rounds per chunk in so many steps; None if so many are too few.

        Raises
        ------
        Unknown
            If the programme is too large.
        """
        if steps not in self._bounds:
            found = least_rounds(self.links, self.demands(self.unit), steps)
            self._bounds[steps] = None if found is None else Fraction(found).limit_denominator(1000) / self.unit
        return self._bounds[steps]

    def decide(self, chunks: int, steps: int, rounds: int) -> tuple[tuple[int, int, int], ...] | None:
        """Sends of an instance, None if it has none.

        Raises
        ------
        Unknown
            If the solver gave up.
        """
        found = sends_of_instance(self.links, self.demands(chunks), steps, rounds, self.time_limit_s)
        return None if found is None else tuple(found)


def frontier(task: Task, most_chunks: int, most_steps: int) -> Iterator[Point]:
    """The points of a frontier, by ascending steps.

    It ends where even the relaxation is too large.

    Parameters
    ----------
    task
        The network and the collective.
    most_chunks, most_steps
        What is tried at most.
    """
    best: Fraction | None = None
    asymptote = _bound_or_none(task, task.lanes.num_npus)
    for steps in range(task.least_steps, most_steps + 1):
        if best is not None and asymptote is not None and best <= asymptote:
            return
        try:
            least = task.bound(steps)
        except Unknown:
            return
        if least is None or (best is not None and least >= best):
            continue
        undecided: list[tuple[int, int]] = []
        for tries, (ratio, chunks, rounds) in enumerate(_instances(task, least, best, steps, most_chunks)):
            if tries == _MOST_TRIES:
                undecided.append((chunks, rounds))
                break
            try:
                sends = task.decide(chunks, steps, rounds)
            except Unknown:
                undecided.append((chunks, rounds))
                continue
            if sends is not None:
                yield Point(chunks, steps, rounds, least, ratio <= least, tuple(undecided), sends)
                best = ratio
                break


def _bound_or_none(task: Task, steps: int) -> Fraction | None:
    """What is known of so many steps."""
    try:
        return task.bound(steps)
    except Unknown:
        return None


def _instances(
    task: Task, least: Fraction, best: Fraction | None, steps: int, most_chunks: int
) -> list[tuple[Fraction, int, int]]:
    """Instances that may be feasible and better than the best, by rounds per chunk, then by chunks."""
    found = []
    for chunks in range(task.unit, most_chunks * task.unit + 1, task.unit):
        low = max(steps, -(-(least * chunks).numerator // (least * chunks).denominator))
        ratios = [(Fraction(rounds, chunks), chunks, rounds) for rounds in range(low, low + _MORE_ROUNDS)]
        found += [instance for instance in ratios if best is None or instance[0] < best]
    return sorted(found)
