"""The nodes of a pipeline stage: its layers forward and backward in the order of the schedule, then the optimizer update.

With several training steps, a step updates the parameters of a layer right before the layer's first forward pass.
"""

from __future__ import annotations

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Label, Node, Program
from astra_tacos.workload.generator.gradients import Gradients
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES
from astra_tacos.workload.generator.sharded_block import Experts, ShardedBlock
from astra_tacos.workload.generator.step import Step

_LOSS_BYTES = 3 * 4
"""Bytes per token with a sharded vocabulary: largest score, sum of exponentials, score of the target, in single precision."""


class Layer:
    """Attention, then an MLP or experts, of one layer on one rank."""

    def __init__(self, step: Step, program: Program, number: int) -> None:
        model, split = step.model, step.parallelism
        self._rows, self._number = step.tokens, number
        block = cost.attention(model, step.tokens, split.tp)
        self._attention = ShardedBlock(step, program, "attention", number, block, self._rows)
        self._experts = Experts(step, program, number) if model.experts else None
        self._mlp = ShardedBlock(step, program, "mlp", number, cost.mlp(model, step.tokens, split.tp), self._rows)

    @property
    def dense_weights(self) -> int:
        """Parameters that every copy of the model has."""
        return self._attention.block.weights + (self._experts.router.weights if self._experts else self._mlp.block.weights)

    @property
    def expert_weights(self) -> int:
        """Parameters of the experts that the rank holds."""
        return self._experts.mlps.block.weights if self._experts else 0

    def forward(self, micro_batch: int, source: int) -> int:
        """Add the forward pass of a micro-batch after node `source`, and return the id of its last node."""
        at = self._attention.forward(micro_batch, source)
        at = self._attention.reduce("forward", micro_batch, at, self._rows)
        if self._experts:
            return self._experts.forward(micro_batch, at)
        at = self._mlp.forward(micro_batch, at)
        return self._mlp.reduce("forward", micro_batch, at, self._rows)

    def backward(self, micro_batch: int, source: int, gradients: Gradients | None) -> int:
        """Add the backward pass, and return the id of its last node.

        In the pass of the last micro-batch, `gradients` takes the gradients of the parameters; it is None in all others.
        """
        dense = expert = None
        if gradients:
            name = f"layer{self._number}"
            dense = gradients.buckets(name, GroupKind.DATA, self.dense_weights)
            if self._experts:
                expert = gradients.buckets(f"{name}_expert", GroupKind.EXPERT_DATA, self.expert_weights)
        if self._experts:
            at, of_experts, of_router = self._experts.backward(micro_batch, source)
            if dense and expert:
                expert.add(self._experts.mlps.block.tensors, of_experts)
                dense.add((self._experts.router.weights,), of_router)
        else:
            at = self._mlp.input_gradient(micro_batch, source)
            at = self._mlp.reduce("backward", micro_batch, at, self._rows)
            of_mlp = self._mlp.weight_gradient(micro_batch)
            if dense:
                dense.add(self._mlp.block.tensors, of_mlp)
        at = self._attention.input_gradient(micro_batch, at)
        at = self._attention.reduce("backward", micro_batch, at, self._rows)
        of_attention = self._attention.weight_gradient(micro_batch)
        if dense:
            dense.add(self._attention.block.tensors, of_attention)
        return at


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
        final = {pass_.chunk: pass_ for pass_ in passes if not pass_.is_forward}
        for number in self.gradients.each_step():
            self.number = number
            for pass_ in passes:
                if pass_.is_forward:
                    self.forward(pass_.micro_batch, pass_.chunk)
                else:
                    self.backward(pass_.micro_batch, pass_.chunk, is_last=pass_ is final[pass_.chunk])
        self.gradients.optimize(self.weights, self.expert_weights)
        return self.program.nodes

    def forward(self, number: int, chunk: int) -> None:
        if self.is_first(chunk):
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_forward_mb", number)
            at = self.program.compute(label, embed, *self.program.updated("embedding"))
            at = self.head.sum_rows(label, self.step.tokens, at)
        else:
            at = self.message(NodeType.COMM_RECV, "forward", number, chunk)
        for layer in self.chunks[chunk]:
            at = layer.forward(number, at)
        if self.is_last(chunk):
            at = self.head.forward(number, at)
            size = _LOSS_BYTES * self.step.tokens
            label = Label("loss_all_reduce_mb", number)
            self.loss[number] = self.program.collective(label, CommType.ALL_REDUCE, GroupKind.TENSOR, size, at)
        else:
            self.message(NodeType.COMM_SEND, "forward", number, chunk, at)

    def backward(self, number: int, chunk: int, is_last: bool) -> None:
        if self.is_last(chunk):
            at = self.head.input_gradient(number, self.loss.pop(number), gathers=False)
            at = self.head.reduce("backward", number, at, self.step.tokens)
            source = self.head.weight_gradient(number)
            if is_last:
                self.single_bucket("head", source)
        else:
            at = self.message(NodeType.COMM_RECV, "backward", number, chunk)
        for layer in reversed(self.chunks[chunk]):
            at = layer.backward(number, at, self.gradients if is_last else None)
        if self.is_first(chunk):
            embed = cost.embedding(self.step.model, self.step.tokens)
            label = Label("embedding_backward_mb", number)
            gathered = self.head.gather_rows(label, self.step.tokens, at)
            source = self.program.accumulate(Label("embedding_backward_mb", 0), label, embed, gathered)
            if is_last:
                self.single_bucket("embedding", source)
        else:
            self.message(NodeType.COMM_SEND, "backward", number, chunk, at)

    def single_bucket(self, name: str, source: int) -> None:
        buckets = self.gradients.buckets(name, GroupKind.DATA, self.embedding_weights, 1)
        buckets.add((self.embedding_weights,), source)

    def message(self, kind: NodeType, direction: str, number: int, chunk: int, *data: int) -> int:
        """Add a send or a receive of a micro-batch, and return its id.

        Behind the last stage comes the first one. Messages of a lane are numbered by training step, direction, micro-batch and
        boundary.
        """
        step, num_stages = self.step, self.step.parallelism.pp
        is_send, is_backward = kind == NodeType.COMM_SEND, direction == "backward"
        ahead = -1 if is_send == is_backward else 1
        of_chunk = f"chunk{chunk}_" if step.virtual_stages > 1 else ""  # with one chunk there is nothing to tell apart
        label = Label(f"{'send' if is_send else 'receive'}_{direction}_{of_chunk}mb", number)
        hop = (self.stage + ahead) % num_stages - self.stage
        place = chunk * num_stages + self.stage
        turn = (2 * self.number + is_backward) * step.micro_batches + number
        message = turn * (num_stages * step.virtual_stages - 1) + min(place, place + ahead)
        return self.program.message(kind, label, hop, message, step.boundary_bytes, *data)
