"""What a stage before the collectives makes of a run: its ranks are in other places, or it communicates at other times.

The run is then planned as it is and as it was moved, and the plan that ends first is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.planning import PlannedCollectives
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.schedule_run import ScheduleResult
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """The plan of a run as it is, that of the moved run if there is one, and the one of these that is kept."""

    as_is: PlannedCollectives
    moved: PlannedCollectives | None
    kept: PlannedCollectives

    @property
    def keeps_as_is(self) -> bool:
        """Whether the plan of the run as it is is kept."""
        return self.kept is self.as_is

    @property
    def result(self) -> PlanResult:
        """The plan that is kept beside the run as its files say."""
        return self.kept.result.compared_with(self.as_is.result)


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What there is to say of a plan.

    Parameters
    ----------
    scheduled
        How communication was moved in time; None if it was not.
    entries
        Of `plan.json`, beside those of the result.
    files
        JSON files beside `plan.json`, by name.
    """

    result: PlanResult
    scheduled: ScheduleResult | None = None
    entries: dict[str, Any] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)


class Move:
    """A run that stays as it is; stages have classes of their own for what they move.

    Attributes
    ----------
    run
        The moved run; None where it stays as it is.
    why_not
        Notes that say why it stays.
    is_preferred
        Whether the plan of the moved run is kept if both end together.
    """

    run: Run | None = None
    why_not: tuple[str, ...] = ()
    is_preferred = False

    def notes(self, as_is: PlannedCollectives) -> tuple[str, ...]:
        """Notes on the plan of the moved run, given that of the run as it is."""
        return ()

    def before(self, run: Run) -> tuple[Run, Ints | None]:
        """What the oracle compares the planned run with, if the moved one is kept, and where ranks are (None: they stay)."""
        return run, None

    def told(self, plans: Plans) -> Told:
        """What there is to say."""
        return Told(plans.result)


Stage = Callable[[PlanRequest, Run, SynthesisCache, OnProgress], Move | None]
"""A stage: what it makes of the run of a request; None if the request does not ask for it."""


def keep_one(as_is: PlannedCollectives, moved: PlannedCollectives | None, *, prefers_moved: bool) -> Plans:
    """The plan whose run ends first, of these two."""
    if moved is None:
        return Plans(as_is, None, as_is)
    keeps_moved = moved.end_ns <= as_is.end_ns if prefers_moved else moved.end_ns < as_is.end_ns
    return Plans(as_is, moved, moved if keeps_moved else as_is)
