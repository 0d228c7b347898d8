"""Schedules that the oracle refuses: faults of this package. A plan drops them, goes on, and says so where nobody can miss it."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.verifier.violation import Violation


def defect_note(case: DistinctCollective, synthesizer: str, violations: Sequence[Violation]) -> str:
    """One line for the notes of a plan.

    Parameters
    ----------
    case
        What the schedule was for.
    synthesizer
        Which made it.
    violations
        What the oracle found, at least one.
    """
    first = f"{len(violations):,} violations, the first: {violations[0]}"
    found = f"the oracle refused a schedule of {synthesizer} for {case.name} ({first})"
    return f"DEFECT of astra_tacos, please report it: {found}; the schedule was dropped"
