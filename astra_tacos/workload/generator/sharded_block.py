"""A block whose matrices are sharded over tensor-parallel ranks, forward and backward (Shoeybi et al. 2019, arXiv:1909.08053).

The experts of a layer add a router, an All-to-All to the experts, their MLPs, and an All-to-All back.
"""

from __future__ import annotations

from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Label, Program
from astra_tacos.workload.generator.cost import Block
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.step import Step


class ShardedBlock:
    """The nodes of a block: attention, MLP, experts or head.

    Without sequence parallelism every rank has the whole input and a partial sum of the output. With it, ranks gather the input
    (and once more for the gradient of the weights), and reduce the output into shards.

    Parameters
    ----------
    name, layer
        Text and layer in the nodes' names; None for a block that no layer has.
    rows
        Number of rows of the whole input: tokens, or tokens times the experts of each token.
    """

    def __init__(self, step: Step, program: Program, name: str, layer: int | None, block: Block, rows: int) -> None:
        self._step, self._program, self._name, self._layer, self.block = step, program, name, layer, block
        self._rows = rows
        self._owner = name if layer is None else f"layer{layer}" + ("_expert" if name == "experts" else "")
        self._forward: dict[int, tuple[int, int]] = {}
        self._backward: dict[int, tuple[int, int]] = {}

    def label(self, activity: str, micro_batch: int) -> Label:
        """Name of a node."""
        if self._layer is None:
            return Label(f"{self._name}_{activity}_mb", micro_batch)
        return Label(f"mb{micro_batch}_{self._name}_{activity}_layer", self._layer)

    def forward(self, micro_batch: int, source: int) -> int:
        """Add the forward pass, and return the id of the node with the output, which is not reduced yet."""
        gathered = self._gather("forward", micro_batch, source)
        ready = self._program.updated(self._owner)
        computed = self._program.compute(self.label("forward", micro_batch), self.block.forward, gathered, *ready)
        self._forward[micro_batch] = source, computed
        return computed

    def input_gradient(self, micro_batch: int, source: int, *, gathers: bool = True) -> int:
        """Add the gradient of the input, and return the id of its node; it is not reduced yet.

        With `gathers` unset, `source` is whole already.
        """
        given, activations = self._forward.pop(micro_batch)
        gathered = self._gather("backward", micro_batch, source) if gathers else source
        again = self._gather("input", micro_batch, given)
        label = self.label("input_gradient", micro_batch)
        computed = self._program.compute(label, self.block.input_gradient, gathered, activations)
        self._backward[micro_batch] = again, computed
        return computed

    def weight_gradient(self, micro_batch: int) -> int:
        """Add the gradient of the weights, which accumulates over micro-batches, and return the id of its node."""
        label = self.label("weight_gradient", micro_batch)
        total = self.label("weight_gradient", 0)
        return self._program.accumulate(total, label, self.block.weight_gradient, *self._backward.pop(micro_batch))

    def reduce(self, activity: str, micro_batch: int, source: int, rows: int) -> int:
        """Add the reduction of partial outputs or gradients over the tensor-parallel ranks, and return its id."""
        return self.sum_rows(self.label(activity, micro_batch), rows, source)

    def _gather(self, activity: str, micro_batch: int, source: int) -> int:
        return self.gather_rows(self.label(activity, micro_batch), self._rows, source)

    def sum_rows(self, label: Label, rows: int, source: int) -> int:
        """Add the sum of activations over the tensor-parallel ranks (into shards with sequence parallelism); returns its id."""
        num_bytes = rows * self._step.model.hidden * self._step.gradient_bytes
        if self._step.sequence_parallel:
            pattern, name = CommType.REDUCE_SCATTER, "reduce_scatter"
        else:
            pattern, name = CommType.ALL_REDUCE, "all_reduce"
        return self._program.collective(label.of(name), pattern, GroupKind.TENSOR, num_bytes, source)

    def gather_rows(self, label: Label, rows: int, source: int) -> int:
        """Add the All-Gather of activations over the tensor-parallel ranks if sequences are sharded; returns its id."""
        if not self._step.sequence_parallel:
            return source
        num_bytes = rows * self._step.model.hidden * self._step.gradient_bytes // self._step.parallelism.tp
        return self._program.collective(label.of("all_gather"), CommType.ALL_GATHER, GroupKind.TENSOR, num_bytes, source)


class Experts:
    """Router, All-to-All to the experts' ranks, experts, and back (Lepikhin et al. 2020, arXiv:2006.16668).

    Experts are sharded over the tensor-parallel ranks, too. Without sequence parallelism these ranks send the same tokens, each
    to the ranks with its own shards, and sum the results at the end. With it each rank sends its own tokens, which the experts'
    ranks gather.
    """

    def __init__(self, step: Step, program: Program, number: int) -> None:
        model, split = step.model, step.parallelism
        self._step, self._program = step, program
        rows = step.tokens // split.tp if step.sequence_parallel else step.tokens
        self.router = cost.router(model, rows)
        self._sent_bytes = rows * model.top_k * model.hidden * model.dtype_bytes
        self._rows = step.tokens * model.top_k
        block = cost.experts(model, step.tokens, split.tp, split.ep)
        self.mlps = ShardedBlock(step, program, "experts", number, block, self._rows)
        self._owner = f"layer{number}"
        self._routed: dict[int, int] = {}

    def forward(self, micro_batch: int, source: int) -> int:
        """Add the forward pass after node `source`, and return the id of its last node."""
        routed = self._program.compute(
            self.mlps.label("router_forward", micro_batch), self.router.forward, source, *self._program.updated(self._owner)
        )
        self._routed[micro_batch] = routed
        at = self._exchange("forward_dispatch", micro_batch, routed)
        at = self.mlps.forward(micro_batch, at)
        return self._return("forward", "forward_combine", micro_batch, at)

    def backward(self, micro_batch: int, source: int) -> tuple[int, int, int]:
        """Add the backward pass; returns the ids of the last node, and of those with the gradients of experts and router."""
        at = self._exchange("backward_combine", micro_batch, source)
        at = self.mlps.input_gradient(micro_batch, at)
        at = self._return("backward", "backward_dispatch", micro_batch, at)
        of_experts = self.mlps.weight_gradient(micro_batch)
        price = self.router.input_gradient + self.router.weight_gradient
        routed = self._routed.pop(micro_batch)
        total, label = (self.mlps.label("router_backward", number) for number in (0, micro_batch))
        of_router = self._program.accumulate(total, label, price, at, routed)
        return of_router, of_experts, of_router

    def _return(self, activity: str, exchange: str, micro_batch: int, source: int) -> int:
        """Send results back to the tokens' ranks; sum them over tensor-parallel ranks, first under sequence parallelism."""
        if self._step.sequence_parallel:
            at = self.mlps.reduce(activity, micro_batch, source, self._rows)
            return self._exchange(exchange, micro_batch, at)
        at = self._exchange(exchange, micro_batch, source)
        return self.mlps.reduce(activity, micro_batch, at, self._step.tokens)

    def _exchange(self, activity: str, micro_batch: int, source: int) -> int:
        label = self.mlps.label(f"{activity}_all_to_all", micro_batch)
        return self._program.collective(label, CommType.ALL_TO_ALL, GroupKind.EXPERT, self._sent_bytes, source)
