"""Gradients of a layer, cut into buckets; each bucket is reduced over the copies of the model as soon as it is complete."""

from __future__ import annotations

from astra_tacos.generator.parallelism import GroupKind
from astra_tacos.generator.program import Label, Program
from astra_tacos.generator.step import Step
from astra_tacos.trace.schema import CommType


class Gradients:
    """The reduction of all gradients of a stage, in its last backward pass."""

    def __init__(self, step: Step, program: Program) -> None:
        self._step, self._program = step, program
        self._shards: list[tuple[Label, GroupKind, int]] = []
        self.reduced: list[int] = []
        """Ids of the nodes after which all gradients so far are reduced."""

    def buckets(self, name: str, group: GroupKind, weights: int, count: int = 0) -> Buckets:
        """Make the buckets for the gradients of `weights` parameters.

        Parameters
        ----------
        name
            Name of the parameters, for labels.
        group
            The copies of the model over which gradients are reduced.
        weights
            Number of parameters.
        count
            Number of buckets; 0 for as many as the step asks for.
        """
        return Buckets(self, name, group, weights, count or self._step.buckets)

    def reduce(self, label: Label, group: GroupKind, weights: int, sources: list[int]) -> None:
        """Add the reduction over a group of gradients that `sources` computed, padded to shards of equal size.

        Parameters
        ----------
        label
            Label of the node.
        group
            The copies of the model over which gradients are reduced.
        weights
            Number of parameters.
        sources
            Ids of the nodes that computed the gradients.
        """
        size = self._step.parallelism.group_size(group)
        if size == 1:
            self.reduced += sources
            return
        shard = -(-weights // size)
        pattern = CommType.REDUCE_SCATTER if self._step.shards_optimizer else CommType.ALL_REDUCE
        num_bytes = shard * size * self._step.model.dtype_bytes
        self.reduced.append(self._program.collective(label, pattern, group, num_bytes, *sources))
        self._shards.append((label, group, shard))

    def gather_parameters(self, updated: int) -> None:
        """Add the All-Gathers of updated parameters after node `updated`, in the order in which the next step needs them."""
        for label, group, shard in reversed(self._shards):
            name = Label(label.text.replace("gradient", "parameter"), label.number)
            self._program.collective(name, CommType.ALL_GATHER, group, shard * self._step.model.dtype_bytes, updated)


class Buckets:
    """Gradients that are computed in parts; bucket b of n ends at parameter weights * b / n."""

    def __init__(self, gradients: Gradients, name: str, group: GroupKind, weights: int, count: int) -> None:
        self._gradients, self._name, self._group = gradients, name, group
        count = min(count, weights)
        self._ends = [weights * (number + 1) // count for number in range(count)]
        self._reduced = 0
        self._known = 0
        self._sources: list[tuple[int, int]] = []

    def add(self, weights: int, source: int) -> None:
        """Add the next `weights` gradients, which node `source` computes; reduces each bucket that becomes complete."""
        self._known += weights
        self._sources.append((self._known, source))
        while self._reduced < len(self._ends) and self._ends[self._reduced] <= self._known:
            begin, end = self._ends[self._reduced - 1] if self._reduced else 0, self._ends[self._reduced]
            starts = [0, *(last for last, _ in self._sources)]
            over = [node for start, (last, node) in zip(starts, self._sources, strict=False) if start < end and last > begin]
            self._gradients.reduce(Label(f"{self._name}_bucket", self._reduced), self._group, end - begin, over)
            self._reduced += 1
