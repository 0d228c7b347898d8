"""The workload text of ASTRA-sim 1.0: a kind of parallelism, then a row of twelve columns per layer; the network says the ranks.

Format, order of work and dimensions of collectives: `workload/Workload.cc`, `workload/Layer.cc` and `Sys::break_dimension` of
ASTRA-sim 1.0. Times are cycles of 1 ns. The size of an All-Gather is what a rank contributes, as in ASTRA-sim 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.values import describe
from astra_tacos.workload.importer.layers import (
    MOST_NODES,
    NONE,
    PATTERNS,
    Layer,
    Phase,
    Step,
    read_row,
    read_table,
    strided_groups,
    whole,
)

_FORWARD, _INPUTS, _WEIGHTS = range(3)
_PHASE_NAMES = ("forward", "input gradient", "weight gradient")
_NOWHERE, _ALL, _INNER, _OUTER = "", "all", "inner", "outer"
"""Dimensions of a collective: none, all, the first one or the first `model_parallel_NPU_group` ranks, and those after that."""
_MODEL_GROUP = "model_parallel_NPU_group:"
_CUSTOMIZED = "HYBRID_CUSTOMIZED"


@dataclass(slots=True)
class _Steps:
    """The steps of a rank, as an order of work adds them."""

    layers: Sequence[Layer]
    steps: list[Step] = field(default_factory=list)
    issued: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last step of each collective that was issued, by phase and layer."""
    _pending: list[int] = field(default_factory=list)

    def add(self, phase: int, layer: int, *, computes: bool = True, issues: bool = True, is_blocking: bool = False) -> None:
        """Compute a phase of a layer, and start its collective."""
        name, phases, update_ns = self.layers[layer]
        work = phases[phase]
        is_issued = issues and work.pattern is not None and work.axis != _NOWHERE
        if is_issued:
            self.issued[phase, layer] = len(self.steps)
        compute_ns = work.compute_ns if computes else 0
        work = work._replace(compute_ns=compute_ns) if is_issued else Phase(compute_ns)
        self.steps.append(Step(f"{name} {_PHASE_NAMES[phase]}", work, update_ns, is_blocking, tuple(self._pending)))
        self._pending.clear()

    def wait(self, phase: int, layer: int) -> None:
        """Let the next step wait for the last collective of a phase of a layer."""
        if (phase, layer) in self.issued:
            self._pending.append(self.issued[phase, layer])


_Order = Callable[[_Steps, int], None]
"""Adds the steps of one pass over the layers; the number is that of the last bottom layer of a DLRM."""


def _forward(steps: _Steps, *, issues: bool) -> None:
    for layer in range(len(steps.layers)):
        steps.wait(_WEIGHTS, layer)
        steps.add(_FORWARD, layer, issues=issues, is_blocking=issues)


def _data_order(steps: _Steps, _: int) -> None:
    _forward(steps, issues=False)
    for layer in reversed(range(len(steps.layers))):
        steps.add(_WEIGHTS, layer)
        if layer:
            steps.add(_INPUTS, layer, issues=False)


def _hybrid_order(steps: _Steps, _: int, *, of_first: bool = False) -> None:
    _forward(steps, issues=True)
    for layer in reversed(range(len(steps.layers))):
        steps.add(_INPUTS, layer, issues=layer > 0 or of_first)
        steps.add(_WEIGHTS, layer)
        steps.wait(_INPUTS, layer)


def _transformer_order(steps: _Steps, bottom: int) -> None:
    _hybrid_order(steps, bottom, of_first=True)


def _dlrm_order(steps: _Steps, bottom: int, *, waits_for_first: bool = True) -> None:
    for layer in range(len(steps.layers)):
        exchanges = steps.layers[layer].phases[_FORWARD].pattern == CommType.ALL_TO_ALL
        steps.wait(_WEIGHTS, layer)
        steps.add(_FORWARD, layer, issues=exchanges)
        if layer == bottom and not exchanges:
            steps.wait(_FORWARD, 0)
    for layer in reversed(range(len(steps.layers))):
        steps.add(_WEIGHTS, layer)
        if layer:
            steps.add(_INPUTS, layer, issues=False)
        if layer == bottom + 1:
            steps.add(_INPUTS, 0, computes=False)
    if waits_for_first:
        steps.wait(_INPUTS, 0)


def _enhanced_dlrm_order(steps: _Steps, bottom: int) -> None:
    _dlrm_order(steps, bottom, waits_for_first=False)


def _micro_order(steps: _Steps, _: int) -> None:
    steps.add(_WEIGHTS, 0, computes=False)


def _inference_order(steps: _Steps, _: int) -> None:
    _forward(steps, issues=True)


@dataclass(frozen=True, slots=True)
class _Policy:
    """A kind of parallelism: the order of work, and the dimensions of the collectives of each phase."""

    order: _Order
    axes: tuple[str, str, str]
    first_axes: tuple[str, str, str] | None = None
    """Of the first layer, where these are others."""


_ALL_AXES = (_ALL, _ALL, _ALL)
_POLICIES = {
    "DATA": _Policy(_data_order, (_NOWHERE, _NOWHERE, _ALL)),
    "MODEL": _Policy(_hybrid_order, (_ALL, _ALL, _NOWHERE)),
    "HYBRID_DATA_MODEL": _Policy(_hybrid_order, (_INNER, _INNER, _OUTER)),
    "HYBRID_MODEL_DATA": _Policy(_hybrid_order, (_OUTER, _OUTER, _INNER)),
    "HYBRID_TRANSFORMER": _Policy(_transformer_order, (_INNER, _INNER, _OUTER)),
    _CUSTOMIZED: _Policy(_hybrid_order, (_NOWHERE, _NOWHERE, _NOWHERE)),
    "HYBRID_DLRM": _Policy(_dlrm_order, (_NOWHERE, _NOWHERE, _ALL), _ALL_AXES),
    "HYBRID_DLRM_ENHANCED": _Policy(_enhanced_dlrm_order, (_NOWHERE, _NOWHERE, _ALL), _ALL_AXES),
    "MICRO": _Policy(_micro_order, (_NOWHERE, _NOWHERE, _ALL)),
    "DISTRIBUTED_INFERENCE": _Policy(_inference_order, (_ALL, _ALL, _NOWHERE)),
}
POLICIES = tuple(_POLICIES)
_OF_LAYERS = tuple(name for name in POLICIES if name not in (_CUSTOMIZED, "HYBRID_TRANSFORMER"))
"""Kinds of parallelism that a row of HYBRID_CUSTOMIZED may name."""


@dataclass(frozen=True, slots=True, eq=False)
class AstraSim1Workload:
    """A workload text on a network.

    Parameters
    ----------
    num_inner
        Ranks of the first dimension, or of a model-parallel group: neighbours.
    bottom
        Number of the last bottom layer of a DLRM.
    """

    source: str
    policy: str
    num_ranks: int
    num_inner: int
    layers: tuple[Layer, ...]
    bottom: int
    num_passes: int

    @property
    def axis_names(self) -> Mapping[str, str]:
        """What messages call the groups of each axis."""
        return {_ALL: _ALL, _INNER: _INNER, _OUTER: _OUTER}

    def groups(self) -> dict[str, list[range]]:
        """For each axis with collectives, the ranks of each group: neighbours, or those at the same place of them."""
        strides = {_ALL: (1, self.num_ranks), _INNER: (1, self.num_inner), _OUTER: (self.num_inner, self._num_outer)}
        used = {step.phase.axis for step in self.work()}
        return {axis: strided_groups(self.num_ranks, *places) for axis, places in strides.items() if axis in used}

    def work(self) -> Iterator[Step]:
        """What a rank does in turn; a pass waits for the collectives of the pass before where it needs the weights."""
        return iter(self._steps().steps)

    def contribution(self, phase: Phase) -> int:
        """Bytes of a phase's collective: those of the text."""
        return phase.size_bytes

    def notes(self) -> tuple[str, ...]:
        """The kind of parallelism, and the size of the groups."""
        inner = f", {self.num_inner} neighbours x {self._num_outer}" if self._has_inner else ""
        return (f"{self.policy}{inner}, passes: {self.num_passes}: {self.source}",)

    def never_issued(self) -> list[tuple[str, CommType, int, int]]:
        """Collectives of the text that its kind of parallelism has no use for: phase, pattern, count, and bytes of all."""
        issued = self._steps().issued
        counts: Counter[tuple[int, CommType]] = Counter()
        sizes: Counter[tuple[int, CommType]] = Counter()
        for number, layer in enumerate(self.layers):
            for phase, work in enumerate(layer.phases):
                if work.pattern is not None and (phase, number) not in issued:
                    counts[phase, work.pattern] += 1
                    sizes[phase, work.pattern] += work.size_bytes
        return [(_PHASE_NAMES[phase], pattern, count, sizes[phase, pattern]) for (phase, pattern), count in counts.items()]

    @property
    def _num_outer(self) -> int:
        return self.num_ranks // self.num_inner

    @property
    def _has_inner(self) -> bool:
        return any(work.axis in (_INNER, _OUTER) for layer in self.layers for work in layer.phases)

    def _steps(self) -> _Steps:
        steps = _Steps(self.layers)
        for _ in range(self.num_passes):
            _POLICIES[self.policy].order(steps, self.bottom)
        return steps


def read_astra_sim_1_workload(path: Path, sizes: Sequence[int], num_passes: int = 1) -> AstraSim1Workload:
    """Read a workload text.

    Parameters
    ----------
    sizes
        Ranks of each dimension of the network; the first one varies fastest.

    Raises
    ------
    ConfigError
        One line that names the file, the line, what was found and what was expected.
    """
    header, rows = read_table(path)
    name, *values = header
    if name not in _POLICIES:
        raise ConfigError(f"{path}:1: found the parallelism {describe(name)}, expected one of {', '.join(POLICIES)}")
    if not rows:
        raise ConfigError(f"{path}: no layers, expected a row for each")
    bottom, num_inner = len(rows), sizes[0]
    if _POLICIES[name].first_axes is not None:
        bottom = _of_header(path, header, "the number of the last bottom layer")
        if bottom >= len(rows):
            raise ConfigError(f"{path}:1: the last bottom layer is {bottom}, expected 0 to {len(rows) - 1}")
    elif name == "HYBRID_TRANSFORMER":
        num_inner = _of_header(path, header, f"{_MODEL_GROUP} N", _MODEL_GROUP)
        _check_model_group(path, num_inner, sizes)
    elif values:
        raise ConfigError(f"{path}:1: found {describe(' '.join(values))} after {name}, expected nothing")
    phases, num_ranks = num_passes * len(rows), math.prod(sizes)
    if 2 * phases * num_ranks > MOST_NODES:  # a pass has a phase for each layer at least
        size = f"{num_ranks:,} ranks with {phases:,} phases each or more, in {num_passes:,} passes"
        raise ConfigError(f"{path}: {size}, expected at most {MOST_NODES // 2:,} in all")
    layers = tuple(_layer(where, fields, name, number) for number, (where, fields) in enumerate(rows))
    return AstraSim1Workload(str(path), name, math.prod(sizes), num_inner, layers, bottom, num_passes)


def _of_header(path: Path, header: list[str], expected: str, *words: str) -> int:
    """The number that ends a header, after some words."""
    name, *values = header
    if len(values) != len(words) + 1 or tuple(values[:-1]) != words:
        raise ConfigError(f"{path}:1: found {describe(' '.join(values))} after {name}, expected {expected}")
    return whole(f"{path}:1", expected, values[-1])


def _check_model_group(path: Path, num_inner: int, sizes: Sequence[int]) -> None:
    """Check that a group of neighbours is some whole dimensions, and perhaps a part of the next that divides it."""
    left = num_inner
    for size in sizes:
        part = math.gcd(left, size)
        if not left or (part < size and part < left):
            break
        left //= part
    if left != 1:
        shape = " x ".join(map(str, sizes))
        raise ConfigError(
            f"{path}:1: {_MODEL_GROUP} is {num_inner}, expected a number that divides the dimensions {shape} in turn"
        )


def _layer(where: str, fields: list[str], policy: str, number: int) -> Layer:
    axes = _POLICIES[policy].axes
    if policy == _CUSTOMIZED:
        *fields, own_policy = fields
        if own_policy not in _OF_LAYERS:
            raise ConfigError(
                f"{where}: the layer's parallelism is {describe(own_policy)}, expected one of {', '.join(_OF_LAYERS)}"
            )
        axes = _POLICIES[own_policy].axes
    elif number == 0:
        axes = _POLICIES[policy].first_axes or axes
    row = read_row(where, fields)
    return Layer(
        row.name, tuple(_phase(where, *phase, axis) for phase, axis in zip(row.phases, axes, strict=True)), row.update_ns
    )


def _phase(where: str, compute_ns: int, name: str, size_bytes: int, axis: str) -> Phase:
    if name != NONE and name not in PATTERNS:
        raise ConfigError(f"{where}: the collective is {describe(name)}, expected {NONE} or {', '.join(PATTERNS)}")
    return Phase(compute_ns) if name == NONE or not size_bytes else Phase(compute_ns, PATTERNS[name], axis, size_bytes)
