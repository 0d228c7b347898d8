"""SimAI's workload text: a header with the degrees of parallelism, then a row of twelve columns per layer.

Format and order of work: `workload/Workload.cc`, `workload/Layer.cc` and `system/MockNcclGroup.cc` of SimAI's ASTRA-sim.
Times are ns. A size is that of the whole buffer: an All-Gather's is what a rank has in the end.

The nodes of a rank are the computation and the collectives of the layers, one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.values import describe
from astra_tacos.workload.importer.layers import NONE, PATTERNS, Layer, Phase, Step, read_row, read_table, strided_groups, whole

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
_TENSOR, _DATA, _EXPERT, _EXPERT_DATA = "tp", "dp", "ep", "dp_ep"
_GROUPS = {"EP": _EXPERT, "DP_EP": _EXPERT_DATA}
_GPUS = "all_gpus"


@dataclass(frozen=True, slots=True, eq=False)
class SimaiWorkload:
    """A workload text. All ranks of a pipeline stage run the same layers.

    Parameters
    ----------
    tp, ep, pp, num_gpus
        Degrees of tensor, expert and pipeline parallelism, and the GPUs of all stages.
    recomputed_from
        For layers before whose backward pass others are computed again: the first of those, which end before the layer.
    """

    source: str
    tp: int
    ep: int
    pp: int
    num_gpus: int
    layers: tuple[Layer, ...]
    recomputed_from: dict[int, int]

    @property
    def num_ranks(self) -> int:
        """GPUs of one pipeline stage."""
        return self.num_gpus // self.pp

    @property
    def dp(self) -> int:
        """Degree of data parallelism."""
        return self.num_ranks // self.tp

    def groups(self) -> dict[str, list[range]]:
        """For each axis, the ranks of each group: neighbours share a tensor, then experts, then data."""
        strides = {_TENSOR: 1, _EXPERT: self.tp, _EXPERT_DATA: self.tp * self.ep, _DATA: self.tp}
        return {axis: strided_groups(self.num_ranks, strides[axis], degree) for axis, degree in self._degrees().items()}

    @property
    def axis_names(self) -> Mapping[str, str]:
        """What messages call the groups of each axis."""
        return {_TENSOR: "tensor", _DATA: "data", _EXPERT: "expert", _EXPERT_DATA: "expert-data"}

    def work(self) -> Iterator[Step]:
        """What a rank does in turn; nothing waits for collectives of weights' gradients."""
        for layer in self.layers:
            yield Step(f"{layer.name} forward", layer.phases[0], layer.update_ns, is_blocking=True)
        for number in reversed(range(len(self.layers))):
            for again in range(self.recomputed_from.get(number, number), number):
                name, phases, update_ns = self.layers[again]
                yield Step(f"{name} recomputation", phases[0], update_ns, is_blocking=True)
            name, phases, update_ns = self.layers[number]
            yield Step(f"{name} input gradient", phases[1], update_ns, is_blocking=True)
            yield Step(f"{name} weight gradient", phases[2], update_ns, is_blocking=False)

    def contribution(self, phase: Phase) -> int:
        """Bytes of a collective as ASTRA-sim counts them: what a rank contributes to an All-Gather, not the whole."""
        return -(-phase.size_bytes // self._degrees()[phase.axis]) if _is_gather(phase) else phase.size_bytes

    def notes(self) -> tuple[str, ...]:
        """The degrees of parallelism."""
        return (f"tensor {self.tp} x data {self.dp}, experts over {self.ep}: {self.source}",)

    def rounded_gathers(self) -> int:
        """Number of All-Gathers of a rank whose size is not a multiple of the number of ranks."""
        degrees = self._degrees()
        gathers = (step.phase for step in self.work() if _is_gather(step.phase))
        return sum(phase.size_bytes % degrees[phase.axis] > 0 for phase in gathers)

    def _degrees(self) -> dict[str, int]:
        return {_TENSOR: self.tp, _EXPERT: self.ep, _EXPERT_DATA: self.dp // self.ep, _DATA: self.dp}


def _is_gather(phase: Phase) -> bool:
    return phase.pattern == CommType.ALL_GATHER


def read_simai_workload(path: Path, num_gpus: int | None = None) -> SimaiWorkload:
    """Read a workload text.

    Parameters
    ----------
    num_gpus
        The GPUs of all stages, for a header that does not say them.

    Raises
    ------
    ConfigError
        One line that names the file, the line, what was found and what was expected.
    """
    header, rows = read_table(path)
    if header[0] != POLICY:
        raise ConfigError(f"{path}:1: found the parallelism {describe(header[0])}, expected {POLICY}: others are not imported")
    tp, ep, pp = (
        _degree(path, header, key, default) for key, default in (("model_parallel_NPU_group", None), ("ep", 1), ("pp", 1))
    )
    says_gpus = f"{_GPUS}:" in header
    if not says_gpus and num_gpus is None:
        raise ConfigError(f"{path}:1: {_GPUS} is missing, expected --ranks N, the number of GPUs of all pipeline stages")
    if says_gpus and num_gpus is not None:
        raise ConfigError(f"{path}:1: says {_GPUS}, expected it without --ranks")
    name = _GPUS if num_gpus is None else "--ranks"
    num_gpus = num_gpus or _degree(path, header, _GPUS, None)
    if num_gpus % (tp * pp) or num_gpus // (tp * pp) % ep:
        raise ConfigError(f"{path}:1: {name} is {num_gpus}, expected a multiple of {tp} x {pp} x {ep} (tensor, pipeline, expert)")
    layers = tuple(_layer(where, fields) for where, fields in rows)
    return SimaiWorkload(str(path), tp, ep, pp, num_gpus, layers, _recomputed(path, header, len(layers)))


def _degree(path: Path, header: list[str], key: str, default: int | None) -> int:
    value = next((after for word, after in pairwise(header) if word == f"{key}:"), None)
    if value is None and default is not None:
        return default
    degree = whole(f"{path}:1", key, value) if value is not None else 0
    if degree < 1:
        shown = "missing" if value is None else describe(value)
        raise ConfigError(f"{path}:1: {key} is {shown}, expected 1 or more")
    return degree


def _recomputed(path: Path, header: list[str], num_layers: int) -> dict[int, int]:
    """For each layer of `checkpoint_initiates`, the last layer of `checkpoints` before it."""
    kept = _listed(path, header, "checkpoints", num_layers)
    recomputed = {}
    for layer in _listed(path, header, "checkpoint_initiates", num_layers):
        before = [other for other in kept if other < layer]
        if layer in kept or not before:
            raise ConfigError(f"{path}:1: checkpoint_initiates has layer {layer}, expected a layer after a checkpoint")
        recomputed[layer] = max(before)
    starts = list(recomputed.values())
    if len(set(starts)) < len(starts):
        raise ConfigError(f"{path}:1: checkpoint_initiates has several layers after one checkpoint, expected one")
    return recomputed


def _listed(path: Path, header: list[str], key: str, num_layers: int) -> list[int]:
    if f"{key}:" not in header:
        return []
    words = header[header.index(f"{key}:") + 1 :]
    count = whole(f"{path}:1", key, words[0] if words else "")
    if count >= len(words):
        raise ConfigError(f"{path}:1: {key} has {len(words) - 1} layers, expected {count}")
    layers = [whole(f"{path}:1", key, word) for word in words[1 : count + 1]]
    if any(layer >= num_layers for layer in layers) or len(set(layers)) < len(layers):
        raise ConfigError(f"{path}:1: {key} is {describe(layers)}, expected each layer once, 0 to {num_layers - 1}")
    return layers


def _layer(where: str, fields: list[str]) -> Layer:
    row = read_row(where, fields)
    phases = zip(row.phases, (_TENSOR, _TENSOR, _DATA), strict=True)
    return Layer(row.name, tuple(_phase(where, *phase, axis) for phase, axis in phases), row.update_ns)


def _phase(where: str, compute_ns: int, name: str, size_bytes: int, axis: str) -> Phase:
    word, _, rest = name.partition("_")
    if name != NONE and (word not in PATTERNS or (rest and rest not in _GROUPS)):
        expected = f"{NONE} or {', '.join(PATTERNS)}, with _EP or _DP_EP or without"
        raise ConfigError(f"{where}: the collective is {describe(name)}, expected {expected}")
    if name == NONE or not size_bytes:
        return Phase(compute_ns)
    return Phase(compute_ns, PATTERNS[word], _GROUPS.get(rest, axis), size_bytes)
