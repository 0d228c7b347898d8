"""The cases of a run with classes, and the run in which they run schedules.

Groups are products of coordinates, so their members see a product of dimensions. Where this product looks the same from every
member, a symmetric schedule serves all members (`synthesizer.symmetric`), and ranks of one class stay alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from astra_tacos.bounds.symmetric import symmetric_bounds
from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.network.network_config import Dimension, describe_dimensions
from astra_tacos.network.rotations import why_not_symmetric
from astra_tacos.planner.assignment import tag_ranges
from astra_tacos.planner.classes.class_bound import shapes_of
from astra_tacos.planner.run_files import COLLECTIVE
from astra_tacos.run.groups import ALL_RANKS, CommunicatorGroups, group_ids
from astra_tacos.run.patterns import COLLECTIVE_NAMES, TAGS
from astra_tacos.run.run import NATIVE, Run, implementations, pattern_key
from astra_tacos.run.source import made_of
from astra_tacos.run.system import COMM_KEYS, INT32_MAX
from astra_tacos.run.trace.schema import CommType
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.solver.native_configuration import NativeConfiguration, native_run
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct

Schedules = dict[int, SymmetricSchedule]
"""What cases run, by their numbers."""


@dataclass(frozen=True, slots=True)
class CompactCase:
    """A collective of some groups that see the same network.

    Parameters
    ----------
    pattern, size_bytes
        Its `CommType`, and `comm_size` of its nodes.
    dimensions
        The network that members of a group have between them; None where it does not look the same from all of them.
    """

    pattern: int
    size_bytes: int
    dimensions: tuple[Dimension, ...] | None
    members: int

    @property
    def key(self) -> str:
        """The key of its pattern in the system JSON."""
        return pattern_key(self.pattern)

    @property
    def collective(self) -> str:
        """Name of its pattern, a key of `COLLECTIVES`."""
        return COLLECTIVE_NAMES[CommType(self.pattern)]

    def task(self, link_model: LinkModel) -> SymmetricTask | None:
        """What to synthesize; None if members play different parts.

        Raises
        ------
        ConfigError
            If there are more chunks than bytes.
        """
        seen = self.dimensions
        if seen is None or self.collective not in SYMMETRIC_COLLECTIVES or why_not_symmetric(seen):
            return None
        return SymmetricTask(describe_dimensions(seen), seen, self.collective, self.size_bytes, 1, link_model)

    def least_ns(self) -> int | None:
        """What it takes at least on the links between its members; None where that is not known."""
        task = self.task("pipelined")
        return None if task is None else max(bound.time_ns for bound in symmetric_bounds(task))

    @property
    def name(self) -> str:
        """What the names of its traces begin with."""
        return f"{self.collective.replace('-', '_')}_{self.size_bytes}B_of_{self.members}"

    def __str__(self) -> str:
        return f"{self.collective} of {self.size_bytes:,} bytes and {self.members:,} ranks"


@dataclass(frozen=True, slots=True, eq=False)
class CompactCases:
    """The distinct collectives of a run, and int64[num_nodes], which one each node is; -1 for none."""

    cases: tuple[CompactCase, ...]
    of_row: Ints

    @property
    def patterns(self) -> tuple[str, ...]:
        """The keys of their patterns in the system JSON."""
        return tuple(key for key in COMM_KEYS if key in {case.key for case in self.cases})

    @property
    def alone_ns(self) -> Ints:
        """int64[num_nodes], what each node takes at least on the links between its members; 0 where that is not known."""
        least: Ints = np.array([*(case.least_ns() or 0 for case in self.cases), 0], np.int64)[self.of_row]
        return least

    @property
    def counts(self) -> list[int]:
        """How many nodes of representatives each has."""
        counts: list[int] = np.bincount(self.of_row[self.of_row >= 0], minlength=len(self.cases)).tolist()
        return counts


def find_cases(run: Run) -> CompactCases:
    """The distinct collectives of a run with classes that have several members and move at least a byte.

    Raises
    ------
    ConfigError
        If a group is no product of coordinates.
    """
    trace, columns = run.workload, run.columns
    shapes = shapes_of(run)
    rows = shapes.rows
    ids = group_ids(columns)[rows]
    seen = {number: _seen(run, number) for number in distinct(ids).tolist()}
    known: dict[CompactCase, int] = {}
    of_row = np.full(trace.num_nodes, -1, np.int64)
    listed = (rows, columns.comm_type[rows], trace.size_bytes[rows], columns.involved_dims[rows], ids, shapes.members)
    for row, pattern, size, involved, group, members in zip(*(column.tolist() for column in listed), strict=True):
        if members > 1 and size > 0:
            dimensions = None if involved >= 0 and group == ALL_RANKS else seen[group]
            of_row[row] = known.setdefault(CompactCase(pattern, size, dimensions, members), len(known))
    return CompactCases(tuple(known), of_row)


def group_at(run: Run, row: int) -> tuple[int, ...]:
    """The ranks of the group of a collective node."""
    number, involved = int(group_ids(run.columns)[row]), int(run.columns.involved_dims[row])
    if number != ALL_RANKS:
        return run.groups.members[number]
    digits = run.lattice.digits(np.arange(run.lattice.num_ranks))
    here = run.lattice.digits(run.lattice.representatives[run.workload.rank[[row]]])
    stays = [index for index in range(len(digits)) if involved >= 0 and involved >> index & 1 == 0]
    return tuple(np.flatnonzero((digits == here)[stays].all(axis=0)).tolist())


def _seen(run: Run, number: int) -> tuple[Dimension, ...] | None:
    """The network between the members of a group; None if it is not known."""
    dimensions, lattice = run.network.dimensions, run.lattice
    if number == ALL_RANKS:
        return dimensions
    members = np.array(run.groups.members[number], np.int64)
    seen = []
    for dimension, values in zip(dimensions, lattice.values(members, f"group {number}"), strict=True):
        if len(values) > 1:
            spans_dimension = len(values) == dimension.size
            block = dimension.block if spans_dimension else dimension.building_block.part(dimension.size, values)
            if block is None:
                return None
            seen.append(replace(dimension, block=block, size=len(values)))
    return tuple(seen)


def with_schedules(
    run: Run,
    cases: CompactCases,
    schedules: Schedules,
    native: NativeConfiguration | None = None,
) -> Run:
    """The run in which cases that have a schedule run its traces, in groups of their own, and all else is native.

    Parameters
    ----------
    native
        How native collectives run; None for what the system says.
    """
    system = run.system if native is None else native.system(run.system)
    if not schedules:
        return native_run(run, system)
    traces = traces_of(run, cases, schedules)
    entry = np.full(len(cases.cases) + 1, NATIVE, np.int32)
    entry[list(schedules)] = np.arange(len(schedules))
    implementation = entry[cases.of_row]
    # ASTRA-sim looks up traces by ids alone, of any rank, so ids are multiplied, and the rest says which trace a node runs.
    factor, highest = len(traces) + 1, int(run.workload.node_id.max())
    if highest > INT32_MAX // factor - 1:
        raise ConfigError(f"{run.workload.prefix}: node {highest}, expected ids below {INT32_MAX // factor:,}")
    node_id = run.workload.node_id * np.uint64(factor) + (implementation + 1).astype(np.uint64)
    # A group keeps the trace of the first node of a pattern, so each trace has groups of its own; all groups have as many copies.
    columns, members = run.columns, dict(run.groups.members)
    ids, at = group_ids(columns), np.flatnonzero(implementation != NATIVE)
    names, group = list(columns.group_names), columns.group.copy()
    first = max(members, default=0) + 1
    for place, group_id in enumerate(distinct(ids[at][ids[at] != ALL_RANKS]).tolist()):
        for which in range(len(traces)):
            number = first + place * len(traces) + which
            members[number] = members[group_id]
            group[at[(ids[at] == group_id) & (implementation[at] == which)]] = len(names)
            names.append(str(number))
    workload = replace(run.workload, node_id=node_id, workload=replace(columns, group=group, group_names=tuple(names)))
    names_of = list(traces)
    with_traces = system.with_traces({int(node_id[row]): names_of[implementation[row]] for row in at.tolist()})
    prefixes, of_row = implementations(workload, with_traces)
    return replace(
        run,
        system=with_traces,
        workload=workload,
        groups=CommunicatorGroups(run.groups.source, members),
        prefixes=prefixes,
        collectives=tuple(traces[prefix].trace(prefix) for prefix in prefixes),
        implementation=of_row,
        source=made_of(run, np.arange(run.workload.num_nodes)),
        files=dict(traces),
    )


def traces_of(run: Run, cases: CompactCases, schedules: Schedules) -> dict[str, SymmetricTraces]:
    """The traces of schedules by the prefix of their files, each with a range of tags of its own, apart from the workload's."""
    rows = [schedule.num_rows for schedule in schedules.values()]
    tags = tag_ranges(run.workload.prefix, run.workload.tag, rows, TAGS)
    traces = {}
    for place, ((number, schedule), first_tag) in enumerate(zip(schedules.items(), tags, strict=True)):
        traces[f"{COLLECTIVE}/{cases.cases[number].name}_{place}"] = SymmetricTraces(schedule, first_tag)
    return traces
