"""Memory traffic of communication at an NPU, per byte that it sends.

A host-driven algorithm reads every byte that it sends, and one more byte for every byte that it adds. An engine beside the
NPU (ACE, Rashidi et al. 2021, ISCA, arXiv:2007.00156) reads every byte of a buffer once, and all else runs from memory of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astra_tacos.planner.endpoint.npu import Mode
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of the busiest NPU of a run.

    Parameters
    ----------
    sent
        Bytes that it sends.
    added
        Bytes that it adds to others.
    buffers
        Bytes of its inputs to collectives and messages.
    """

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
    others
        Sizes of further dimensions, an All-Reduce in each.
    """
    return 2 * (local - 1) / local + sum(2 * (size - 1) / size for size in others) / local
