"""Workload texts of layers (ASTRA-sim 1.0, SimAI, LIBRA): rows of twelve columns, steps of ranks, and their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import MAX_SIZE_BYTES, NS_PER_US
from astra_tacos.workload.importer.host_trace import DEFAULT_GROUP, Communication
from astra_tacos.workload.importer.rank_nodes import Builder, Chain, RankNode, Rounding

_COLUMNS = 12
"""Of a layer."""
_BEGIN = 128
"""Bytes of a file that hold its first word."""
PATTERNS = {
    "ALLREDUCE": CommType.ALL_REDUCE,
    "ALLGATHER": CommType.ALL_GATHER,
    "REDUCESCATTER": CommType.REDUCE_SCATTER,
    "ALLTOALL": CommType.ALL_TO_ALL,
}
NONE = "NONE"
PHASES = ("Forward", "InputGrad", "WeightGrad")
MOST_NODES = 1_000_000
"""Nodes of all ranks of a run that is made; each takes several us and about a kilobyte until it is written."""


class Phase(NamedTuple):
    """Computation of a layer and the collective after it: forward, or the gradient of the inputs or of the weights.

    The pattern is None without a collective, the axis is the kind of group that it runs in, and the size is that of the text.
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


class Step(NamedTuple):
    """What a rank does in turn: a phase, and the time that passes once its collective has ended.

    Parameters
    ----------
    is_blocking
        Whether what follows waits for the collective and the time after it.
    waits
        Numbers of earlier steps whose collectives the phase waits for.
    """

    name: str
    phase: Phase
    update_ns: int
    is_blocking: bool
    waits: tuple[int, ...] = ()


class LayerText(Protocol):
    """A workload text: how many ranks there are, what they do, and in which groups."""

    @property
    def source(self) -> str:
        """The file."""

    @property
    def num_ranks(self) -> int:
        """Ranks of the run."""

    @property
    def axis_names(self) -> Mapping[str, str]:
        """What messages call the groups of each axis."""

    def groups(self) -> dict[str, list[range]]:
        """For each axis, the ranks of each group."""

    def work(self) -> Iterator[Step]:
        """What each rank does, in turn."""

    def contribution(self, phase: Phase) -> int:
        """Bytes of a phase's collective as ASTRA-sim counts them: of an All-Gather, what a rank contributes."""

    def notes(self) -> tuple[str, ...]:
        """What to say of the text."""


def strided_groups(num_ranks: int, stride: int, count: int) -> list[range]:
    """Groups of `count` ranks each, at a distance of `stride`."""
    return [range(rank, rank + stride * count, stride) for rank in range(num_ranks) if rank // stride % count == 0]


def layer_groups(text: LayerText) -> dict[str, list[int]]:
    """Ranks of each group of some of the ranks, by the name that its collectives give it."""
    return {
        _group_name(axis, ranks[0]): list(ranks)
        for axis, groups in text.groups().items()
        for ranks in groups
        if 1 < len(ranks) < text.num_ranks
    }


def collectives_of_one(text: LayerText) -> list[tuple[str, CommType, int, int]]:
    """A rank's collectives in groups of that rank alone, which move nothing: kind of group, pattern, count, and bytes of all."""
    sizes = {axis: len(groups[0]) for axis, groups in text.groups().items()}
    sizes_of: dict[tuple[str, CommType], list[int]] = {}
    for step in text.work():
        phase = step.phase
        if phase.pattern is not None and sizes[phase.axis] == 1:
            sizes_of.setdefault((phase.axis, phase.pattern), []).append(phase.size_bytes)
    return [(text.axis_names[axis], pattern, len(size), sum(size)) for (axis, pattern), size in sizes_of.items()]


def layer_nodes(text: LayerText) -> list[list[RankNode]]:
    """The nodes of each rank; ranks differ in the groups of their collectives only.

    Computation and collectives that block form a chain; other collectives are waited for by the steps that say so. Durations are
    whole us: fractions are carried over to what follows, so that the sum stays. `collectives_of_one` are left out.

    Raises
    ------
    ConfigError
        If there would be more than `MOST_NODES` nodes.
    """
    of_rank = {axis: {rank: ranks for ranks in groups for rank in ranks} for axis, groups in text.groups().items()}
    steps = list(text.work())
    if 2 * len(steps) * text.num_ranks > MOST_NODES:
        size = f"{text.num_ranks:,} ranks with {len(steps):,} phases each"
        raise ConfigError(f"{text.source}: {size}, expected at most {MOST_NODES // 2:,} in all")
    return [
        _nodes_of_rank(text, steps, {axis: groups[rank] for axis, groups in of_rank.items()}) for rank in range(text.num_ranks)
    ]


def _nodes_of_rank(text: LayerText, steps: list[Step], groups: Mapping[str, range]) -> list[RankNode]:
    chain, updates = Chain(Builder(), on_cpu=False), Rounding()
    ends: dict[int, tuple[int, ...]] = {}
    for number, (name, phase, update_ns, is_blocking, waits) in enumerate(steps):
        for earlier in waits:
            chain.last += ends.pop(earlier, ())
        chain.compute(name, phase.compute_ns / NS_PER_US)
        members = groups.get(phase.axis, ())
        if phase.pattern is None or len(members) < 2:
            continue
        group = DEFAULT_GROUP if len(members) == text.num_ranks else _group_name(phase.axis, members[0])
        call = Communication(name, phase.pattern, text.contribution(phase), group)
        ends[number] = (chain.builder.communicate(call, 0, chain.last),)
        if is_blocking:
            chain.last = ends.pop(number)
            chain.compute(f"{name} update", update_ns / NS_PER_US)
        elif us := updates.take(update_ns / NS_PER_US):
            ends[number] = (chain.builder.compute(f"{name} update", us, ends[number], on_cpu=False),)
    return chain.builder.nodes


def _group_name(axis: str, first: int) -> str:
    return f"{axis} {first}"


def first_word(path: Path) -> str:
    """The word that a file begins with, which names the parallelism of a workload text; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        words = file.read(_BEGIN).split()
    return words[0].decode("ascii", "replace") if words else ""


class Row(NamedTuple):
    """A row of any workload text: name of the layer, ns, collective and bytes of each of `PHASES`, and ns after collectives."""

    name: str
    phases: list[tuple[int, str, int]]
    update_ns: int


def read_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Number and words of the lines of a workload text that are not empty."""
    return [(number, text.split()) for number, text in enumerate(read_text(path).splitlines(), 1) if text.strip()]


def read_table(path: Path) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The words of a text's header, and the place and words of each row; the line between gives the number of rows.

    Raises
    ------
    ConfigError
        If there is no row, or the number is another one.
    """
    lines = read_lines(path)
    if len(lines) < 2:
        raise ConfigError(f"{path}: {len(lines)} lines, expected a header, the number of layers, and a row for each")
    (_, header), (second, count), *rows = lines
    if len(count) != 1 or whole(f"{path}:{second}", "number of layers", count[0]) != len(rows):
        raise ConfigError(
            f"{path}:{second}: found {describe(' '.join(count))}, expected {len(rows)}, the number of rows that follow"
        )
    return header, [(f"{path}:{number}", fields) for number, fields in rows]


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
        phases.append((whole(where, f"{phase} compute time", time), name, whole(where, f"{phase} bytes", size)))
    return Row(fields[0], phases, whole(where, "update time", fields[11]))


def whole(where: str, name: str, text: str) -> int:
    """The number that a word is, ConfigError if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16) or int(text) > MAX_SIZE_BYTES:
        raise ConfigError(f"{where}: {name} is {describe(text)}, expected a whole number, 0 to 2**53")
    return int(text)
