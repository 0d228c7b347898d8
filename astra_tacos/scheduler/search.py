"""The search over combinations of policies, judged by replays.

All policies are tried alone, with several values of their options, and all published systems. Then policies are added to the
best combination, exchanged and left out, one at a time, as long as this helps. At last, if there are few collectives, every
order of them that dependencies allow is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

from astra_tacos.errors import ConfigError
from astra_tacos.scheduler.candidates import Candidate, Candidates
from astra_tacos.scheduler.list_schedule import list_schedule
from astra_tacos.scheduler.policies import POLICIES
from astra_tacos.scheduler.request import SYSTEMS, Request, default_request, parse_schedule
from astra_tacos.scheduler.tasks import Operation, TaskGraph, Vertex, relations

Combination = dict[str, Request]
DEFAULT_REPLAYS = 80
FEW_COLLECTIVES = 6
"""As many have at most 720 orders."""
_MIB = 1 << 20
_CAPS = (1 * _MIB, 5 * _MIB, 25 * _MIB, 100 * _MIB)
_PARTS_OF_LARGEST = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """What a combination of policies took; None and a reason if its run does not end."""

    name: str
    end_ns: int | None
    reason: str
    is_single: bool


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The fastest candidate, None if none is faster than the run as it is, and all that were tried."""

    best: Candidate | None
    tried: tuple[Tried, ...]


def search(candidates: Candidates, most_replays: int, on_progress: Callable[[int, int], None]) -> Found:
    """Find the fastest combination of policies.

    Parameters
    ----------
    candidates
        The run.
    most_replays
        How many combinations are replayed at most, beside each policy alone.
    on_progress
        Called with how many were tried, and how many there are at most.
    """
    return _Search(candidates, most_replays, on_progress).run()


class _Search:
    def __init__(self, candidates: Candidates, most_replays: int, on_progress: Callable[[int, int], None]) -> None:
        self.candidates, self.on_progress = candidates, on_progress
        self.variants = {name: list(self.variants_of(name)) for name in POLICIES}
        self.most = most_replays + sum(map(len, self.variants.values())) + len(SYSTEMS)
        self.tried: dict[tuple[Request, ...], Tried] = {}
        self.best: Candidate | None = None
        self.best_ns = candidates.before.end_ns
        self.combination: Combination = {}

    def variants_of(self, name: str) -> Iterator[Request]:
        """A policy with several values of its options."""
        yield default_request(name)
        largest = max((one.size_bytes for one in self.candidates.rewritten(())[0].operations), default=1)
        if name == "fuse":
            yield from (default_request(name, cap=cap) for cap in _CAPS if cap != 25 * _MIB)
            yield default_request(name, rule="mgwfbp")
        elif name == "split":
            for parts in _PARTS_OF_LARGEST:
                yield default_request(name, partition=max(-(-largest // parts), 1))
            yield default_request(name, partition=max(-(-largest // 8), 1), of="both")
        elif name == "pipeline":
            yield default_request(name, pieces=2)
            yield default_request(name, pieces=8)
        elif name == "decouple":
            yield default_request(name, barrier="no")
        elif name == "priority":
            yield default_request(name, first="all-to-all")

    def run(self) -> Found:
        self.take({})
        alone: list[tuple[int, Request]] = []
        for variants in self.variants.values():
            for request in variants:
                end_ns = self.take({request.name: request})
                if end_ns is not None:
                    alone.append((end_ns, request))
        for system in SYSTEMS:
            self.take({request.name: request for request in parse_schedule(system) or ()})
        alone.sort(key=lambda pair: pair[0])
        starts: list[Combination] = [dict(self.combination)]
        if "priority" not in self.combination:
            starts.append({"priority": self.variants["priority"][0]})
        for start in starts:
            self.climb(start)
        self.try_orders()
        return Found(self.best, tuple(self.tried.values()))

    def climb(self, combination: Combination) -> None:
        """Change one policy at a time as long as this helps."""
        end_ns = self.take(combination)
        while end_ns is not None and len(self.tried) < self.most:
            found: tuple[int, Combination] | None = None
            for name, variants in self.variants.items():
                others = [None, *variants] if name in combination else [*variants]
                for request in others:
                    if request == combination.get(name):
                        continue
                    other = {key: value for key, value in combination.items() if key != name}
                    if request is not None:
                        other[name] = request
                    if len(self.tried) >= self.most:
                        break
                    took = self.take(other)
                    if took is not None and took < end_ns and (found is None or took < found[0]):
                        found = took, other
            if found is None:
                return
            end_ns, combination = found

    def take(self, combination: Combination) -> int | None:
        """Try a combination; returns the end of its run, None if it does not end."""
        requests = tuple(combination[name] for name in POLICIES if name in combination)
        if requests in self.tried:
            return self.tried[requests].end_ns
        made = self.candidates.make(requests)
        is_single = len(requests) <= 1
        if isinstance(made, str):
            name = ",".join(map(str, requests)) or "fifo"
            self.tried[requests] = Tried(name, None, made, is_single)
        else:
            self.tried[requests] = Tried(made.name, made.end_ns, "; ".join(made.notes), is_single)
            if made.end_ns < self.best_ns:
                self.best, self.best_ns, self.combination = made, made.end_ns, dict(combination)
        self.on_progress(min(len(self.tried), self.most), self.most)
        return self.tried[requests].end_ns

    def try_orders(self) -> None:
        """Try all orders of few collectives: of the run as it is, and of the best combination."""
        for requests in dict.fromkeys(((), self.best.requests if self.best else ())):
            made = self.candidates.make(requests)
            graph, _ = self.candidates.rewritten(requests)
            if isinstance(made, str) or not 2 <= len(graph.operations) <= FEW_COLLECTIVES:
                continue
            for sequence in _allowed_orders(graph):
                try:
                    estimate = list_schedule(graph, self.candidates.setting.duration_of, sequence).end_ns
                except ConfigError:
                    continue
                if estimate >= 1.01 * self.best_ns:
                    continue
                other = self.candidates.in_sequence(made, graph, sequence)
                if not isinstance(other, str) and other.end_ns < self.best_ns:
                    self.best, self.best_ns = other, other.end_ns


def _allowed_orders(graph: TaskGraph) -> Iterator[tuple[Operation, ...]]:
    """All orders of a graph's operations in which none comes before what it waits for."""
    after, order = relations(graph)
    number = {operation: at for at, operation in enumerate(graph.operations)}
    above: dict[Vertex, int] = dict.fromkeys(order, 0)
    for vertex in order:
        own = above[vertex] | (1 << number[vertex] if isinstance(vertex, Operation) else 0)
        for later in after.get(vertex, ()):
            above[later] |= own
    for sequence in permutations(graph.operations):
        seen = 0
        for operation in sequence:
            if above[operation] & ~seen:
                break
            seen |= 1 << number[operation]
        else:
            yield sequence
