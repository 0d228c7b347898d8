"""What options ask for: training steps of a transformer, or of a list of layers, and the device of every rank."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.options import (
    Choice,
    File,
    Flag,
    Group,
    Number,
    Text,
    Whole,
    check_needs,
    check_values,
    described,
    needs_field,
    option,
)
from astra_tacos.support.quoted import quoted
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS, LayeredModel, read_layer_file
from astra_tacos.workload.generator.layered_step import LayeredStep
from astra_tacos.workload.generator.model import PRESETS, Transformer
from astra_tacos.workload.generator.parallelism import AXES, Parallelism, axis_order
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES
from astra_tacos.workload.generator.step import Step

_REQUIRED = ("layers", "hidden", "heads", "sequence", "vocab")
_SIZES = (*_REQUIRED, "kv_heads", "is_gated", "experts", "top_k", "dtype_bytes")
_MIB = 1 << 20
"""Bytes."""
_WIDTH = re.compile(r"([0-9]{1,18})([xX]?)")


@described
@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Training steps as `generate` takes them: a published model, a file of layers, or the sizes of a transformer.

    Sizes override those of the model; of lists of layers, `dtype_bytes` alone counts.

    Raises
    ------
    ConfigError
        If a value is of the wrong type or out of range, or has no use.
    """

    dp: int = option(1, Whole(), "Data parallelism: copies of the model.")
    tp: int = option(1, Whole(), "Tensor parallelism: shards of each matrix.")
    pp: int = option(1, Whole(), "Pipeline parallelism: stages.")
    ep: int = option(1, Whole(), "Expert parallelism: how many of the dp copies share out the experts.")
    order: str | None = option(
        None,
        Text(),
        "Axes of the rank number, from the fastest-varying to the slowest; by default tp,ep,dp,pp, or above 1,024 ranks, where "
        "that has too many classes, the order with the fewest.",
        group=Group.ITERATION,
    )
    placement: str | None = option(
        None,
        Text(),
        "Parts of each axis within each dimension of the network, the last dimension first: tp:1x8,dp:4x2.",
        group=Group.MODEL,
        metavar="AXIS:PARTS,...",
    )
    model: str | None = option(
        None,
        Choice((), PRESETS | LAYERED_MODELS),
        "Sizes of a published model. The options below override those of a transformer; the last four are data-parallel only.",
    )
    layer_file: Path | None = option(
        None,
        File(),
        "A model as a list of layers: name,parameters,forward_flops,backward_flops (or _us) and perhaps activations.",
        group=Group.MODEL,
        metavar="CSV",
    )
    layers: int | None = option(None, Whole(), "Layers.")
    hidden: int | None = option(None, Whole(), "Width of the model.")
    ffn: str | None = option(
        None, Text(), "Width of the MLP, or a multiple of the model's: 4x, the default.", group=Group.MODEL, metavar="F|Nx"
    )
    heads: int | None = option(None, Whole(), "Attention heads.")
    kv_heads: int | None = option(None, Whole(), "Heads of keys and values; by default as many as heads.", group=Group.MODEL)
    sequence: int | None = option(None, Whole(), "Tokens of a sequence.")
    vocab: int | None = option(None, Whole(), "Words of the vocabulary.", group=Group.MODEL)
    is_gated: bool | None = option(
        None, Flag(has_opposite=True), "MLPs of three matrices (SwiGLU) instead of two.", group=Group.MODEL, name="gated"
    )
    experts: int | None = option(
        None, Whole(least=0), "Experts (MLPs) of each layer; a token uses --top-k of them. By default none.", group=Group.MODEL
    )
    top_k: int | None = option(None, Whole(), "Experts that a token goes through; by default 1.", group=Group.MODEL)
    dtype_bytes: int | None = option(
        None, Whole(), "Bytes of a parameter, activation or gradient; by default 2.", group=Group.MODEL
    )
    micro_batches: int = option(1, Whole(), "Micro-batches of a step.", group=Group.ITERATION)
    batch: int = option(1, Whole(), "Sequences (or samples) of a micro-batch, for each copy of the model.")
    steps: int = option(
        1, Whole(), "Training steps: the forward pass of a layer waits for the update of its parameters.", group=Group.ITERATION
    )
    virtual_stages: int = option(1, Whole(), "Chunks of layers of each pipeline stage.", group=Group.ITERATION)
    schedule: str = option("1f1b", Choice((), PIPELINE_SCHEDULES), "Schedule of the pipeline.")
    buckets: int = option(
        1, Whole(), "Parts of a layer's gradients, each reduced as soon as it is computed.", group=Group.ITERATION
    )
    bucket_mb: float | None = option(
        None,
        Number("MiB"),
        "Buckets across layers instead, closed once they have so many MiB: PyTorch's DDP, whose default is 25.",
        group=Group.ITERATION,
        metavar="MiB",
    )
    first_bucket_mb: float = option(
        1.0,
        Number("MiB"),
        "The same for the first bucket of a step.",
        group=Group.ITERATION,
        metavar="MiB",
        needs=needs_field("bucket_mb"),
    )
    shards_optimizer: bool = option(
        False,
        Flag(),
        "Reduce-Scatter of gradients and All-Gather of parameters, instead of All-Reduce.",
        group=Group.ITERATION,
        name="optimizer-sharding",
        also="zero",
    )
    sequence_parallel: bool = option(
        False, Flag(), "Tensor parallelism by All-Gather and Reduce-Scatter, instead of All-Reduce.", group=Group.ITERATION
    )
    durations: bool = option(
        False, Flag(), "Write compute nodes with durations, instead of operations and bytes.", group=Group.ITERATION
    )
    peak_tflops: float = option(312.0, Number("TFLOP/s"), "Peak performance of an NPU.", group=Group.ITERATION)
    memory_bandwidth: float = option(2039.0, Number("GB/s"), "Memory bandwidth of an NPU.", group=Group.ITERATION, metavar="GB/s")

    def __post_init__(self) -> None:
        check_values(self)
        check_needs(self)

    def step(self) -> Step | LayeredStep:
        """The steps.

        Raises
        ------
        ConfigError
            If a size is missing, is not for such a model, or is not as expected.
        """
        placement = () if self.placement is None else read_placement(self.placement)
        split = Parallelism(self.dp, self.tp, self.pp, self.ep, AXES if self.order is None else axis_order(self.order), placement)
        settings: dict[str, Any] = {
            "bucket_bytes": 0 if self.bucket_mb is None else round(self.bucket_mb * _MIB),
            "first_bucket_bytes": 0 if self.bucket_mb is None else round(self.first_bucket_mb * _MIB),
        }
        settings |= {name: getattr(self, name) for name in ("micro_batches", "batch", "steps", "buckets", "shards_optimizer")}
        layered = self._layered()
        if layered is not None:
            if self.sequence_parallel or self.virtual_stages > 1:
                raise ConfigError("A list of layers is data-parallel: found --sequence-parallel or --virtual-stages.")
            return LayeredStep(layered, split, **settings)
        settings |= {name: getattr(self, name) for name in ("schedule", "sequence_parallel", "virtual_stages")}
        return Step(self._transformer(), split, **settings)

    def device(self) -> Device:
        """The device of every rank."""
        return Device(self.peak_tflops, self.memory_bandwidth, self.durations)

    def _given(self) -> dict[str, Any]:
        """Sizes that are given, by name."""
        return {name: value for name in _SIZES if (value := getattr(self, name)) is not None}

    def _layered(self) -> LayeredModel | None:
        """The model as a list of layers; None for a transformer."""
        if self.layer_file is None and self.model not in LAYERED_MODELS:
            return None
        given = [*(["model"] if self.layer_file and self.model else []), *(["ffn"] if self.ffn else []), *self._given()]
        for name in given:
            if name != "dtype_bytes":
                option = name.removeprefix("is_").replace("_", "-")
                raise ConfigError(f"Got --{option}, which says nothing about a list of layers.")
        if self.layer_file is not None:
            return read_layer_file(self.layer_file, self.dtype_bytes or 4)
        model = LAYERED_MODELS[str(self.model)]()
        return replace(model, dtype_bytes=self.dtype_bytes) if self.dtype_bytes else model

    def _transformer(self) -> Transformer:
        """The preset, with the sizes that were given put over it."""
        given = self._given()
        known = (asdict(PRESETS[self.model]) if self.model else {}) | given
        missing = [name for name in _REQUIRED if name not in known]
        if missing:
            raise ConfigError(f"Missing option '--{missing[0]}' (or '--model').")
        if "heads" in given or not self.model:
            known["kv_heads"] = given.get("kv_heads", known["heads"])
        if self.ffn is not None or not self.model:
            known["ffn"] = _width(self.ffn or "4x", known["hidden"])
        return Transformer(**known)


def _width(text: str, hidden: int) -> int:
    match = _WIDTH.fullmatch(text)
    if match is None:
        raise ConfigError(f"ffn: found {quoted(text)}, expected a width such as 4096, or a multiple of hidden such as 4x")
    return int(match[1]) * (hidden if match[2] else 1)
