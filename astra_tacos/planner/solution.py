"""How cases are to be synthesized, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.bounds import lower_bound
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer import AUTO


@dataclass(frozen=True, slots=True)
class Options:
    """How cases are synthesized.

    Parameters
    ----------
    synthesizer
        Key of `SYNTHESIZERS`, or `auto` for all of them.
    reduce_bandwidth_gbps
        Speed of a reduction, 0 for ASTRA-sim's 1 ns.
    chunks_per_npu
        How finely buffers are cut; None leaves it to the search.
    trials, seed
        As for `search`; few by default, so that as a rule the work list ends before the budget does.
    budget_s
        Seconds per case; None for the default of `search`. Where it cuts a search off, the result depends on the machine.
    """

    synthesizer: str = AUTO
    reduce_bandwidth_gbps: float = 0.0
    chunks_per_npu: int | None = None
    trials: int | None = 4
    seed: int = 0
    budget_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What becomes of a case.

    Parameters
    ----------
    schedule
        What its nodes will run, None where they stay as they are.
    reason
        Why they do, "" if they do not.
    together_ns
        Replay of all its groups at once; None where the schedule is exact and nothing needed a replay.
    native_ns
        The same of the native collective, None where that was not replayed.
    is_exact
        Whether the prediction is what ASTRA-sim takes, for a group alone.
    was_cut_off
        Whether the budget ended the search.
    from_cache
        Whether it was found there.
    keeps_custom
        Whether nodes that run a custom trace of the run's own keep it, as nothing else does their pattern.
    """

    schedule: Schedule | None
    reason: str = ""
    together_ns: int | None = None
    native_ns: int | None = None
    is_exact: bool = False
    was_cut_off: bool = False
    from_cache: bool = False
    keeps_custom: bool = False

    @property
    def time_ns(self) -> int:
        """The best estimate of its duration."""
        if self.schedule is None:
            return self.native_ns or 0
        return self.together_ns or self.schedule.collective_time_ns

    @property
    def bound_ns(self) -> int | None:
        """No schedule of these chunks on the links that it may use is faster."""
        if self.schedule is None:
            return None
        return lower_bound(self.schedule.topology, self.schedule.collective, self.schedule.timing).time_ns
