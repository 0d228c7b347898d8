"""The optimizer's problem: the files of a network and a job, what is minimised, and the limits of a split.

The job of a run of ASTRA-sim is the sum of each rank's nodes, without overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.blocks import building_block
from astra_tacos.network.network_config import read_network
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.rules.refusal import refuse_groups
from astra_tacos.run.compact_run import read_compact
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.groups import ALL_RANKS, used_groups
from astra_tacos.run.run import RANKS, Run, RunInputs, pattern_key, read_run
from astra_tacos.study.optimizer.libra_files import CostModel, read_communicator, read_libra_network, read_libra_workload
from astra_tacos.study.optimizer.model import MESSAGE, Demand, Job, Model, Profile, Shape, libra_model, network_shape
from astra_tacos.study.optimizer.solve import Solution, minimise_time, minimise_time_cost
from astra_tacos.study.optimizer.space import Constraint, Space, make_space, parse_constraint
from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import row_places

_NO_LIST = -1
"""Of a collective that runs in all dimensions."""


def trace_job(run: Run, shape: Shape) -> Job:
    """The job of a run: the compute and the communication of every kind of rank.

    Compute nodes take the time that a replay gives them (`replayer.workload_actions`). The group of a collective has to be a
    block of the network: a number of members per dimension. A message counts at its sender. Ranks with equal sums are one
    profile.

    Raises
    ------
    ConfigError
        If ASTRA-sim does not run a node, there are not as many ranks as NPUs, or a group is not a block of the network.
    """
    trace = run.workload
    alike, numbers = 1, np.arange(trace.num_ranks)
    if trace.owners is not None:
        alike, numbers = shape.num_npus // trace.num_ranks, trace.owners
    elif trace.num_ranks != shape.num_npus:
        raise ConfigError(
            f"{trace.prefix}: traces of {trace.num_ranks} ranks, expected {shape.num_npus}, as many as {shape.source} has NPUs"
        )
    actions = workload_actions(run)
    rank = trace.rank
    timed = actions.is_timed
    compute_ns = np.bincount(rank[timed], actions.amount[timed], trace.num_ranks)
    number: dict[Demand, int] = {}
    of_row = np.full(trace.num_nodes, -1, np.int64)
    _number_collectives(run, shape, np.flatnonzero(actions.is_collective), number, of_row)
    _number_messages(run, shape, np.flatnonzero(actions.is_send), number, of_row)
    counts = np.zeros((trace.num_ranks, len(number)), np.int64)
    rows = np.flatnonzero(of_row >= 0)
    np.add.at(counts, (rank[rows], of_row[rows]), 1)
    _, first, which = np.unique(np.column_stack((compute_ns, counts)), axis=0, return_index=True, return_inverse=True)
    num_alike = np.bincount(which.reshape(-1))
    profiles = tuple(
        Profile(int(numbers[leader]), int(num_alike[place]) * alike, float(compute_ns[leader]), tuple(counts[leader].tolist()))
        for place, leader in sorted(enumerate(first.tolist()), key=lambda pair: pair[1])
    )
    return Job(trace.prefix, tuple(number), profiles)


def block_of(ranks: Sequence[int] | Ints, shape: Shape, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Number of members per dimension of a group, and their strides.

    Raises
    ------
    ConfigError
        If the ranks are not all combinations of evenly spaced coordinates, or if the building block of a dimension does not know
        the links that belong to these coordinates.
    """
    rest = np.asarray(ranks, np.int64)
    if not rest.size or rest.max() >= shape.num_npus:
        ranks_text = "no ranks" if not rest.size else f"rank {rest.max()}"
        raise ConfigError(f"{name} has {ranks_text}, expected ranks below {shape.num_npus}")
    members, strides = [], []
    for block, size in zip(shape.blocks, shape.sizes, strict=True):
        coordinates = np.unique(rest % size)
        steps = np.unique(np.diff(coordinates))
        if len(steps) > 1:
            break
        if steps.size and building_block(block).shared_part(size, coordinates) is None:
            places = ", ".join(map(str, coordinates[:8].tolist())) + (", ..." if len(coordinates) > 8 else "")
            raise ConfigError(
                f"{name} has the members {places} of a {block} {size}, expected the whole dimension, or a part with own links"
            )
        members.append(len(coordinates))
        strides.append(int(steps[0]) if steps.size else 1)
        rest = rest // size
    if len(members) < shape.num_dimensions or np.prod(members) != len(ranks):
        listed = ", ".join(map(str, list(ranks)[:8])) + (", ..." if len(ranks) > 8 else "")
        raise ConfigError(f"{name} has the ranks {listed}, expected a block of evenly spaced coordinates of {shape.describe()}")
    return tuple(members), tuple(strides)


def _number_collectives(run: Run, shape: Shape, rows: Ints, number: dict[Demand, int], of_row: Ints) -> None:
    """Enter the demand of each row of a collective."""
    trace, columns = run.workload, run.columns
    refuse_groups(run)
    groups = used_groups(run, rows)
    group = groups.group
    listed = np.where((group == ALL_RANKS) & (columns.involved_count[rows] > 0), columns.involved_dims[rows], _NO_LIST)
    cases, which = _distinct(columns.comm_type[rows], trace.size_bytes[rows], group, listed)
    for case, (pattern, size, entry, dimensions) in enumerate(cases):
        if entry == ALL_RANKS:
            chosen = [dimensions == _NO_LIST or bool(dimensions >> index & 1) for index in range(shape.num_dimensions)]
            members = tuple(size if takes_part else 1 for size, takes_part in zip(shape.sizes, chosen, strict=True))
            strides = (1,) * shape.num_dimensions
        else:
            members, strides = block_of(groups.members[entry], shape, f"{run.groups.source}: group {entry}")
        demand = Demand(pattern_key(pattern), size, members, strides)
        if demand.num_npus > 1 and size > 0:
            of_row[rows[which == case]] = number.setdefault(demand, len(number))


def _number_messages(run: Run, shape: Shape, rows: Ints, number: dict[Demand, int], of_row: Ints) -> None:
    """Enter the demand of each row of a message: its bytes, and the dimensions in which its ends differ."""
    ends = [run.workload.owner[rows], run.workload.peer[rows]]
    differs = []
    for size in shape.sizes:
        differs.append(ends[0] % size != ends[1] % size)
        ends = [end // size for end in ends]
    cases, which = _distinct(run.workload.size_bytes[rows], *differs)
    for case, (size, *crossed) in enumerate(cases):
        members = tuple(2 if crosses else 1 for crosses in crossed)
        demand = Demand(MESSAGE, size, members, (1,) * shape.num_dimensions)
        if demand.num_npus > 1 and size > 0:
            of_row[rows[which == case]] = number.setdefault(demand, len(number))


def _distinct(*columns: Ints | Bools) -> tuple[list[list[int]], Ints]:
    """The distinct rows over some columns, and int64[n], the number of each row among them."""
    whole_columns = [column.astype(np.int64) for column in columns]
    first, which = row_places(*whole_columns)
    return np.stack(whole_columns, axis=1)[first].tolist(), which


TIME, TIME_COST = "time", "time-cost"
OBJECTIVES = (TIME, TIME_COST)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """An optimization problem: find the split of a network that is best for a job.

    Parameters
    ----------
    prices
        float64[num_dimensions], dollars of the whole network per GB/s of an NPU; None without a cost model.
    current
        Split of the network as its file states it; None for LIBRA's networks, which have no bandwidths.
    """

    shape: Shape
    job: Job
    model: Model
    space: Space
    objective: str
    prices: Floats | None
    total: float | None
    current: Floats | None

    def solve(self, model: Model, space: Space) -> Solution:
        """The best split of a model in a space."""
        if self.objective == TIME:
            return minimise_time(model, space)
        assert self.prices is not None  # make_problem
        return minimise_time_cost(model, space, self.prices)

    def value(self, split: Floats, time_ns: float) -> float:
        """The objective of a split whose step takes `time_ns`."""
        return time_ns if self.objective == TIME or self.prices is None else time_ns * float(self.prices @ split)

    def equal_shares(self) -> Floats | None:
        """The split with equal bandwidths: of the given total, else the largest that the constraints allow."""
        if self.total is not None:
            return np.full(self.shape.num_dimensions, self.total / self.shape.num_dimensions)
        return self.space.equal_shares()


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What is minimised, and which splits are allowed.

    Parameters
    ----------
    objective
        One of `OBJECTIVES`.
    cost_model
        Prices of bandwidth; None if nothing asks for the cost.
    total_bandwidth, budget_cost, min_bandwidth
        The sum of all bandwidths in GB/s, the largest cost, and the least bandwidth of a dimension.
    """

    objective: str = TIME
    cost_model: CostModel | None = None
    total_bandwidth: float | None = None
    budget_cost: float | None = None
    constraints: Sequence[str] = ()
    min_bandwidth: float = 0.1


@dataclass(frozen=True, slots=True)
class ProblemFiles:
    """The files of a network and a job: LIBRA's, or those of a run.

    Parameters
    ----------
    workload
        LIBRA's workload, the prefix of traces, or the directory of a compact run.
    libra_network, communicator, latency_ns
        LIBRA's network and communicator, and the latency of a link, which LIBRA's files lack.
    network, system, groups, remote_memory, directory
        The files of a run, as of `RunInputs`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import ProblemFiles
    >>> ProblemFiles(Path("gpt3.txt"), libra_network=Path("four_tiers.yml"), communicator=Path("groups.yml")).latency_ns
    500.0
    """

    workload: Path
    libra_network: Path | None = None
    communicator: Path | None = None
    network: Path | None = None
    system: Path | None = None
    groups: Path | None = None
    remote_memory: Path | None = None
    directory: Path = Path()
    latency_ns: float = 500.0

    @classmethod
    def of_run(cls, found: RunInputs | CompactInputs, **more: Any) -> ProblemFiles:
        """The files of a run, beside other ones."""
        if isinstance(found, CompactInputs):
            return cls(found.folder, network=found.network, **more)
        return cls(
            found.workload,
            network=found.network,
            system=found.system,
            groups=found.groups,
            remote_memory=found.remote_memory,
            directory=found.directory or Path(),
            **more,
        )

    @property
    def inputs(self) -> tuple[Path | None, ...]:
        """All files."""
        run = self.network, self.system, self.groups, self.remote_memory
        return (self.workload, self.libra_network, self.communicator, *run)

    def check(self) -> None:
        """Check that they are LIBRA's files, or those of a run.

        Raises
        ------
        ConfigError
            If one is missing, or is of the other kind.
        """
        if (self.libra_network is None) == (self.network is None):
            raise ConfigError("Expected one of '--libra-network' and '--network'.")
        if self.is_compact:
            if self.system or self.groups or self.remote_memory:
                raise ConfigError(f"{self.workload} is a compact run, which has all files: give --network alone.")
        elif self.libra_network is None:
            if self.system is None:
                raise ConfigError("Missing option '--system'.")
            if self.communicator is not None:
                raise ConfigError("--communicator is for LIBRA's workloads: give --libra-network, or --comm-group.")
        elif self.communicator is None:
            raise ConfigError("Missing option '--communicator'.")
        elif self.system or self.groups or self.remote_memory:
            raise ConfigError("--system, --comm-group and --remote-memory are for traces: give --network.")
        if not 0 <= self.latency_ns < 1e12:
            raise ConfigError(f"latency: found {self.latency_ns:g}, expected a number of ns, 0 or more")

    @property
    def is_compact(self) -> bool:
        """Whether the workload is a compact run."""
        return self.libra_network is None and (self.workload / RANKS).is_file()

    def read(self) -> tuple[Shape, Job, tuple[float, ...] | None, Run | None]:
        """The shape of the network, the job, the split that the network has, and the run; LIBRA's files have neither.

        Raises
        ------
        ConfigError
            If a file is not what it should be.
        """
        if self.libra_network is not None and self.communicator is not None:
            shape = read_libra_network(self.libra_network, self.latency_ns)
            return shape, read_libra_workload(self.workload, shape, read_communicator(self.communicator, shape)), None, None
        assert self.network is not None  # check
        if self.is_compact:
            run = read_compact(self.workload, read_network(self.network))
        else:
            assert self.system is not None  # check
            run = read_run(RunInputs(self.workload, self.system, self.network, self.groups, self.remote_memory, self.directory))
        shape, current = network_shape(run.network)
        return shape, trace_job(run, shape), current, run


def make_problem(shape: Shape, job: Job, limits: Limits | None = None, current: Sequence[float] | None = None) -> Problem:
    """Make a problem and check it.

    If the network has a split, the problem is to split its total anew, unless a total or a budget is given, or a constraint
    contains one of them.

    Raises
    ------
    ConfigError
        If the job never uses the network, a number is out of range, a cost model is missing, a constraint cannot be parsed, or
        the constraints allow no split or unlimited bandwidth.
    """
    limits = limits or Limits()
    objective, cost_model, constraints = limits.objective, limits.cost_model, limits.constraints
    total_bandwidth, budget_cost = limits.total_bandwidth, limits.budget_cost
    if objective not in OBJECTIVES:
        raise ConfigError(f"objective: found {objective!r}, expected {' or '.join(OBJECTIVES)}")
    if not job.demands:
        raise ConfigError(f"{job.source}: no communication between NPUs, expected some: every split takes as long")
    numbers = {"total bandwidth": total_bandwidth, "cost budget": budget_cost, "least bandwidth": limits.min_bandwidth}
    for name, number in numbers.items():
        if number is not None and not (number > 0 and math.isfinite(number)):
            raise ConfigError(f"{name}: found {number:g}, expected a number above 0")
    prices = None if cost_model is None else np.array(cost_model.prices(shape), np.float64) * shape.num_npus
    if prices is None and (objective == TIME_COST or budget_cost is not None):
        raise ConfigError("cost: found no cost model, expected --cost-model")
    if (objective == TIME_COST or budget_cost is not None) and prices is not None and not prices.any():
        raise ConfigError("cost: every dimension is free, expected prices above 0")
    is_limited = budget_cost is not None or any(word in text for text in constraints for word in ("total", "cost"))
    if current is not None and total_bandwidth is None and not is_limited:
        total_bandwidth = float(sum(current))
    texts = list(constraints)
    if total_bandwidth is not None:
        texts.insert(0, f"total == {total_bandwidth!r}")
    if budget_cost is not None:
        texts.insert(0, f"cost <= {budget_cost!r}")
    parsed: list[Constraint] = []
    for text in texts:
        parsed += parse_constraint(text, shape.num_dimensions, None if prices is None else prices.tolist())
    space = make_space(parsed, shape.num_dimensions, limits.min_bandwidth)
    split = None if current is None else np.array(current, np.float64)
    return Problem(shape, job, libra_model(job, shape), space, objective, prices, total_bandwidth, split)
