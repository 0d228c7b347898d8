"""The nodes of one pipeline stage in program order; its ranks differ only in groups, peers and tags.

A rank runs its compute nodes one after another in program order, and likewise its collectives and sends. Control dependencies
enforce this order: without them ASTRA-sim would start any ready node, and ranks that start collectives in different orders
deadlock. Receives have no dependencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import MAX_SIZE_BYTES
from astra_tacos.workload.generator.cost import Cost
from astra_tacos.workload.generator.parallelism import GroupKind, Parallelism

_INT64_END = 1 << 63


class Label(NamedTuple):
    """The name of a node: a text, and a number after it."""

    text: str
    number: int

    def of(self, what: str) -> Label:
        """Name of a part: `mb0_attention_forward_layer3` of all_reduce is `mb0_attention_forward_all_reduce_layer3`."""
        text, end = self.text.rsplit("_", 1)
        return Label(f"{text}_{what}_{end}", self.number)

    def __str__(self) -> str:
        return f"{self.text}{self.number}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node. Its id is its index in the program.

    Parameters
    ----------
    kind, label, data, ctrl
        Kind, name, and ids of the nodes it depends on, for every node.
    cost
        Cost of a compute node.
    size_bytes
        Size of a message, or of a rank's input to a collective.
    comm_type, group
        Pattern and kind of group of a collective.
    hop, message
        For a message: +1 for the next stage, -1 for the previous one; and its number among all messages of a lane.
    """

    kind: NodeType
    label: Label
    data: tuple[int, ...]
    ctrl: tuple[int, ...]
    cost: Cost | None = None
    size_bytes: int = 0
    comm_type: CommType | None = None
    group: GroupKind | None = None
    hop: int = 0
    message: int = 0


@dataclass(slots=True)
class Program:
    """The nodes of a stage, chained in program order as they are added.

    Parameters
    ----------
    parallelism
        Parallelism of the training.
    nodes
        The nodes so far.
    prefix
        Begin of the names of the nodes that are added; with several training steps, `step0_` and so on.
    updated
        Adds the updates of some parameters, by the name of what they belong to, and returns the ids of the nodes after which they
        may be used; no node in the first training step.
    """

    parallelism: Parallelism
    nodes: list[Node] = field(default_factory=list)
    prefix: str = ""
    updated: Callable[[str], tuple[int, ...]] = lambda owner: ()
    _latest_compute: int | None = None
    _latest_communication: int | None = None
    _sums: dict[tuple[str, Label], int] = field(default_factory=dict)

    def compute(self, label: Label, cost: Cost, *data: int) -> int:
        """Add a compute node, and return its id.

        Raises
        ------
        ConfigError
            If the cost does not fit the numbers of a trace.
        """
        if max(cost.num_ops, cost.num_bytes) >= _INT64_END:
            raise ConfigError(f"{label}: {cost.num_ops:.3g} operations or {cost.num_bytes:.3g} bytes are too many")
        self._latest_compute = self._add(NodeType.COMP, label, data, self._latest_compute, cost=cost)
        return self._latest_compute

    def accumulate(self, total: Label, label: Label, cost: Cost, *data: int) -> int:
        """Add a compute node with gradients of a micro-batch, which adds them to those of the one before, and return its id.

        Parameters
        ----------
        total
            A name that all micro-batches have for these parameters.
        label, cost
            As of any node.
        *data
            Ids of the nodes whose results it reads, beside the sum so far.

        Raises
        ------
        ConfigError
            If the cost does not fit the numbers of a trace.
        """
        key = self.prefix, total
        so_far = (self._sums[key],) if key in self._sums else ()
        self._sums[key] = self.compute(label, cost, *data, *so_far)
        return self._sums[key]

    def collective(self, label: Label, pattern: CommType, group: GroupKind, size_bytes: int, *data: int) -> int:
        """Add a collective, and return its id; for groups of one rank add nothing, and return the last of `data`.

        Raises
        ------
        ConfigError
            If its size is so small that ASTRA-sim would raise it, or too large.
        """
        if self.parallelism.group_size(group) == 1:
            return data[-1]
        least = self.parallelism.num_ranks
        if not least <= size_bytes <= MAX_SIZE_BYTES:
            raise ConfigError(f"{label}: found {size_bytes:,} bytes, expected {least:,} (a byte per rank) to {MAX_SIZE_BYTES:,}")
        before = self._latest_communication
        more = {"size_bytes": size_bytes, "comm_type": pattern, "group": group}
        self._latest_communication = self._add(NodeType.COMM_COLL, label, data, before, **more)
        return self._latest_communication

    def send(self, label: Label, hop: int, message: int, size_bytes: int, *data: int) -> None:
        """Add a send.

        Parameters
        ----------
        label
            Label of the node.
        hop
            Number of stages forward to the receiver, negative if backward.
        message
            Number of the message, which sender and receiver share.
        size_bytes
            Size of the message.
        *data
            Ids of the nodes whose results are sent.
        """
        before = self._latest_communication
        more = {"size_bytes": size_bytes, "hop": hop, "message": message}
        self._latest_communication = self._add(NodeType.COMM_SEND, label, data, before, **more)

    def receive(self, label: Label, hop: int, message: int, size_bytes: int) -> int:
        """Add a receive, and return its id.

        Parameters
        ----------
        label
            Label of the node.
        hop
            Number of stages forward to the sender, negative if backward.
        message
            Number of the message, which sender and receiver share.
        size_bytes
            Size of the message.
        """
        return self._add(NodeType.COMM_RECV, label, (), None, size_bytes=size_bytes, hop=hop, message=message)

    def _add(self, kind: NodeType, label: Label, data: tuple[int, ...], before: int | None, **more: object) -> int:
        data = tuple(sorted(set(data)))
        label = Label(self.prefix + label.text, label.number)
        ctrl = () if before is None or before in data else (before,)
        self.nodes.append(Node(kind, label, data, ctrl, **more))  # type: ignore[arg-type]
        return len(self.nodes) - 1
