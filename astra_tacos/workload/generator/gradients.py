"""Gradients, gathered in buckets; each bucket is reduced over the copies of the model as soon as it is complete.

Buckets are parts of a layer's gradients, or have a least size: PyTorch's DistributedDataParallel adds tensors in the order in
which their gradients become ready, and closes a bucket once it has as many bytes as its cap, which is smaller for the first one
(`torch/csrc/distributed/c10d/reducer.cpp`; Li et al. 2020, arXiv:2006.15704, section 3.2.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Label, Program
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.step import Training


@dataclass(slots=True)
class _Reduced:
    """Gradients that are reduced: name, copies, number of parameters, what they belong to, and the nodes to wait for."""

    label: Label
    group: GroupKind
    weights: int
    owners: tuple[str, ...]
    nodes: tuple[int, ...]
    updated: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Open:
    """A bucket of a least size that takes further gradients."""

    number: int = 0
    weights: int = 0
    sources: list[int] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)


class Gradients:
    """The reduction of all gradients of a stage, in its last backward pass."""

    def __init__(self, step: Training, program: Program) -> None:
        self._step, self._program = step, program
        self._reduced: list[_Reduced] = []
        self._before: list[_Reduced] = []
        self._open: dict[GroupKind, _Open] = {}

    def each_step(self) -> Iterator[int]:
        """The training steps in turn, for nodes to be added to; a step updates the parameters of the one before as it uses them.

        If the copies of the model divide the update among them, all updates and All-Gathers come first.
        """
        for number in range(self._step.steps):
            self._before, self._reduced = self._reduced, []
            for reduced in reversed(self._before) if self._step.shards_optimizer else ():
                updated = self._update(reduced)
                gathered = self._gather(reduced, updated)
                reduced.updated = (updated if gathered is None else gathered,)
            if self._step.steps > 1:
                self._program.prefix = f"step{number}_"
            yield number
            for group in sorted(self._open):
                if self._open[group].weights:
                    self._close(group)
            self._open.clear()

    def optimize(self, *weights: int) -> None:
        """Add the update of the last step, of numbers of parameters that data-parallel ranks and copies of the experts share."""
        split, sharded = self._step.parallelism, self._step.shards_optimizer
        copies = (split.dp, split.expert_copies) if sharded else (1, 1)
        own_weights = sum(-(-number // count) for number, count in zip(weights, copies, strict=False))
        reduced = [node for gradient in self._reduced for node in gradient.nodes]
        price = cost.optimizer(own_weights, self._step.gradient_bytes)
        updated = self._program.compute(Label("optimizer_step", 0), price, *reduced)
        for gradient in reversed(self._reduced) if sharded else ():  # in the order in which the next step needs them
            self._gather(gradient, updated)

    def buckets(self, owner: str, group: GroupKind, weights: int, count: int = 0) -> Buckets:
        """Make the buckets for the gradients of `weights` parameters.

        Parameters
        ----------
        count
            Number of buckets; 0 for as many as the step asks for.
        """
        return Buckets(self, owner, group, weights, 0 if self._step.bucket_bytes else count or self._step.buckets)

    def add_tensor(self, owner: str, group: GroupKind, weights: int, source: int) -> None:
        """Add the gradient of a tensor to the open bucket, and reduce this bucket if it has become large enough."""
        bucket = self._open.setdefault(group, _Open())
        bucket.weights += weights
        bucket.sources.append(source)
        bucket.owners.append(owner)
        cap = self._step.bucket_bytes if bucket.number else self._step.first_bucket_bytes or self._step.bucket_bytes
        if bucket.weights * self._step.gradient_bytes >= cap:
            self._close(group)

    def _close(self, group: GroupKind) -> None:
        bucket = self._open[group]
        name = "expert_gradient_bucket" if group == GroupKind.EXPERT_DATA else "gradient_bucket"
        self.reduce(Label(name, bucket.number), group, bucket.weights, bucket.sources, bucket.owners)
        self._open[group] = _Open(bucket.number + 1)

    def reduce(self, label: Label, group: GroupKind, weights: int, sources: list[int], owners: Iterable[str]) -> None:
        """Add the reduction over a group of gradients that `sources` computed, padded to shards of equal size."""
        size = self._step.parallelism.group_size(group)
        nodes = tuple(sources)
        if size > 1:
            pattern = CommType.REDUCE_SCATTER if self._step.shards_optimizer else CommType.ALL_REDUCE
            num_bytes = -(-weights // size) * size * self._step.gradient_bytes
            nodes = (self._program.collective(label, pattern, group, num_bytes, *sources),)
        self._reduced.append(_Reduced(label, group, weights, tuple(dict.fromkeys(owners)), nodes))

    def updated(self, owner: str) -> tuple[int, ...]:
        """Add the updates of an owner's parameters that are not there yet; returns the ids of the nodes to wait for."""
        nodes: list[int] = []
        for reduced in self._before:
            if owner in reduced.owners:
                if reduced.updated is None:
                    reduced.updated = (self._update(reduced),)
                nodes += reduced.updated
        return tuple(dict.fromkeys(nodes))

    def _update(self, reduced: _Reduced) -> int:
        label = Label(reduced.label.text.replace("gradient", "update"), reduced.label.number)
        size = self._step.parallelism.group_size(reduced.group) if self._step.shards_optimizer else 1
        price = cost.optimizer(-(-reduced.weights // size), self._step.gradient_bytes)
        return self._program.compute(label, price, *reduced.nodes)

    def _gather(self, reduced: _Reduced, updated: int) -> int | None:
        """Add the All-Gather of a bucket's parameters; None where there are no copies."""
        size = self._step.parallelism.group_size(reduced.group)
        if size == 1:
            return None
        name = Label(reduced.label.text.replace("gradient", "parameter"), reduced.label.number)
        num_bytes = -(-reduced.weights // size) * self._step.gradient_bytes
        return self._program.collective(name, CommType.ALL_GATHER, reduced.group, num_bytes, updated)


class Buckets:
    """Gradients that are computed in parts; bucket b of n ends at parameter weights * b / n.

    With a count of 0 they go to the buckets of a least size, which all layers share.
    """

    def __init__(self, gradients: Gradients, owner: str, group: GroupKind, weights: int, count: int) -> None:
        self._gradients, self._owner, self._group = gradients, owner, group
        self._is_shared = count == 0
        count = min(count, weights)
        self._ends = [weights * (number + 1) // count for number in range(count)]
        self._reduced = 0
        self._known = 0
        self._sources: list[tuple[int, int]] = []

    def add(self, tensors: Iterable[int], source: int) -> None:
        """Add the next gradients, which node `source` computes; reduces each bucket that becomes complete.

        `tensors` are in the order of registration: of shared buckets, the last one comes first.
        """
        if self._is_shared:
            for weights in reversed(tuple(tensors)):
                self._gradients.add_tensor(self._owner, self._group, weights, source)
            return
        self._known += sum(tensors)
        self._sources.append((self._known, source))
        while self._reduced < len(self._ends) and self._ends[self._reduced] <= self._known:
            begin, end = self._ends[self._reduced - 1] if self._reduced else 0, self._ends[self._reduced]
            starts = [0, *(last for last, _ in self._sources)]
            over = [node for start, (last, node) in zip(starts, self._sources, strict=False) if start < end and last > begin]
            label = Label(f"{self._owner}_gradient_bucket", self._reduced)
            self._gradients.reduce(label, self._group, end - begin, over, (self._owner,))
            self._reduced += 1
