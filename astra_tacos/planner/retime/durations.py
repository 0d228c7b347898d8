"""How long collectives take: replays of each alone on the network, with lines between the sizes that were replayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.tasks import Operation
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import Run

_SIZES_PER_OCTAVE = 2
"""Of sizes that are replayed: others lie on lines between them."""


class CollectiveDurations:
    """Durations of collectives, found when they are asked for: of native ones, or of those that are given."""

    def __init__(self, run: Run, backend: Backend, collectives: SynthesizedCollectives | None = None) -> None:
        self._run, self._backend, self._collectives = run, backend, collectives
        self._group_of: dict[tuple[int, ...], int] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def __call__(self, operation: Operation) -> int:
        """Duration in ns, alone on the network; an estimate between two sizes that were replayed."""
        members, size = operation.members, max(operation.size_bytes, 1)
        shape = tuple(rank - members[0] for rank in members)
        group = self._group_of.setdefault(shape, operation.group)
        least = max(len(members), self._run.network.num_npus)
        if size <= least:
            return self._of(operation, group, least)
        step = 2.0 ** (1 / _SIZES_PER_OCTAVE)
        number = int(np.floor(np.log(size / least) / np.log(step)))
        low, high = (int(least * step**at) for at in (number, number + 1))
        if size in (low, high) or low == high:
            return self._of(operation, group, size)
        first, last = self._of(operation, group, low), self._of(operation, group, high)
        return round(first + (last - first) * (size - low) / (high - low))

    def _of(self, operation: Operation, group: int, size: int) -> int:
        key = operation.pattern, group, size
        if key not in self._known:
            run = self._run
            custom = None if self._collectives is None else self._collectives.trace(operation.pattern, operation.group, size)
            splits = run.system.preferred_dataset_splits if self._collectives is None else 1
            system = replace(run.system, roofline_enabled=False, preferred_dataset_splits=splits)
            members = run.groups.members.get(operation.group, operation.members)  # as the run lists them
            alone = single_collective_run(run.network, system, operation.pattern, size, custom, [members])
            self._known[key] = replay_run(alone, self._backend).end_ns
        return self._known[key]
