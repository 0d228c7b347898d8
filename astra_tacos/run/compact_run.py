"""Compact runs: the traces of some ranks, each of which stands for all ranks that translations of the network move it to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.routing import CyclicTranslations
from astra_tacos.network.network_config import MAX_NPUS, Dimension, NetworkConfig
from astra_tacos.network.rotations import mixed
from astra_tacos.run.groups import ALL_RANKS, CommunicatorGroups, group_id, group_ids
from astra_tacos.run.lattice import CompactTrace, Lattice, listed
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.run import CLASSES, MEMORY, NATIVE, PATTERN_KEYS, RANKS, SYSTEM, Run, implementations
from astra_tacos.run.source import made_of
from astra_tacos.run.system import read_remote_memory, read_system
from astra_tacos.run.trace.reader import read_trace, trace_files
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import write_json
from astra_tacos.support.formats.values import describe
from astra_tacos.support.grouping import distinct, members_of
from astra_tacos.support.own_files import Whole, read_own
from astra_tacos.support.records import Keyed

_Words = NDArray[np.uint64]
_CYCLIC = ("ring", "oneRing", "direct", "oneDirect")
"""Native algorithms in which all members do the same, turned: a window may follow their names."""
MOST_RANKS = 1 << 14
"""Most ranks of an ordinary run that is made of a compact one."""


def expand(run: Run) -> Run:
    """The ordinary run of a run with classes: the traces of all ranks; an ordinary run stays as it is.

    Raises
    ------
    ConfigError
        If it has more than `MOST_RANKS` ranks.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer, generate, expand, read_compact, read_network
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=16))
    >>> generated = generate(step, "steps", network="configs/network/torus_4x4.yml", compact=True)
    >>> run = read_compact(generated.path, read_network("configs/network/torus_4x4.yml"))
    >>> run.workload.num_ranks, expand(run).workload.num_ranks
    (1, 16)
    """
    if run.classes is None:
        return run
    lattice = run.classes
    if lattice.num_ranks > MOST_RANKS:
        raise ConfigError(f"{run.workload.prefix}: found {lattice.num_ranks:,} ranks, expected at most {MOST_RANKS:,}")
    everyone = np.arange(lattice.num_ranks)
    place = lattice.places(everyone)
    trace, rows = run.workload.of_ranks(place), members_of(run.workload.rank_first, place)[1]
    rank = np.repeat(everyone, np.diff(trace.rank_first))
    peer = np.where(trace.peer == ABSENT, ABSENT, lattice.moved(rank, trace.peer))
    columns = run.columns
    own_rank = np.where(columns.own[rows] == ABSENT, ABSENT, rank)
    ids = group_ids(columns)[rows]
    members: dict[int, tuple[int, ...]] = {}
    names: dict[tuple[int, tuple[int, ...]], int] = {}
    group, group_names = np.full(len(rows), ABSENT, np.int32), []
    copies = _copies(run.groups.members)
    for number in np.unique(ids[ids != ALL_RANKS]).tolist():
        chosen = np.flatnonzero(ids == number)
        ranks = np.array(run.groups.members[number], np.int64)
        for moving_rank in np.unique(rank[chosen]).tolist():
            moved = tuple(np.sort(lattice.moved(np.full(len(ranks), moving_rank), ranks)).tolist())
            key = copies[number], moved
            if key not in names:
                names[key] = len(names) + 1
                members[names[key]] = moved
                group_names.append(str(names[key]))
            group[chosen[rank[chosen] == moving_rank]] = names[key] - 1
    workload = replace(trace.workload, own=own_rank, group=group, group_names=tuple(group_names))  # type: ignore[type-var]
    expanded = replace(trace, peer=peer, workload=workload, owners=None)
    groups = CommunicatorGroups(run.groups.source, members)
    collectives = tuple(
        collective.expand() if isinstance(collective, CompactTrace) else collective for collective in run.collectives
    )
    return replace(
        run,
        workload=expanded,
        groups=groups,
        implementation=run.implementation[rows],
        collectives=collectives,
        source=made_of(run, rows),
        files={},
        classes=None,
    )


def _copies(members: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """How many groups of lower numbers have the same ranks, by number: what moves to one of these moves to its like."""
    seen: dict[tuple[int, ...], int] = {}
    copies = {}
    for number in sorted(members):
        copies[number] = seen.get(members[number], 0)
        seen[members[number]] = copies[number] + 1
    return copies


def write_ranks(
    folder: Path, lattice: Lattice, groups: Mapping[int, Sequence[int]], collectives: Mapping[str, Lattice] | None = None
) -> None:
    """Write which ranks the classes of a folder stand for (`RANKS`); the traces of class i are `CLASSES.i.et`.

    Parameters
    ----------
    collectives
        The translations of the positions of custom collectives, by the prefix of their traces from the directory.

    Raises
    ------
    ConfigError
        If a group does not have evenly spaced coordinates.
    """
    members = {}
    for number, ranks in groups.items():
        triples = []
        for values in lattice.values(np.array(ranks, np.int64), f"group {number}"):
            step = int(values[1] - values[0]) if len(values) > 1 else 1
            if (np.diff(values) != step).any():
                raise ConfigError(f"group {number} has the coordinates {listed(values)}, expected even spaces")
            triples.append([int(values[0]), step, len(values)])
        members[str(number)] = triples
    content: dict[str, Any] = _in_json(lattice) | {"groups": members}
    if collectives:
        content["collectives"] = {prefix: _in_json(positions) for prefix, positions in collectives.items()}
    write_json(folder / RANKS, content)


def count_ranks(folder: Path) -> int:
    """Number of ranks that the classes of a compact run stand for.

    Raises
    ------
    ConfigError
        If its file of ranks has wrong contents.
    """
    return _lattice(folder / RANKS, "", _read_ranks(folder)).num_ranks


def _in_json(lattice: Lattice) -> dict[str, list[int]]:
    return {"sizes": list(lattice.size), "periods": list(lattice.period)}


_Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_NPUS)]


class _LatticeFile(msgspec.Struct):
    """The translations of the ranks of a run, or of the positions of a collective."""

    sizes: list[_Size]
    periods: list[_Size]


class _RanksFile(_LatticeFile):
    """`ranks.json`: of each group, the first, step and count of its coordinates in each dimension."""

    groups: dict[str, list[tuple[Whole, _Size, _Size]]] = {}
    collectives: dict[str, _LatticeFile] = {}


def _read_ranks(folder: Path) -> _RanksFile:
    return read_own(folder / RANKS, _RanksFile, "generate --compact")


def _lattice(source: Path, owner: str, entry: _LatticeFile) -> Lattice:
    """The translations that an entry of a file says."""
    size, period = tuple(entry.sizes), tuple(entry.periods)
    if len(period) != len(size) or any(count % turn for turn, count in zip(period, size, strict=True)):
        raise ConfigError(f"{source}: {owner}periods {_shown(period)}, expected a divisor of each of {_shown(size)}")
    if math.prod(size) > MAX_NPUS:
        raise ConfigError(f"{source}: {owner}sizes {_shown(size)}, expected at most {MAX_NPUS:,} in all")
    return Lattice(size, period)


def read_compact(folder: Path, network: NetworkConfig, *, checks: bool = True) -> Run:
    """Read a directory of a compact run, to run on a network: a run with classes.

    Parameters
    ----------
    folder, network
        The directory, and the network.
    checks
        Whether to check that collectives do the same in all ranks of a class.

    Raises
    ------
    ConfigError
        If a file has wrong contents, the network has other sizes, or a collective treats ranks by their numbers.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer, generate, read_compact, read_network
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=16))
    >>> generated = generate(step, "steps", network="configs/network/torus_4x4.yml", compact=True)
    >>> read_compact(generated.path, read_network("configs/network/torus_4x4.yml")).classes.num_ranks
    16
    """
    source = folder / RANKS
    content = _read_ranks(folder)
    size, network_size = tuple(content.sizes), tuple(dimension.size for dimension in network.dimensions)
    if size != network_size:
        raise ConfigError(f"{source}: sizes {_shown(size)}, but {network.source} has {_shown(network_size)}")
    lattice = _lattice(source, "", content)
    period = lattice.period
    for dimension, turn in zip(network.dimensions, period, strict=True):
        if turn < dimension.size and not _turns(dimension):
            found_it = f"period {turn} of {dimension.block} {dimension.size}"
            raise ConfigError(
                f"{source}: {found_it}, expected {dimension.size}: the dimension does not look the same after a turn"
            )
    stride, _, _ = lattice.columns
    members: dict[int, tuple[int, ...]] = {}
    for name, triples in content.groups.items():
        number, ranks = group_id(name), np.zeros(1, np.int64)
        if number is None or number in members or len(triples) != len(size):
            found_it = f"group {name} {'again' if number in members else f'is {describe(triples)}'}"
            expected = "a number from 1 on, once, and [first, step, count] for each dimension"
            raise ConfigError(f"{source}: {found_it}, expected {expected}")
        for (first, step, many), apart, count in zip(triples, stride.tolist(), size, strict=True):
            if first + (many - 1) * step >= count:
                raise ConfigError(f"{source}: group {name} has {[first, step, many]}, expected coordinates below {count}")
            values = np.arange(many) * min(step, count) + first
            ranks = (values[:, None] * apart + ranks).ravel()
        members[number] = tuple(ranks.tolist())
    ranks = lattice.representatives
    system = read_system(folder / SYSTEM, folder)
    _check_traces(folder / CLASSES, "classes", len(ranks), source)
    trace = read_trace(folder / CLASSES, chunks=False, workload=True)
    prefixes, implementation = implementations(trace, system)
    known = content.collectives
    if unknown := [prefix for prefix in prefixes if prefix not in known]:
        raise ConfigError(
            f"{source}: collectives: nothing of {unknown[0]}, which {folder / SYSTEM} names, expected its positions"
        )
    collectives = tuple(_read_collective(folder, source, prefix, known[prefix]) for prefix in prefixes)
    memory = folder / MEMORY
    run = Run(
        workload=replace(trace, owners=ranks),
        system=system,
        network=network,
        groups=CommunicatorGroups(str(source), members),
        remote_memory=read_remote_memory(memory) if memory.is_file() else None,
        prefixes=prefixes,
        collectives=collectives,
        implementation=implementation,
        directory=folder,
        classes=lattice,
    )
    for name in run.columns.group_names:
        if name not in ("", "0") and group_id(name) not in members:
            raise ConfigError(
                f"{source}: has no group {describe(name)}, which {folder / CLASSES} names: expected its coordinates"
            )
    if checks:
        check_collectives(run)
    return run


def _read_collective(folder: Path, source: Path, prefix: str, content: _LatticeFile) -> CompactTrace:
    lattice = _lattice(source, f"collectives: {prefix}: ", content)
    _check_traces(folder / prefix, "positions", len(lattice.representatives), source)
    return CompactTrace(read_trace(folder / prefix, chunks=False), lattice)


def _check_traces(prefix: Path, owner: str, expected: int, source: Path) -> None:
    if (num_files := len(trace_files(prefix))) != expected:
        raise ConfigError(f"{prefix}: traces of {num_files} {owner}, expected {expected} as in {source}")


def fixed_dimensions(run: Run) -> list[int]:
    """Dimensions that must not be turned, as collectives do not treat their members alike; none if the classes are sound."""
    return _fixed(run, run.lattice, _used_groups(run))


def check_collectives(run: Run) -> None:
    """Check that collectives of a run with classes do the same in all ranks of a class.

    Raises
    ------
    ConfigError
        If they do not.
    """
    if fixed := fixed_dimensions(run):
        which = ", ".join(f"dimension {index}" for index in fixed)
        problem = f"{run.groups.source}: an algorithm such as halvingDoubling gives each rank a part by its number"
        raise ConfigError(f"{problem}, expected a period of {which} that is the size")


def _shown(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) or "none"


def _turns(dimension: Dimension) -> bool:
    """Whether a dimension looks the same after each turn."""
    return isinstance(dimension.building_block.translations(dimension.size), CyclicTranslations)


def smallest_period(size: int, dimension: Dimension, keeps: Callable[[int], bool]) -> int:
    """The smallest divisor of a dimension's size by which it may be turned, as `keeps` says; the size if there is none."""
    turns = (turn for turn in range(1, size) if size % turn == 0 and _turns(dimension))
    return next((turn for turn in turns if keeps(turn)), size)


def compact(run: Run) -> Run:
    """Find the ranks of an ordinary run that do the same at translated places: the run with classes.

    Raises
    ------
    ConfigError
        If there are none: the message names what differs.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer, generate, compact, expand, read_compact, read_network
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=16))
    >>> generated = generate(step, "steps", network="configs/network/torus_4x4.yml", compact=True)
    >>> run = expand(read_compact(generated.path, read_network("configs/network/torus_4x4.yml")))
    >>> run.workload.num_ranks, compact(run).workload.num_ranks
    (16, 1)
    """
    network, workload = run.network, run.workload
    size = tuple(dimension.size for dimension in network.dimensions)
    if why := why_not_compact(run):
        raise ConfigError(f"{workload.prefix}: {why}")
    if workload.num_ranks != math.prod(size):
        raise ConfigError(f"{workload.prefix}: traces of {workload.num_ranks} ranks, expected {math.prod(size)}")
    with _ONE_AT_A_TIME:  # several network models ask for the same run: the second one gets the first one's result
        plain, smallest, groups, why = _plain_and_periods(_keyed(run))
    if why:
        raise ConfigError(f"{workload.prefix}: {why}")
    plain, period = replace(run, workload=plain.workload, collectives=plain.collectives), list(smallest)
    while fixed := _fixed(plain, Lattice(size, tuple(period)), groups):
        for index in fixed:
            period[index] = size[index]
    if period == list(size):
        raise ConfigError(
            f"{workload.prefix}: an algorithm such as halvingDoubling gives each rank a part by its number, "
            "expected ring or direct"
        )
    lattice = Lattice(size, tuple(period))
    ranks = lattice.representatives
    rows = members_of(workload.rank_first, ranks)[1]
    some = replace(plain, workload=plain.workload.of_ranks(ranks), implementation=run.implementation[rows], classes=lattice)
    used = set(np.unique(group_ids(some.columns)).tolist())
    members = {number: ranks for number, ranks in run.groups.members.items() if number in used}
    return replace(some, groups=replace(run.groups, members=members), source=made_of(run, rows))


_ONE_AT_A_TIME = Lock()
_Uses = dict[int, set[tuple[int, int]]]
"""By group: (pattern, implementation) of the nodes that name it."""


def _keyed(run: Run) -> Keyed[Run]:
    """A run, equal to another one with the same arrays in its traces, groups and custom collectives.

    So runs that differ in native algorithms have their periods looked for once.
    """
    shape = tuple((dimension.size, _turns(dimension)) for dimension in run.network.dimensions)
    arrays = [id(getattr(of, field.name)) for of in (run.workload, run.columns) for field in fields(of)]
    arrays.remove(id(run.columns))  # its arrays count, not the object
    return Keyed((*arrays, id(run.groups), id(run.collectives), run.implementation.tobytes(), shape), run)


@lru_cache(maxsize=2)
def _plain_and_periods(keyed: Keyed[Run]) -> tuple[Run, tuple[int, ...], _Uses, str]:
    """The run with plain tags, the smallest periods of dimensions, what groups are used for, and why no ranks do the same."""
    run = _with_plain_tags(keyed.value)
    size = tuple(dimension.size for dimension in run.network.dimensions)
    marks = _marks(run, Lattice(size, size))
    labels = np.add.reduceat(marks, run.workload.rank_first[:-1]).reshape(size[::-1])
    period = []
    for index, dimension in enumerate(run.network.dimensions):
        axis = len(size) - 1 - index
        period.append(smallest_period(size[index], dimension, partial(_is_turned_same, labels, axis)))
    why = _what_differs(run, marks, labels) if tuple(period) == size else ""
    return run, tuple(period), _used_groups(run), why


def _is_turned_same(labels: _Words, axis: int, turn: int) -> bool:
    return np.array_equal(labels, np.roll(labels, turn, axis))


def why_not_compact(run: Run) -> str | None:
    """The reason why ranks of a run are not looked at for symmetry; None if they are."""
    network: NetworkConfig = run.network
    if not network.dimensions or network.failed_links or network.link_overrides or network.reducing:
        return "the network does not look the same from every NPU, expected whole dimensions"
    if run.slow or run.delay:
        behaviour = "are slower" if run.slow else "start later"
        return f"ranks that {behaviour} than others make all ranks differ"
    if run.remote_memory is not None and run.remote_memory.kind in ("pool", "per-node"):
        return "ranks share remote memory, expected none"
    return None


def _with_plain_tags(run: Run) -> Run:
    """The run with the tags between two ranks numbered, so that they say nothing of the ranks: the same messages meet.

    Tags stay if the workload and custom collectives, or two of these, have some in common.
    """
    traces = (run.workload, *_traces(run))
    used = [distinct(trace.tag[trace.tag >= 0] % TAGS) for trace in traces]
    if len(distinct(np.concatenate(used))) < sum(map(len, used)) or any(
        isinstance(collective, CompactTrace) for collective in run.collectives
    ):
        return run
    first = 0
    plain = []
    for trace in traces:
        tag = _plain_tags(trace, first)
        plain.append(replace(trace, tag=tag))
        first = max(first, int(tag.max(initial=-1)) + 1)
    return replace(run, workload=plain[0], collectives=tuple(plain[1:]))


def _plain_tags(trace: Trace, first: int) -> Ints:
    """int64[num_nodes], tags of which those between two ranks are numbered in their order, from a first one on."""
    rows = np.flatnonzero(((trace.kind == NodeType.COMM_SEND) | (trace.kind == NodeType.COMM_RECV)) & (trace.tag >= 0))
    rank, peer, meets = trace.rank[rows], trace.peer[rows], trace.tag[rows] % TAGS
    sends = trace.kind[rows] == NodeType.COMM_SEND
    ranks = trace.num_ranks + int(peer.max(initial=0)) + 1
    pair = np.where(sends, rank, peer) * ranks + np.where(sends, peer, rank)
    (pairs, _), which = np.unique(np.stack((pair, meets)), axis=1, return_inverse=True)
    plain = trace.tag.copy()
    plain[rows] = first + (np.arange(len(pairs)) - np.searchsorted(pairs, pairs))[which.ravel()]
    return plain


def _traces(run: Run) -> Iterator[Trace]:
    """The traces of custom collectives, of some positions at least."""
    return (collective.trace if isinstance(collective, CompactTrace) else collective for collective in run.collectives)


def _used_groups(run: Run) -> _Uses:
    """The collectives of each group that nodes name: (pattern, implementation), of nodes that run one."""
    chosen = np.flatnonzero((run.workload.kind == NodeType.COMM_COLL) & np.isin(run.columns.comm_type, list(PATTERN_KEYS)))
    known, group = np.unique(group_ids(run.columns)[chosen], return_inverse=True)
    implementation_of = run.implementation[chosen].astype(np.int64) - NATIVE
    most, patterns = int(implementation_of.max(initial=0)) + 1, max(PATTERN_KEYS) + 1
    case = (group * patterns + run.columns.comm_type[chosen]) * most + implementation_of
    used: _Uses = {}
    for case_key in distinct(case).tolist():
        rest, implementation = divmod(case_key, most)
        place, pattern = divmod(rest, patterns)
        used.setdefault(int(known[place]), set()).add((pattern, implementation + NATIVE))
    return used


def _fixed(run: Run, lattice: Lattice, groups: _Uses) -> list[int]:
    """Dimensions that must not be turned, as collectives of these groups do not treat their members alike."""
    fixed: set[int] = set()
    checked: dict[tuple[object, ...], bool] = {}
    for number, uses in groups.items():
        everyone = np.arange(lattice.num_ranks)
        members = everyone if number == ALL_RANKS else np.array(run.groups.members.get(number, ()), np.int64)
        values = lattice.values(members, f"{run.groups.source}: group {number}")
        counts = [len(digit) for digit in values]
        many = [index for index, count in enumerate(counts) if count > 1]
        for index in many:
            size, period, digit = lattice.size[index], lattice.period[index], values[index]
            if period == size:
                continue
            # A group with all values of the digit stays itself in every turn, and the first turn reorders it: one is enough.
            turns = np.arange(period, size if len(digit) < size else period + 1, period)[:, None]
            turned = np.sort((digit + turns) % size, axis=1)
            same = (turned == digit).all(axis=1)
            apart = ~np.isin(turned, digit).any(axis=1)
            wraps = (digit + turns) // size
            keeps_order = (wraps == wraps[:, :1]).all(axis=1)
            if not (same | apart).all():
                fixed.add(index)
                continue
            if keeps_order.all():
                continue
            turn = (int(np.argmax(same)) + 1) * period if same.any() else 0
            for pattern, implementation in uses:
                natives = run.system.native.get(PATTERN_KEYS[pattern], ())  # type: ignore[index]
                case = (len(members), *counts, index, turn, pattern, implementation, index == many[-1])
                if case not in checked:
                    if implementation == NATIVE:
                        checked[case] = _is_turned(natives, index, index == many[-1], len(members) == lattice.num_ranks)
                    else:
                        step = int(np.count_nonzero((digit + turn) // size)) if turn else 0
                        checked[case] = bool(turn) and _is_same(run.collectives[implementation], counts, index, step)
                if not checked[case]:
                    fixed.add(index)
    return sorted(fixed)


def _is_turned(natives: Sequence[str], index: int, is_outermost: bool, is_everyone: bool) -> bool:
    """Whether native algorithms do the same when a dimension is turned."""
    if is_everyone and not (natives and natives[0].startswith("one")):
        own_natives = natives[index : index + 1]
        return not any(name.startswith("one") for name in natives) and all(_is_cyclic(name) for name in own_natives)
    return is_outermost and ((len(natives) > 1 and not is_everyone) or all(_is_cyclic(name) for name in natives[:1]))


def _is_cyclic(name: str) -> bool:
    return name.rstrip("0123456789") in _CYCLIC


def _turned_places(counts: list[int], index: int, step: int) -> Ints:
    """Where the positions of a group go when `step` of the values of a digit move past the end."""
    digits = np.stack(np.unravel_index(np.arange(math.prod(counts)), counts[::-1]))[::-1]
    digits[index] = (digits[index] + step) % counts[index]
    place: Ints = np.ravel_multi_index(tuple(digits[::-1]), counts[::-1]).astype(np.int64)
    return place


def _is_same(trace: Trace | CompactTrace, counts: list[int], index: int, step: int) -> bool:
    """Whether positions do the same in a custom collective when `step` of the values of a digit move past the end."""
    if isinstance(trace, CompactTrace):
        return trace.is_turned(counts, index, step)
    place = _turned_places(counts, index, step)
    members = len(place)
    if trace.num_ranks < members:
        return False
    left, right = trace.of_ranks(np.arange(members)), trace.of_ranks(place)
    if not np.array_equal(left.rank_first, right.rank_first) or not np.array_equal(left.dep_first, right.dep_first):
        return False
    moved = np.append(place, np.full(max(0, int(left.peer.max(initial=0)) + 1 - members), ABSENT))
    peer = np.where(left.peer < 0, left.peer, moved[left.peer])
    names = ("node_id", "kind", "duration_us", "size_bytes", "tag", "dep")
    return np.array_equal(peer, right.peer) and all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def _marks(run: Run, lattice: Lattice) -> _Words:
    """uint64[num_nodes], equal for nodes at one place of two ranks' traces that are the same at translated places."""
    trace, columns = run.workload, run.columns
    rank = trace.rank
    stride, size, _ = lattice.columns

    def away(other: Ints) -> Ints:
        result = np.zeros(len(other), np.int64)
        for apart, count in zip(stride.tolist(), size.tolist(), strict=True):
            result += (other // apart - rank // apart) % count * apart
        return np.where((other < 0) | (other >= lattice.num_ranks), -2 - np.abs(other), result)

    local = np.arange(trace.num_nodes) - trace.rank_first[rank]
    mark = mixed(local.astype(np.uint64))
    parts: list[NDArray[Any]] = [trace.node_id, trace.kind, trace.duration_us, trace.size_bytes, trace.tag, run.implementation]
    parts += [columns.comm_type, columns.num_ops, columns.tensor_size, columns.comm_priority, columns.is_cpu_op]
    parts += [columns.involved_dims, columns.involved_count, columns.wrong_type, columns.no_value]
    parts += [away(trace.peer), away(columns.own), _group_marks(run, lattice)]
    for part in parts:
        mark = mixed(mark ^ part.astype(np.int64).view(np.uint64))
    waits = np.diff(trace.dep_first)
    if len(trace.dep):
        node = np.repeat(np.arange(trace.num_nodes), waits)
        entry = np.arange(len(trace.dep)) - trace.dep_first[node]
        before = np.where(trace.dep < 0, -1, trace.dep - trace.rank_first[rank[node]])
        hashes = mixed(mixed(before.view(np.uint64)) ^ entry.astype(np.uint64))
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes)))
        waited: _Words = total[trace.dep_first[1:]] - total[trace.dep_first[:-1]]
        mark = mixed(mark ^ waited ^ waits.astype(np.uint64))
    return mark


def _group_marks(run: Run, lattice: Lattice) -> Ints:
    """int64[num_nodes], equal where a node's group has its members at equal distances from the node's rank."""
    ids, rank = group_ids(run.columns), run.workload.rank
    marks = np.where(ids < 0, ids, 0)
    named = ids > 0
    pair = ids[named] * lattice.num_ranks + rank[named]
    distinct, which = np.unique(pair, return_inverse=True)
    mark_of = np.zeros(len(distinct), np.uint64)
    group_of, rank_of = np.divmod(distinct, lattice.num_ranks)
    for number in np.unique(group_of).tolist():
        members = np.array(run.groups.members.get(number, ()), np.int64)
        if not len(members) or members.max() >= lattice.num_ranks:
            continue
        chosen = np.flatnonzero(group_of == number)
        here = lattice.digits(rank_of[chosen])
        mark = np.full(len(chosen), len(members), np.uint64)
        for index, values in enumerate(lattice.values(members, f"{run.groups.source}: group {number}")):
            apart = (values - here[index][:, None]) % lattice.size[index]
            mark = mixed(mark ^ mixed(apart.astype(np.uint64)).sum(axis=1, dtype=np.uint64))
        mark_of[chosen] = mark
    marks[named] = mark_of.view(np.int64)[which]
    return marks


def _what_differs(run: Run, marks: _Words, labels: _Words) -> str:
    """A rank and node that differ from those of another rank, in the translation that keeps most ranks."""
    trace, flat = run.workload, np.arange(labels.size).reshape(labels.shape)
    best: tuple[int, int, int] | None = None
    for axis, (size, dimension) in enumerate(zip(labels.shape, reversed(run.network.dimensions), strict=True)):
        for turn in (turn for turn in range(1, size) if size % turn == 0 and _turns(dimension)):
            differs = labels != np.roll(labels, turn, axis)
            both = differs & np.roll(differs, -turn, axis)
            rank = int(flat[both if both.any() else differs].ravel()[0])
            case = (int(differs.sum()), rank, int(np.roll(flat, turn, axis).ravel()[rank]))
            best = min(best or case, case)
    if best is None:
        return "no dimension looks the same after a turn, expected a Ring, Switch or FullyConnected"
    _, rank, other = best
    rows, others = (marks[trace.rank_first[begin_rank] : trace.rank_first[begin_rank + 1]] for begin_rank in (rank, other))
    length = min(len(rows), len(others))
    unlike = rows[:length] != others[:length]
    if not unlike.any():
        return f"rank {rank} has {len(rows):,} nodes, but rank {other} has {len(others):,}"
    node = trace.describe_node(int(trace.rank_first[rank]) + int(np.argmax(unlike)))
    return f"{node} differs from that of rank {other}, the first that does"
