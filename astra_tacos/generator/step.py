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
    """One training step: forward and backward of all micro-batches, gradients reduced, parameters updated.

    Parameters
    ----------
    model, parallelism
        What is trained, and how it is split.
    micro_batches, batch
        Micro-batches per step, and sequences in one; of each copy of the model.
    schedule
        A key of `PIPELINE_SCHEDULES`.
    buckets
        Into how many parts the gradients of a layer are cut, each of which is reduced as soon as it is there.
    shards_optimizer
        Copies of the model share out the update: Reduce-Scatter of gradients and, after it, All-Gather of parameters (ZeRO
        stage 2, Rajbhandari et al. 2020, arXiv:1910.02054), instead of an All-Reduce of gradients.
    sequence_parallel
        Activations between blocks are sharded over the tensor-parallel ranks: All-Gather before a block and Reduce-Scatter after
        it (Korthikanti et al. 2022, arXiv:2205.05198), instead of an All-Reduce.

    Raises
    ------
    ConfigError
        If the model cannot be split like that.
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
        """Of a micro-batch of one copy of the model."""
        return self.batch * self.model.sequence

    @property
    def boundary_bytes(self) -> int:
        """Of the activations that a rank has between blocks, and passes on to the next stage."""
        whole = self.tokens * self.model.hidden * self.model.dtype_bytes
        return whole // self.parallelism.tp if self.sequence_parallel else whole

    @property
    def least_nodes(self) -> int:
        """Fewer nodes than that no rank has: six computations of each layer and micro-batch."""
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
