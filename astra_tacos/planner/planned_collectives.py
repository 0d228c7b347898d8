"""The collectives of a run, planned: from a run in memory to the same run with synthesized collectives."""

from __future__ import annotations

from astra_tacos.planner.classes.class_planning import ClassPlanning
from astra_tacos.planner.planning import PlannedCollectives
from astra_tacos.planner.rank_planning import RankPlanning
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import QUIET, OnProgress


def plan_collectives(
    request: PlanRequest, run: Run, cache: SynthesisCache, on_native: OnProgress = QUIET, on_progress: OnProgress = QUIET
) -> PlannedCollectives:
    """Plan a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Ranks stay where they are, and communication when it is.

    Parameters
    ----------
    run
        The run of the request, or what was made of it.
    cache
        Where synthesized collectives are kept.
    on_native
        Called with how many native configurations were tried, and about how many there are.
    on_progress
        Called with how many distinct collectives are done, and how many there are.

    Raises
    ------
    ConfigError
        If ranks disagree on their collectives, or the network cannot be replayed.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    """
    if run.classes is not None:
        return ClassPlanning(request, run, on_native).plan(on_progress)
    return RankPlanning(request, run, cache, on_native).plan(on_progress)
