"""The nodes of a pipeline stage: its layers forward and backward in the order of the schedule, then the optimizer update.

With several training steps, a step updates the parameters of a layer right before the layer's first forward pass.
"""

from __future__ import annotations

from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Label, Node, Program
from astra_tacos.workload.generator.gradients import Gradients
from astra_tacos.workload.generator.layer import Layer
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES
from astra_tacos.workload.generator.sharded_block import ShardedBlock
from astra_tacos.workload.generator.step import Step

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
        self.program = Program(split)
        self.gradients = Gradients(step, self.program)
        self.program.updated = self.gradients.updated
        self.head = ShardedBlock(step, self.program, "head", None, cost.head(model, step.tokens, split.tp), step.tokens)
        self.chunks = [
            [
                Layer(step, self.program, (chunk * split.pp + stage) * step.layers_per_chunk + place)
                for place in range(step.layers_per_chunk)
            ]
            for chunk in range(step.virtual_stages)
        ]
        self.loss: dict[int, int] = {}
        layers = [layer for chunk in self.chunks for layer in chunk]
        self.expert_weights = sum(layer.expert_weights for layer in layers)
        self.weights = sum(layer.dense_weights for layer in layers)
        self.embedding_weights = model.hidden * cost.vocabulary_shard(model, split.tp)
        self.weights += self.embedding_weights * (self.is_first(0) + self.is_last(step.virtual_stages - 1))
        self.number = 0

    def is_first(self, chunk: int) -> bool:
        return self.stage == 0 and chunk == 0

    def is_last(self, chunk: int) -> bool:
        return self.stage == self.step.parallelism.pp - 1 and chunk == self.step.virtual_stages - 1

    def run(self) -> list[Node]:
        step = self.step
        schedule = PIPELINE_SCHEDULES[step.schedule]
        passes = list(schedule(self.stage, step.parallelism.pp, step.micro_batches, step.virtual_stages))
        final = {one.chunk: one for one in passes if not one.is_forward}
        for number in self.gradients.each_step():
            self.number = number
            for one in passes:
                if one.is_forward:
                    self.forward(one.micro_batch, one.chunk)
                else:
                    self.backward(one.micro_batch, one.chunk, is_last=one is final[one.chunk])
        self.gradients.optimize(self.weights, self.expert_weights)
        return self.program.nodes

    def forward(self, number: int, chunk: int) -> None:
        if self.is_first(chunk):
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_forward_mb", number)
            at = self.program.compute(label, embed, *self.program.updated("embedding"))
            at = self.head.sum_rows(label, self.step.tokens, at)
        else:
            at = self.receive("forward", number, chunk)
        for layer in self.chunks[chunk]:
            at = layer.forward(number, at)
        if self.is_last(chunk):
            at = self.head.forward(number, at)
            size = _LOSS_BYTES * self.step.tokens
            label = Label("loss_all_reduce_mb", number)
            self.loss[number] = self.program.collective(label, CommType.ALL_REDUCE, GroupKind.TENSOR, size, at)
        else:
            self.send("forward", number, chunk, at)

    def backward(self, number: int, chunk: int, is_last: bool) -> None:
        if self.is_last(chunk):
            at = self.head.input_gradient(number, self.loss.pop(number), gathers=False)
            at = self.head.reduce("backward", number, at, self.step.tokens)
            source = self.head.weight_gradient(number)
            if is_last:
                self.single_bucket("head", source)
        else:
            at = self.receive("backward", number, chunk)
        for layer in reversed(self.chunks[chunk]):
            at = layer.backward(number, at, self.gradients if is_last else None)
        if self.is_first(chunk):
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_backward_mb", number)
            whole = self.head.gather_rows(label, self.step.tokens, at)
            source = self.program.accumulate(Label("embedding_backward_mb", 0), label, embed, whole)
            if is_last:
                self.single_bucket("embedding", source)
        else:
            self.send("backward", number, chunk, at)

    def single_bucket(self, name: str, source: int) -> None:
        buckets = self.gradients.buckets(name, GroupKind.DATA, self.embedding_weights, 1)
        buckets.add((self.embedding_weights,), source)

    def send(self, direction: str, number: int, chunk: int, data: int) -> None:
        label = Label(f"send_{direction}_{self.chunk_name(chunk)}mb", number)
        ahead = 1 if direction == "forward" else -1
        message = self.message(number, chunk, ahead, ahead)
        self.program.send(label, self.hop(ahead), message, self.step.boundary_bytes, data)

    def receive(self, direction: str, number: int, chunk: int) -> int:
        label = Label(f"receive_{direction}_{self.chunk_name(chunk)}mb", number)
        ahead = 1 if direction == "forward" else -1
        message = self.message(number, chunk, -ahead, ahead)
        return self.program.receive(label, self.hop(-ahead), message, self.step.boundary_bytes)

    def chunk_name(self, chunk: int) -> str:
        """Part of a message's name: with one chunk there is nothing to tell apart."""
        return f"chunk{chunk}_" if self.step.virtual_stages > 1 else ""

    def hop(self, ahead: int) -> int:
        """Difference to the number of the stage at the other end; behind the last stage comes the first one."""
        num_stages = self.step.parallelism.pp
        return (self.stage + ahead) % num_stages - self.stage

    def message(self, number: int, chunk: int, ahead: int, direction: int) -> int:
        """Number of a message among all of its lane, by training step, direction, micro-batch and boundary."""
        num_stages = self.step.parallelism.pp
        place = chunk * num_stages + self.stage
        boundary = min(place, place + ahead)
        turn = (2 * self.number + (direction < 0)) * self.step.micro_batches + number
        return turn * (num_stages * self.step.virtual_stages - 1) + boundary
