"""The input of the generator: one training step, and the nodes of each of its pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_tacos.argument_types import check_fields
from astra_tacos.errors import ConfigError
from astra_tacos.generator.model import Transformer
from astra_tacos.generator.parallelism import GroupKind, Parallelism
from astra_tacos.generator.pipeline import PIPELINE_SCHEDULES

MAX_MICRO_BATCHES = 4096
MAX_BUCKETS = 1024


@dataclass(frozen=True, slots=True)
class Step:
    """One training step: forward and backward passes of all micro-batches, reduction of gradients, update of parameters.

    Parameters
    ----------
    model, parallelism
        The model that is trained, and its parallelism.
    micro_batches, batch
        For each copy of the model: number of micro-batches per step, and of sequences per micro-batch.
    schedule
        The pipeline schedule, a key of `PIPELINE_SCHEDULES`.
    buckets
        Number of parts into which the gradients of a layer are cut. Each part is reduced as soon as it is complete.
    shards_optimizer
        Whether the copies of the model divide the update among them: a Reduce-Scatter of gradients and, after the update, an
        All-Gather of parameters (ZeRO stage 2, Rajbhandari et al. 2020, arXiv:1910.02054) replace the All-Reduce of gradients.
    sequence_parallel
        Whether activations between blocks are sharded over the tensor-parallel ranks: an All-Gather before a block and a
        Reduce-Scatter after it (Korthikanti et al. 2022, arXiv:2205.05198) replace an All-Reduce.

    Raises
    ------
    ConfigError
        If the model cannot be divided by this parallelism, or a number is out of range.
    """

    model: Transformer
    parallelism: Parallelism
    micro_batches: int = 1
    batch: int = 1
    schedule: str = "1f1b"
    buckets: int = 1
    shards_optimizer: bool = False
    sequence_parallel: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.micro_batches <= MAX_MICRO_BATCHES:
            raise ConfigError(f"micro-batches: found {self.micro_batches:,}, expected 1 to {MAX_MICRO_BATCHES:,}")
        if self.batch < 1:
            raise ConfigError(f"batch: found {self.batch}, expected 1 or more")
        if not 1 <= self.buckets <= MAX_BUCKETS:
            raise ConfigError(f"buckets: found {self.buckets:,}, expected 1 to {MAX_BUCKETS:,}")
        if self.schedule not in PIPELINE_SCHEDULES:
            raise ConfigError(f"schedule: found {self.schedule!r}, expected {' or '.join(PIPELINE_SCHEDULES)}")
        for what, value, name, degree in self._divisions():
            if value % degree:
                raise ConfigError(f"{what}: found {value:,}, expected a multiple of {name}, which is {degree}")
        if self.parallelism.ep > 1 and not self.model.experts:
            raise ConfigError(f"ep: found {self.parallelism.ep}, but the model has no experts (--experts)")

    def _divisions(self) -> Iterator[tuple[str, int, str, int]]:
        model, split = self.model, self.parallelism
        yield "layers", model.layers, "pp", split.pp
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
        whole = self.tokens * self.model.hidden * self.model.dtype_bytes
        return whole // self.parallelism.tp if self.sequence_parallel else whole

    @property
    def least_nodes(self) -> int:
        """Lower bound on the nodes of a rank: six computations per layer and micro-batch."""
        return 6 * self.layers_per_stage * self.micro_batches

    @property
    def layers_per_stage(self) -> int:
        """Layers of the model in each pipeline stage."""
        return self.model.layers // self.parallelism.pp

    @property
    def group_kinds(self) -> set[GroupKind]:
        """Kinds of groups that communicate."""
        kinds = {GroupKind.TENSOR, GroupKind.DATA} | ({GroupKind.EXPERT, GroupKind.EXPERT_DATA} if self.model.experts else set())
        return {kind for kind in kinds if self.parallelism.group_size(kind) > 1}
