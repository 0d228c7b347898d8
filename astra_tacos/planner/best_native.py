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
from astra_tacos.replayer.native_share import why_idle, why_incomplete
from astra_tacos.replayer.run_replay import Attempt, try_replay
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import BASELINE, COMM_KEYS, LOCAL_BW_AWARE, SCHEDULING_POLICIES
from astra_tacos.run.trace.schema import CommType
from astra_tacos.solver.native import MOST_SPLIT, PACKETS_OF_MESSAGE, SPLITS

MOST_MESSAGES = 1 << 22
"""Messages of all replays of a search together: about a microsecond each."""
MOST_MESSAGES_OF_ONE = 1 << 23
"""Messages of one replay, also of the first ones: some ten seconds."""
_ALWAYS = 2
"""So many replays are made, however many messages they have."""
MOST_REPLAYS = 150
"""Of a search, however few messages each has."""
_MOST_KEPT = 1 << 16
"""Nodes of a run up to which the outcomes of its replays are kept."""
_MOST_SPLITS = SPLITS[-1]
_ROUNDS = 3
"""So often all settings are varied, one at a time."""
_POLICIES = tuple(policy for policy in SCHEDULING_POLICIES if policy != "EXPLICIT")
SPACE = (
    f"algorithm by pattern and dimension ({', '.join(NATIVE_ALGORITHMS)}) x 1 to {_MOST_SPLITS} splits x active chunks up to the "
    f"splits x {' or '.join(_POLICIES)} x localBWAware"
)
"""The configurations among which the best native run is looked for."""
NativeReplays = dict[NativeConfiguration, Attempt]
"""Replays of a run in native configurations, on the clock."""
Variants = Callable[[NativeConfiguration], Iterator[NativeConfiguration]]


@dataclass(frozen=True, slots=True)
class NativeRun:
    """A run with native collectives."""

    configuration: NativeConfiguration
    patterns: tuple[str, ...]
    end_ns: int
    num_messages: int = 0

    @property
    def name(self) -> str:
        """The configuration in words, as far as it matters for the run."""
        return self.configuration.describe(self.patterns)

    def to_json(self) -> dict[str, Any]:
        """Its name, its end, and its keys of the system JSON."""
        return {"name": self.name, "end_ns": self.end_ns, "system": self.configuration.keys()}


@dataclass(frozen=True, slots=True)
class BestNative:
    """The result of a search among native configurations.

    Parameters
    ----------
    best
        The run that ends first; None if none ends and moves its data.
    base
        The same of those that have no more messages than the planned run may have; None if there is none.
    was_cut_off
        Whether more would have been, but for the limits on messages and replays.
    space
        The configurations that it looks among, in words.
    """

    best: NativeRun | None
    base: NativeRun | None
    num_replays: int
    was_cut_off: bool
    refusal: str = ""
    space: str = SPACE

    @property
    def end_ns(self) -> int | None:
        """The end of the best run; None if there is none."""
        return None if self.best is None else self.best.end_ns

    def to_json(self) -> dict[str, Any]:
        """The best run, how many were tried, out of which space, and the refusal."""
        search = {"tried": self.num_replays, "space": self.space, "cut_off": self.was_cut_off, "refusal": self.refusal or None}
        return {"best_native": None if self.best is None else self.best.to_json(), "native_search": search}


def best_native(
    workload: Workload,
    clock: Backend,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    most_messages: int | None = None,
    known: tuple[NativeConfiguration, Attempt] | None = None,
    replays: NativeReplays | None = None,
) -> BestNative:
    """Search the native configurations of a run: `SPACE`.

    The run's own comes first, then one algorithm for everything, in one split and in `_MOST_SPLITS`, under each policy. Then all
    settings are varied from the best so far, one at a time: the algorithm of a pattern in a dimension, splits with as many active
    chunks or fewer, and policies. Configurations that move less than their patterns need are left out, and so are all of a run
    whose Broadcasts only wait.

    Parameters
    ----------
    on_progress
        Called with how many configurations were tried, and about how many there are.
    most_messages
        How many messages the planned run may have, whose native collectives run as in `base`; None for any number.
    known
        A configuration that was replayed already, and its replay, which has an outcome.
    """
    search = _Search(workload, clock, on_progress, known, {} if replays is None else replays)
    search.climb()
    best, few = search.best(1), search.best(1, most_messages)
    refusal = search.refusal or "no native configuration moves all of the data"
    return BestNative(
        best=search.run_of(best[0]) if best and not search.idle else None,
        base=search.run_of(few[0]) if few else None,
        num_replays=search.num_replays,
        was_cut_off=search.was_cut_off,
        refusal=search.idle or ("" if best else refusal),
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
        clock: Backend,
        on_progress: Callable[[int, int], None],
        known: tuple[NativeConfiguration, Attempt] | None,
        replays: NativeReplays,
    ) -> None:
        self._replays = replays
        self._run, self._clock, self._on_progress = workload.own_run, clock, on_progress
        of_run = {PATTERN_KEYS[CommType(each)] for each in set(workload.instances.pattern.tolist()) if each in PATTERN_KEYS}
        self.patterns = tuple(key for key in COMM_KEYS if key in of_run)
        self._num_dims = max(1, len(workload.run.network.dimensions))
        # A planned Broadcast is an All-Reduce to ASTRA-sim, whose list then has to reach all ranks.
        carried = workload.carried_run.columns.comm_type[workload.instances.nodes.row]
        over_all = (workload.instances.num_members == workload.run.workload.num_ranks)[workload.instances.instance]
        self._over_dims = {PATTERN_KEYS[CommType(each)] for each in set(carried[over_all].tolist())}
        self._in_groups = frozenset(of_run - self._over_dims)
        self._messages = max(int(native_messages(workload).sum()), 1)
        if not clock.is_analytical:
            self._messages += int(workload.run.network.ns3.num_packets(_bytes(workload)) / PACKETS_OF_MESSAGE)
        self._left = MOST_MESSAGES
        own = configuration_of(workload.run)
        self._own = None if own is None else own.fitted(self._num_dims, self._in_groups)
        self._ends: dict[NativeConfiguration, _End | None] = {}
        self._incomplete: dict[tuple[tuple[str, ...], ...], str] = {}
        self.idle = why_idle(self._run)
        """What moves no data in any configuration."""
        self.was_cut_off, self._num_done = False, 0
        self.refusal = "" if self.patterns else "the run has no collective that ASTRA-sim has"
        if known is not None and self.patterns:
            configuration, attempt = known
            fitted = configuration.fitted(self._num_dims, self._in_groups)
            assert attempt.outcome is not None  # see `best_native`
            self._ends[fitted] = _End(attempt.outcome.end_ns, attempt.outcome.num_messages)
            replays[fitted] = attempt

    @property
    def num_replays(self) -> int:
        return len(self._ends)

    def best(self, count: int, most_messages: int | None = None) -> list[NativeConfiguration]:
        """So many of those of few enough messages that end first and move all of their data; fewer where there are fewer."""
        found: list[NativeConfiguration] = []
        for configuration in self._ranked():
            end = self._ends[configuration]
            assert end is not None  # it is ranked
            if (most_messages is None or end.num_messages <= most_messages) and not self._why_incomplete(configuration):
                found.append(configuration)
            if len(found) == count:
                break
        return found

    def run_of(self, configuration: NativeConfiguration) -> NativeRun:
        """The run of a configuration that ends."""
        end = self._ends[configuration]
        assert end is not None  # it was found among those that end
        return NativeRun(configuration, self.patterns, *end)

    def _ranked(self) -> list[NativeConfiguration]:
        """The fastest first; of equally fast ones, those of the fewest messages; of these, the run's own."""
        ends = {configuration: end.end_ns for configuration, end in self._ends.items() if end is not None}
        return sorted(ends, key=lambda each: (ends[each], each.splits, each != self._own))

    def _why_incomplete(self, configuration: NativeConfiguration) -> str:
        """Why its collectives move too little, whatever its splits and policy are; "" if they do not."""
        if configuration.algorithms not in self._incomplete:
            self._incomplete[configuration.algorithms] = why_incomplete(configuration.run(self._run))
        return self._incomplete[configuration.algorithms]

    def climb(self) -> None:
        """Try one list of configurations after another, each made from the best so far."""
        if not self.patterns:
            return
        own = self._own
        policy = own.policy if own is not None else self._run.system.scheduling_policy
        optimizations = (BASELINE, LOCAL_BW_AWARE) if self._num_dims > 1 and "all-reduce" in self._over_dims else (BASELINE,)
        alike = [
            NativeConfiguration(names, optimization=optimization, policy=policy)
            for optimization in optimizations
            for names in (
                tuple((name,) if key in self._in_groups else (name,) * self._num_dims for key in COMM_KEYS)
                for name in NATIVE_ALGORITHMS
            )
        ]
        self._try([*([] if own is None else [own]), *alike])
        policies = sorted({policy, *_POLICIES}, key=lambda each: each != policy)
        many = [replace(each, splits=_MOST_SPLITS, active_chunks=_MOST_SPLITS) for each in self.best(2 * MOST_SPLIT)]
        self._try([replace(each, policy=own_policy) for each in many for own_policy in policies])
        for _ in range(_ROUNDS):
            leader = self.best(1)
            for make in self._mixes():
                self._vary(1, make)
            self._vary(MOST_SPLIT, splits)
            for vary in (_active_chunks, _policies):
                self._vary(1, vary)
            if leader == self.best(1):
                break

    def _vary(self, count: int, make: Variants) -> None:
        """Try configurations made from each of so many that are the best so far."""
        self._try([configuration for best in self.best(count) for configuration in make(best)])

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
                self._on_progress(self._num_done, max(self._num_done, len(NATIVE_ALGORITHMS) * (4 + self._num_dims)))

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
        attempt = try_replay(configuration.run(self._run), self._clock)
        if self._run.workload.num_nodes <= _MOST_KEPT:  # there may be a hundred
            self._replays[configuration] = attempt
        return attempt.reason if attempt.outcome is None else _End(attempt.outcome.end_ns, attempt.outcome.num_messages)


def _algorithms(pattern: int, dimension: int | None, best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    """Other algorithms of a pattern in a dimension, or if it is None in all."""
    for name in NATIVE_ALGORITHMS:
        names = [name if dimension in (None, place) else kept for place, kept in enumerate(best.algorithms[pattern])]
        yield replace(best, algorithms=(*best.algorithms[:pattern], tuple(names), *best.algorithms[pattern + 1 :]))


def splits(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    """The same with several splits, all of them active."""
    for each in SPLITS:
        yield replace(best, splits=each, active_chunks=each)


def _active_chunks(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    for active in (1, best.splits // 2):
        if 0 < active < best.splits:
            yield replace(best, active_chunks=active)


def _policies(best: NativeConfiguration) -> Iterator[NativeConfiguration]:
    for policy in _POLICIES:
        yield replace(best, policy=policy)


def _bytes(workload: Workload) -> float:
    """About how many bytes the run's native collectives send."""
    instances = workload.instances
    return float((instances.num_members * instances.size_bytes.astype(np.float64)).sum() * 2)
