"""The oracle for symmetric schedules: proves sends of all NPUs from the rows of NPU 0 and the network's description.

It shares no code with synthesizers, with the translations that they use, or with the expansion to an ordinary schedule. What it
does not know it refuses. docs/symmetric.md has the whole argument; in short:

1. The network looks the same from every NPU. For each dimension, the oracle makes permutations of its own (turns, flips of
   bits, steps along two axes), and checks that they map the links of the building block, as described, onto the same links, and
   are the translations that the block claims. What a description says of a dimension (bandwidth, latency) holds for all its
   links, and a network with failed or other links is refused.
2. Copy n of a row, moved by translation n, uses the one link (or the two ports of a switch) that this translation moves the row's
   link to. So each link is used exactly once by all copies of a row, at the same moment as by all others of its class. Hence no
   link is double-booked if no two rows of one class overlap in time.
3. What the chunks of NPU 0 undergo is checked row by row. Those of the others undergo the same, moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock
from astra_tacos.network.network_config import Dimension
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.value_oracle import comp_ns
from astra_tacos.verifier.violation import Violation

MOST_VIOLATIONS = 1000
"""Most violations of a kind that are listed."""
_Members = Ints
_DELAY_LIMIT = float(1 << 52)


def verify_symmetric(schedule: SymmetricSchedule) -> tuple[Violation, ...]:
    """Violations of a symmetric schedule; none if all its sends together are legal and compute its collective.

    Later checks are left out where they would rest on what earlier ones found to be wrong.

    Examples
    --------
    >>> from astra_tacos import Dimension, SymmetricTask, synthesize_symmetric, verify_symmetric
    >>> task = SymmetricTask("torus", (Dimension("Ring", 32, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined")
    >>> schedule = synthesize_symmetric(task)
    >>> verify_symmetric(schedule)
    ()
    """
    task = schedule.task
    violations = _check_network(task.dimensions) or _check_columns(schedule)
    if violations:
        return tuple(violations)
    links = _Links.of(task.dimensions, schedule.src.astype(np.int64), schedule.dst.astype(np.int64))
    for row in np.flatnonzero(links.number < 0)[:MOST_VIOLATIONS].tolist():
        text = f"row {row}: NPU {schedule.src[row]} to NPU {schedule.dst[row]}, between which there is no link and no switch"
        violations.append(Violation("no-such-channel", text, row))
    if violations:
        return tuple(violations)
    violations += _check_sizes(schedule)
    violations += _check_times(schedule, links)
    if task.collective == "all-to-all":
        violations += _check_paths(schedule)
    else:
        violations += _check_sums(schedule)
        violations += _check_copies(schedule)
    return tuple(violations)


def check_symmetric(schedule: SymmetricSchedule) -> None:
    """Check that a symmetric schedule has no violations.

    Raises
    ------
    VerificationError
        If it has.
    """
    violations = verify_symmetric(schedule)
    if violations:
        raise VerificationError(f"{len(violations)} violations, the first: {violations[0]}")


# The network: translations of the oracle's own, and what proves them.


@dataclass(frozen=True, slots=True)
class _Motion:
    """How translations move the members of a block: what generates them, and which one takes one member to another."""

    generators: Callable[[int], list[_Members]]
    difference: Callable[[int, _Members, _Members], _Members]


def _turn(size: int) -> list[_Members]:
    return [np.roll(np.arange(size), -1)]


def _flips(size: int) -> list[_Members]:
    if size & (size - 1):
        return []
    return [np.arange(size) ^ (1 << bit) for bit in range(size.bit_length() - 1)]


_CYCLIC = _Motion(_turn, lambda size, src, dst: np.where(dst >= src, dst - src, size + dst - src))
_BITWISE = _Motion(_flips, lambda size, src, dst: np.bitwise_xor(src, dst))


def _motion(dimension: Dimension) -> _Motion | None:
    """Motions that map the links of a block onto themselves and are those that the block claims; None if none are found."""
    return _motion_of(dimension.building_block, dimension.size)


@lru_cache(maxsize=128)
def _motion_of(block: BuildingBlock, size: int) -> _Motion | None:
    claimed, everyone = block.translations(size), np.arange(size)
    if claimed is None:
        return None
    links = block.links(size)
    num_devices = size + links.num_switches
    keys = _link_keys(links.src, links.dst, num_devices)
    for motion in (_CYCLIC, _BITWISE, _lattice(links, size)):
        generators = [] if motion is None else motion.generators(size)
        fits = bool(generators) and _is_transitive(generators)
        for generator in generators:
            devices = np.concatenate((generator, np.arange(size, num_devices)))
            fits = fits and np.array_equal(np.sort(generator), everyone)
            fits = fits and np.array_equal(_link_keys(devices[links.src], devices[links.dst], num_devices), keys)
            fits = fits and np.array_equal(claimed.move(everyone, np.full(size, generator[0])), generator)
        if fits:
            return motion
    return None


def _lattice(links: BlockLinks, size: int) -> _Motion | None:
    """Motions of a block whose members have four links: steps along the first and the third one, in the order of the links.

    A member is `across` steps of one and `along` steps of the other away from member 0. After as many steps along as there are
    rows, one is back in the first row, `shift` steps across. None if steps do not commute or miss a member.
    """
    everyone = np.arange(size)
    if links.num_switches or not np.array_equal(links.src, np.tile(everyone, 4)):
        return None
    right, up = links.dst[:size], links.dst[2 * size : 3 * size]
    if not np.array_equal(right[up], up[right]):
        return None
    first = [0]
    while int(right[first[-1]]) != 0 and len(first) <= size:
        first.append(int(right[first[-1]]))
    rows = [np.array(first)]
    while int(up[rows[-1][0]]) not in first and len(rows) <= size:
        rows.append(up[rows[-1]])
    member_at = np.array(rows)
    height, width = member_at.shape
    if not np.array_equal(np.sort(member_at.ravel()), everyone):
        return None
    shift = first.index(int(up[member_at[-1, 0]]))
    along, across = np.divmod(np.argsort(member_at.ravel()), width)

    def difference(size: int, src: _Members, dst: _Members) -> _Members:
        rows = along[dst] - along[src]
        columns = across[dst] - across[src] - np.where(rows < 0, shift, 0)
        differences: _Members = member_at[rows % height, columns % width]
        return differences

    return _Motion(lambda size: [right, up], difference)


def _check_network(dimensions: tuple[Dimension, ...]) -> list[Violation]:
    """Check that translations that the oracle knows of map every block's links onto themselves, and reach all members."""
    if not dimensions:
        return [Violation("not-symmetric", "the network has no dimensions, expected a product of some")]
    violations = []
    for index, dimension in enumerate(dimensions):
        if dimension.building_block.expected_size(dimension.size) is not None or _motion(dimension) is None:
            block_text = f"dimension {index}, {dimension.block} {dimension.size}"
            violations.append(
                Violation(
                    "not-symmetric",
                    f"{block_text}: no translation keeps its links, expected a block that looks the same from every NPU",
                )
            )
    return violations


def _link_keys(src: _Members, dst: _Members, num_devices: int) -> _Members:
    return np.sort(src * num_devices + dst)


def _is_transitive(generators: list[_Members]) -> bool:
    """Whether steps of the generators, one generator after another, lead from member 0 to every member."""
    reached = np.zeros(len(generators[0]), np.bool_)
    reached[0] = True
    for generator in generators:
        several = generator
        for _ in range(len(reached).bit_length()):
            reached[several[np.flatnonzero(reached)]] = True
            several = several[several]
    return bool(reached.all())


@dataclass(frozen=True, slots=True)
class _Links:
    """What rows use.

    Parameters
    ----------
    number
        int64[num_rows], the class of links, -1 where there is none.
    dimension
        int64[num_rows], the dimension that they belong to.
    through_switch
        bool[num_rows], whether they are the ports of a switch.
    """

    number: _Members
    dimension: _Members
    through_switch: Bools

    @classmethod
    def of(cls, dimensions: tuple[Dimension, ...], src: _Members, dst: _Members) -> _Links:
        """The class of a direct link is the translation that takes its begin to its end; that of a port is its switch."""
        number = np.full(len(src), -1)
        which = np.full(len(src), -1)
        through = np.zeros(len(src), np.bool_)
        differing = np.zeros(len(src), np.int64)
        rest_src, rest_dst, base = src, dst, 0
        for index, dimension in enumerate(dimensions):
            rest_src, a = np.divmod(rest_src, dimension.size)
            rest_dst, b = np.divmod(rest_dst, dimension.size)
            rows = np.flatnonzero(a != b)
            differing[rows] += 1
            motion = _motion(dimension)
            assert motion is not None
            difference = motion.difference(dimension.size, a[rows], b[rows])
            links = dimension.building_block.links(dimension.size)
            out = links.dst[links.src == 0]
            direct = out[out < dimension.size]
            is_direct = np.isin(difference, direct)
            number[rows[is_direct]] = base + difference[is_direct]
            for switch in out[out >= dimension.size].tolist():
                reached = links.dst[links.src == switch]
                switched = rows[~is_direct & np.isin(difference, reached)]
                number[switched] = base + switch
                through[switched] = True
            which[rows] = index
            base += dimension.size + links.num_switches
        number[differing != 1] = -1
        return cls(number, which, through)


# The rows.


def _check_columns(schedule: SymmetricSchedule) -> list[Violation]:
    columns = (schedule.chunk, schedule.src, schedule.dst, schedule.reduces, schedule.start_ns, schedule.end_ns)
    if len({len(column) for column in columns}) != 1:
        return [
            Violation("shape", f"columns have {', '.join(str(len(column)) for column in columns)} rows, expected as many each")
        ]
    violations = []
    task = schedule.task
    for name, column, count in (
        ("chunk", schedule.chunk, task.num_chunks),
        ("source", schedule.src, task.num_npus),
        ("destination", schedule.dst, task.num_npus),
    ):
        for row in np.flatnonzero((column < 0) | (column >= count))[:MOST_VIOLATIONS].tolist():
            violations.append(Violation("no-such-" + name, f"row {row}: {name} {column[row]}, expected 0 to {count - 1}", row))
    return violations


def _check_sizes(schedule: SymmetricSchedule) -> list[Violation]:
    task = schedule.task
    parts = task.chunks_per_npu * (1 if task.collective == "all-gather" else task.num_npus)
    if task.chunks_per_npu < 1 or not (task.chunk_bytes - 1) * parts < task.size_bytes <= task.chunk_bytes * parts:
        text = f"chunks count as {task.chunk_bytes} bytes, expected the largest of {parts} parts of {task.size_bytes} bytes"
        return [Violation("size-sum", text)]
    return []


def _check_times(schedule: SymmetricSchedule, links: _Links) -> list[Violation]:
    """Check that delays are those of the links, and that no two sends of a class take the same port at the same time."""
    task, start, end = schedule.task, schedule.start_ns, schedule.end_ns
    bandwidth = np.array([d.bandwidth_gibps for d in task.dimensions]) * float(1 << 30) / 1e9
    size = np.full(len(bandwidth), float(task.chunk_bytes))
    if task.link_model == "pipelined" and task.chunks_per_npu == 1:  # no message takes less than 1 ns
        size = np.maximum(size, np.ceil(bandwidth))
    latency = np.array([d.latency_ns for d in task.dimensions])
    violations = []
    if np.any(latency + size / bandwidth >= _DELAY_LIMIT):
        return [Violation("delay", "a chunk takes longer than 2**52 ns")]
    one_link = np.floor(latency + size / bandwidth).astype(np.int64)[links.dimension]
    if task.link_model == "blocking":
        switched = np.floor(latency + latency + size / bandwidth).astype(np.int64)[links.dimension]
        delay = np.where(links.through_switch, switched, one_link)
        hold = delay
    else:
        delay = np.where(links.through_switch, 2 * one_link, one_link)
        hold = np.floor(size / bandwidth).astype(np.int64)[links.dimension]
    for row in np.flatnonzero(start < 0)[:MOST_VIOLATIONS].tolist():
        violations.append(Violation("negative-start", f"row {row} starts at {start[row]} ns", row, None, None, int(start[row])))
    for row in np.flatnonzero(hold < 1)[:MOST_VIOLATIONS].tolist():
        violations.append(Violation("delay", f"row {row} holds its link for less than 1 ns", row))
    for row in np.flatnonzero(end - start != delay)[:MOST_VIOLATIONS].tolist():
        text = f"row {row} takes {end[row] - start[row]} ns, expected {delay[row]}"
        violations.append(Violation("delay", text, row, None, None, int(start[row])))
    for row in (np.flatnonzero(np.diff(start) < 0) + 1)[:MOST_VIOLATIONS].tolist():
        violations.append(Violation("unordered", f"row {row} starts before the row before it", row, None, None, int(start[row])))
    # All rows of a class take the same time, so ports at the other end, taken later, are free if those at this end are.
    order = np.lexsort((start, links.number))
    same = links.number[order][1:] == links.number[order][:-1]
    early = same & (start[order][1:] < (start + hold)[order][:-1])
    for place in np.flatnonzero(early)[:MOST_VIOLATIONS].tolist():
        row, before = int(order[place + 1]), int(order[place])
        until = start[before] + hold[before]
        text = f"row {row} takes links of its class at {start[row]} ns, while row {before} holds them until {until} ns"
        violations.append(
            Violation("double-booked", text, row, int(schedule.src[row]), int(schedule.chunk[row]), int(start[row]))
        )
    return violations


def _reduction_ns(schedule: SymmetricSchedule) -> int:
    """How long an NPU takes to add a received chunk."""
    return int(comp_ns(np.array([schedule.task.chunk_bytes]), schedule.task.timing)[0])


def _check_sums(schedule: SymmetricSchedule) -> list[Violation]:
    """Of what reduces: every NPU but 0 sends each chunk's sum once, after all that it receives of it has been added."""
    task = schedule.task
    rows = np.flatnonzero(schedule.reduces)
    if not task.reduces:
        return _wrong_phase(rows, "reduces, expected that it copies")
    width = task.num_npus
    key = schedule.chunk[rows].astype(np.int64) * width + schedule.src[rows]
    violations = _miscounted(schedule, key, "sends its sum of")
    leaves = np.full(width * task.chunks_per_npu, np.iinfo(np.int64).max)
    np.minimum.at(leaves, key, schedule.start_ns[rows])
    into = schedule.chunk[rows].astype(np.int64) * width + schedule.dst[rows]
    usable = schedule.end_ns[rows] + _reduction_ns(schedule)
    for row in rows[usable > leaves[into]][:MOST_VIOLATIONS].tolist():
        text = f"row {row} brings NPU {schedule.dst[row]} a contribution after it has sent its sum away"
        violations.append(Violation("counted-out", text, row, int(schedule.dst[row]), int(schedule.chunk[row])))
    return violations


def _check_copies(schedule: SymmetricSchedule) -> list[Violation]:
    """Of what copies: every NPU but 0 receives each chunk once, and nobody sends on what is not there yet."""
    task = schedule.task
    rows = np.flatnonzero(~schedule.reduces)
    if not task.gathers:
        return _wrong_phase(rows, "copies, expected that it reduces")
    width = task.num_npus
    into = schedule.chunk[rows].astype(np.int64) * width + schedule.dst[rows]
    violations = _miscounted(schedule, into, "receives")
    there = np.full(width * task.chunks_per_npu, np.iinfo(np.int64).max)
    np.minimum.at(there, into, schedule.end_ns[rows])
    at_root = np.zeros(task.chunks_per_npu, np.int64)
    reducing = np.flatnonzero(schedule.reduces & (schedule.dst == 0))
    np.maximum.at(at_root, schedule.chunk[reducing], schedule.end_ns[reducing] + _reduction_ns(schedule))
    there[np.arange(task.chunks_per_npu) * width] = at_root
    out_of = schedule.chunk[rows].astype(np.int64) * width + schedule.src[rows]
    violations += _absent(schedule, rows[schedule.start_ns[rows] < there[out_of]])
    return violations


def _check_paths(schedule: SymmetricSchedule) -> list[Violation]:
    """Of personalised chunks: each goes from NPU 0 to its target, and leaves an NPU once it is there."""
    task = schedule.task
    violations = _wrong_phase(np.flatnonzero(schedule.reduces), "reduces, expected that it copies")
    order = np.lexsort((schedule.start_ns, schedule.chunk))
    chunk, src, dst = schedule.chunk[order], schedule.src[order], schedule.dst[order]
    first = np.r_[True, chunk[1:] != chunk[:-1]][: len(chunk)]
    last = np.r_[chunk[1:] != chunk[:-1], True][: len(chunk)]
    counts = np.bincount(chunk[first], minlength=task.num_chunks)
    for missing in np.flatnonzero(counts == 0)[:MOST_VIOLATIONS].tolist():
        violations.append(Violation("incomplete", f"chunk {missing} is never sent", None, 0, missing))
    before, arrived = np.r_[0, dst[:-1]][: len(dst)], np.r_[0, schedule.end_ns[order][:-1]][: len(dst)]
    wrong = np.where(first, src != 0, (src != before) | (schedule.start_ns[order] < arrived))
    violations += _absent(schedule, order[np.flatnonzero(wrong)])
    target = chunk // task.chunks_per_npu + 1
    for place in np.flatnonzero(last & (dst != target))[:MOST_VIOLATIONS].tolist():
        text = f"chunk {chunk[place]} ends at NPU {dst[place]}, expected NPU {target[place]}"
        violations.append(Violation("incomplete", text, int(order[place]), int(dst[place]), int(chunk[place])))
    visits = np.sort(chunk.astype(np.int64) * task.num_npus + dst)
    for key in visits[1:][np.diff(visits) == 0][:MOST_VIOLATIONS].tolist():
        npu, number = key % task.num_npus, key // task.num_npus
        violations.append(Violation("redundant-send", f"NPU {npu} receives chunk {number} twice", None, npu, number))
    for place in np.flatnonzero(dst == 0)[:MOST_VIOLATIONS].tolist():
        text = f"chunk {chunk[place]} comes back to NPU 0, which has it"
        violations.append(Violation("redundant-send", text, int(order[place]), 0, int(chunk[place])))
    return violations


def _absent(schedule: SymmetricSchedule, rows: NDArray[np.integer]) -> list[Violation]:
    violations = []
    for row in rows[:MOST_VIOLATIONS].tolist():
        text = f"row {row} sends chunk {schedule.chunk[row]} from NPU {schedule.src[row]}, where it is not yet"
        violations.append(
            Violation("chunk-absent", text, row, int(schedule.src[row]), int(schedule.chunk[row]), int(schedule.start_ns[row]))
        )
    return violations


def _wrong_phase(rows: NDArray[np.integer], problem: str) -> list[Violation]:
    return [Violation("wrong-phase", f"row {row} {problem}", row) for row in rows[:MOST_VIOLATIONS].tolist()]


def _miscounted(schedule: SymmetricSchedule, key: Ints, does: str) -> list[Violation]:
    """Violations unless every NPU but 0 has each chunk once, by keys `chunk * num_npus + npu`."""
    shape = schedule.task.chunks_per_npu, schedule.task.num_npus
    counts = np.bincount(key, minlength=shape[0] * shape[1]).reshape(shape)
    expected = np.ones(shape[1], np.int64)
    expected[0] = 0
    violations = []
    for chunk, npu in np.argwhere(counts != expected)[:MOST_VIOLATIONS].tolist():
        text = f"NPU {npu} {does} chunk {chunk} {counts[chunk, npu]} times, expected {expected[npu]}"
        code = "redundant-send" if counts[chunk, npu] > expected[npu] else "incomplete"
        violations.append(Violation(code, text, None, npu, chunk))
    return violations
