"""The experts of a layer: router, All-to-All to the experts, their MLPs, and All-to-All back."""

from __future__ import annotations

from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.parallelism import GroupKind
from astra_tacos.workload.generator.program import Program
from astra_tacos.workload.generator.sharded_block import ShardedBlock
from astra_tacos.workload.generator.step import Step


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
        self._router = cost.router(model, rows)
        self._sent_bytes = rows * model.top_k * model.hidden * model.dtype_bytes
        self._rows = step.tokens * model.top_k
        block = cost.experts(model, step.tokens, split.tp, split.ep)
        self._block = ShardedBlock(step, program, "experts", number, block, self._rows)
        self._owner = f"layer{number}"
        self._routed: dict[int, int] = {}

    @property
    def weights(self) -> int:
        """Parameters of the experts that a rank holds."""
        return self._block.weights

    @property
    def tensors(self) -> tuple[int, ...]:
        """Numbers of parameters of the experts' tensors."""
        return self._block.tensors

    @property
    def router_weights(self) -> int:
        """Parameters of the router."""
        return self._router.weights

    def forward(self, micro_batch: int, source: int) -> int:
        """Add the forward pass after node `source`, and return the id of its last node."""
        routed = self._program.compute(
            self._block.label("router_forward", micro_batch), self._router.forward, source, *self._program.updated(self._owner)
        )
        self._routed[micro_batch] = routed
        at = self._exchange("forward_dispatch", micro_batch, routed)
        at = self._block.forward(micro_batch, at)
        return self._return("forward", "forward_combine", micro_batch, at)

    def backward(self, micro_batch: int, source: int) -> tuple[int, int, int]:
        """Add the backward pass; returns the ids of the last node, and of those with the gradients of experts and router."""
        at = self._exchange("backward_combine", micro_batch, source)
        at = self._block.input_gradient(micro_batch, at)
        at = self._return("backward", "backward_dispatch", micro_batch, at)
        of_experts = self._block.weight_gradient(micro_batch)
        price = self._router.input_gradient + self._router.weight_gradient
        routed = self._routed.pop(micro_batch)
        total, label = (self._block.label("router_backward", number) for number in (0, micro_batch))
        of_router = self._program.accumulate(total, label, price, at, routed)
        return of_router, of_experts, of_router

    def _return(self, what: str, exchange: str, micro_batch: int, source: int) -> int:
        """Send results back to the tokens' ranks; sum them over tensor-parallel ranks, first under sequence parallelism."""
        if self._step.sequence_parallel:
            at = self._block.reduce(what, micro_batch, source, self._rows)
            return self._exchange(exchange, micro_batch, at)
        at = self._exchange(exchange, micro_batch, source)
        return self._block.reduce(what, micro_batch, at, self._step.tokens)

    def _exchange(self, what: str, micro_batch: int, source: int) -> int:
        label = self._block.label(f"{what}_all_to_all", micro_batch)
        return self._program.collective(label, CommType.ALL_TO_ALL, GroupKind.EXPERT, self._sent_bytes, source)
