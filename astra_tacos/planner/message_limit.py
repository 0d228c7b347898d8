"""How many messages a planned run may have: ASTRA-sim simulates every message, so a run with many of them takes it long."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.instances import Instances
from astra_tacos.planner.workload import NO_CASE, Workload
from astra_tacos.run.trace.schema import CommType, NodeType

DEFAULT_FACTOR = 20
"""Without a limit, a planned run may have about so many times the messages of the run with native collectives, unsplit."""
SECONDS_PER_MESSAGE = 50e-6
"""What stock ASTRA-sim takes for a message of a custom collective, about: see docs/results.md."""


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """How many messages a run has.

    Parameters
    ----------
    limit
        About how many the planned run may have.
    before, after
        How many the run has, and the planned one; None where that was not replayed.
    """

    limit: int
    before: int | None
    after: int

    @property
    def after_s(self) -> float:
        """About how long ASTRA-sim takes for the planned run, on one core of today."""
        return self.after * SECONDS_PER_MESSAGE

    def to_json(self) -> dict[str, Any]:
        """Keys of `plan.json`."""
        return {
            "max_messages": self.limit,
            "messages_before": self.before,
            "messages_after": self.after,
            "astra_sim_s": round(self.after_s, 3),
        }


def native_messages(workload: Workload) -> NDArray[np.int64]:
    """int64[num_instances], about how many messages each collective takes as an unsplit native one."""
    return _native_messages(workload.instances, [dimension.size - 1 for dimension in workload.run.network.dimensions])


def _native_messages(instances: Instances, steps: list[int]) -> NDArray[np.int64]:
    members = instances.num_members
    per_member = (members - 1).clip(0, sum(steps) if steps else None)
    twice = 1 + (instances.pattern == CommType.ALL_REDUCE)
    messages: NDArray[np.int64] = members * per_member * twice
    return messages


def limit_messages(workload: Workload, most_messages: int | None) -> tuple[Workload, int]:
    """The workload with a limit on the messages of each distinct collective, and the limit of the run.

    Every collective gets the share that it has of the messages of native collectives, unsplit, but at least as many messages as
    those take. The limit does not depend on what the run's nodes run now, so that a plan of a plan has the same.

    Parameters
    ----------
    workload
        The run and its collectives.
    most_messages
        About how many messages the planned run may have; None for `DEFAULT_FACTOR` times what native collectives take.
    """
    trace, native = workload.run.workload, native_messages(workload)
    own = int(np.count_nonzero((trace.kind == NodeType.COMM_SEND) & workload.issue.runs))
    total = max(int(native.sum()), 1)
    limit = own + DEFAULT_FACTOR * total if most_messages is None else most_messages
    factor = max((limit - own) / total, 1.0)
    most = np.zeros(len(workload.cases), np.int64)
    planned = workload.of_instance != NO_CASE
    np.maximum.at(most, workload.of_instance[planned], native[planned])
    cases = tuple(
        replace(case, most_messages=max(math.floor(factor * each), 1))
        for case, each in zip(workload.cases, most.tolist(), strict=True)
    )
    return replace(workload, cases=cases), limit
