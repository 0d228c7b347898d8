"""What algorithms of MPI with a name do on a torus: steps, bytes over the busiest link, bytes added and copied.

Ranks are a torus in their order, the last dimension fastest. `ports` copies of an algorithm take a part of the data each, in
dimensions and directions of their own. Where all ranks send to a distance `d`, the busiest link carries d^fold messages, and each
goes d^fold hops: a machine whose tori are folded into more dimensions has a fold below 1.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

COUNTS = ("launch", "step", "port", "added", "copied", "hop", "wire", "block", "setup", "ring_added")
BYTES = frozenset({"added", "copied", "wire", "ring_added"})
_ONE_WAY = 2 / 3
"""A message to one side, in steps: in a step, two ranks exchange messages."""
_HIDDEN = 0.75
"""So much of adding happens while other segments move."""


@dataclass(slots=True)
class TorusWork:
    """Counts of an algorithm; bytes are shares of the data.

    Parameters
    ----------
    dims
        Sizes of the torus, powers of two.
    ports
        Parts of the data that move at the same time.
    fold
        See above.
    of
        How many, by name (`COUNTS`).
    """

    dims: tuple[int, ...]
    ports: int
    fold: float
    of: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0.0))

    @property
    def ranks(self) -> int:
        """All ranks."""
        return math.prod(self.dims)

    @property
    def depth(self) -> int:
        """Steps of a doubling."""
        return self.ranks.bit_length() - 1

    @property
    def halves(self) -> list[float]:
        """Shares of the data of a halving, the largest first: near ranks exchange most."""
        return [0.5 ** (step + 1) for step in range(self.depth)]

    @property
    def doubles(self) -> list[float]:
        """Shares of the data of a doubling: far ranks exchange most."""
        return self.halves[::-1]

    def add(self, **counts: float) -> None:
        """Add to counts."""
        for name, count in counts.items():
            self.of[name] += count

    def walk(self, kind: str, shares: Sequence[float], *, by_rank: bool = False, ports: int | None = None) -> None:
        """One step for each share, from near ranks to far: dimensions take turns, or follow one another (`by_rank`)."""
        ports = 1 if by_rank else self.ports if ports is None else ports
        paths = [_path(self.dims, None if by_rank else port % len(self.dims)) for port in range(ports)]
        for step, share in enumerate(shares):
            links: dict[tuple[int, bool], float] = defaultdict(float)
            far = 0.0
            for port, path in enumerate(paths):
                dim, level = path[step]
                there, back, hops = (way**self.fold if way else 0.0 for way in _LOADS[kind](level, self.dims[dim]))
                if port // len(self.dims) % 2 and (kind != "tree" or level < 2):
                    there, back = back, there
                if self.dims[dim] == 2:
                    there, back = max(there, back), 0.0
                links[dim, False] += there
                links[dim, True] += back
                far = max(far, hops)
            self.add(wire=share / ports * max(links.values()), hop=far)
        self.add(step=len(shares) * (_ONE_WAY if kind.endswith("tree") else 1), port=len(shares) * (ports - 1))

    def rings(self, passes: int) -> None:
        """Rings dimension by dimension; part j begins with dimension j."""
        steps = passes * sum(size - 1 for size in self.dims)
        self.add(step=steps, hop=steps, port=steps * (self.ports - 1))
        for turn in range(len(self.dims)):
            links: dict[tuple[int, bool], float] = defaultdict(float)
            for port in range(self.ports):
                order = [(port + at) % len(self.dims) for at in range(turn + 1)]
                size = self.dims[order[-1]]
                done = math.prod(self.dims[dim] for dim in order[:-1])
                links[order[-1], size > 2 and port // len(self.dims) % 2 == 1] += (size - 1) / size / done / self.ports
            self.add(wire=passes * max(links.values()))

    def chain(self, passes: float = 1.0, steps: float = 0.0) -> None:
        """A ring over all ranks in order."""
        steps = steps or passes * (self.ranks - 1)
        self.add(step=steps, hop=steps, wire=passes * (self.ranks - 1) / self.ranks)

    def to_all(self) -> None:
        """Messages from each rank to each other: shifts by every distance, of which the longest way limits."""
        self.add(wire=_mean_way(self.dims), port=self.ranks - 1)


def _path(dims: tuple[int, ...], first: int | None) -> list[tuple[int, int]]:
    """Dimension and level of each step from near to far: in turn from a dimension on; None for the order of ranks."""
    depths = [size.bit_length() - 1 for size in dims]
    steps = [(dim, level) for dim in reversed(range(len(dims))) for level in range(depths[dim])]
    if first is None:
        return steps
    return sorted(steps, key=lambda step: (step[1], (step[0] - first) % len(dims)))


def _bine(level: int, size: int) -> tuple[float, float, float]:
    distance = abs((1 - (-2) ** (level + 1)) // 3)
    distance = min(distance, size - distance)
    return max(1.0, (distance + 1) / 2), max(1.0, (distance + 1) / 2), float(distance)


_LOADS: dict[str, Callable[[int, int], tuple[float, float, float]]] = {
    "bine": _bine,
    "double": lambda level, _: (2.0**level,) * 3,
    "shift": lambda level, _: (2.0**level, 0.0, 2.0**level),
    "tree": lambda level, _: (1.0, 0.0, 2.0**level),
    "late_tree": lambda level, _: (2.0**level,) * 3,
    "heap_tree": lambda level, _: (max(1.0, 2.0**level / 2),) * 3,
}
"""By kind of a step: messages over the busiest link in both directions, and hops, by level and size of the dimension. A `tree`
has few messages far away, a `late_tree` most of its messages."""


@cache
def _mean_way(dims: tuple[int, ...]) -> float:
    ways = itertools.product(*([min(at, size - at) for at in range(size)] for size in dims))
    return sum(map(max, ways)) / math.prod(dims)


def _gathering(work: TorusWork, name: str) -> bool:
    """All-Gather."""
    match name:
        case "bucket":
            work.rings(1)
        case "bine blocks":
            work.walk("bine", work.halves)
            work.add(port=work.ranks - 1)
        case "bine permute":
            work.walk("bine", work.halves)
            work.add(copied=1, block=work.ranks)
        case "bine send":
            work.walk("bine", work.halves)
            work.add(step=1, wire=1 / work.ranks)
        case "recursive doubling":
            work.walk("double", work.doubles, by_rank=True)
        case "bruck":
            work.walk("shift", work.doubles, by_rank=True)
            work.add(copied=1)
        case "ring" | "neighbor":
            work.chain(steps=work.ranks / 2 if name == "neighbor" else 0)
        case "linear":
            work.to_all()
            work.add(step=1)
        case _:
            return False
    return True


def _scattering(work: TorusWork, name: str) -> bool:
    """Reduce-Scatter."""
    match name:
        case "bucket":
            work.rings(1)
            work.add(ring_added=1)
        case "bine permute":
            work.walk("bine", work.halves)
            work.add(copied=1, block=work.ranks, added=1)
        case "recursive halving":
            work.walk("double", work.doubles, by_rank=True)
            work.add(added=1)
        case "ring":
            work.chain()
            work.add(added=1)
        case _:
            return False
    return True


def _reducing(work: TorusWork, name: str) -> bool:
    """All-Reduce."""
    whole = [1.0] * work.depth
    match name:
        case "bucket":
            work.rings(2)
            work.add(ring_added=1)
        case "bine whole" | "double whole" | "recursive doubling":
            work.walk("bine" if name == "bine whole" else "double", whole, by_rank=name == "recursive doubling")
            work.add(added=work.depth)
        case "bine halves" | "double halves":
            work.walk(name.split()[0], work.halves)
            work.walk(name.split()[0], work.halves)
            work.add(added=1)
        case "ring" | "segmented ring":
            work.chain(2)
            work.add(added=1)
        case _:
            return False
    return True


def _rooted(work: TorusWork, name: str, adds: bool) -> bool:
    """Broadcast, and Reduce, which adds."""
    depth, ranks, has_ports = work.depth, work.ranks, work.ports > 1
    whole = [1.0] * depth
    added: float = depth
    match name:
        case "bine tree" | "bine tree buffer":
            work.walk("tree", whole, ports=1 if adds else None)
            if name == "bine tree buffer":
                work.add(copied=1)
            else:
                work.add(step=0 if adds else depth, setup=ranks * has_ports)
        case "bine halves":
            work.walk("bine", work.halves)
            work.walk("tree", work.halves)
            work.add(setup=ranks * (has_ports or not adds))
            added = 1
        case "binomial":
            work.walk("tree" if adds else "late_tree", whole, by_rank=True)
        case "binary" | "split binary":
            is_split = name != "binary"
            work.walk("tree" if adds else "heap_tree", [0.5 if is_split else 1.0] * depth, by_rank=True)
            work.add(hop=sum(work.dims) / 2, step=is_split, wire=is_split / 2)
        case "pipeline" | "chain":
            added = ranks - 1 if name == "pipeline" else 1 + math.ceil((ranks - 1) / 4)
            work.add(step=added, hop=ranks, wire=added)
        case "linear":
            added = ranks - 1
            work.add(step=1, port=added, wire=added / sum(1 + (size > 2) for size in work.dims))
        case _:
            return False
    work.add(added=added * adds)
    return True


def _trees(work: TorusWork, name: str, scatters: bool) -> bool:
    """Gather and Scatter; the largest messages go near in `grow` of a Scatter."""
    match name:
        case "bine grow" | "bine shrink":
            work.walk("tree", work.halves if (name == "bine grow") == scatters else work.doubles)
            work.add(copied=1, block=work.ranks)
        case "binomial":
            work.walk("tree", work.halves, by_rank=True)
            work.add(copied=1)
        case "linear" | "linear sync":
            work.add(step=1 + (name != "linear"), port=work.ranks - 1, wire=1)
        case _:
            return False
    return True


def _exchanging(work: TorusWork, name: str) -> bool:
    """All-to-All."""
    match name:
        case "bine logarithmic" | "bruck":
            work.walk("shift" if name == "bruck" else "bine", [0.5] * work.depth, by_rank=name == "bruck")
            work.add(copied=work.depth / 2 + 1, block=work.ranks * work.depth / 2)
        case "pairwise" | "linear" | "linear sync":
            work.to_all()
            work.add(step=work.ranks - 1 if name == "pairwise" else 1)
        case _:
            return False
    return True


_WORK: dict[str, Callable[[TorusWork, str], bool]] = {
    "all_gather": _gathering,
    "reduce_scatter": _scattering,
    "all_reduce": _reducing,
    "broadcast": lambda work, name: _rooted(work, name, False),
    "reduce": lambda work, name: _rooted(work, name, True),
    "gather": lambda work, name: _trees(work, name, False),
    "scatter": lambda work, name: _trees(work, name, True),
    "all_to_all": _exchanging,
}
_NAMES = (
    (r"ring\b.*cont.*|bucket.*", "bucket"),
    (r"bine .*blocks", "bine blocks"),
    (r"bine binomial tree .*dec", "bine shrink"),
    (r"bine binomial tree cont permute.*", "bine grow"),
    (r"bine binomial tree tmpbuf", "bine tree buffer"),
    (r"bine binomial tree", "bine tree"),
    (r"bine .*cont permute", "bine permute"),
    (r"bine .*cont send", "bine send"),
    (r"bine l", "bine whole"),
    (r"recdoub l", "double whole"),
    (r"bine (b cont|scatter allgather|reduce scatter gather)", "bine halves"),
    (r"recdoub b cont", "double halves"),
    (r"bine log", "bine logarithmic"),
    (r"(modified )?bruck( log)?", "bruck"),
    (r"basic linear", "linear"),
    (r"(in order )?binary( tree)?", "binary"),
    (r"split binary tree", "split binary"),
)


def work_of(collective: str, algorithm: str, torus: TorusWork, segment_bytes: int, size_bytes: int) -> dict[str, float] | None:
    """Counts of an algorithm, with bytes; None if it has no description here.

    Parameters
    ----------
    collective, algorithm
        Their names.
    torus
        Where it runs, without any counts.
    segment_bytes, size_bytes
        Size of a segment, 0 for none, and of the data.
    """
    name = re.sub("[-_ ]+", " ", algorithm.lower().removeprefix("default-"))
    name = re.sub(" (utofu|mpi)$", "", name)
    name = next((to for pattern, to in _NAMES if re.fullmatch(pattern, name)), name)
    if collective not in _WORK or not _WORK[collective](torus, name):
        return None
    torus.add(launch=1)
    if 0 < segment_bytes < size_bytes:
        torus.of["added"] *= 1 - _HIDDEN
        torus.add(port=torus.of["wire"] * size_bytes / segment_bytes / 2)
    return {count: value * (size_bytes if count in BYTES else 1) for count, value in torus.of.items()}
