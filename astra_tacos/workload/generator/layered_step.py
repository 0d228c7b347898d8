"""Data-parallel training of a list of layers: the input of the generator, and the nodes of its ranks."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.columns import Label, Node, Program
from astra_tacos.workload.generator.cost import Cost, Device
from astra_tacos.workload.generator.gradients import Gradients
from astra_tacos.workload.generator.layered_model import LayeredModel
from astra_tacos.workload.generator.parallelism import GroupKind, Parallelism
from astra_tacos.workload.generator.step import Training


@dataclass(frozen=True, slots=True)
class LayeredStep(Training):
    """Training steps of a list of layers on data-parallel ranks, the copies of the model.

    Parameters
    ----------
    model, parallelism
        The model, and the ranks: its `dp` copies.

    Raises
    ------
    ConfigError
        If there is other parallelism, or a number is out of range.

    Examples
    --------
    >>> from astra_tacos import LAYERED_MODELS, LayeredStep, Parallelism
    >>> LayeredStep(LAYERED_MODELS["vgg16"](), Parallelism(dp=4), buckets=2).buckets
    2
    """

    model: LayeredModel
    parallelism: Parallelism

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        for name in ("tp", "pp", "ep"):
            if (degree := getattr(self.parallelism, name)) > 1:
                raise ConfigError(f"{name}: found {degree}, expected 1: a list of layers is data-parallel")

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
        for _ in self.gradients.each_step():
            for micro_batch in range(self.step.micro_batches):
                self.backward(micro_batch, self.forward(micro_batch))
        self.gradients.optimize(sum(layer.parameters for layer in self.layers if not layer.is_divided))
        return self.program.nodes

    def label(self, phase: str, micro_batch: int, number: int) -> Label:
        return Label(f"mb{micro_batch}_{self.layers[number].name}_{phase}_layer", number)

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
            ready = self.gradients.updated(f"layer{number}") if layer.tensors else ()
            computed = self.program.compute(self.label("forward", micro_batch, number), self.costs[number][0], *at, *more, *ready)
            outputs.append(computed)
            at = [computed]
        return outputs

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
                # Nobody needs the gradient of the first layer's input; where durations are given they count whole.
                price = of_input + of_weights if number == first and layer.forward_us is not None else of_weights
                total, label = (self.label("weight_gradient", index, number) for index in (0, micro_batch))
                source = self.program.accumulate(total, label, price, given, outputs[number])
                if is_last:
                    buckets = self.gradients.buckets(f"layer{number}", GroupKind.DATA, layer.parameters)
                    buckets.add(layer.tensors, source)
        for number, source in waiting.items():
            label = self.label("weight_gradient", micro_batch, number)
            self.stored[number] = self.program.compute(label, self.costs[number][2], source)

    def exchange(self, direction: str, micro_batch: int, number: int, source: int) -> int:
        size = self.layers[number].exchanged_values * self.step.batch * self.step.model.dtype_bytes
        label = self.label(f"{direction}_all_to_all", micro_batch, number)
        return self.program.collective(label, CommType.ALL_TO_ALL, GroupKind.DATA, size, source)
