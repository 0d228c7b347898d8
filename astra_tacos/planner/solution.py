"""The result of synthesizing a case.

Schedules that the oracle refuses are faults of this package. A plan drops them, goes on, and says so where nobody can miss it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_tacos.planner.workload import DistinctCollective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.verifier.violation import Violation


@dataclass(frozen=True, slots=True, eq=False)
class CaseSolution:
    """The result of synthesizing a case.

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
    ran_out_of_time
        Whether the time limit ended it, so that another machine might find something else.
    keeps_custom
        Whether nodes that run a custom trace of the run's own keep it, as nothing else does their pattern.
    """

    schedule: Schedule | None
    reason: str = ""
    together_ns: int | None = None
    native_ns: int | None = None
    is_exact: bool = False
    was_cut_off: bool = False
    ran_out_of_time: bool = False
    from_cache: bool = False
    keeps_custom: bool = False
    defects: tuple[str, ...] = ()

    @property
    def time_ns(self) -> int:
        """The best estimate of its duration."""
        if self.schedule is None:
            return self.native_ns or 0
        return self.together_ns or self.schedule.collective_time_ns


def defect_note(case: DistinctCollective, synthesizer: str, violations: Sequence[Violation]) -> str:
    """One line for the notes of a plan.

    Parameters
    ----------
    violations
        What the oracle found, at least one.
    """
    first = f"{len(violations):,} violations, the first: {violations[0]}"
    refusal = f"the oracle refused a schedule of {synthesizer} for {case.name} ({first})"
    return f"DEFECT of astra_tacos, please report it: {refusal}; the schedule was dropped"
