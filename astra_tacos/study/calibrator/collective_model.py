"""The time of a library's collective on a machine of nodes, from few constants.

    launch + steps x (cost of a step of that message) + bytes / bandwidth

for each algorithm that the library has; the fastest counts. The cost of a step is that of a hop inside a node and of a hop
between nodes, times a curve over the size of a message, which carries the protocols (LL, LL128, Simple) and their crossovers:
beyond its last knot it grows with a power of the message. Bandwidths are those of a GPU inside its node and of its share of the
node's NICs; the two together limit as (a^4 + b^4)^(1/4) of their times. A Send-Receive inside a node also gets few channels, each
a thread block, and twice as many as long as a channel has more than 16 MiB (NCCL's `enqueue.cc`, `calcP2pChannelCount`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astra_tacos.study.calibrator.collective_times import CollectiveTime
from astra_tacos.support.arrays import Bools, Floats, Ints

ALGORITHMS = ("ring", "tree", "nvls", "direct", "shift")
_OF_COLLECTIVE = {"all_reduce": ("ring", "tree", "nvls"), "all_to_all": ("direct",), "sendrecv": ("shift",), "send": ("shift",)}
_TREE_MESSAGE = 32 << 10
"""Trees and switches forward chunks of about so many bytes."""
_CHAIN_CHUNKS = 8
"""Parts that a chain cuts a message into."""
_MOST_CHANNELS, _CHANNEL_BYTES = 32, 16 << 20

PRIORS: dict[str, tuple[float, float, str]] = {
    "launch_us": (8, 1.0, "launch of a call"),
    "inside_gbps": (100, 3.0, "bandwidth of a GPU inside its node"),
    "between_gbps": (10, 3.0, "bandwidth between nodes, of a GPU's share"),
    "tree_share": (0.9, 0.4, "of the bandwidth that trees get"),
    "nvls_share": (0.82, 0.05, "of the bandwidth that a switch that adds gets"),
    "direct_share": (1.0, 0.2, "of the bandwidth that All-to-All gets"),
    "shift_share": (0.7, 0.4, "of the bandwidth between nodes that Send-Receive gets"),
    "channel_gbps": (20, 0.2, "bandwidth of a channel of Send-Receive"),
    "inside_step_us": (1.5, 1.5, "step inside a node, small messages"),
    "between_ratio": (4.0, 1.0, "step between nodes, in steps inside"),
    "direct_ratio": (1.0, 0.7, "start of All-to-All, in steps"),
    "peer_us": (1.0, 1.5, "each peer of All-to-All"),
    "shift_ratio": (1.0, 1.0, "Send-Receive, in steps"),
    "tree_ratio": (1.0, 0.5, "step of a tree, in steps of a ring"),
    "growth": (0.45, 0.3, "power of the message with which long steps grow"),
}
"""Name: typical value, how far others are from it (a factor of e to this power), meaning.

A constant that no measured time depends on keeps its typical value. `nvls_share` is that of published 8 GiB All-Reduces of H200
and B200 with and without the switch."""


@dataclass(frozen=True, slots=True)
class Work:
    """What each algorithm (column) does for each collective (row).

    Hops, bytes over the bottleneck, bytes of a message, and bytes of a channel (0 where there are many).
    """

    inside_steps: Floats
    between_steps: Floats
    inside_bytes: Floats
    between_bytes: Floats
    message: Floats
    channel_bytes: Floats
    algorithm: Ints
    is_there: Bools

    @classmethod
    def of(cls, rows: Sequence[CollectiveTime], has_nvls: bool, is_mesh: bool) -> Work:
        """That of some measurements. GPUs of a mesh have a link to each other GPU of the node."""
        columns = 3
        values, channel = np.ones((5, len(rows), columns)), np.zeros((len(rows), columns))
        algorithm = np.zeros((len(rows), columns), np.int64)
        is_there = np.zeros((len(rows), columns), np.bool_)
        for at, row in enumerate(rows):
            for column, name in enumerate(_OF_COLLECTIVE.get(row.collective, ("ring",))):
                if row.algorithm not in ("", name) or (name == "nvls" and not has_nvls and not row.algorithm):
                    continue
                if (work := _work(row, name)) is None:
                    continue
                values[:, at, column] = work
                if name == "shift" and row.nodes == 1:
                    channel[at, column] = row.size_bytes / _channels(row)
                if is_mesh:
                    values[2, at, column] /= max(row.gpus - 1, 1)
                algorithm[at, column], is_there[at, column] = ALGORITHMS.index(name), True
            if not is_there[at].any():  # a forced algorithm that this shape has not: the library falls back to the ring
                values[:, at, 0] = _work(row, "ring") or values[:, at, 0]
                is_there[at, 0] = True
        inside_steps, between_steps, inside_bytes, between_bytes, message = values
        return cls(inside_steps, between_steps, inside_bytes, between_bytes, message, channel, algorithm, is_there)


def _channels(row: CollectiveTime) -> int:
    """Channels of a Send-Receive: so many that each rank could use one for each other rank, and more for large messages."""
    channels = _MOST_CHANNELS
    while channels * row.nodes * row.gpus > _MOST_CHANNELS and channels > 1:
        channels //= 2
    while row.size_bytes / channels > _CHANNEL_BYTES and channels < _MOST_CHANNELS:
        channels *= 2
    return channels


def _work(row: CollectiveTime, algorithm: str) -> tuple[float, float, float, float, float] | None:
    """Hops inside and between nodes, bytes inside and between, bytes of a message; None if the shape has no such algorithm."""
    nodes, gpus, size = row.nodes, row.gpus, float(row.size_bytes)
    ranks = nodes * gpus
    crosses = nodes > 1
    if algorithm == "shift":
        return (1.0 - crosses, float(crosses), size * (gpus > 1), size * crosses, size)
    if algorithm == "direct":
        return (gpus - 1.0, float(ranks - gpus), size * (gpus - 1) / ranks, size * (ranks - gpus) / ranks, size / ranks)
    if row.collective in ("broadcast", "reduce"):
        return (float(nodes * (gpus - 1)), nodes - 1.0, size * (gpus > 1), size / gpus * crosses, size / _CHAIN_CHUNKS)
    if algorithm == "ring":
        steps = (ranks - 1) * (2 if row.collective == "all_reduce" else 1)
        between = steps / gpus if crosses else 0.0
        moved = steps * size / ranks
        return (steps - between, between, moved * (gpus > 1), moved / gpus * crosses, size / ranks)
    depth = 2.0 * math.ceil(math.log2(nodes))
    crossing = 2 * size * crosses / gpus
    message = min(size / 2, _TREE_MESSAGE)
    if algorithm == "nvls":
        return None if gpus < 4 else (2.0, depth, size * (gpus + 1) / gpus, crossing, message)
    return (2.0 * (gpus - 1), depth, 2 * size * (ranks - 1) / ranks * (gpus > 1), crossing, message) if crosses else None


@dataclass(frozen=True, slots=True)
class CollectiveModel:
    """Constants by name (see `PRIORS`), and the curve of the cost of a step: logarithms of message sizes and of factors."""

    constants: dict[str, float]
    knots: Floats
    curve: Floats
    has_nvls: bool
    is_mesh: bool

    def times(self, work: Work) -> Floats:
        """Times in us by algorithm (columns); infinite where there is none."""
        c = self.constants
        log_message = np.log(work.message)
        beyond = np.maximum(log_message - self.knots[-1], 0.0)
        step = np.exp(np.interp(log_message, self.knots, self.curve) + c["growth"] * beyond)
        is_direct, is_shift = (work.algorithm == ALGORITHMS.index(name) for name in ("direct", "shift"))
        step = np.where(is_shift, 1.0, step)
        ratio = np.array([1.0, c["tree_ratio"], 1.0, c["direct_ratio"], c["shift_ratio"]])[work.algorithm]
        steps = [np.where(is_direct, np.minimum(hops, 1), hops) for hops in (work.inside_steps, work.between_steps)]
        latency = ratio * step * c["inside_step_us"] * (steps[0] + steps[1] * c["between_ratio"])
        latency += is_direct * c["peer_us"] * (work.inside_steps + work.between_steps)
        shares = [1.0, c["tree_share"], c["nvls_share"], c["direct_share"]]
        inside = work.inside_bytes / (np.array([*shares, 1.0])[work.algorithm] * c["inside_gbps"] * 1e3)
        between = work.between_bytes / (np.array([*shares, c["shift_share"]])[work.algorithm] * c["between_gbps"] * 1e3)
        channel = work.channel_bytes / (c["channel_gbps"] * 1e3)
        moving = ((inside**4 + between**4) ** 1.25 + channel**5) ** 0.2
        return np.where(work.is_there, c["launch_us"] + latency + moving, np.inf)

    def predict(self, rows: Sequence[CollectiveTime]) -> tuple[Floats, list[str]]:
        """Times in us, and the algorithms that make them."""
        work = Work.of(rows, self.has_nvls, self.is_mesh)
        times = self.times(work)
        best = times.argmin(axis=1)
        at = np.arange(len(rows))
        return times[at, best], [ALGORITHMS[algorithm] for algorithm in work.algorithm[at, best]]
