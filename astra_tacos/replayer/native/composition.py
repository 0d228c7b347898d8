"""Native collectives over several dimensions and chunks, as programs (`Sys.cc`, `generate_collective` and what it calls).

The programs are exact: replayed in ASTRA-sim's order of events, a program ends on every NPU at the same nanosecond as in
ASTRA-sim. These options are not modelled: `model-shared-bus`, `--num-queues-per-dim` other than 1, `--injection-scale` and
`--rendezvous-protocol`.

Programs that were made are kept: runs that are replayed one after another have most of them in common.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

import numpy as np

from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.replayer.native.assembly import PATTERNS, Block, LogicalDimension, Phase, PhaseRequest, assemble
from astra_tacos.replayer.native.double_binary_tree import double_binary_tree
from astra_tacos.replayer.native.exchange import direct, halving_doubling, ring
from astra_tacos.rules.system import more_entries, why_none_starts
from astra_tacos.run.chunks import SplitSystem, cut_into_chunks
from astra_tacos.support.errors import ConfigError

_MOST_NODES = 1 << 20
"""Nodes of all programs that are kept, about 70 bytes each."""


@dataclass(slots=True)
class KeptPrograms:
    """The programs that were last used, as many as have `most_nodes` nodes together. Threads may share it."""

    most_nodes: int = _MOST_NODES
    _programs: OrderedDict[Hashable, CollectiveProgram] = field(default_factory=OrderedDict)
    _nodes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, make: Callable[[], CollectiveProgram]) -> CollectiveProgram:
        """The program of a key, made if it is not kept. Two threads may both make it."""
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
        program = make()
        with self._lock:
            if key not in self._programs:
                self._programs[key] = program
                self._nodes += program.num_nodes
            while self._nodes > self.most_nodes:
                self._nodes -= self._programs.popitem(last=False)[1].num_nodes
        return program


NATIVE_ALGORITHMS: dict[str, Callable[[PhaseRequest], Phase]] = {
    "ring": ring,
    "direct": direct,
    "halvingDoubling": halving_doubling,
    "doubleBinaryTree": double_binary_tree,
}
"""Algorithms by their names in a system JSON. There, `direct4` is `direct` with a window of 4, `oneRing` a `ring` of all NPUs."""

_SUB_GROUP_ENDPOINT_NS = 10
_NAME = re.compile(r"(one(?=[A-Z]))?([A-Za-z]+)([1-9][0-9]{0,4})?")


class NativeSystem(SplitSystem, Protocol):
    """The settings of a system JSON that native collectives depend on; `SystemConfig` has them."""

    @property
    def active_chunks_per_dimension(self) -> int:
        """`active-chunks-per-dimension`."""

    @property
    def collective_optimization(self) -> str | None:
        """`collective-optimization`."""

    @property
    def endpoint_delay_ns(self) -> int:
        """`endpoint-delay`, ns."""

    @property
    def local_mem_bw_gbps(self) -> float:
        """`local-mem-bw`, bytes per ns."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A phase of every chunk."""

    dimension: LogicalDimension
    pattern: str
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class NativeCollective:
    """A native collective of a group of NPUs.

    Parameters
    ----------
    pattern
        One of `PATTERNS`.
    implementations
        Names in the system JSON, one per dimension; dimensions without one take no part.
    size_bytes
        `comm_size` of the workload's node. ASTRA-sim raises sizes that are too small, except that of an All-Gather.
    dimensions
        Sizes n0, n1, ...; the NPU at coordinates c0, c1, ... has position c0 + n0 * (c1 + n1 * ...). A communicator group of
        some of the NPUs is one dimension.
    involved
        Whether each dimension takes part; dimensions past the end do not. None stands for all.
    earlier_chunks
        Number of chunks of this pattern that all NPUs together have run before in this simulation, because the two trees of
        `doubleBinaryTree` alternate across collectives. Only its parity matters.
    positions
        The positions that the program has, ascending; None for all.
    """

    pattern: str
    implementations: tuple[str, ...]
    size_bytes: int
    dimensions: tuple[int, ...]
    num_npus: int | None = None
    involved: tuple[bool, ...] | None = None
    earlier_chunks: int = 0
    positions: tuple[int, ...] | None = None


def native_program(collective: NativeCollective, system: NativeSystem) -> CollectiveProgram:
    """The program of a native collective: the actions of every NPU of a group under ASTRA-sim's native implementations.

    Of the settings, `local_reduction_delay_ns` has no effect, as `model-shared-bus` is not modelled.

    Raises
    ------
    ConfigError
        Where ASTRA-sim stops, crashes, stalls or never ends, and if the program is too large.
    """
    pattern, dimensions, num_npus = collective.pattern, collective.dimensions, collective.num_npus
    if pattern not in PATTERNS:
        raise ConfigError(f"native collective: found {pattern!r}, expected {', '.join(PATTERNS)}")
    num_positions = math.prod(dimensions)
    sub_group = num_npus is not None and num_npus != num_positions
    limit = system.active_chunks_per_dimension
    if why := why_none_starts(limit):
        raise ConfigError(f"{system.source}: {why}; set it to 1")
    chunk_bytes, num_chunks = cut_into_chunks(pattern, collective.size_bytes, num_npus or num_positions, system)
    layout = _layout(pattern, collective.implementations, dimensions, sub_group, system)
    steps = _steps(pattern, layout, collective.involved, system)
    if not steps:
        raise ConfigError(
            f"{system.source}: {pattern} over {num_positions} NPUs: no dimension of 2 NPUs or more takes part, so that ASTRA-sim "
            "stalls; expected one"
        )
    source = f"native {pattern} ({', '.join(dimension.implementation for dimension in layout)})"
    composition = _Composition(
        source,
        num_positions,
        chunk_bytes,
        num_chunks,
        limit,
        tuple(steps),
        sub_group,
        _SUB_GROUP_ENDPOINT_NS if sub_group else system.endpoint_delay_ns,
        system.local_mem_bw_gbps,
        collective.earlier_chunks % 2,
        collective.positions,
    )
    return _kept.get(composition, composition.program)


@dataclass(frozen=True, slots=True)
class _Composition:
    """All that a program depends on."""

    source: str
    num_positions: int
    chunk_bytes: int
    num_chunks: int
    limit: int
    steps: tuple[_Step, ...]
    sub_group: bool
    endpoint_ns: int
    local_mem_bw_gbps: float
    earlier_chunks: int
    positions: tuple[int, ...] | None

    def program(self) -> CollectiveProgram:
        """The program of all chunks."""
        phases: dict[PhaseRequest, Phase] = {}
        blocks: list[Block] = []
        positions = np.arange(self.num_positions) if self.positions is None else np.array(self.positions)
        for chunk in range(self.num_chunks):
            left_bytes = self.chunk_bytes
            for index, step in enumerate(self.steps):
                dimension = step.dimension
                visits = [number for number, other in enumerate(self.steps) if other.dimension == dimension]
                turn = (self.earlier_chunks + chunk) * len(visits) + visits.index(index)
                request = PhaseRequest(
                    name=dimension.implementation,
                    pattern=step.pattern,
                    num_members=dimension.num_members,
                    size_bytes=left_bytes,
                    window=dimension.window,
                    backwards=step.backwards,
                    sub_group=self.sub_group,
                    other_tree=dimension.algorithm == "doubleBinaryTree" and turn % 2 == 1,
                    endpoint_ns=self.endpoint_ns,
                    local_mem_bw_gbps=self.local_mem_bw_gbps,
                    members=None if self.positions is None else tuple(np.unique(dimension.coordinate(positions)).tolist()),
                )
                if request not in phases:
                    phases[request] = NATIVE_ALGORITHMS[dimension.algorithm](request)
                blocks.append(Block(chunk, dimension, phases[request], follows=index > 0, queues=self.limit < self.num_chunks))
                left_bytes = phases[request].final_bytes
        return assemble(self.source, positions, blocks, self.limit)


_kept = KeptPrograms()


def _layout(
    pattern: str, implementations: Sequence[str], dimensions: Sequence[int], sub_group: bool, system: NativeSystem
) -> list[LogicalDimension]:
    """The logical topology of the network (`GeneralComplexTopology.cc`) or of a group of some NPUs (`CommunicatorGroup.cc`)."""
    key = f"{system.source}: {pattern}-implementation"
    if sub_group and len(implementations) > 1:
        implementations = ("ring",)  # ASTRA-sim runs a ring, whatever the list names
    if not 1 <= len(implementations) <= len(dimensions):
        excess = more_entries(pattern, implementations, len(dimensions))
        raise ConfigError(f"{system.source}: {excess}; one entry per dimension")
    layout: list[LogicalDimension] = []
    stride = 1
    for index, (name, size) in enumerate(zip(implementations, dimensions, strict=False)):
        everyone, algorithm, window = _parse(f"{key}[{index}]", name)
        if everyone:
            # One line through all NPUs, independent of earlier dimensions; later implementations do not count.
            layout.append(LogicalDimension(index, name, algorithm, window, math.prod(dimensions), 1))
            break
        layout.append(LogicalDimension(index, name, algorithm, window, size, stride))
        stride *= size
    last = layout[-1]
    if last.algorithm == "doubleBinaryTree" and last.stride * last.num_members < math.prod(dimensions) and not sub_group:
        raise ConfigError(f"{key} ends with {last.implementation} before the last dimension, where ASTRA-sim crashes")
    return layout


def _parse(where: str, name: str) -> tuple[bool, str, int | None]:
    """Parse the name of an implementation: whether it runs over all NPUs as one dimension, its algorithm, its window."""
    match = _NAME.fullmatch(name)
    everyone = match is not None and match[1] is not None
    algorithm = match[2] if match else ""
    algorithm = algorithm[:1].lower() + algorithm[1:] if everyone else algorithm
    known = algorithm in NATIVE_ALGORITHMS and not (everyone and algorithm == "doubleBinaryTree")
    if match is None or not known or (match[3] and algorithm != "direct"):
        expected = ", ".join(NATIVE_ALGORITHMS)
        raise ConfigError(f"{where} is {name!r}, expected {expected} (oneRing: over all NPUs; direct4: a window of 4)")
    return everyone, algorithm, int(match[3]) if match[3] else None


def _steps(pattern: str, layout: list[LogicalDimension], involved: Sequence[bool] | None, system: NativeSystem) -> list[_Step]:
    """The phases of a chunk, in order; dimensions of one NPU, or not involved, have none."""
    dimensions = [
        dimension
        for dimension in layout
        if dimension.num_members > 1 and (involved is None or (dimension.index < len(involved) and involved[dimension.index]))
    ]
    if pattern == "all-reduce" and system.collective_optimization == "localBWAware" and dimensions:
        *lower, last = dimensions
        down = [_Step(dimension, "reduce-scatter") for dimension in lower]
        up = [_Step(dimension, "all-gather", backwards=True) for dimension in reversed(lower)]
        return [*down, _Step(last, "all-reduce"), *up]
    if pattern == "all-gather":
        dimensions.reverse()
    return [_Step(dimension, pattern) for dimension in dimensions]
