"""The search over combinations of policies, judged by replays.

All policies are tried alone, with several values of their options, and all published systems. Then, in the best combination, one
policy after the other is added, exchanged or left out, until a round through all policies gains too little. If the whole round
gained too little, the same is done from the best partitions by priority. At last, if there are few collectives, every order of
them that dependencies allow is tried.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.retime.candidates import Candidate, Candidates
from astra_tacos.planner.retime.list_schedule import list_schedule
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.planner.retime.policy import ancestors
from astra_tacos.planner.retime.request import SYSTEMS, Request, default_request, describe, parse_schedule
from astra_tacos.planner.retime.tasks import Operation, TaskGraph
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.synthesizer.search.search_options import EFFORTS, THOROUGH

Combination = dict[str, Request]
FEW_COLLECTIVES = 6
"""As many have at most 720 orders."""


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """What a combination of policies took, and an iteration if that is to be short; None and a reason if its run does not end.

    `name` has the policies in words, `uses` their names. `compute_ns` and `exposed_ns` are means over ranks: compute, and
    communication without compute.
    """

    name: str
    uses: tuple[str, ...]
    end_ns: int | None
    reason: str
    iteration_ns: int | None = None
    compute_ns: int = 0
    exposed_ns: int = 0

    @property
    def cost_ns(self) -> int | None:
        """What is to be short."""
        return self.end_ns if self.iteration_ns is None else self.iteration_ns


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The fastest candidate, None if none is faster than the run as it is, and all that were tried."""

    best: Candidate | None
    tried: tuple[Tried, ...]


def search(candidates: Candidates, most_replays: int, on_progress: Callable[[int, int], None], effort: str = THOROUGH) -> Found:
    """Find the fastest combination of policies.

    Parameters
    ----------
    most_replays
        How many combinations are replayed at most, beside each policy alone.
    on_progress
        Called with how many were tried, and how many there are at most.
    effort
        Key of `EFFORTS`: how little a change may gain for the other policies to be tried again (`Effort.gain`); a thorough search
        tries them after any gain, and begins from both combinations.
    """
    with garbage_kept():
        return _Search(candidates, most_replays, on_progress, 1.0 if effort == THOROUGH else EFFORTS[effort].gain).run()


def names_of(requests: tuple[Request, ...]) -> tuple[str, ...]:
    """The names of policies."""
    return tuple(request.name for request in requests)


def tried(candidate: Candidate) -> Tried:
    """What a candidate took."""
    means = (int(column.mean()) for column in (candidate.outcome.compute_ns, candidate.exposed_ns))
    return Tried(
        candidate.name, names_of(candidate.requests), candidate.end_ns, "; ".join(candidate.notes), candidate.iteration_ns, *means
    )


class _Search:
    def __init__(self, candidates: Candidates, most_replays: int, on_progress: Callable[[int, int], None], worth: float) -> None:
        self.candidates, self.on_progress, self.worth = candidates, on_progress, worth
        graph = candidates.rewritten(())[0]
        self.variants = {
            name: [default_request(name, **values) for values in ({}, *policy.variants(graph))]
            for name, policy in POLICIES.items()
        }
        self.most = most_replays + sum(map(len, self.variants.values())) + len(SYSTEMS)
        self.tried: dict[tuple[Request, ...], Tried] = {}
        self.acceptance = Acceptance[Candidate]()
        self.combination: Combination = {}

    def run(self) -> Found:
        self.take({})
        best_of: dict[str, tuple[int, Request]] = {}
        for name, variants in self.variants.items():
            for request in variants:
                cost_ns = self.take({name: request})
                if cost_ns is not None and (name not in best_of or cost_ns < best_of[name][0]):
                    best_of[name] = cost_ns, request
        for system in SYSTEMS:
            self.take({request.name: request for request in parse_schedule(system)})
        start, start_ns = dict(self.combination), self.best_ns
        self.improve(start)
        if self.worth == 1 or self.best_ns > start_ns * self.worth:
            self.improve(start | {name: request for name, (_, request) in best_of.items() if POLICIES[name].begins_search})
        self.try_orders()
        in_order = [tried(self.best)] if self.best is not None and self.best.is_ordered else []
        return Found(self.best, (*self.tried.values(), *in_order))

    def improve(self, combination: Combination) -> None:
        """Take the best variant of one policy after the other, or none, until no policy can be changed for what is worth it."""
        cost_ns = self.take(combination)
        unchanged, names = 0, list(self.variants)[::-1]
        while cost_ns is not None and unchanged < len(names):
            name = names[0]
            names = [*names[1:], name]
            unchanged += 1
            rest = {key: value for key, value in combination.items() if key != name}
            for other in (rest, *(rest | {name: request} for request in self.variants[name])):
                if len(self.tried) >= self.most:
                    return
                took = self.take(other)
                if took is not None and took < cost_ns:
                    unchanged = 0 if took < cost_ns * self.worth else unchanged
                    cost_ns, combination = took, other

    def take(self, combination: Combination) -> int | None:
        """Try a combination; returns its cost, None if its run does not end."""
        requests = tuple(combination[name] for name in POLICIES if name in combination)
        if requests in self.tried:
            return self.tried[requests].cost_ns
        gc.collect(0)  # tasks and operations of the last candidate name one another
        try:
            candidate = self.candidates.make(requests)
        except AstraTacosError as error:
            self.tried[requests] = Tried(describe(requests), names_of(requests), None, str(error))
        else:
            self.tried[requests] = tried(candidate)
            if self.keep(candidate):
                self.combination = dict(combination)
        self.on_progress(min(len(self.tried), self.most), self.most)
        return self.tried[requests].cost_ns

    @property
    def best(self) -> Candidate | None:
        """The best candidate, None if none is better than the run as it is."""
        return self.acceptance.best

    @property
    def best_ns(self) -> int:
        """What is to be short, of the best candidate, or of the run as it is."""
        return self.candidates.cost_as_is_ns if self.best is None else self.best.cost_ns

    def keep(self, candidate: Candidate) -> bool:
        """Make a candidate the best one if it is; the first one has to be better than the run as it is."""
        is_enough = candidate.cost_ns < self.best_ns if self.best is None else True
        return is_enough and self.candidates.is_allowed(candidate) and self.acceptance.take(candidate)

    def try_orders(self) -> None:
        """Try all orders of few collectives: of the run as it is, and of the best combination."""
        for requests in dict.fromkeys(((), self.best.requests if self.best else ())):
            if self.tried[requests].end_ns is None:
                continue
            candidate = self.candidates.make(requests)
            graph, _ = self.candidates.rewritten(requests)
            if not 2 <= len(graph.operations) <= FEW_COLLECTIVES:
                continue
            for sequence in _allowed_orders(graph):
                try:
                    estimate = list_schedule(graph, self.candidates.setting.duration_of, sequence).end_ns
                except ConfigError:
                    continue
                if self.candidates.steps is None and estimate >= 1.01 * self.best_ns:
                    continue
                with contextlib.suppress(AstraTacosError):
                    self.keep(self.candidates.in_sequence(candidate, graph, sequence))


def _allowed_orders(graph: TaskGraph) -> Iterator[tuple[Operation, ...]]:
    """All orders of a graph's operations in which none comes before what it waits for."""
    above = ancestors(graph, graph.operations)
    number = {operation: at for at, operation in enumerate(graph.operations)}
    for sequence in permutations(graph.operations):
        seen = 0
        for operation in sequence:
            if above[operation] & ~seen:
                break
            seen |= 1 << number[operation]
        else:
            yield sequence
