"""Data-parallel training of a list of layers: the input of the generator, and the nodes of its ranks."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator import cost
from astra_tacos.workload.generator.columns import Label, Node, Program
from astra_tacos.workload.generator.cost import Cost, Device
from astra_tacos.workload.generator.gradients import Gradients
from astra_tacos.workload.generator.layered_model import LayeredModel, ModelLayer
from astra_tacos.workload.generator.parallelism import GroupKind, Parallelism
from astra_tacos.workload.generator.step import MAX_MICRO_BATCHES, check_reduction


@dataclass(frozen=True, slots=True)
class LayeredStep:
    """Training steps of a model on data-parallel ranks.

    Parameters
    ----------
    model, parallelism
        The model, and the ranks: its `dp` copies.
    micro_batches, batch
        For each copy of the model: number of micro-batches per step, and of samples per micro-batch.
    buckets, bucket_bytes, first_bucket_bytes, shards_optimizer, steps
        As in `Step`.

    Raises
    ------
    ConfigError
        If there is other parallelism, or a number is out of range.
    """

    model: LayeredModel
    parallelism: Parallelism
    micro_batches: int = 1
    batch: int = 1
    buckets: int = 1
    shards_optimizer: bool = False
    steps: int = 1
    bucket_bytes: int = 0
    first_bucket_bytes: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("tp", "pp", "ep"):
            if getattr(self.parallelism, name) > 1:
                raise ConfigError(
                    f"{name}: found {getattr(self.parallelism, name)}, expected 1: a list of layers is data-parallel"
                )
        if not 1 <= self.micro_batches <= MAX_MICRO_BATCHES:
            raise ConfigError(f"micro-batches: found {self.micro_batches:,}, expected 1 to {MAX_MICRO_BATCHES:,}")
        if not 1 <= self.batch <= 1 << 24:
            raise ConfigError(f"batch: found {self.batch:,}, expected 1 to {1 << 24:,}")
        check_reduction(self.steps, self.buckets, self.bucket_bytes, self.first_bucket_bytes)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient, and of a parameter."""
        return self.model.dtype_bytes

    @property
    def samples(self) -> int:
        """Number of samples of a micro-batch of one copy of the model."""
        return self.batch

    @property
    def least_nodes(self) -> int:
        """Lower bound on the nodes of a rank."""
        return 2 * len(self.model.layers) * self.micro_batches * self.steps

    @property
    def group_kinds(self) -> set[GroupKind]:
        """Kinds of groups that communicate."""
        return {GroupKind.DATA}


def layered_nodes(step: LayeredStep, device: Device) -> list[Node]:
    """The nodes of each rank, in program order. All ranks have the same.

    Raises
    ------
    ConfigError
        If a collective is too small, or a number too large, for ASTRA-sim.
    """
    return _Ranks(step, device).run()


class _Ranks:
    def __init__(self, step: LayeredStep, device: Device) -> None:
        self.step, self.layers = step, step.model.layers
        self.program = Program(step.parallelism)
        self.gradients = Gradients(step, self.program)
        self.costs = [layer.costs(step.batch, step.model.dtype_bytes, device.ops_per_us) for layer in self.layers]
        self.joined = {layer.joins: number for number, layer in enumerate(self.layers) if layer.is_divided}
        self.stored: dict[int, int] = {}
        """By the number of a layer with divided parameters, the node that wrote them last."""

    def run(self) -> list[Node]:
        for number in range(self.step.steps):
            if number:
                self.gradients.end_step()
            if self.step.steps > 1:
                self.program.prefix = f"step{number}_"
            for micro_batch in range(self.step.micro_batches):
                outputs = self.forward(micro_batch)
                self.backward(micro_batch, outputs)
            self.gradients.flush()
        self.update()
        return self.program.nodes

    def label(self, what: str, micro_batch: int, number: int) -> Label:
        return Label(f"mb{micro_batch}_{self.layers[number].name}_{what}_layer", number)

    def forward(self, micro_batch: int) -> list[int]:
        """Add the forward pass; returns the node with the output of each layer."""
        outputs: list[int] = []
        at: list[int] = []
        for number, layer in enumerate(self.layers):
            if layer.is_divided:
                source = [self.stored[number]] if number in self.stored else []
                computed = self.program.compute(self.label("forward", micro_batch, number), self.costs[number][0], *source)
                outputs.append(self.exchange("forward", micro_batch, number, computed))
                continue
            more = [outputs[self.joined[number]]] if number in self.joined else []
            ready = self.program_updates(number)
            computed = self.program.compute(self.label("forward", micro_batch, number), self.costs[number][0], *at, *more, *ready)
            outputs.append(computed)
            at = [computed]
        return outputs

    def program_updates(self, number: int) -> tuple[int, ...]:
        return self.gradients.updated(self.owner(number)) if self.layers[number].tensors else ()

    def owner(self, number: int) -> str:
        return f"layer{number}"

    def backward(self, micro_batch: int, outputs: list[int]) -> None:
        is_last = micro_batch == self.step.micro_batches - 1
        at = outputs[-1]
        waiting: dict[int, int] = {}
        first = next((number for number, layer in enumerate(self.layers) if not layer.is_divided), 0)
        for number in reversed(range(len(self.layers))):
            layer, (_, of_input, of_weights) = self.layers[number], self.costs[number]
            if layer.is_divided:
                continue
            given = at
            if number != first and of_input != Cost(0, 0):
                at = self.program.compute(self.label("input_gradient", micro_batch, number), of_input, given, outputs[number])
            if number in self.joined:
                waiting[self.joined[number]] = self.exchange("backward", micro_batch, self.joined[number], at)
            if layer.tensors:
                price = of_weights if number != first else self.of_first(layer, of_input, of_weights)
                total, label = (self.label("weight_gradient", each, number) for each in (0, micro_batch))
                source = self.program.accumulate(total, label, price, given, outputs[number])
                if is_last:
                    self.reduce(number, layer, source)
        for number, source in waiting.items():
            label = self.label("weight_gradient", micro_batch, number)
            self.stored[number] = self.program.compute(label, self.costs[number][2], source)

    def of_first(self, layer: ModelLayer, of_input: Cost, of_weights: Cost) -> Cost:
        """Nobody needs the gradient of the first layer's input; where durations are given they count whole."""
        return of_input + of_weights if layer.forward_us is not None else of_weights

    def reduce(self, number: int, layer: ModelLayer, source: int) -> None:
        self.gradients.buckets(self.owner(number), GroupKind.DATA, layer.parameters).add(layer.tensors, source)

    def exchange(self, direction: str, micro_batch: int, number: int, source: int) -> int:
        size = self.layers[number].exchanged_values * self.step.batch * self.step.model.dtype_bytes
        label = self.label(f"{direction}_all_to_all", micro_batch, number)
        return self.program.collective(label, CommType.ALL_TO_ALL, GroupKind.DATA, size, source)

    def update(self) -> None:
        weights = sum(layer.parameters for layer in self.layers if not layer.is_divided)
        if self.step.shards_optimizer:
            weights = -(-weights // self.step.parallelism.dp)
        price = cost.optimizer(weights, self.step.model.dtype_bytes)
        updated = self.program.compute(Label("optimizer_step", 0), price, *self.gradients.reduced)
        if self.step.shards_optimizer:
            self.gradients.gather_parameters(updated)
