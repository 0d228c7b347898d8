"""The input of the generator: one training step, and the nodes of each of its pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import MAX_SIZE_BYTES
from astra_tacos.workload.generator.layered_model import LayeredModel
from astra_tacos.workload.generator.model import Transformer
from astra_tacos.workload.generator.parallelism import GroupKind, Parallelism
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES

MAX_BUCKETS = 1024
"""Buckets of a layer: more are a number of bytes given as a number of buckets."""


@dataclass(frozen=True, slots=True)
class Training:
    """Training steps: what those of a transformer and of a list of layers have in common.

    Parameters
    ----------
    micro_batches, batch
        For each copy of the model: number of micro-batches per step, and of samples per micro-batch.
    buckets
        Number of parts into which the gradients of a layer are cut. Each part is reduced as soon as it is complete.
    shards_optimizer
        Whether the copies of the model divide the update among them: a Reduce-Scatter of gradients and, after the update, an
        All-Gather of parameters (ZeRO stage 2, Rajbhandari et al. 2020, arXiv:1910.02054) replace the All-Reduce of gradients.
    steps
        Number of training steps, one after another: the forward pass of a layer waits for the update of its parameters.
    bucket_bytes, first_bucket_bytes
        Least size of a bucket of gradients, and of the first bucket of a step, by the rule of PyTorch's DistributedDataParallel;
        0 for `buckets` buckets of each layer's own.

    Raises
    ------
    ConfigError
        If a number is out of range.
    """

    model: Transformer | LayeredModel
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
        for name in ("micro_batches", "batch", "steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name.replace('_', '-')}: found {getattr(self, name):,}, expected 1 or more")
        if not 1 <= self.buckets <= MAX_BUCKETS:
            raise ConfigError(f"buckets: found {self.buckets:,}, expected 1 to {MAX_BUCKETS:,} for each layer")
        for name, size in (("bucket-mb", self.bucket_bytes), ("first-bucket-mb", self.first_bucket_bytes)):
            if not 0 <= size <= MAX_SIZE_BYTES:
                raise ConfigError(f"{name}: found {size:,} bytes, expected 0 to {MAX_SIZE_BYTES:,}")
        if self.bucket_bytes and self.buckets > 1:
            raise ConfigError(
                "buckets: found both a number for each layer (--buckets) and a least size (--bucket-mb), expected one"
            )

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient, and of a parameter."""
        return self.model.dtype_bytes


@dataclass(frozen=True, slots=True)
class Step(Training):
    """Training steps of a transformer.

    Parameters
    ----------
    schedule
        The pipeline schedule, a key of `PIPELINE_SCHEDULES`.
    sequence_parallel
        Whether activations between blocks are sharded over the tensor-parallel ranks: an All-Gather before a block and a
        Reduce-Scatter after it (Korthikanti et al. 2022, arXiv:2205.05198) replace an All-Reduce.
    virtual_stages
        Number of chunks of layers of each pipeline stage.

    Raises
    ------
    ConfigError
        If the model cannot be divided by this parallelism, or a number is out of range.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer
    >>> Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=2, pp=2), micro_batches=4, steps=2).steps
    2
    """

    model: Transformer
    schedule: str = "1f1b"
    sequence_parallel: bool = False
    virtual_stages: int = 1

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        if self.virtual_stages < 1:
            raise ConfigError(f"virtual-stages: found {self.virtual_stages}, expected 1 or more")
        if self.virtual_stages > 1 and self.parallelism.pp == 1:
            raise ConfigError(
                f"virtual-stages: found {self.virtual_stages} without pipeline parallelism, expected --pp 2 or more"
            )
        if self.virtual_stages > 1 and self.schedule == "1f1b" and self.micro_batches % self.parallelism.pp:
            raise ConfigError(
                f"micro-batches: found {self.micro_batches}, expected a multiple of pp, which is {self.parallelism.pp}, as "
                "interleaved 1F1B takes turns after so many (--schedule breadth-first takes any number)"
            )
        if self.schedule not in PIPELINE_SCHEDULES:
            raise ConfigError(f"schedule: found {self.schedule!r}, expected {' or '.join(PIPELINE_SCHEDULES)}")
        for subject, value, name, degree in self._divisions():
            if value % degree:
                raise ConfigError(f"{subject}: found {value:,}, expected a multiple of {name}, which is {degree}")
        if self.parallelism.ep > 1 and not self.model.experts:
            raise ConfigError(f"ep: found {self.parallelism.ep}, but the model has no experts (--experts)")

    def _divisions(self) -> Iterator[tuple[str, int, str, int]]:
        model, split = self.model, self.parallelism
        of_chunks = "pp" if self.virtual_stages == 1 else "pp x virtual-stages"
        yield "layers", model.layers, of_chunks, split.pp * self.virtual_stages
        yield "heads", model.heads, "tp", split.tp
        yield "kv-heads", model.kv_heads, "tp", split.tp
        yield "ffn", model.ffn, "tp", split.tp
        yield "experts", model.experts, "ep", split.ep
        if self.sequence_parallel:
            yield "sequence", model.sequence, "tp", split.tp

    @property
    def tokens(self) -> int:
        """Number of tokens of a micro-batch of one copy of the model."""
        return self.batch * self.model.sequence

    @property
    def boundary_bytes(self) -> int:
        """Bytes of the activations that a rank has between blocks, and sends to the next stage."""
        num_bytes = self.tokens * self.model.hidden * self.model.dtype_bytes
        return num_bytes // self.parallelism.tp if self.sequence_parallel else num_bytes

    @property
    def least_nodes(self) -> int:
        """Lower bound on the nodes of a rank: six computations per layer and micro-batch."""
        return 6 * self.layers_per_chunk * self.virtual_stages * self.micro_batches * self.steps

    @property
    def layers_per_chunk(self) -> int:
        """Layers of the model in each chunk of a pipeline stage."""
        return self.model.layers // (self.parallelism.pp * self.virtual_stages)

    @property
    def samples(self) -> int:
        """Number of tokens of a micro-batch of one copy of the model."""
        return self.tokens

    @property
    def group_kinds(self) -> set[GroupKind]:
        """Kinds of groups that communicate."""
        kinds = {GroupKind.TENSOR, GroupKind.DATA} | ({GroupKind.EXPERT, GroupKind.EXPERT_DATA} if self.model.experts else set())
        return {kind for kind in kinds if self.parallelism.group_size(kind) > 1}
