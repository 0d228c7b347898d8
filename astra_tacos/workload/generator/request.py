"""What options ask for: training steps of a transformer, or of a list of layers, and the device of every rank."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS, LayeredModel, read_layer_file
from astra_tacos.workload.generator.layered_step import LayeredStep
from astra_tacos.workload.generator.model import PRESETS, Transformer
from astra_tacos.workload.generator.parallelism import AXES, Parallelism, axis_order
from astra_tacos.workload.generator.step import Step

_REQUIRED = ("layers", "hidden", "heads", "sequence", "vocab")
_SIZES = (*_REQUIRED, "kv_heads", "is_gated", "experts", "top_k", "dtype_bytes")
_MIB = 1 << 20
"""Bytes."""
_WIDTH = re.compile(r"([0-9]{1,18})([xX]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Training steps as `generate` takes them; see its options.

    Parameters
    ----------
    model, layer_file
        Name of a published model, or a file of layers. Without both, the sizes say all.
    layers, hidden, ffn, heads, kv_heads, sequence, vocab, is_gated, experts, top_k, dtype_bytes
        Sizes of a transformer, which override those of the model; of lists of layers, `dtype_bytes` alone counts.
    micro_batches, batch, steps, virtual_stages, schedule, buckets, shards_optimizer, sequence_parallel
        See `Step`.
    bucket_mb, first_bucket_mb
        Least size of a bucket, and of the first of a step, in MiB; no buckets across layers without the former.
    durations, peak_tflops, memory_bandwidth
        See `Device`.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    order: str | None = None
    placement: str | None = None
    model: str | None = None
    layer_file: Path | None = None
    layers: int | None = None
    hidden: int | None = None
    ffn: str | None = None
    heads: int | None = None
    kv_heads: int | None = None
    sequence: int | None = None
    vocab: int | None = None
    is_gated: bool | None = None
    experts: int | None = None
    top_k: int | None = None
    dtype_bytes: int | None = None
    micro_batches: int = 1
    batch: int = 1
    steps: int = 1
    virtual_stages: int = 1
    schedule: str = "1f1b"
    buckets: int = 1
    bucket_mb: float | None = None
    first_bucket_mb: float = 1.0
    shards_optimizer: bool = False
    sequence_parallel: bool = False
    durations: bool = False
    peak_tflops: float = 312.0
    memory_bandwidth: float = 2039.0

    def step(self) -> Step | LayeredStep:
        """The steps.

        Raises
        ------
        ConfigError
            If a size is missing, is not for such a model, or is not as expected.
        """
        placement = () if self.placement is None else read_placement(self.placement)
        split = Parallelism(self.dp, self.tp, self.pp, self.ep, AXES if self.order is None else axis_order(self.order), placement)
        for name, mebibytes in (("bucket-mb", self.bucket_mb), ("first-bucket-mb", self.first_bucket_mb)):
            if mebibytes is not None and not math.isfinite(mebibytes):
                raise ConfigError(f"{name}: found {mebibytes}, expected a number of MiB above 0")
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
