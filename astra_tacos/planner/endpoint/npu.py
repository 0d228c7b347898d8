"""An NPU that computes and communicates: cores and memory bandwidth, and how they are divided.

Communication takes memory traffic at an NPU for every byte that it sends. A host-driven algorithm reads every byte that it sends,
and one more byte for every byte that it adds. An engine beside the NPU (ACE, Rashidi et al. 2021, ISCA, arXiv:2007.00156) reads
every byte of a buffer once, and all else runs from memory of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError


class Mode(StrEnum):
    """Who drives communication: cores of the NPU, an engine beside it, or an ideal endpoint that takes nothing of the NPU."""

    HOST = "host"
    ACE = "ace"
    IDEAL = "ideal"


@dataclass(frozen=True, slots=True)
class Npu:
    """Cores and memory of an NPU; by default those that the ACE paper assumes.

    Parameters
    ----------
    cores
        Number of cores (streaming multiprocessors).
    core_gbps
        10**9 bytes per second that a core moves for communication: 64 bytes a cycle at 1.245 GHz.
    memory_gbps
        Memory bandwidth in 10**9 bytes per second.
    peak_tflops
        Peak performance in 10**12 operations per second; None for that of the run's system file.

    Raises
    ------
    ConfigError
        If a number is out of range.

    Examples
    --------
    >>> from astra_tacos import Npu
    >>> Npu(cores=108, memory_gbps=2039.0, peak_tflops=312.0).cores
    108
    """

    cores: int = 80
    core_gbps: float = 64 * 1.245
    memory_gbps: float = 900.0
    peak_tflops: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.cores <= 1 << 20:
            raise ConfigError(f"cores: found {self.cores:,}, expected 1 to {1 << 20:,}")
        rates = {"core-bandwidth": self.core_gbps, "memory-bandwidth": self.memory_gbps, "peak": self.peak_tflops}
        for name, value in rates.items():
            if value is not None and not (math.isfinite(value) and 0 < value <= 1e9):
                raise ConfigError(f"{name}: found {value}, expected a number above 0")

    def check(self, partition: Partition, mode: Mode) -> None:
        """Check that a partition leaves something to compute with, and that communication can take it.

        Raises
        ------
        ConfigError
            If it does not: an engine takes no cores, and an ideal endpoint nothing.
        """
        if mode == Mode.ACE and partition.cores:
            raise ConfigError(f"cores for communication: found {partition.cores}, expected 0: an engine takes none")
        if mode == Mode.IDEAL and partition != Partition():
            raise ConfigError(f"a partition: found {partition}, expected none: an ideal endpoint takes nothing")
        if not 0 <= partition.cores < self.cores:
            raise ConfigError(f"cores for communication: found {partition.cores}, expected 0 to {self.cores - 1}")
        if not 0 <= partition.memory_gbps < self.memory_gbps:
            raise ConfigError(
                f"memory bandwidth for communication: found {partition.memory_gbps:g} GB/s, "
                f"expected 0 to less than {self.memory_gbps:g}"
            )


@dataclass(frozen=True, slots=True)
class Partition:
    """What communication takes: cores, and memory bandwidth in 10**9 bytes per second.

    Examples
    --------
    >>> from astra_tacos import Partition
    >>> Partition(cores=2, memory_gbps=128.0).memory_gbps
    128.0
    """

    cores: int = 0
    memory_gbps: float = 0.0

    def __str__(self) -> str:
        return f"{self.cores} cores, {self.memory_gbps:g} GB/s"


def network_gbps(npu: Npu, mode: Mode, partition: Partition, links_gbps: float, reads: float) -> float:
    """Network bandwidth that an NPU can drive, in 10**9 bytes per second: X = min(B_net, m / rho, k * b).

    Parameters
    ----------
    reads
        Bytes of memory that are read for each byte that is sent.
    """
    if mode == Mode.IDEAL:
        return links_gbps
    by_memory = partition.memory_gbps / reads if reads > 0 else math.inf
    by_cores = partition.cores * npu.core_gbps if mode == Mode.HOST else math.inf
    return min(links_gbps, by_memory, by_cores)


def needed_memory_gbps(links_gbps: float, reads: float) -> float:
    """Memory bandwidth that lets an NPU drive all its links, in 10**9 bytes per second."""
    return links_gbps * reads


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of the busiest NPU of a run."""

    sent: int
    added: int
    buffers: int

    def read_per_sent_byte(self, mode: Mode) -> float:
        """Bytes of memory that are read for each byte that is sent; 0 if nothing is sent, or nothing is read."""
        if not self.sent or mode == Mode.IDEAL:
            return 0.0
        return (self.buffers if mode == Mode.ACE else self.sent + self.added) / self.sent


def traffic_of(run: Run, outcome: RunOutcome) -> Traffic:
    """The traffic of the NPU that sends most in a replay.

    Bytes sent are counted by the replay. An element of n summands is added n - 1 times whatever the algorithm, and members share
    this work: each adds (n - 1) / n of the input of an All-Reduce or Reduce-Scatter.
    """
    trace, columns = run.workload, run.columns
    rank = int(np.argmax(outcome.sent_bytes))
    sizes = {str(group): len(ranks) for group, ranks in run.groups.members.items()}
    added = buffers = 0
    for row in range(int(trace.rank_first[rank]), int(trace.rank_first[rank + 1])):
        size = int(trace.size_bytes[row])
        if trace.kind[row] == NodeType.COMM_SEND:
            buffers += size
        elif trace.kind[row] == NodeType.COMM_COLL:
            buffers += size
            group = columns.group_names[columns.group[row]] if columns.group[row] >= 0 else ""
            members = sizes.get(group, run.network.num_npus)
            if columns.comm_type[row] in (CommType.ALL_REDUCE, CommType.REDUCE_SCATTER):
                added += size * (members - 1) // members
    return Traffic(int(outcome.sent_bytes[rank]), added, buffers)


def ring_reads_per_sent_byte(ranks: int, *, with_last_addition: bool = False) -> float:
    """Reads per byte sent of a ring All-Reduce whose additions, but for the last one, feed a send.

    The first send of the Reduce-Scatter and all of the All-Gather read once, every other send of the Reduce-Scatter reads two
    summands; the last addition reads two more.
    """
    sends = 2 * (ranks - 1)
    reads = 1 + 2 * (ranks - 2) + (ranks - 1) + (2 if with_last_addition else 0)
    return reads / sends


def hierarchical_sent_bytes(local: int, others: Sequence[int]) -> float:
    """Bytes sent per byte of buffer by a hierarchical All-Reduce: within `local` NPUs, and in other dimensions for each shard.

    Parameters
    ----------
    local
        Size of the first dimension: a Reduce-Scatter before, an All-Gather after the others.
    """
    return 2 * (local - 1) / local + sum(2 * (size - 1) / size for size in others) / local
