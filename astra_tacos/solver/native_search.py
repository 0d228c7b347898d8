"""The search for the fastest configuration of native collectives of a run: every configuration is judged by a replay."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.run_replay import Attempt, try_replay
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import Run
from astra_tacos.run.system import BASELINE, COMM_KEYS, LOCAL_BW_AWARE, SCHEDULING_POLICIES
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.solver.native_configuration import NativeConfiguration, configuration_of

PACKETS_OF_MESSAGE = 8
"""Packets whose replay takes about as long as that of a message on an analytical model."""
SPLITS = (2, 4, 8, 16)
_MOST_KEPT = 1 << 16
"""Nodes of a run up to which all replays are kept: there may be a hundred."""
MOST_SPLITS = SPLITS[-1]
POLICIES = tuple(policy for policy in SCHEDULING_POLICIES if policy != "EXPLICIT")
SETTINGS = frozenset(field.name for field in fields(NativeConfiguration))
_MOST_MIXES = 16
"""Combinations of algorithms that are all tried unsplit."""
NativeReplays = dict[NativeConfiguration, Attempt]
"""Replays of a run in native configurations, on the clock."""
Variants = Callable[[NativeConfiguration], Iterator[NativeConfiguration]]
_Place = tuple[int, int | None]
"""A pattern, by its number in `COMM_KEYS`, and a dimension; no dimension where one algorithm is all that a pattern names."""


@dataclass(frozen=True, slots=True)
class NativeCollectives:
    """The native collectives of a run.

    Parameters
    ----------
    run
        The run. Its own collectives are native in a configuration, whatever its system says.
    patterns
        Those of `COMM_KEYS` that the run has.
    over_all
        Those that collectives of all ranks have: one algorithm per dimension. Groups of some ranks run one algorithm.
    messages
        About how many messages a replay in a configuration takes; packets count as `PACKETS_OF_MESSAGE` says.
    """

    run: Run
    patterns: tuple[str, ...]
    over_all: frozenset[str]
    messages: Callable[[NativeConfiguration], int]

    @property
    def num_dims(self) -> int:
        """Algorithms that a collective of all ranks names."""
        return max(1, len(self.run.network.dimensions))

    @property
    def in_groups(self) -> frozenset[str]:
        """The patterns that only groups of some ranks run."""
        return frozenset(self.patterns) - self.over_all

    @property
    def own(self) -> NativeConfiguration | None:
        """The run's own configuration; None if it has none."""
        own_configuration = configuration_of(self.run)
        return None if own_configuration is None else self.fitted(own_configuration)

    @property
    def policy(self) -> str:
        """The run's own scheduling policy."""
        return self.run.system.scheduling_policy if self.own is None else self.own.policy

    def fitted(self, configuration: NativeConfiguration) -> NativeConfiguration:
        """The configuration with as many algorithms as each pattern needs."""
        return configuration.fitted(self.num_dims, self.in_groups)

    def alike(self, name: str, optimization: str = BASELINE) -> NativeConfiguration:
        """One algorithm for everything, unsplit."""
        return self.fitted(NativeConfiguration(((name,),) * len(COMM_KEYS), optimization=optimization, policy=self.policy))

    def places(self, by_dimension: bool) -> list[_Place]:
        """Where the run may have an algorithm of its own. ASTRA-sim runs a collective of some ranks in one dimension."""
        several = self.over_all if by_dimension else frozenset()
        dimensions = {key: range(self.num_dims) if key in several else (None,) for key in self.patterns}
        return [(COMM_KEYS.index(key), dimension) for key in self.patterns for dimension in dimensions[key]]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a search goes.

    Parameters
    ----------
    messages, messages_of_one
        Messages of all replays together, and of one replay: about a microsecond each.
    always
        Number of replays that the limit on all messages does not stop.
    replays
        Most replays.
    rounds
        Times that all settings are varied, one at a time.
    splits_last
        Whether mixes of algorithms are compared unsplit, under each optimization, and only the fastest are split. Else mixes are
        made of the fastest configuration so far, split as it is: that takes more messages.
    threads
        Replays at a time; None for as many as there are processors.
    algorithms, by_dimension
        The algorithms that are tried, and whether dimensions of a collective may have several.
    varied
        Fields of `NativeConfiguration` that are varied; any other keeps the value of the run or its default.
    split
        Number of the best configurations that are tried with splits, and twice as many under each policy: the fastest unsplit
        configuration need not gain most.
    space
        What is searched, in words.
    is_partial
        Whether some of the space is left out, as other settings are not varied.
    """

    messages: int
    messages_of_one: int
    always: int = 0
    replays: int = 150
    rounds: int = 3
    splits_last: bool = False
    threads: int | None = None
    algorithms: tuple[str, ...] = tuple(NATIVE_ALGORITHMS)
    by_dimension: bool = True
    varied: frozenset[str] = SETTINGS
    split: int = 3
    space: str = ""
    is_partial: bool = False


class NativeEnd(NamedTuple):
    """How a replay of native collectives ended."""

    end_ns: int
    num_messages: int


class NativeSearch:
    """Replays of a run in native configurations, each once.

    Parameters
    ----------
    on_progress
        Called with how many configurations were tried, and about how many there are.
    known
        A configuration that was replayed already, and its replay, which has an outcome.
    replays
        Gets the replays that are made, and the known one; of a large run that of the best configuration alone.
    """

    def __init__(
        self,
        collectives: NativeCollectives,
        clock: Backend,
        reach: Reach,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        known: tuple[NativeConfiguration, Attempt] | None = None,
        replays: NativeReplays | None = None,
    ) -> None:
        self._collectives, self._run, self._clock, self._reach = collectives, collectives.run, clock, reach
        self._on_progress, self._replays = on_progress, replays
        self._left = reach.messages
        self._own = collectives.own
        self._ends: dict[NativeConfiguration, NativeEnd | str] = {}
        self._incomplete: dict[tuple[tuple[str, ...], ...], str] = {}
        self.was_cut_off, self._num_done = False, 0
        self.refusal = "" if collectives.patterns else "the run has no collective that ASTRA-sim has"
        if known is not None and collectives.patterns:
            configuration, attempt = known
            assert attempt.outcome is not None  # see `known`
            fitted = collectives.fitted(configuration)
            self._ends[fitted] = NativeEnd(attempt.outcome.end_ns, attempt.outcome.num_messages)
            if replays is not None:
                replays[fitted] = attempt

    @property
    def num_replays(self) -> int:
        """How many configurations were tried."""
        return len(self._ends)

    @property
    def ends(self) -> dict[NativeConfiguration, NativeEnd]:
        """The configurations in which the run ends, whether they move all of their data or not."""
        return {configuration: end for configuration, end in self._ends.items() if isinstance(end, NativeEnd)}

    @property
    def failures(self) -> dict[NativeConfiguration, str]:
        """The configurations in which the run does not end, and why."""
        return {configuration: end for configuration, end in self._ends.items() if not isinstance(end, NativeEnd)}

    def best(self, count: int, most_messages: int | None = None) -> list[NativeConfiguration]:
        """So many of those of few enough messages that end first and move all of their data; fewer where there are fewer.

        Of equally fast ones, those of the fewest messages come first; of these, the run's own.
        """
        ends, configurations = self.ends, list[NativeConfiguration]()
        for configuration in sorted(
            ends, key=lambda configuration: (ends[configuration].end_ns, configuration.splits, configuration != self._own)
        ):
            few = most_messages is None or ends[configuration].num_messages <= most_messages
            if few and self.is_complete(configuration):
                configurations.append(configuration)
            if len(configurations) == count:
                break
        return configurations

    def is_complete(self, configuration: NativeConfiguration) -> bool:
        """Whether its collectives move what their patterns need, whatever its splits and policy are."""
        if configuration.algorithms not in self._incomplete:
            self._incomplete[configuration.algorithms] = why_incomplete(configuration.run(self._run))
        return not self._incomplete[configuration.algorithms]

    def climb(self) -> None:
        """Try one list of configurations after another, each made from the best so far."""
        if not self._collectives.patterns:
            return
        several = self._collectives.num_dims > 1 and "all-reduce" in self._collectives.over_all
        optimizations = (BASELINE, LOCAL_BW_AWARE) if several and "optimization" in self._reach.varied else (BASELINE,)
        as_it_is = [] if self._own is None else [self._own]
        if self._reach.splits_last:
            self._try(as_it_is)
            for optimization in optimizations:
                self._try_unsplit(optimization)
        else:
            self._try(
                [
                    *as_it_is,
                    *(configuration for optimization in optimizations for configuration in self._alike(optimization)),
                ]
            )
            if {"splits", "policy"} <= self._reach.varied:
                policies = sorted(POLICIES, key=lambda policy: policy != self._collectives.policy)
                best = self.best(2 * self._reach.split)
                many = [replace(configuration, splits=MOST_SPLITS, active_chunks=MOST_SPLITS) for configuration in best]
                self._try([replace(configuration, policy=policy) for configuration in many for policy in policies])
        places = self._places
        mixes = [] if self._reach.splits_last or len(places) < 2 else [partial(self._algorithms, place) for place in places]
        for _ in range(self._reach.rounds):
            leader = self.best(1)
            for make in mixes:
                self._vary("algorithms", 1, make)
            self._vary("splits", self._reach.split, splits)
            self._vary("active_chunks", 1, _active_chunks)
            self._vary("policy", 1, self._policies)
            if leader == self.best(1):
                break

    @property
    def _places(self) -> list[_Place]:
        return self._collectives.places(self._reach.by_dimension)

    def _alike(self, optimization: str) -> list[NativeConfiguration]:
        """One algorithm for everything, unsplit."""
        return [self._collectives.alike(name, optimization) for name in self._reach.algorithms]

    def _algorithms(self, place: _Place, best: NativeConfiguration) -> Iterator[NativeConfiguration]:
        """All algorithms of a pattern in a dimension, or in all dimensions if the place has none."""
        pattern, dimension = place
        for name in self._reach.algorithms:
            names = [name if dimension in (None, place) else kept for place, kept in enumerate(best.algorithms[pattern])]
            yield replace(best, algorithms=(*best.algorithms[:pattern], tuple(names), *best.algorithms[pattern + 1 :]))

    def _try_unsplit(self, optimization: str) -> None:
        """Try all mixes of algorithms where they are few; else those that differ in one place from the fastest so far."""
        alike, places = self._alike(optimization), self._places
        if len(self._reach.algorithms) ** len(places) <= _MOST_MIXES:
            mixes = [alike[0]]
            for place in places:
                mixes = [longer for mix in mixes for longer in self._algorithms(place, mix)]
            self._try(mixes)
            return
        self._try(alike)
        fastest = self._fastest(alike)
        for place in places:
            others = list(self._algorithms(place, fastest))
            self._try(others)
            fastest = self._fastest(others)

    def _fastest(self, configurations: list[NativeConfiguration]) -> NativeConfiguration:
        """The one that ends first, the first one if none ends."""
        ends = self.ends
        ended = [configuration for configuration in configurations if configuration in ends]
        return min(ended, key=lambda configuration: ends[configuration].end_ns, default=configurations[0])

    def _vary(self, setting: str, count: int, make: Variants) -> None:
        """Try configurations made from each of so many that are the best so far, if the setting is varied."""
        if setting in self._reach.varied:
            self._try(configuration for best in self.best(count) for configuration in make(best))

    def _policies(self, best: NativeConfiguration) -> Iterator[NativeConfiguration]:
        """The same under other policies, if there is anything to order: several collectives of a rank, or several splits."""
        workload = self._run.workload
        if best.splits > 1 or np.count_nonzero(workload.kind == NodeType.COMM_COLL) > workload.num_ranks:
            for policy in POLICIES:
                yield replace(best, policy=policy)

    def _try(self, configurations: Iterable[NativeConfiguration]) -> None:
        """Replay those that the limits admit, some at a time."""
        admitted = [configuration for configuration in configurations if self._admits(configuration)]
        with ThreadPoolExecutor(self._reach.threads or os.cpu_count() or 1) as pool:
            for configuration, (end, attempt) in zip(admitted, pool.map(self._end_of, admitted), strict=True):
                self._ends[configuration] = end
                if not isinstance(end, NativeEnd):
                    self.refusal = self.refusal or end
                self._keep(configuration, attempt)
                self._num_done += 1
                expected = len(self._reach.algorithms) * (4 + self._collectives.num_dims)
                self._on_progress(self._num_done, max(self._num_done, expected))

    def _admits(self, configuration: NativeConfiguration) -> bool:
        """Whether a configuration is new and within the limits; its messages count then."""
        if configuration in self._ends:
            return False
        messages, reach = self._collectives.messages(configuration), self._reach
        is_many = messages > self._left and self.num_replays >= reach.always
        if is_many or messages > reach.messages_of_one or self.num_replays >= reach.replays:
            self.was_cut_off = True
            self.refusal = self.refusal or f"about {messages:,} messages are too many to replay"
            return False
        self._left -= messages
        self._ends[configuration] = ""  # until it is replayed
        return True

    def _end_of(self, configuration: NativeConfiguration) -> tuple[NativeEnd | str, Attempt]:
        """How a configuration ends, or why it does not; and its replay."""
        attempt = try_replay(configuration.run(self._run), self._clock)
        end = attempt.reason if attempt.outcome is None else NativeEnd(attempt.outcome.end_ns, attempt.outcome.num_messages)
        return end, attempt

    def _keep(self, configuration: NativeConfiguration, attempt: Attempt) -> None:
        """Keep a replay, if all are kept or it is that of the best configuration."""
        if self._replays is None:
            return
        if self._run.workload.num_nodes > _MOST_KEPT:
            if self.best(1) != [configuration]:
                return
            self._replays.clear()
        self._replays[configuration] = attempt


def splits(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    """The same with several splits, all of them active."""
    for count in SPLITS:
        yield replace(best, splits=count, active_chunks=count)


def _active_chunks(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    for active in (1, best.splits // 2):
        if 0 < active < best.splits:
            yield replace(best, active_chunks=active)
