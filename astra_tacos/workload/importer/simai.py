"""SimAI's workload text: a header with the degrees of parallelism, then a row of twelve columns per layer.

Format and order of work: `workload/Workload.cc`, `workload/Layer.cc` and `system/MockNcclGroup.cc` of SimAI's ASTRA-sim.
Times are ns. A size is that of the whole buffer: an All-Gather's is what a rank has in the end.

The nodes of a rank are the computation and the collectives of the layers, one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import MAX_SIZE_BYTES, NS_PER_US
from astra_tacos.workload.importer.host_trace import DEFAULT_GROUP, Communication
from astra_tacos.workload.importer.rank_nodes import Builder, Chain, RankNode, Rounding

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
_OTHER_POLICIES = frozenset(
    (
        "DATA",
        "MODEL",
        "MICRO",
        "DISTRIBUTED_INFERENCE",
        "HYBRID_CUSTOMIZED",
        "HYBRID_DATA_MODEL",
        "HYBRID_DLRM",
        "HYBRID_DLRM_ENHANCED",
        "HYBRID_MODEL_DATA",
        "HYBRID_TRANSFORMER",
    )
)
_COLUMNS = 12
"""Of a layer."""
_BEGIN = 128
"""Bytes of a file that tell whether it is such a text."""
_TENSOR, _DATA, _EXPERT, _EXPERT_DATA = "tp", "dp", "ep", "dp_ep"
PATTERNS = {
    "ALLREDUCE": CommType.ALL_REDUCE,
    "ALLGATHER": CommType.ALL_GATHER,
    "REDUCESCATTER": CommType.REDUCE_SCATTER,
    "ALLTOALL": CommType.ALL_TO_ALL,
}
_GROUPS = {"EP": _EXPERT, "DP_EP": _EXPERT_DATA}
NONE = "NONE"
PHASES = ("Forward", "InputGrad", "WeightGrad")
_GPUS = "all_gpus"
_GROUP_NAMES = {_TENSOR: "tensor", _DATA: "data", _EXPERT: "expert", _EXPERT_DATA: "expert-data"}
MOST_NODES = 1_000_000
"""Nodes of all ranks of a run that is made; each takes several us and about a kilobyte until it is written."""


class Phase(NamedTuple):
    """Computation of a layer and the collective after it: forward, or the gradient of the inputs or of the weights.

    The pattern is None without a collective, the axis is the group that it runs in (`tp`, `dp`, `ep` or `dp_ep`), and the size is
    that of the whole buffer.
    """

    compute_ns: int
    pattern: CommType | None = None
    axis: str = ""
    size_bytes: int = 0


class Layer(NamedTuple):
    """A row: name, phases (forward, gradients of the inputs and of the weights), and what passes after each collective."""

    name: str
    phases: tuple[Phase, ...]
    update_ns: int


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
        strides = {
            _TENSOR: (1, self.tp),
            _EXPERT: (self.tp, self.ep),
            _EXPERT_DATA: (self.tp * self.ep, self.dp // self.ep),
            _DATA: (self.tp, self.dp),
        }
        return {
            axis: [range(rank, rank + stride * count, stride) for rank in range(self.num_ranks) if rank // stride % count == 0]
            for axis, (stride, count) in strides.items()
        }

    def work(self) -> Iterator[tuple[str, Phase, int, bool]]:
        """What a rank does in turn: name, phase, time after the collective, and whether what follows waits for the collective."""
        for layer in self.layers:
            yield f"{layer.name} forward", layer.phases[0], layer.update_ns, True
        for number in reversed(range(len(self.layers))):
            for again in range(self.recomputed_from.get(number, number), number):
                name, phases, update_ns = self.layers[again]
                yield f"{name} recomputation", phases[0], update_ns, True
            name, phases, update_ns = self.layers[number]
            yield f"{name} input gradient", phases[1], update_ns, True
            yield f"{name} weight gradient", phases[2], update_ns, False


def layer_groups(workload: SimaiWorkload) -> dict[str, list[int]]:
    """Ranks of each group of some of the ranks, by the name that its collectives give it."""
    return {
        _group_name(axis, ranks[0]): list(ranks)
        for axis, groups in workload.groups().items()
        for ranks in groups
        if 1 < len(ranks) < workload.num_ranks
    }


def rounded_gathers(workload: SimaiWorkload) -> int:
    """Number of All-Gathers of a rank whose size is not a multiple of the number of ranks."""
    sizes = {axis: len(groups[0]) for axis, groups in workload.groups().items()}
    gathers = (phase for _, phase, _, _ in workload.work() if phase.pattern == CommType.ALL_GATHER)
    return sum(phase.size_bytes % sizes[phase.axis] > 0 for phase in gathers)


def collectives_of_one(workload: SimaiWorkload) -> list[tuple[str, CommType, int, int]]:
    """A rank's collectives in groups of that rank alone, which move nothing: kind of group, pattern, count, and bytes of all."""
    sizes = {axis: len(groups[0]) for axis, groups in workload.groups().items()}
    found: dict[tuple[str, CommType], list[int]] = {}
    for _, phase, _, _ in workload.work():
        if phase.pattern is not None and sizes[phase.axis] == 1:
            found.setdefault((phase.axis, phase.pattern), []).append(phase.size_bytes)
    return [(_GROUP_NAMES[axis], pattern, len(size), sum(size)) for (axis, pattern), size in found.items()]


def layer_nodes(workload: SimaiWorkload) -> list[list[RankNode]]:
    """The nodes of each rank; ranks differ in the groups of their collectives only.

    Computation and collectives form a chain, but for collectives of weights' gradients, which nothing waits for. Durations are
    whole us: fractions are carried over to what follows, so that the sum stays. `collectives_of_one` are left out.

    Raises
    ------
    ConfigError
        If there would be more than `MOST_NODES` nodes.
    """
    of_rank = {axis: {rank: ranks for ranks in groups for rank in ranks} for axis, groups in workload.groups().items()}
    steps = list(workload.work())
    if 2 * len(steps) * workload.num_ranks > MOST_NODES:
        raise ConfigError(
            f"{workload.source}: {workload.num_ranks:,} ranks with {len(steps):,} phases each, expected at most "
            f"{MOST_NODES // 2:,} in all"
        )
    ranks: list[list[RankNode]] = []
    for rank in range(workload.num_ranks):
        chain, updates = Chain(Builder(), on_cpu=False), Rounding()
        own = {axis: groups[rank] for axis, groups in of_rank.items()}
        for name, phase, update_ns, is_blocking in steps:
            chain.compute(name, phase.compute_ns / NS_PER_US)
            members = own.get(phase.axis, ())
            if phase.pattern is not None and len(members) > 1:
                group = DEFAULT_GROUP if len(members) == workload.num_ranks else _group_name(phase.axis, members[0])
                size = phase.size_bytes
                if phase.pattern == CommType.ALL_GATHER:  # what a rank contributes, not what it has in the end
                    size = -(-size // len(members))
                done = (chain.builder.communicate(Communication(name, phase.pattern, size, group), 0, chain.last),)
                if is_blocking:
                    chain.last = done
                    chain.compute(f"{name} update", update_ns / NS_PER_US)
                elif us := updates.take(update_ns / NS_PER_US):
                    chain.builder.compute(f"{name} update", us, done, on_cpu=False)
        ranks.append(chain.builder.nodes)
    return ranks


def _group_name(axis: str, first: int) -> str:
    return f"{axis} {first}"


def is_simai_workload(path: Path) -> bool:
    """Whether a file begins as a workload text of ASTRA-sim 1.0 or SimAI does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        words = file.read(_BEGIN).split()
    word = words[0].decode("ascii", "replace") if words else ""
    return word == POLICY or word in _OTHER_POLICIES


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
    lines = read_lines(path)
    if len(lines) < 2:
        raise ConfigError(f"{path}: {len(lines)} lines, expected a header, the number of layers, and a row for each")
    (_, header), (second, count), *rows = lines
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
    if len(count) != 1 or _whole(f"{path}:{second}", "number of layers", count[0]) != len(rows):
        raise ConfigError(
            f"{path}:{second}: found {describe(' '.join(count))}, expected {len(rows)}, the number of rows that follow"
        )
    layers = tuple(_layer(f"{path}:{number}", fields) for number, fields in rows)
    return SimaiWorkload(str(path), tp, ep, pp, num_gpus, layers, _recomputed(path, header, len(layers)))


def _degree(path: Path, header: list[str], key: str, default: int | None) -> int:
    value = next((after for word, after in pairwise(header) if word == f"{key}:"), None)
    if value is None and default is not None:
        return default
    found = _whole(f"{path}:1", key, value) if value is not None else 0
    if found < 1:
        shown = "missing" if value is None else describe(value)
        raise ConfigError(f"{path}:1: {key} is {shown}, expected 1 or more")
    return found


def _recomputed(path: Path, header: list[str], num_layers: int) -> dict[int, int]:
    """For each layer of `checkpoint_initiates`, the last layer of `checkpoints` before it."""
    kept = _listed(path, header, "checkpoints", num_layers)
    found = {}
    for layer in _listed(path, header, "checkpoint_initiates", num_layers):
        before = [other for other in kept if other < layer]
        if layer in kept or not before:
            raise ConfigError(f"{path}:1: checkpoint_initiates has layer {layer}, expected a layer after a checkpoint")
        found[layer] = max(before)
    starts = list(found.values())
    if len(set(starts)) < len(starts):
        raise ConfigError(f"{path}:1: checkpoint_initiates has several layers after one checkpoint, expected one")
    return found


def _listed(path: Path, header: list[str], key: str, num_layers: int) -> list[int]:
    if f"{key}:" not in header:
        return []
    words = header[header.index(f"{key}:") + 1 :]
    count = _whole(f"{path}:1", key, words[0] if words else "")
    if count >= len(words):
        raise ConfigError(f"{path}:1: {key} has {len(words) - 1} layers, expected {count}")
    layers = [_whole(f"{path}:1", key, word) for word in words[1 : count + 1]]
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


class Row(NamedTuple):
    """A row of any workload text: name of the layer, ns, collective and bytes of each of `PHASES`, and ns after collectives."""

    name: str
    phases: list[tuple[int, str, int]]
    update_ns: int


def read_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Number and words of the lines of a workload text that are not empty."""
    return [(number, text.split()) for number, text in enumerate(read_text(path).splitlines(), 1) if text.strip()]


def read_row(where: str, fields: list[str]) -> Row:
    """The row that some words are.

    Raises
    ------
    ConfigError
        If there are more or fewer, or one is no number where one is expected.
    """
    if len(fields) != _COLUMNS:
        raise ConfigError(f"{where}: {len(fields)} columns, expected {_COLUMNS}: name, reserved, 3 x (ns, collective, bytes), ns")
    phases = []
    for phase, (time, name, size) in zip(PHASES, (fields[2:5], fields[5:8], fields[8:11]), strict=True):
        phases.append((_whole(where, f"{phase} compute time", time), name, _whole(where, f"{phase} bytes", size)))
    return Row(fields[0], phases, _whole(where, "update time", fields[11]))


def _whole(where: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16) or int(text) > MAX_SIZE_BYTES:
        raise ConfigError(f"{where}: {name} is {describe(text)}, expected a whole number, 0 to 2**53")
    return int(text)
