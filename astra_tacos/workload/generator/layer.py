"""A layer of a transformer: attention, then an MLP or experts."""

from __future__ import annotations

from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Program
from astra_tacos.workload.generator.gradients import Gradients
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.sharded_block import Experts, ShardedBlock
from astra_tacos.workload.generator.step import Step


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
        return self._attention.weights + (self._experts.router.weights if self._experts else self._mlp.weights)

    @property
    def expert_weights(self) -> int:
        """Parameters of the experts that the rank holds."""
        return self._experts.block.weights if self._experts else 0

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
                expert.add(self._experts.block.tensors, of_experts)
                dense.add((self._experts.router.weights,), of_router)
        else:
            at = self._mlp.input_gradient(micro_batch, source)
            at = self._mlp.reduce("backward", micro_batch, at, self._rows)
            of_mlp = self._mlp.weight_gradient(micro_batch)
            if dense:
                dense.add(self._mlp.tensors, of_mlp)
        at = self._attention.input_gradient(micro_batch, at)
        at = self._attention.reduce("backward", micro_batch, at, self._rows)
        of_attention = self._attention.weight_gradient(micro_batch)
        if dense:
            dense.add(self._attention.tensors, of_attention)
        return at
