"""The fastest configuration of ASTRA-sim's native collectives for a run, by replay: what a plan has to beat."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from astra_tacos.planner.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.planner.workload import Workload, native_messages
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.run_replay import Attempt, replay_once
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import BASELINE, COMM_KEYS, LOCAL_BW_AWARE, SCHEDULING_POLICIES
from astra_tacos.run.trace.schema import CommType
from astra_tacos.solver.native import PACKETS_OF_MESSAGE
from astra_tacos.solver.possibility import RunEnd, end_with_queues, why_idle, why_incomplete

MOST_MESSAGES = 1 << 21
"""Messages of all replays of a search together, and as many of those that say what is possible: about a microsecond each."""
MOST_MESSAGES_OF_ONE = 1 << 23
_ALWAYS = 2
"""So many replays of each sort are made, however many messages they have."""
_NOT_JUDGED = "not known: a replay with queues takes too many messages"
MOST_REPLAYS = 100
_MOST_KEPT = 1 << 16
"""Nodes of a run up to which the outcomes of its replays are kept."""
_SPLITS = (2, 4, 8, 16)
_MOST_SPLIT = 3
"""Unsplit configurations that are split: another than the fastest may gain more."""
NativeReplays = dict[NativeConfiguration, dict[Backend, Attempt]]
"""Replays of a run in native configurations, by network model."""
Variants = Callable[[NativeConfiguration], Iterator[NativeConfiguration]]


@dataclass(frozen=True, slots=True)
class NativeRun:
    """A run with native collectives.

    Parameters
    ----------
    configuration
        How they run.
    patterns
        The patterns of the run, by their keys in the system JSON.
    end
        The end of the run.
    num_messages
        How many messages it has.
    """

    configuration: NativeConfiguration
    patterns: tuple[str, ...]
    end: RunEnd
    num_messages: int = 0

    @property
    def name(self) -> str:
        """The configuration in words, as far as it matters for the run."""
        return self.configuration.describe(self.patterns)

    def __str__(self) -> str:
        marked = f", not physically possible: {self.end.impossible}" if self.end.impossible else ""
        return f"{self.name}{marked}"

    def to_json(self) -> dict[str, Any]:
        """Its name, its end, why that is impossible and what is possible, and its keys of the system JSON."""
        ends = {"end_ns": self.end.end_ns, "possible_ns": self.end.possible_ns, "why_impossible": self.end.impossible or None}
        return {"name": str(self)} | ends | {"system": self.configuration.keys()}


@dataclass(frozen=True, slots=True)
class BestNative:
    """The result of a search among native configurations.

    Parameters
    ----------
    fastest
        The fastest run; None if none ends.
    fastest_possible
        The one that ends first where a network can carry it (`RunEnd.possible_ns`); None if there is none.
    base
        The same of those that have no more messages than the planned run may have; None if there is none.
    num_replays
        How many configurations were tried.
    was_cut_off
        Whether more would have been, but for the limit on messages.
    refusal
        Why there is none; "" if there is one.
    """

    fastest: NativeRun | None
    fastest_possible: NativeRun | None
    base: NativeRun | None
    num_replays: int
    was_cut_off: bool
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        """Both runs as objects, null where there is none, how many were tried, and the refusal."""
        both = {"best_native": self.fastest_possible, "fastest_native": self.fastest}
        runs = {name: None if each is None else each.to_json() for name, each in both.items()}
        search = {"tried": self.num_replays, "cut_off": self.was_cut_off, "refusal": self.refusal or None}
        return runs | {"native_search": search}


def best_native(
    workload: Workload,
    backend: Backend,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    most_messages: int | None = None,
    known: tuple[NativeConfiguration, dict[Backend, Attempt]] | None = None,
    replays: NativeReplays | None = None,
) -> BestNative:
    """Search the native configurations of a run: algorithms by pattern and dimension, optimization, splits and policy.

    The run's own comes first, then one algorithm for everything, then one pattern in one dimension at a time, then splits with as
    many active chunks or fewer, and the scheduling policies, each from the best ones that were found before. When they can end on
    a network (`solver.possibility`) is asked of the fastest first, until no other can be better.

    Parameters
    ----------
    workload
        The run and its collectives.
    backend
        The network model.
    on_progress
        Called with how many configurations were tried, and about how many there are.
    most_messages
        How many messages the planned run may have, whose native collectives run as in `base`; None for any number.
    known
        A configuration that was replayed already, and its replays, of which that on the backend has an outcome.
    replays
        Replays that searches on other backends made; gets those that this one makes.
    """
    search = _Search(workload, backend, on_progress, known, {} if replays is None else replays)
    search.climb()
    fastest = next(iter(search.ranked()), None)
    possible = search.possible(1)
    few = search.possible(1, most_messages)
    return BestNative(
        fastest=None if fastest is None else search.judged(fastest),
        fastest_possible=search.judged(possible[0]) if possible and not search.idle else None,
        base=search.judged(few[0]) if few else None,
        num_replays=search.num_replays,
        was_cut_off=search.was_cut_off,
        refusal="" if fastest is not None else search.refusal,
    )


class _End(NamedTuple):
    """How a replay ended."""

    end_ns: int
    num_messages: int


class _Search:
    """Replays of a run in native configurations, each once."""

    def __init__(
        self,
        workload: Workload,
        backend: Backend,
        on_progress: Callable[[int, int], None],
        known: tuple[NativeConfiguration, dict[Backend, Attempt]] | None,
        replays: NativeReplays,
    ) -> None:
        self._replays = replays
        self._run, self._backend, self._on_progress = workload.own_run, backend, on_progress
        of_run = {PATTERN_KEYS[CommType(each)] for each in set(workload.instances.pattern.tolist()) if each in PATTERN_KEYS}
        self.patterns = tuple(key for key in COMM_KEYS if key in of_run)
        self._num_dims = max(1, len(workload.run.network.dimensions))
        # A planned Broadcast is an All-Reduce to ASTRA-sim, whose list then has to reach all ranks.
        carried = workload.carried_run.columns.comm_type[workload.instances.nodes.row]
        over_all = (workload.instances.num_members == workload.run.workload.num_ranks)[workload.instances.instance]
        self._over_dims = {PATTERN_KEYS[CommType(each)] for each in set(carried[over_all].tolist())}
        self._in_groups = frozenset(of_run - self._over_dims)
        self._messages = max(int(native_messages(workload).sum()), 1)
        if not backend.is_analytical:
            self._messages += int(workload.run.network.ns3.num_packets(_bytes(workload)) / PACKETS_OF_MESSAGE)
        self._left = self._left_to_judge = MOST_MESSAGES
        own = configuration_of(workload.run)
        self._own = None if own is None else own.fitted(self._num_dims, self._in_groups)
        self._ends: dict[NativeConfiguration, _End | None] = {}
        self._judged: dict[NativeConfiguration, RunEnd | None] = {}
        self.idle = why_idle(self._run)
        """What moves no data in any configuration."""
        self.was_cut_off, self._num_done = False, 0
        self.refusal = "" if self.patterns else "the run has no collective that ASTRA-sim has"
        if known is not None and self.patterns:
            configuration, before = known
            fitted = configuration.fitted(self._num_dims, self._in_groups)
            outcome = before[backend].outcome
            assert outcome is not None  # see `best_native`
            self._ends[fitted] = _End(outcome.end_ns, outcome.num_messages)
            replays[fitted] = dict(before)

    @property
    def num_replays(self) -> int:
        return len(self._ends)

    def possible(self, count: int, most_messages: int | None = None) -> list[NativeConfiguration]:
        """So many of those of few enough messages that end first where a network can carry them, but for what is idle in all."""
        found: list[tuple[int, int]] = []
        ranked = self.ranked()
        for place, configuration in enumerate(ranked):
            end = self._ends[configuration]
            assert end is not None  # it is ranked
            if len(found) >= count and end.end_ns >= found[count - 1][0]:
                break  # queues do not make it faster
            if most_messages is None or end.num_messages <= most_messages:
                judged = self._judge(configuration)
                if judged is not None and judged.possible_ns is not None:
                    found = sorted([*found, (judged.possible_ns, place)])
        return [ranked[place] for _, place in found[:count]]

    def judged(self, configuration: NativeConfiguration) -> NativeRun:
        """The run of a configuration, and why it is impossible."""
        end = self._ends[configuration]
        assert end is not None  # it was found among those that end
        judged = self._judge(configuration)
        if self.idle or judged is None:
            judged = RunEnd(end.end_ns, None, self.idle or _NOT_JUDGED)
        return NativeRun(configuration, self.patterns, judged, end.num_messages)

    def ranked(self) -> list[NativeConfiguration]:
        """The fastest first; of equally fast ones, those of the fewest messages; of these, the run's own."""
        ends = {configuration: end.end_ns for configuration, end in self._ends.items() if end is not None}
        return sorted(ends, key=lambda each: (ends[each], each.splits, each != self._own))

    def _judge(self, configuration: NativeConfiguration) -> RunEnd | None:
        """When a configuration ends where a network can carry it; None if that takes too many messages to know."""
        if configuration not in self._judged:
            end = self._ends[configuration]
            assert end is not None  # as `judged`
            run = configuration.run(self._run)
            reason = why_incomplete(run)
            if reason:
                judged: RunEnd | None = RunEnd(end.end_ns, None, reason)
            elif self._backend.models_congestion:
                judged = RunEnd(end.end_ns, end.end_ns)
            elif end.num_messages <= self._left_to_judge or len(self._judged) < _ALWAYS:
                self._left_to_judge -= end.num_messages
                judged = end_with_queues(run, self._backend, end.end_ns, self._replays[configuration])
            else:
                self.was_cut_off = True
                judged = None
            self._judged[configuration] = judged
        return self._judged[configuration]

    def climb(self) -> None:
        """Try one list of configurations after another, each made from the best so far."""
        if not self.patterns:
            return
        own = self._own
        alike = [] if own is None else [own]
        policy = own.policy if own is not None else self._run.system.scheduling_policy
        for optimization in (BASELINE, LOCAL_BW_AWARE) if self._num_dims > 1 and "all-reduce" in self._over_dims else (BASELINE,):
            for name in NATIVE_ALGORITHMS:
                names = tuple((name,) if key in self._in_groups else (name,) * self._num_dims for key in COMM_KEYS)
                alike.append(NativeConfiguration(names, optimization=optimization, policy=policy))
        self._try(alike)
        for make in self._mixes():
            self._vary(1, make)
        self._vary(_MOST_SPLIT, splits)
        for vary in (_active_chunks, _policies):
            self._vary(1, vary)

    def _vary(self, count: int, make: Variants) -> None:
        """Try configurations made from each of so many that are the best so far."""
        self._try([configuration for best in self.possible(count) or self.ranked()[:count] for configuration in make(best)])

    def _mixes(self) -> list[Variants]:
        """For each pattern and dimension, all algorithms there; none where there is one place only, of which all were tried.

        ASTRA-sim runs a collective of some ranks in one dimension, whatever the network has.
        """
        places = []
        for key in self.patterns:
            dimensions = range(self._num_dims) if key in self._over_dims else [None]
            places += [(COMM_KEYS.index(key), dimension) for dimension in dimensions]
        return [partial(_algorithms, *place) for place in places] if len(places) > 1 else []

    def _try(self, configurations: list[NativeConfiguration]) -> None:
        """Replay those that the limits admit, some at a time."""
        admitted = [each for each in configurations if self._admits(each)]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for configuration, end in zip(admitted, pool.map(self._end_of, admitted), strict=True):
                if isinstance(end, _End):
                    self._ends[configuration] = end
                else:
                    self.refusal = self.refusal or end
                self._num_done += 1
                self._on_progress(self._num_done, max(self._num_done, len(NATIVE_ALGORITHMS) * (2 + self._num_dims)))

    def _admits(self, configuration: NativeConfiguration) -> bool:
        """Whether a configuration is new and within the limits; its messages count then."""
        if configuration in self._ends:
            return False
        messages = self._messages * configuration.splits
        is_many = messages > self._left and self.num_replays >= _ALWAYS
        if is_many or messages > MOST_MESSAGES_OF_ONE or self.num_replays >= MOST_REPLAYS:
            self.was_cut_off = True
            self.refusal = self.refusal or f"about {messages:,} messages are too many to replay"
            return False
        self._left -= messages
        self._ends[configuration] = None  # until it is replayed
        return True

    def _end_of(self, configuration: NativeConfiguration) -> _End | str:
        """How a configuration ends, or why it does not."""
        known = self._replays.setdefault(configuration, {})
        attempt = replay_once(configuration.run(self._run), self._backend, known)
        if self._run.workload.num_nodes > _MOST_KEPT:
            known.clear()  # there may be a hundred, and each is soon found again
        return attempt.reason if attempt.outcome is None else _End(attempt.outcome.end_ns, attempt.outcome.num_messages)


def _algorithms(pattern: int, dimension: int | None, best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    """Other algorithms of a pattern in a dimension, or if it is None in all."""
    for name in NATIVE_ALGORITHMS:
        names = [name if dimension in (None, place) else kept for place, kept in enumerate(best.algorithms[pattern])]
        yield replace(best, algorithms=(*best.algorithms[:pattern], tuple(names), *best.algorithms[pattern + 1 :]))


def splits(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    """The same with several splits, all of them active."""
    for each in _SPLITS:
        yield replace(best, splits=each, active_chunks=each)


def _active_chunks(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    for active in (1, best.splits // 2):
        if 0 < active < best.splits:
            yield replace(best, active_chunks=active)


def _policies(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    for policy in SCHEDULING_POLICIES:
        if policy != "EXPLICIT":
            yield replace(best, policy=policy)


def _bytes(workload: Workload) -> float:
    """About how many bytes the run's native collectives send."""
    instances = workload.instances
    return float((instances.num_members * instances.size_bytes.astype(np.float64)).sum() * 2)
