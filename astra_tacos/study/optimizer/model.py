"""The time of a step as a function of the split of bandwidth, from the shape of a network and the demands of a job.

The time is convex, and linear in each 1 / B. A collective runs a stage in one dimension after another. Its chunks are pipelined,
so the time of the collective is that of its slowest dimension, max over d of m_d / B_d. Source: LIBRA (ISPASS 2024), section 4,
as its public code implements it.

A group of all NPUs of a dimension has all links of the dimension. A group of some of the NPUs has less than LIBRA's model
assumes: in a FullyConnected the links between its members; in a Ring a line or, if the members are not neighbours, a share of the
links between them, which they divide with the groups that fit in between. A Switch port belongs to one NPU.

A split is in LIBRA's unit: decimal GB/s that one NPU sends into a dimension (the same as bytes per ns). ASTRA-sim's files state
GiB/s of one link (`astra-network-analytical`, `common/Type.cpp`). The building block of a dimension knows the number of links of
an NPU, which is that of the NPU with the fewest: in a Mesh, an open line, 1 as at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_tacos.network.blocks import building_block
from astra_tacos.network.network_config import Dimension, NetworkConfig, network_yaml
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.units import BYTES_PER_GB, BYTES_PER_GIB


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a network; `blocks`, `sizes`, `latency_ns` (of a link) and `tiers` (None: unknown) have one entry each."""

    source: str
    blocks: tuple[str, ...]
    sizes: tuple[int, ...]
    latency_ns: tuple[float, ...]
    tiers: tuple[str, ...] | None = None

    @property
    def num_dimensions(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def num_npus(self) -> int:
        """Number of NPUs."""
        return math.prod(self.sizes)

    @property
    def links(self) -> list[int]:
        """Number of links by which an NPU sends into each dimension, the fewest of all NPUs."""
        return [_links_per_npu(block, size) for block, size in zip(self.blocks, self.sizes, strict=True)]

    def describe(self) -> str:
        """The dimensions in words, like `Ring 4 x Switch 8`."""
        return " x ".join(f"{block} {size}" for block, size in zip(self.blocks, self.sizes, strict=True))

    def dimensions(self, split: Sequence[float]) -> tuple[Dimension, ...]:
        """The dimensions of ASTRA-sim's network file for a split in GB/s per NPU."""
        rows = zip(self.blocks, self.sizes, split, self.latency_ns, strict=True)
        return tuple(Dimension(block, size, link_gibps(block, size, gbps), latency) for block, size, gbps, latency in rows)

    def to_yaml(self, split: Sequence[float]) -> str:
        """Text of ASTRA-sim's network file for a split in GB/s per NPU."""
        per_npu = ", ".join(f"{gbps:.6g}" for gbps in split)
        return f"# {per_npu} GB/s (10^9 bytes/s) per NPU and dimension\n{network_yaml(self.dimensions(split))}"

    def write(self, split: Sequence[float], path: Path) -> None:
        """Write that text to a file."""
        with replaced_file(path) as temporary:
            temporary.write_text(self.to_yaml(split), encoding="utf-8")


def _links_per_npu(block: str, size: int) -> int:
    """Number of links by which an NPU sends into a dimension, the fewest of all NPUs."""
    return building_block(block).links_per_npu(size)


def link_gibps(block: str, size: int, gbps_per_npu: float) -> float:
    """GiB/s of each link, given the decimal GB/s of an NPU in the dimension."""
    return gbps_per_npu * BYTES_PER_GB / BYTES_PER_GIB / _links_per_npu(block, size)


def npu_gbps(dimension: Dimension) -> float:
    """Decimal GB/s of an NPU in a dimension of an ASTRA-sim network."""
    links = _links_per_npu(dimension.block, dimension.size)
    return dimension.bandwidth_gibps * links * BYTES_PER_GIB / BYTES_PER_GB


def network_shape(network: NetworkConfig) -> tuple[Shape, tuple[float, ...]]:
    """Shape and split of an ASTRA-sim network.

    Raises
    ------
    ConfigError
        If it has no dimensions, or links that fail or differ within one.
    """
    if not network.dimensions:
        raise ConfigError(f"{network.source}: astra_tacos.links lists links one by one, expected dimensions to split between")
    for key, links in (("failed_links", network.failed_links), ("link_overrides", network.link_overrides)):
        if links:
            raise ConfigError(f"{network.source}: astra_tacos.{key} has {len(links)}, expected dimensions of equal links")
    columns = zip(*((d.block, d.size, d.latency_ns) for d in network.dimensions), strict=True)
    return Shape(network.source, *columns), tuple(npu_gbps(dimension) for dimension in network.dimensions)


MESSAGE = "message"
"""Pattern of a demand between two NPUs."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of communication.

    Parameters
    ----------
    pattern
        `all-reduce`, `reduce-scatter`, `all-gather`, `all-to-all`, or `message`.
    size_bytes
        Size that the workload states: the shard of one NPU for an All-Gather, the whole buffer for the others.
    members
        Number of members' coordinates per dimension, 1 if it is not involved. For a message, 2 if its ends differ there.
    """

    pattern: str
    size_bytes: int
    members: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def num_npus(self) -> int:
        """Number of NPUs of the group."""
        return math.prod(self.members)

    @property
    def involved(self) -> tuple[int, ...]:
        """Indices of the dimensions in which the group has more than one member."""
        return tuple(index for index, count in enumerate(self.members) if count > 1)


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a collective in one dimension: its size in bytes there, and the bytes m that an NPU sends."""

    dimension: int
    members: int
    size_bytes: float
    traffic_bytes: float


def stages(demand: Demand, links: Sequence[int]) -> tuple[Stage, ...]:
    """Stages of a demand, in the order in which it runs them; `links` is the number of an NPU's links in each dimension.

    A message uses one link in each dimension in which its ends differ, so that further links do not speed it up.
    """
    size = float(demand.size_bytes)
    visited: list[Stage] = []
    order = reversed(demand.involved) if demand.pattern == "all-gather" else demand.involved
    for dimension in order:
        members = demand.members[dimension]
        if demand.pattern == MESSAGE:
            visited.append(Stage(dimension, members, size, size * links[dimension]))
            continue
        share = (members - 1) / members
        if demand.pattern == "all-gather":
            visited.append(Stage(dimension, members, size, size * (members - 1)))
            size *= members
        elif demand.pattern == "all-to-all":
            visited.append(Stage(dimension, members, size, size * share))
        else:
            phases = 2 if demand.pattern == "all-reduce" else 1
            visited.append(Stage(dimension, members, size, phases * size * share))
            size /= members
    return tuple(visited)


def traffic(demand: Demand, links: Sequence[int]) -> tuple[float, ...]:
    """Bytes m that an NPU sends in each dimension, 0 where it is not involved."""
    by_dimension = [0.0] * len(demand.members)
    for stage in stages(demand, links):
        by_dimension[stage.dimension] = stage.traffic_bytes
    return tuple(by_dimension)


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of rank: the sum of its compute times, and the number of times that it has each demand.

    `counts` has one entry per demand of the job; `num_ranks` ranks are alike, and `rank` is the first of them.
    """

    rank: int
    num_ranks: int
    compute_ns: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """The distinct demands of a workload, and the profiles of its ranks. A step takes the time of the slowest profile.

    `notes` are remarks for readers of the results.
    """

    source: str
    demands: tuple[Demand, ...]
    profiles: tuple[Profile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The time of a step in ns, as a function of a split B in GB/s per NPU (bytes per ns).

    A demand c takes demand[c] = fixed[c] + max over rows k of sum_d load[c][k, d] / B_d. A profile p takes
    compute[p] + sum_c counts[p, c] * demand[c]. The step takes the time of the slowest profile.

    Parameters
    ----------
    fixed_ns
        float64[num_demands], the part of each demand's time that no split changes.
    load
        For each demand float64[num_rows, num_dimensions], bytes, 0 or more.
    compute_ns
        float64[num_profiles], compute time of each profile.
    counts
        float64[num_profiles, num_demands], number of times that a profile has each demand.
    """

    fixed_ns: Floats
    load: tuple[Floats, ...]
    compute_ns: Floats
    counts: Floats

    def demand_ns(self, split: Floats) -> Floats:
        """float64[num_demands], time of each demand in ns."""
        rates = 1.0 / split
        slowest = [float((load @ rates).max(initial=0.0)) for load in self.load]
        return self.fixed_ns + np.array(slowest, np.float64)

    def time_ns(self, split: Floats) -> float:
        """Time of the step in ns."""
        return step_ns(self.compute_ns, self.counts, self.demand_ns(split))


def step_ns(compute_ns: Floats, counts: Floats, demand_ns: Floats) -> float:
    """Time of the slowest profile in ns, given the time of each demand."""
    return float((compute_ns + counts @ demand_ns).max())


def libra_model(job: Job, shape: Shape) -> Model:
    """LIBRA's model of a job: a demand takes max_d m_d / B_d, without latencies."""
    load = []
    for demand in job.demands:
        moved = np.array(traffic(demand, shape.links), np.float64)
        load.append(np.diag(moved)[moved > 0])
    return Model(np.zeros(len(job.demands)), tuple(load), *profile_arrays(job))


def profile_arrays(job: Job) -> tuple[Floats, Floats]:
    """`compute_ns` and `counts` of a job's profiles."""
    compute = np.array([profile.compute_ns for profile in job.profiles], np.float64)
    counts = np.array([profile.counts for profile in job.profiles], np.float64).reshape(len(job.profiles), len(job.demands))
    return compute, counts


def sub_dimension(shape: Shape, demand: Demand, dimension: int, gbps: float) -> Dimension:
    """The dimension that the members of a demand have to themselves, if every NPU has `gbps` GB/s in the whole dimension.

    Raises
    ------
    ConfigError
        If the building block does not know the links of such a part.
    """
    block, size, latency = shape.blocks[dimension], shape.sizes[dimension], shape.latency_ns[dimension]
    members, stride = demand.members[dimension], demand.strides[dimension]
    part = building_block(block).shared_part(size, np.arange(members) * stride)
    if part is None:
        raise ConfigError(
            f"{shape.source}: {members} members of a {block} {size} that are {stride} apart have no links that are known to be "
            f"theirs, expected all {size} of them"
        )
    return Dimension(part.block, members, link_gibps(block, size, gbps) * part.bandwidth, latency * part.latency)


def subnetwork(shape: Shape, demand: Demand, split: Sequence[float]) -> tuple[Dimension, ...]:
    """The dimensions that the members of a demand have to themselves, for a split in GB/s per NPU."""
    return tuple(sub_dimension(shape, demand, dimension, split[dimension]) for dimension in demand.involved)


def subnetwork_model(job: Job, shape: Shape) -> Model:
    """LIBRA's model with latencies, and with the bandwidth that each group has to itself: m_d / (share of B_d)."""
    fixed, load = [], []
    for demand in job.demands:
        rows = np.zeros((len(demand.involved), shape.num_dimensions))
        latency_ns = 0.0
        for row, stage in enumerate(stages(demand, shape.links)):
            share, latency = 1.0, shape.latency_ns[stage.dimension]
            if demand.pattern != MESSAGE:
                part = sub_dimension(shape, demand, stage.dimension, 1.0)
                share, latency = npu_gbps(part), part.latency_ns
            rows[row, stage.dimension] = stage.traffic_bytes / share
            latency_ns += latency
        load.append(rows)
        fixed.append(latency_ns)
    return Model(np.array(fixed, np.float64), tuple(load), *profile_arrays(job))
