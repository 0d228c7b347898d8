"""The nodes of a pipeline stage: its layers forward and backward in the order of the schedule, then the optimizer update."""

from __future__ import annotations

from astra_tacos.generator import cost
from astra_tacos.generator.gradients import Gradients
from astra_tacos.generator.layer import Layer
from astra_tacos.generator.parallelism import GroupKind
from astra_tacos.generator.pipeline import PIPELINE_SCHEDULES
from astra_tacos.generator.program import Label, Node, Program
from astra_tacos.generator.sharded_block import ShardedBlock, gather_rows, sum_rows
from astra_tacos.generator.step import Step
from astra_tacos.trace.schema import CommType

_LOSS_BYTES = 3 * 4
"""Bytes per token with a sharded vocabulary: largest score, sum of exponentials, score of the target, in single precision."""


def stage_nodes(step: Step, stage: int) -> list[Node]:
    """The nodes of each rank of a stage, in program order.

    Raises
    ------
    ConfigError
        If a collective is too small, or a number too large, for ASTRA-sim.
    """
    return _Stage(step, stage).run()


class _Stage:
    def __init__(self, step: Step, stage: int) -> None:
        model, split = step.model, step.parallelism
        self.step, self.stage = step, stage
        self.is_first, self.is_last = stage == 0, stage == split.pp - 1
        self.program = Program(split)
        self.gradients = Gradients(step, self.program)
        self.head = ShardedBlock(step, self.program, "head", None, cost.head(model, step.tokens, split.tp), step.tokens)
        first = stage * step.layers_per_stage
        self.layers = [Layer(step, self.program, number) for number in range(first, first + step.layers_per_stage)]
        self.loss: dict[int, int] = {}
        self.weights = sum(layer.dense_weights for layer in self.layers)
        self.embedding_weights = model.hidden * cost.vocabulary_shard(model, split.tp)
        self.weights += self.embedding_weights * (self.is_first + self.is_last)

    def run(self) -> list[Node]:
        passes = list(PIPELINE_SCHEDULES[self.step.schedule](self.stage, self.step.parallelism.pp, self.step.micro_batches))
        for one in passes:
            if one.is_forward:
                self.forward(one.micro_batch)
            else:
                self.backward(one.micro_batch, is_last=one is passes[-1])
        self.update()
        return self.program.nodes

    def forward(self, number: int) -> None:
        if self.is_first:
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_forward_mb", number)
            at = sum_rows(self.step, self.program, label, self.step.tokens, self.program.compute(label, embed))
        else:
            at = self.receive("forward", number, -1)
        for layer in self.layers:
            at = layer.forward(number, at)
        if self.is_last:
            at = self.head.forward(number, at)
            size = _LOSS_BYTES * self.step.tokens
            label = Label("loss_all_reduce_mb", number)
            self.loss[number] = self.program.collective(label, CommType.ALL_REDUCE, GroupKind.TENSOR, size, at)
        else:
            self.send("forward", number, 1, at)

    def backward(self, number: int, is_last: bool) -> None:
        if self.is_last:
            at = self.head.input_gradient(number, self.loss.pop(number), gathers=False)
            at = self.head.reduce("backward", number, at, self.step.tokens)
            source = self.head.weight_gradient(number)
            if is_last:
                self.single_bucket("head", source)
        else:
            at = self.receive("backward", number, 1)
        for layer in reversed(self.layers):
            at = layer.backward(number, at, self.gradients if is_last else None)
        if self.is_first:
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_backward_mb", number)
            whole = gather_rows(self.step, self.program, label, self.step.tokens, at)
            source = self.program.compute(label, embed, whole)
            if is_last:
                self.single_bucket("embedding", source)
        else:
            self.send("backward", number, -1, at)

    def single_bucket(self, name: str, source: int) -> None:
        buckets = self.gradients.buckets(f"{name}_gradient", GroupKind.DATA, self.embedding_weights, 1)
        buckets.add(self.embedding_weights, source)

    def update(self) -> None:
        split = self.step.parallelism
        expert_weights = sum(layer.expert_weights for layer in self.layers)
        weights = self.weights + expert_weights
        if self.step.shards_optimizer:
            weights = -(-self.weights // split.dp) + -(-expert_weights // split.expert_copies)
        price = cost.optimizer(weights, self.step.model.dtype_bytes)
        updated = self.program.compute(Label("optimizer_step", 0), price, *self.gradients.reduced)
        if self.step.shards_optimizer:
            self.gradients.gather_parameters(updated)

    def send(self, direction: str, number: int, hop: int, data: int) -> None:
        label = Label(f"send_{direction}_mb", number)
        self.program.send(label, hop, self.message(number, hop, hop), self.step.boundary_bytes, data)

    def receive(self, direction: str, number: int, hop: int) -> int:
        label = Label(f"receive_{direction}_mb", number)
        return self.program.receive(label, hop, self.message(number, hop, -hop), self.step.boundary_bytes)

    def message(self, number: int, hop: int, direction: int) -> int:
        """Number of a message among all of its lane, by direction, micro-batch and the boundary that it crosses."""
        boundary = min(self.stage, self.stage + hop)
        turn = (direction < 0) * self.step.micro_batches + number
        return turn * (self.step.parallelism.pp - 1) + boundary
