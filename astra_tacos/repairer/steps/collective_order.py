"""One order of collectives on all ranks."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.planner.duration_estimates import estimate_durations
from astra_tacos.planner.global_order import order_instances
from astra_tacos.planner.order_dependencies import order_dependencies
from astra_tacos.planner.solution import Solution
from astra_tacos.planner.workload import find_workload
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step
from astra_tacos.temporaries import scratch_directory


def order_collectives(draft: Draft, log: Log) -> None:
    """Chain the collectives of each rank by control dependencies, in one order for all ranks, where nothing orders them.

    ASTRA-sim runs one collective of a rank at a time, and all ranks of a collective wait for one another. The order is that in
    which a rough simulation starts them. Ranks whose dependencies contradict one another are refused.
    """
    if not draft.found("C04", "C05", "C06", "C07"):
        return
    with scratch_directory() as folder:
        draft.write(folder)
        run = draft.inputs(folder)
        try:
            workload = find_workload(run)
            duration_ns, instance_ns = estimate_durations(workload, tuple(Solution(None) for _ in workload.cases))
            trace, instances = workload.run.workload, workload.instances
            on_cpu = workload.run.columns.is_cpu_op
            order = order_instances(trace, workload.issue, instances, workload.graph, duration_ns, instance_ns, on_cpu)
        except ConfigError as error:
            raise ConfigError(str(error).replace(f"{run.workload}: ", "").replace(f"{folder}/", "")) from None
        after, before = order_dependencies(trace, workload.issue, instances, workload.graph, order)
        by_id = [nodes.finder() for nodes in draft.ranks]
        for row, needed, rank in zip(after.tolist(), before.tolist(), trace.rank[after].tolist(), strict=True):
            node, other = (by_id[rank](int(trace.node_id[one])) for one in (row, needed))
            if node is None or other is None:
                continue
            node.depend((other.id,))
            log.add(f"waits for node {other.id}", "one order of collectives on all ranks", rank, node.id)


STEP = Step("collective-order", ("C04", "C05", "C06", "C07"), order_collectives)
