"""Synthesized collectives in runs that are only replayed: what a schedule of communication is judged with before it is planned.

A collective is synthesized once for each pattern, group and power of four of its size. Between two of them it runs the schedule
of the nearer one, whose messages are scaled. The plan of the schedule that is chosen synthesizes every size that it has.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.request import PLAN_OPTIONS
from astra_tacos.planner.synthesis import solve_case
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.groups import group_ids
from astra_tacos.run.patterns import COLLECTIVE_NAMES
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace

_QUICK = replace(PLAN_OPTIONS, effort="quick", trials=1, max_sends=512)
"""Few messages, as a search replays the run some hundred times."""
_LEAST_BYTES = 4096
"""Smaller collectives stay native: messages of a few bytes hold a link for less than 1 ns, at which ASTRA-sim stops."""
_OCTAVES = 2
"""Between sizes that are synthesized."""


class SynthesizedCollectives:
    """Traces of collectives, synthesized when they are asked for."""

    def __init__(self, workload: Workload, backend: Backend, cache: SynthesisCache) -> None:
        self._cache, self._backend, self._run = cache, backend, workload.run
        self._case_of = {group: case for case in workload.cases for group in case.groups}
        self._members = workload.run.groups.members
        self._everyone = tuple(range(workload.run.network.num_npus))
        self._made: dict[tuple[int, str, int], Trace | None] = {}
        self._scaled: dict[tuple[int, str, int], Trace | None] = {}

    @cached_property
    def _machine(self) -> Machine:
        return Machine(self._run.network, replace(self._run.system, preferred_dataset_splits=1), self._backend)

    def trace(self, pattern: int, group: int, size_bytes: int) -> Trace | None:
        """The custom trace of a collective; None where the native one is faster, or nothing else can run.

        Parameters
        ----------
        pattern, group, size_bytes
            Its `CommType`, the id of its group, and the input of a rank.
        """
        case = self._case_of.get(tuple(sorted(self._members.get(group, self._everyone))))
        if case is None or pattern not in PATTERN_KEYS or size_bytes < _LEAST_BYTES:
            return None
        key = pattern, case.shape, size_bytes
        if key not in self._scaled:
            octave = _OCTAVES * round(math.log2(size_bytes) / _OCTAVES)
            scaled_bytes = max(1 << octave, case.num_members)
            at = pattern, case.shape, scaled_bytes
            if at not in self._made:
                kind = COLLECTIVE_NAMES[CommType(pattern)]
                other = replace(case, collective=kind, pattern=pattern, size_bytes=scaled_bytes, root=None)
                solution = solve_case(other, self._machine, _QUICK, self._cache)
                self._made[at] = None if solution.schedule is None else schedule_trace(solution.schedule, other.name)
            self._scaled[key] = _scaled(self._made[at], size_bytes, scaled_bytes)
        return self._scaled[key]

    def implemented(self, run: Run) -> Run:
        """A run with these collectives. Each trace has groups of its own, as ASTRA-sim remembers what a group ran first."""
        trace, columns = run.workload, run.columns
        rows = np.flatnonzero(trace.kind == NodeType.COMM_COLL)
        keys = zip(
            columns.comm_type[rows].tolist(), group_ids(columns)[rows].tolist(), trace.size_bytes[rows].tolist(), strict=True
        )
        entry_of: dict[tuple[int, int, int], tuple[int, int]] = {}
        traces: dict[int, tuple[int, Trace]] = {}
        names, members = list(columns.group_names), dict(run.groups.members)
        implementation, group = np.full(trace.num_nodes, NATIVE, np.int32), columns.group.copy()
        for row, key in zip(rows.tolist(), keys, strict=True):
            if key not in entry_of:
                made_trace = self.trace(*key)
                if made_trace is None:
                    entry_of[key] = NATIVE, int(group[row])
                else:
                    number, _ = traces.setdefault(id(made_trace), (len(traces), made_trace))
                    new = max(members, default=0) + 1
                    members[new] = members.get(key[1], self._everyone)
                    names.append(str(new))
                    entry_of[key] = number, len(names) - 1
            implementation[row], group[row] = entry_of[key]
        changed = replace(columns, group=group, group_names=tuple(names))
        return replace(
            run,
            workload=replace(trace, workload=changed),
            system=replace(run.system, preferred_dataset_splits=1),
            groups=replace(run.groups, members=members),
            prefixes=tuple(f"{trace.prefix}_{number}" for number, trace in traces.values()),
            collectives=tuple(trace for _, trace in traces.values()),
            implementation=implementation,
        )


def _scaled(trace: Trace | None, size_bytes: int, trace_bytes: int) -> Trace | None:
    """A trace whose messages carry another number of bytes together."""
    if trace is None or size_bytes == trace_bytes:
        return trace
    scaled = np.maximum((trace.size_bytes * (size_bytes / trace_bytes)).astype(np.int64), 1)
    return replace(trace, size_bytes=np.where(trace.size_bytes > 0, scaled, trace.size_bytes))
