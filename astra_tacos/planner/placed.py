"""The stage that moves the ranks of a run to other NPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_tacos.planner.move import Move, Plans, Told
from astra_tacos.planner.permuted_run import permuted, renumbered
from astra_tacos.planner.place import PlaceResult, best_placement
from astra_tacos.planner.plan_result import PlannedPlacement
from astra_tacos.planner.planning import PlannedCollectives
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_files import PLACE_FILE
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ReplayError


def placed(request: PlanRequest, run: Run, cache: SynthesisCache, on_progress: OnProgress) -> Move | None:
    """The run with its ranks where it ends earliest; a run that ends in no placement stays as it is."""
    if not request.place:
        return None
    workload = find_workload(run)
    try:
        placement = best_placement(workload, backend=request.backend, seed=request.options.seed)
    except ReplayError as error:
        return _NotPlaced((f"its ranks stay where they are, as the run before does not end in any placement: {error}",))
    return _Placed(run=None if placement.is_as_it_was else permuted(workload, placement.best.npu_of_rank), placement=placement)


@dataclass(frozen=True)
class _NotPlaced(Move):
    why_not: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Placed(Move):
    """`place.json` is beside `plan.json`, and both say where the ranks are in the plan that is kept.

    The time before and the best native run are those of the run as its files say; `moved_ns` is the best native run in the
    placement.
    """

    run: Run | None
    placement: PlaceResult

    def notes(self, as_is: PlannedCollectives) -> tuple[str, ...]:
        where = f"ranks are placed as {self.placement.name} ({PLACE_FILE})"
        return (f"{where}: as they were, the plan takes {as_is.end_ns:,} ns",)

    def before(self, run: Run) -> tuple[Run, Ints | None]:
        npu_of_rank = self.placement.best.npu_of_rank
        return renumbered(run, npu_of_rank), npu_of_rank

    def told(self, plans: Plans) -> Told:
        written = replace(self.placement, best=self.placement.own) if plans.keeps_as_is else self.placement
        placement = PlannedPlacement(
            name=written.name,
            matrix=written.best.matrix,
            npu_of_rank=tuple(written.best.npu_of_rank.tolist()),
            kept_as_is=written.is_as_it_was,
            before_ns=plans.as_is.result.before_ns,
            as_is_planned_ns=plans.as_is.end_ns,
            placed_planned_ns=None if plans.moved is None else plans.moved.end_ns,
        )
        result = replace(plans.result, placement=placement)
        return Told(result, files={PLACE_FILE: written.to_json()})
