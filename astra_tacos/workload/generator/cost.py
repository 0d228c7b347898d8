"""The compute speed of an NPU.

The cost of a block of the model on one rank: operations and bytes, for the roofline of ASTRA-sim.

A product of T rows with a matrix of W entries takes 2TW operations forward, 2TW for the gradient of its input and 2TW for that
of its weights. Attention scores and their use take 4TSH forward and twice that backward (Narayanan et al. 2021, arXiv:2104.04473,
appendix; no discount for the causal mask). Bytes are those that an ideal kernel reads and writes once: weights, inputs, outputs,
and the values passed between the matrices of a block; attention scores stay on the chip (Dao et al. 2022, arXiv:2205.14135).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from astra_tacos.run.backend import EXACT_NS
from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import BYTES_PER_GB, NS_PER_S
from astra_tacos.workload.generator.model import Transformer

_ADAM_OPS = 12
"""Operations per parameter: two moments (3 + 4), and the update with square root and division (5); Kingma and Ba 2015, alg. 1."""
_ADAM_STATE_BYTES = 2 * 3 * 4
"""Bytes per parameter: two moments and the parameter in single precision, read and written (Rajbhandari et al. 2020)."""
_OPS_PER_TFLOP = 1e12
"""Operations."""
_US_PER_S = 1e6
"""Microseconds."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Number of operations, and of bytes read and written."""

    num_ops: int
    num_bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.num_ops + other.num_ops, self.num_bytes + other.num_bytes)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a layer on one rank, for one micro-batch.

    Parameters
    ----------
    tensors
        Numbers of parameters of its tensors on the rank, in the order in which a framework registers them.
    forward, input_gradient, weight_gradient
        Costs of the forward pass, and of the two parts of the backward pass.
    """

    tensors: tuple[int, ...]
    forward: Cost
    input_gradient: Cost
    weight_gradient: Cost

    @property
    def weights(self) -> int:
        """Number of its parameters on the rank."""
        return sum(self.tensors)


def _block(rows: int, tensors: tuple[int, ...], used: int, moved: int, dtype_bytes: int, more_ops: int = 0) -> Block:
    """The costs of a block of matrices.

    Parameters
    ----------
    tensors
        Numbers of weights of its tensors on the rank, all of which are read.
    more_ops
        Number of operations without weights in the forward pass.
    """
    weights = sum(tensors)
    products, num_bytes = 2 * rows * used, dtype_bytes * (weights + moved)
    return Block(
        tensors,
        Cost(products + more_ops, num_bytes),
        Cost(products + 2 * more_ops, num_bytes),
        Cost(products, num_bytes + dtype_bytes * weights),  # gradients accumulate: they are read and written
    )


def attention(model: Transformer, tokens: int, tp: int) -> Block:
    """Attention: queries, keys and values, scores and their use, output; `tokens` is the number in a micro-batch."""
    weights, keys = model.attention_weights // tp, model.hidden * model.kv_width // tp
    queries = weights // 2 - keys
    moved = tokens * (2 * model.hidden + 2 * (2 * model.hidden + 2 * model.kv_width) // tp)
    tensors = (queries, keys, keys, weights - queries - 2 * keys)
    return _block(tokens, tensors, weights, moved, model.dtype_bytes, 4 * tokens * model.sequence * model.hidden // tp)


def mlp(model: Transformer, tokens: int, tp: int) -> Block:
    """The MLP of a layer without experts."""
    weights = model.mlp_weights // tp
    return _block(tokens, _mlp_tensors(model, weights), weights, _mlp_moved(model, tokens, tp), model.dtype_bytes)


def experts(model: Transformer, tokens: int, tp: int, ep: int) -> Block:
    """The experts on a rank. Routing is assumed to be balanced: each rank of the expert group gets as many tokens as it sends."""
    rows = tokens * model.top_k
    used = model.mlp_weights // tp
    tensors = model.experts // ep * _mlp_tensors(model, used)
    return _block(rows, tensors, used, _mlp_moved(model, rows, tp), model.dtype_bytes)


def _mlp_tensors(model: Transformer, weights: int) -> tuple[int, ...]:
    return (weights // (3 if model.is_gated else 2),) * (3 if model.is_gated else 2)


def _mlp_moved(model: Transformer, rows: int, tp: int) -> int:
    return rows * (2 * model.hidden + 2 * (2 if model.is_gated else 1) * model.ffn // tp)


def router(model: Transformer, tokens: int) -> Block:
    """The router: scores of the experts for each token; it is not sharded."""
    weights = model.router_weights
    return _block(tokens, (weights,), weights, tokens * (model.hidden + model.experts), model.dtype_bytes)


def head(model: Transformer, tokens: int, tp: int) -> Block:
    """The output head: scores of a shard of the vocabulary."""
    shard = vocabulary_shard(model, tp)
    weights = model.hidden * shard
    return _block(tokens, (weights,), weights, tokens * (model.hidden + shard), model.dtype_bytes)


def embedding(model: Transformer, tokens: int) -> Cost:
    """The embedding: the look-up of a row per token and the addition of its position, or the reverse in the backward pass."""
    return Cost(tokens * model.hidden, 2 * tokens * model.hidden * model.dtype_bytes)


def vocabulary_shard(model: Transformer, tp: int) -> int:
    """Number of vocabulary entries of a rank; the last shard is padded."""
    return -(-model.vocab // tp)


def optimizer(weights: int, dtype_bytes: int) -> Cost:
    """Adam in mixed precision, for the `weights` parameters that a rank updates: state, gradient and parameter."""
    return Cost(_ADAM_OPS * weights, (_ADAM_STATE_BYTES + 2 * dtype_bytes) * weights)


@dataclass(frozen=True, slots=True)
class Device:
    """An NPU; by default an A100 of 80 GB (NVIDIA's data sheet: dense BF16, SXM).

    Parameters
    ----------
    peak_tflops, memory_gbps
        Peak performance in 10**12 operations per second, and memory bandwidth in 10**9 bytes per second.
    writes_durations
        Whether compute nodes have a duration in microseconds, instead of operations and bytes for ASTRA-sim's roofline.

    Raises
    ------
    ConfigError
        If a rate is not a number above 0.

    Examples
    --------
    >>> from astra_tacos import Device
    >>> Device(peak_tflops=989.0, memory_gbps=3350.0).peak_tflops
    989.0
    """

    peak_tflops: float = 312.0
    memory_gbps: float = 2039.0
    writes_durations: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for name, rate in (("peak-tflops", self.peak_tflops), ("memory-bandwidth", self.memory_gbps)):
            if not (math.isfinite(rate) and 0 < rate <= 1e300):
                raise ConfigError(f"{name}: found {rate}, expected a number above 0")

    @property
    def ops_per_us(self) -> float:
        """Operations that it does in a microsecond."""
        return self.peak_tflops * _OPS_PER_TFLOP / _US_PER_S

    def duration_us(self, cost: Cost) -> int:
        """Duration in microseconds by the roofline model (Williams et al. 2009), rounded; ASTRA-sim takes 1 ns for 0."""
        seconds = max(cost.num_ops / (self.peak_tflops * _OPS_PER_TFLOP), cost.num_bytes / (self.memory_gbps * BYTES_PER_GB))
        if seconds * NS_PER_S > EXACT_NS:
            raise ConfigError(f"a computation takes {seconds:.3g} s, expected less than ASTRA-sim's clock counts: 2**53 ns")
        return round(seconds * _US_PER_S)
