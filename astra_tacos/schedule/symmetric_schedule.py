"""SymmetricSchedule: a schedule in which all NPUs do the same at the same moments, kept as what concerns NPU 0's chunks.

On disk it is one `.npz` with the sends of NPU 0's chunks and the description of the network. Its exact time follows from these
sends alone.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import MAX_CHUNKS
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import MAX_NPUS, Dimension, NetworkConfig
from astra_tacos.network.rotations import ClassTable, LinkClass, TranslationGroup, class_table, star, why_not_symmetric
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import LONG_NS, UNITS_PER_NS, links_of, settle
from astra_tacos.schedule.storage import columns_of_sends, dimension, load_schedule, timing_model
from astra_tacos.schedule.timing import (
    LinkModel,
    Timing,
    compute_timing,
    refuse_instant,
    timing_of_sizes,
    untruncated,
)
from astra_tacos.support.archive import opened_archive, text, whole, write_archive
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.records import freeze
from astra_tacos.support.units import MAX_SIZE_BYTES, bytes_per_ns

SYMMETRIC_COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
"""Collectives in which all NPUs play the same part."""
MOST_SENDS = 20_000_000
"""Sends that can be listed one by one; 50 million of `ring` on 5,000 NPUs took 200 s and 8.8 GB."""


@dataclass(frozen=True)
class SymmetricTask:
    """A collective over all NPUs of a network that looks the same from every NPU, in O(1) memory.

    Parameters
    ----------
    name
        What to call the network in print.
    dimensions
        The network: the product of these, all of whose links work alike.
    collective
        One of `SYMMETRIC_COLLECTIVES`.
    size_bytes, chunks_per_npu
        As `COLLECTIVES` takes them.
    link_model, reduce_bandwidth_gbps
        As `compute_timing` takes them.

    Raises
    ------
    ConfigError
        If the network does not look the same from every NPU, NPUs play different parts in the collective, or there are more
        chunks than bytes.

    Examples
    --------
    >>> from astra_tacos import Dimension, SymmetricTask
    >>> SymmetricTask("torus", (Dimension("Ring", 1000, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined").num_npus
    1000000
    """

    name: str
    dimensions: tuple[Dimension, ...]
    collective: str
    size_bytes: int
    chunks_per_npu: int
    link_model: LinkModel
    reduce_bandwidth_gbps: float = 0.0

    def __post_init__(self) -> None:
        reason = why_not_symmetric(self.dimensions)
        if reason is not None:
            raise ConfigError(f"{self.name}: {reason}")
        if self.collective not in SYMMETRIC_COLLECTIVES:
            raise ConfigError(f"collective: found {self.collective!r}, expected {', '.join(SYMMETRIC_COLLECTIVES)}")
        if not 2 <= self.num_npus <= MAX_NPUS:
            raise ConfigError(f"{self.name}: found {self.num_npus:,} NPUs, expected 2 to {MAX_NPUS:,}")
        parts = self.num_parts
        if self.chunks_per_npu < 1 or not parts <= self.size_bytes <= MAX_SIZE_BYTES:
            expected = f"expected at least one byte per chunk, and at most {MAX_SIZE_BYTES}"
            raise ConfigError(f"{self.collective}: {self.size_bytes} bytes in {parts} chunks, {expected}")

    @cached_property
    def group(self) -> TranslationGroup:
        """The translations of its network."""
        return TranslationGroup(self.dimensions)

    @cached_property
    def num_npus(self) -> int:
        """Number of NPUs."""
        return self.group.num_npus

    @cached_property
    def table(self) -> ClassTable:
        """The classes of its links, with what networks of the same shape have in common."""
        return class_table(self.dimensions)

    @property
    def classes(self) -> tuple[LinkClass, ...]:
        """The classes of its links."""
        return self.table.classes

    @property
    def chunk_bytes(self) -> int:
        """Size of the largest chunk, which all chunks count as: they differ by a byte at most."""
        return -(-self.size_bytes // self.num_parts)

    @property
    def num_parts(self) -> int:
        """Chunks that `size_bytes` are cut into."""
        return self.chunks_per_npu * (1 if self.collective == "all-gather" else self.num_npus)

    @property
    def num_chunks(self) -> int:
        """Number of chunks that NPU 0 owns."""
        return self.chunks_per_npu * (self.num_npus - 1 if self.collective == "all-to-all" else 1)

    def moved_chunk(self, chunk: Ints, owner: Ints) -> Ints:
        """The numbers of chunks in the whole collective: those of NPU 0's chunks, moved to other owners. Arguments broadcast."""
        if self.collective != "all-to-all":
            return owner * self.chunks_per_npu + chunk
        target = self.group.move(chunk // self.chunks_per_npu + 1, owner)
        place = owner * (self.num_npus - 1) + target - (target > owner)
        return place * self.chunks_per_npu + chunk % self.chunks_per_npu

    @property
    def reduces(self) -> bool:
        """Whether every NPU has a contribution to every chunk."""
        return self.collective in ("reduce-scatter", "all-reduce")

    @property
    def gathers(self) -> bool:
        """Whether every NPU needs every chunk."""
        return self.collective in ("all-gather", "all-reduce")

    @property
    def buffer_bytes(self) -> int:
        """Size of the whole buffer, as of `Collective`."""
        return self.size_bytes * (self.num_npus if self.collective == "all-gather" else 1)

    @property
    def num_phases(self) -> int:
        """2 to reduce and gather, else 1."""
        return 2 if self.reduces and self.gathers else 1

    @property
    def least_rows(self) -> int:
        """Least number of sends of NPU 0's chunks."""
        return self.num_phases * self.chunks_per_npu * (self.num_npus - 1)

    @cached_property
    def timing(self) -> Timing:
        """Delays by class and chunk size: channel i of the `star` of the network is of class i, the largest chunk comes last.

        Raises
        ------
        SynthesisError
            If a chunk is too small or too large for a link.
        """
        links = star(self.name, self.dimensions)
        sizes = np.array(sorted({self.size_bytes // self.num_parts, self.chunk_bytes}), np.int64)
        if self.chunks_per_npu > 1:
            refuse_instant(links, int(sizes[0]), self.link_model)
        return timing_of_sizes(links, sizes, self.link_model, self.reduce_bandwidth_gbps)

    @property
    def delay_ns(self) -> Ints:
        """int64[num_classes], from the start of a send to its arrival."""
        return self.timing.channel_delay_ns[:, -1]

    @property
    def hold_ns(self) -> Ints:
        """int64[num_classes], how long a send takes its port out of an NPU, and later, equally long, that into one."""
        timing = self.timing
        return self.delay_ns if timing.is_blocking else timing.link_hold_ns[: len(self.classes), -1]

    @property
    def truncation(self) -> float:
        """By what factor truncation to whole nanoseconds shortens the delay or hold of a class at most, 1 or more."""
        bandwidth = bytes_per_ns(np.array([d.bandwidth_gibps for d in self.dimensions]))
        latency = np.array([d.latency_ns for d in self.dimensions])
        exact = (self.chunk_bytes / bandwidth + (latency if self.timing.is_blocking else 0))[self.table.dimension]
        return max(1.0, float((exact / self.hold_ns).max()))

    @property
    def reduction_ns(self) -> int:
        """How long an NPU takes to add a chunk to its own."""
        return int(self.timing.reduction_ns[-1])


@dataclass(frozen=True, slots=True, eq=False)
class SymmetricSchedule:
    """Sends of NPU 0's chunks; those of NPU n's are the same, moved by the translation that takes NPU 0 to NPU n.

    So it takes memory for one row per row of NPU 0's chunks, and stands for as many sends as rows times NPUs. All chunks count
    as the largest one, which is a byte larger than others at most.

    Parameters
    ----------
    task
        The network, the collective and its chunks.
    chunk
        int32[num_rows], number of the chunk among NPU 0's: its piece of the shard or, of personalised data, `(target - 1) *
        chunks_per_npu + piece`.
    src, dst
        int32[num_rows], the NPUs between which it is sent, over one link or through one switch.
    reduces
        bool[num_rows], whether the destination adds the chunk to its own (else it stores a copy).
    start_ns, end_ns
        int64[num_rows], when it is sent, and when it has arrived; starts ascend.
    synthesizer
        Where it came from.

    Examples
    --------
    >>> from astra_tacos import Dimension, SymmetricTask, synthesize_symmetric
    >>> task = SymmetricTask("torus", (Dimension("Ring", 32, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined")
    >>> schedule = synthesize_symmetric(task)
    >>> schedule.num_sends == 1024 * len(schedule.src)
    True
    """

    task: SymmetricTask
    chunk: Ints32
    src: Ints32
    dst: Ints32
    reduces: Bools
    start_ns: Ints
    end_ns: Ints
    synthesizer: str = ""

    def __post_init__(self) -> None:
        freeze(self, *_COLUMNS)

    @property
    def num_rows(self) -> int:
        """Number of sends of NPU 0's chunks."""
        return len(self.chunk)

    @property
    def num_sends(self) -> int:
        """Number of sends of all chunks."""
        return self.num_rows * self.task.num_npus

    @property
    def collective_time_ns(self) -> int:
        """The time at which the last chunk is usable at its destination: on every NPU the same."""
        copied = self.end_ns[~self.reduces].max(initial=0)
        return int(max(copied, self.end_ns[self.reduces].max(initial=-self.task.reduction_ns) + self.task.reduction_ns))

    @property
    def link_class(self) -> Ints:
        """int64[num_rows], the class of links that each row goes over, -1 where there is none."""
        offset = self.task.group.offset(self.src.astype(np.int64), self.dst.astype(np.int64))
        class_of_row: Ints = self.task.table.class_of_offset[offset]
        return class_of_row

    def expand(self, topology: Topology | None = None) -> Schedule:
        """The ordinary schedule, with every send of every chunk.

        Its times are the same if all chunks have the same size. Otherwise the smaller ones are sent in the same order, as early
        as links and chunks allow.

        Parameters
        ----------
        topology
            The network, if it is there already.
        """
        task = self.task
        if topology is None:
            topology = build_topology(NetworkConfig(task.name, task.dimensions))
        collective = COLLECTIVES[task.collective](task.num_npus, task.size_bytes, task.chunks_per_npu)
        timing = compute_timing(topology, collective, task.link_model, task.reduce_bandwidth_gbps)
        channel = self._channels(topology).ravel()
        chunk = self._chunks().ravel()
        reduces = np.repeat(self.reduces, task.num_npus)
        start, end = np.repeat(self.start_ns, task.num_npus), np.repeat(self.end_ns, task.num_npus)
        if len(collective.class_size_bytes) > 1:
            return settle(Problem(topology, collective, timing), Sends(chunk, channel, reduces), self.synthesizer)
        return Schedule(topology, collective, timing, chunk, channel, reduces, start, end, self.synthesizer)

    def _channels(self, topology: Topology) -> Ints32:
        """int32[num_rows, num_npus], the channel of each row, moved to each NPU. Rows between the same NPUs share the work."""
        group, npus = self.task.group, self.task.num_npus
        everyone = np.arange(npus)
        ends, of_ends = np.unique(self.src.astype(np.int64) * npus + self.dst, return_inverse=True)
        src, dst = np.divmod(ends, npus)
        distinct, which = np.unique(group.offset(src, dst), return_inverse=True)
        out_of = np.stack([topology.channel_of(everyone, group.move(everyone, by)) for by in distinct[:, None]]).astype(np.int32)
        sources, source = np.unique(src, return_inverse=True)
        moved = group.move(sources[:, None], everyone[None])
        channels: Ints32 = out_of[which.ravel()[:, None], moved[source.ravel()]][of_ends.ravel()]
        return channels

    def _chunks(self) -> Ints32:
        """int32[num_rows, num_npus], the chunk of each row, moved to each NPU."""
        numbers, of_chunk = np.unique(self.chunk, return_inverse=True)
        moved = self.task.moved_chunk(numbers.astype(np.int64)[:, None], np.arange(self.task.num_npus)[None])
        chunks: Ints32 = moved.astype(np.int32)[of_chunk.ravel()]
        return chunks


FORMAT = "astra_tacos symmetric schedule 1"
_COLUMNS = {
    "chunk": np.int32,
    "src": np.int32,
    "dst": np.int32,
    "reduces": np.bool_,
    "start_ns": np.int64,
    "end_ns": np.int64,
}


def save_symmetric_schedule(schedule: SymmetricSchedule, path: str | Path) -> None:
    """Write a symmetric schedule through a temporary file beside it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import Dimension, SymmetricTask, save_symmetric_schedule, synthesize_symmetric
    >>> task = SymmetricTask("torus", (Dimension("Ring", 32, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined")
    >>> schedule = synthesize_symmetric(task)
    >>> save_symmetric_schedule(schedule, "torus.npz")
    >>> Path("torus.npz").is_file()
    True
    """
    task = schedule.task
    header = {
        "format": FORMAT,
        "network": task.name,
        "dimensions": [list(astuple(dimension)) for dimension in task.dimensions],
        "collective": task.collective,
        "size_bytes": task.size_bytes,
        "chunks_per_npu": task.chunks_per_npu,
        "link_model": task.link_model,
        "reduce_bandwidth_gbps": task.reduce_bandwidth_gbps,
        "synthesizer": schedule.synthesizer,
    }
    columns: dict[str, NDArray[Any]] = {name: getattr(schedule, name) for name in _COLUMNS}
    write_archive(Path(path), np.array(json.dumps(header)), columns)


def load_symmetric_schedule(path: str | Path) -> SymmetricSchedule:
    """Read a symmetric schedule. Its sends are not checked: `verify_symmetric` decides whether they are legal.

    Raises
    ------
    ConfigError
        If the file is no such schedule, or its parts do not fit one another.

    Examples
    --------
    >>> from astra_tacos import Dimension, SymmetricTask, load_symmetric_schedule, save_symmetric_schedule, synthesize_symmetric
    >>> task = SymmetricTask("torus", (Dimension("Ring", 32, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined")
    >>> schedule = synthesize_symmetric(task)
    >>> save_symmetric_schedule(schedule, "torus.npz")
    >>> load_symmetric_schedule("torus.npz").collective_time_ns == schedule.collective_time_ns
    True
    """
    path = Path(path)
    with opened_archive(path, "symmetric schedule") as archive:
        header = archive.header(FORMAT)
        columns = columns_of_sends(archive, _COLUMNS)
        task = SymmetricTask(
            text(header, "network"),
            tuple(dimension(*entry) for entry in header["dimensions"]),
            text(header, "collective"),
            whole(header, "size_bytes", MAX_SIZE_BYTES),
            whole(header, "chunks_per_npu", MAX_CHUNKS),
            *timing_model(header),
        )
        if task.least_rows > max(len(columns["chunk"]), 1) * 2:
            raise ValueError(f"{len(columns['chunk']):,} sends of NPU 0's chunks, expected {task.least_rows:,} or more")
        _ = task.timing  # chunks that are too small or too large for the links
        return SymmetricSchedule(task, **columns, synthesizer=text(header, "synthesizer"))


def holds_symmetric(path: Path) -> bool:
    """Whether a file says that it is a symmetric schedule; False if it cannot be read."""
    try:
        with opened_archive(path, "schedule") as archive:
            return bool(archive.header(FORMAT))
    except ConfigError:
        return False


def load_any_schedule(path: Path) -> Schedule | SymmetricSchedule:
    """Read a schedule or a symmetric one, whichever the file says it is.

    Raises
    ------
    ConfigError
        If the file is neither.
    """
    return load_symmetric_schedule(path) if holds_symmetric(path) else load_schedule(path)


def load_rows(path: str | Path) -> Schedule:
    """Read a schedule; a symmetric one is expanded.

    Raises
    ------
    ConfigError
        If the file is no schedule, or a symmetric one of more than `MOST_SENDS` sends.
    """
    schedule = load_any_schedule(Path(path))
    if isinstance(schedule, Schedule):
        return schedule
    if schedule.num_sends > MOST_SENDS:
        raise ConfigError(
            f"{path}: a symmetric schedule of {schedule.num_sends:,} sends, expected at most {MOST_SENDS:,} to list them all; "
            "inspect, verify, replay and report (-o x.svg, --kind timeline, topology or tree) take it as it is"
        )
    return schedule.expand()


def exact_symmetric_ns(schedule: SymmetricSchedule) -> float:
    """What `exact_time_ns` says of the expanded schedule if all chunks have the same size; else of one with the largest only.

    Rows take the links of NPU 0 in their order. A port into an NPU takes as many sends as one out of it, equally far apart, so
    none waits there that did not wait before.
    """
    from astra_tacos.schedule import _settle_kernels as kernels

    task, rows = schedule.task, schedule.num_rows
    if not rows:
        return 0.0
    unit = UNITS_PER_NS if schedule.collective_time_ns < LONG_NS else 1
    links, size = star(task.name, task.dimensions), np.array([task.chunk_bytes])
    delays = untruncated(links, size, task.link_model, task.reduce_bandwidth_gbps, unit)
    hands = 1 if task.collective == "all-to-all" else task.num_npus
    here, there = (npu.astype(np.int64) % hands * task.num_chunks + schedule.chunk for npu in (schedule.src, schedule.dst))
    none, times = np.empty(0, np.int64), kernels.Times(*(np.empty(rows, np.int64) for _ in range(3)))
    way = schedule.link_class.astype(np.int32)
    kernels.earliest_times(
        kernels.Sends(schedule.chunk, way, schedule.reduces, here, there, none),
        kernels.Messages(np.arange(rows + 1), np.zeros(rows, np.int64)),
        links_of(links, replace(delays, device_reduction_ns=none)),
        kernels.Additions(none, none, none, none, none),
        hands,
        hands * task.num_chunks,
        times,
    )
    return int((times.end_ns + np.where(schedule.reduces, delays.reduction_ns[0], 0)).max()) / unit
