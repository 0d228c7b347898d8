"""The fastest configuration of ASTRA-sim's native collectives for a run, by replay: what a plan has to beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.planner.workload import Workload, native_messages
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_idle
from astra_tacos.replayer.run_replay import Attempt
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import COMM_KEYS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.solver.native_search import (
    MOST_SPLITS,
    PACKETS_OF_MESSAGE,
    POLICIES,
    NativeCollectives,
    NativeReplays,
    NativeSearch,
    Reach,
)

MOST_MESSAGES = 1 << 22
"""Messages of all replays of a search together: about a microsecond each."""
MOST_MESSAGES_OF_ONE = 1 << 23
"""Messages of one replay, also of the first ones: some ten seconds."""
_ALWAYS = 2
"""So many replays are made, however many messages they have."""
SPACE = (
    f"algorithm by pattern and dimension ({', '.join(NATIVE_ALGORITHMS)}) x 1 to {MOST_SPLITS} splits x active chunks up to the "
    f"splits x {' or '.join(POLICIES)} x localBWAware"
)
"""The configurations among which the best native run is looked for."""
REACH = Reach(MOST_MESSAGES, MOST_MESSAGES_OF_ONE, _ALWAYS, space=SPACE)


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
    left_out
        Those in which the run does not end, and why.
    """

    best: NativeRun | None
    base: NativeRun | None
    num_replays: int
    was_cut_off: bool
    refusal: str = ""
    space: str = SPACE
    left_out: tuple[str, ...] = ()

    @property
    def end_ns(self) -> int | None:
        """The end of the best run; None if there is none."""
        return None if self.best is None else self.best.end_ns

    def to_json(self) -> dict[str, Any]:
        """The best run, how many were tried, out of which space, and the refusal."""
        search = {"tried": self.num_replays, "space": self.space, "cut_off": self.was_cut_off, "refusal": self.refusal or None}
        return {"best_native": None if self.best is None else self.best.to_json(), "native_search": search}


def best_native(
    collectives: NativeCollectives,
    clock: Backend,
    reach: Reach = REACH,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    most_messages: int | None = None,
    known: tuple[NativeConfiguration, Attempt] | None = None,
    replays: NativeReplays | None = None,
) -> BestNative:
    """Search the native configurations of a run.

    The run's own comes first, then one algorithm for everything, in one split and in `MOST_SPLITS`, under each policy. Then all
    settings are varied from the best so far, one at a time: the algorithm of a pattern in a dimension, splits with as many active
    chunks or fewer, and policies. Configurations that move less than their patterns need are left out, and so are all of a run
    whose Broadcasts only wait.

    Parameters
    ----------
    reach
        How far the search goes; `REACH` is the search of `SPACE`.
    on_progress
        Called with how many configurations were tried, and about how many there are.
    most_messages
        How many messages the planned run may have, whose native collectives run as in `base`; None for any number.
    known
        A configuration that was replayed already, and its replay, which has an outcome.
    replays
        Gets the replays; of a large run that of the best configuration alone.
    """
    search = NativeSearch(collectives, clock, reach, on_progress, known, replays)
    search.climb()
    ends, best, few = search.ends, search.best(1), search.best(1, most_messages)
    idle = why_idle(collectives.run)
    refusal = search.refusal or "no native configuration moves all of the data"

    def run_of(configurations: list[NativeConfiguration]) -> NativeRun | None:
        return next(
            (NativeRun(configuration, collectives.patterns, *ends[configuration]) for configuration in configurations), None
        )

    return BestNative(
        best=None if idle else run_of(best),
        base=run_of(few),
        num_replays=search.num_replays,
        was_cut_off=search.was_cut_off or reach.is_partial,
        refusal=idle or ("" if best else refusal),
        space=reach.space,
        left_out=tuple(
            f"native {configuration.describe(collectives.patterns)} is left out: {why}"
            for configuration, why in search.failures.items()
        ),
    )


def native_collectives(workload: Workload, clock: Backend) -> NativeCollectives:
    """The collectives of a run, planned ones as native ones."""
    of_run = {PATTERN_KEYS[CommType(pattern)] for pattern in set(workload.instances.pattern.tolist()) if pattern in PATTERN_KEYS}
    # A planned Broadcast is an All-Reduce to ASTRA-sim, whose list then has to reach all ranks.
    carried = workload.carried_run.columns.comm_type[workload.instances.nodes.row]
    over_all = (workload.instances.num_members == workload.run.workload.num_ranks)[workload.instances.instance]
    messages = max(int(native_messages(workload).sum()), 1)
    if not clock.is_analytical:
        messages += int(workload.run.network.ns3.num_packets(_bytes(workload)) / PACKETS_OF_MESSAGE)
    return NativeCollectives(
        workload.own_run,
        tuple(key for key in COMM_KEYS if key in of_run),
        frozenset(PATTERN_KEYS[CommType(pattern)] for pattern in set(carried[over_all].tolist())),
        lambda configuration: messages * configuration.splits,
    )


def _bytes(workload: Workload) -> float:
    """About how many bytes the run's native collectives send."""
    instances = workload.instances
    return float((instances.num_members * instances.size_bytes.astype(np.float64)).sum() * 2)
