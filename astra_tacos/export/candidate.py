"""Candidates: files of programs that are compared with what synthesizers make.

A program is proven, then made a schedule: its messages over the channels of a network, in the order of its thread blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_reduce_of
from astra_tacos.export.start_order import Carried, Execution, carried_values, execute, messages_of
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns, settle
from astra_tacos.schedule.timing import LinkModel, compute_timing, timing_of_sizes
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.npu_networks import network_of_pairs
from astra_tacos.synthesizer.on_fabrics import over_devices
from astra_tacos.verifier.program import ProvenProgram, prove


@dataclass(frozen=True, slots=True)
class Converted:
    """A program on a network.

    Parameters
    ----------
    schedule
        The schedule: every message starts as early as its links, in the order of the program, and what it carries allow.
    in_blocks_ns
        What the program takes if each thread block also does its steps one after another, as on a GPU; None on a graph with
        devices that forward.
    """

    schedule: Schedule
    in_blocks_ns: int | None


def collective_of(proven: ProvenProgram, size_bytes: int) -> Collective:
    """The collective of a program, in the chunks of the program.

    Raises
    ------
    ConfigError
        If there are fewer bytes than chunks.
    """
    if proven.collective == "all-reduce":
        return all_reduce_of(proven.num_ranks, size_bytes, proven.whole)
    return make_collective(proven.collective, proven.num_ranks, size_bytes, proven.chunks_per_npu, proven.root)


def convert(
    proven: ProvenProgram, topology: Topology, size_bytes: int, link_model: LinkModel, reduce_bandwidth_gbps: float = 0.0
) -> Converted:
    """The schedule of a program on a network.

    A message between NPUs without a channel is passed on along a shortest path. What an NPU has already is not sent to it again.
    Over devices that forward, chunks of a message take fixed routes one by one.

    Parameters
    ----------
    size_bytes
        Size of the collective, as `comm_size` of a workload node.
    link_model, reduce_bandwidth_gbps
        As for `compute_timing`.

    Raises
    ------
    ConfigError
        If the network has another number of NPUs, or there are fewer bytes than chunks.
    SynthesisError
        If chunks are too small or too large for the links, or ranks add up in ways that no schedule can express.
    """
    if proven.why_no_schedule:
        raise SynthesisError(f"{proven.path}: {proven.why_no_schedule}, which no schedule expresses")
    if proven.num_ranks != topology.num_endpoints:
        ranks = proven.num_ranks
        raise ConfigError(
            f"{proven.path}: has {ranks} ranks, {topology.name} has {topology.num_endpoints} NPUs, expected as many"
        )
    collective = collective_of(proven, size_bytes)
    if topology.forwarding:
        of_pairs = convert(proven, network_of_pairs(topology).topology, size_bytes, link_model, reduce_bandwidth_gbps).schedule
        members = np.arange(proven.num_ranks, dtype=np.int32)
        collective = replace(collective, num_npus=topology.num_npus, members=members)
        timing = compute_timing(topology, collective, link_model, reduce_bandwidth_gbps)
        return Converted(over_devices(Problem(topology, collective, timing), of_pairs), None)
    timing = compute_timing(topology, collective, link_model, reduce_bandwidth_gbps)
    largest = int(collective.class_size_bytes[-1])
    message = messages_of(proven.program)
    together = np.bincount(message, proven.program.action_count, len(message)).astype(np.int64)[message]
    counts, size_class = np.unique(np.maximum(together, 1), return_inverse=True)
    delays = timing_of_sizes(topology, counts * largest, link_model, reduce_bandwidth_gbps)
    execution = execute(proven.program, topology, delays, size_class, message)
    carried = carried_values(proven, execution.actions, collective.reduces)
    sends = _sends(proven, collective, execution, carried)
    return Converted(settle(Problem(topology, collective, timing), sends, proven.path.name), execution.end_ns)


def _sends(proven: ProvenProgram, collective: Collective, execution: Execution, carried: Carried) -> Sends:
    """The rows of a schedule: every value that a hop brings to an NPU that lacks it."""
    chunk_of = _chunk_numbers(proven, collective)
    sums = carried.sums
    value_chunk = chunk_of.tolist() if sums is None else sums.chunk.tolist()
    has = _at_first(collective, carried)
    makes = carried.made if sums is not None else set()
    rows: list[tuple[int, int]] = []
    channels: list[int] = []
    first = [0]
    for action, _, dst, channel in execution.hops:
        begin = len(rows)
        for value in [value for send in execution.sends[action] for value in carried.of_send[send]]:
            chunk = value_chunk[value]
            item = chunk if sums is None else value
            if chunk < 0 or (dst, item) in has or (dst, item) in makes:
                continue
            has.add((dst, item))
            rows.append((chunk, item))
        channels += [channel] * (len(rows) - begin)
        if len(rows) > begin:
            first.append(len(rows))
    table = np.array(rows, np.int32).reshape(-1, 2)
    return Sends(
        np.ascontiguousarray(table[:, 0]),
        np.array(channels, np.int32),
        np.zeros(len(rows), np.bool_),
        np.array(first, np.int64),
        sums,
        None if sums is None else np.ascontiguousarray(table[:, 1]),
    )


def _at_first(collective: Collective, carried: Carried) -> set[tuple[int, int]]:
    """NPU and item of what NPUs have without a message: their contributions, or the chunks that they own."""
    if carried.sums is None:
        return set(zip(collective.chunk_owner.tolist(), range(collective.num_chunks), strict=True))
    npus = carried.sums.npu.tolist()
    return {(npu, value) for value, npu in enumerate(npus) if npu >= 0}


def _chunk_numbers(proven: ProvenProgram, collective: Collective) -> Ints:
    """int64[numbers of values], the chunk of the collective that each value is; -1 for parts that stay where they are."""
    whole, part = proven.whole, proven.part
    if proven.numbers_chunks:
        return np.arange(whole)
    if collective.chunk_target is None:
        numbers = np.arange(whole)
        return np.tile(numbers, proven.num_ranks) if collective.name == "broadcast" else numbers
    owner, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    piece = np.arange(collective.num_chunks) % part
    place = owner * part + piece if collective.name == "gather" else owner * whole + target * part + piece
    numbers = np.full(whole * proven.num_ranks, -1, np.int64)
    numbers[place] = np.arange(collective.num_chunks)
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A proven program of a file.

    Parameters
    ----------
    digest
        SHA-256 of the file, in hexadecimal digits.
    """

    proven: ProvenProgram
    digest: str

    @property
    def name(self) -> str:
        """Name of the file, by which rows and schedules call it; its suffix tells it from synthesizers."""
        return self.proven.path.name

    def schedule(
        self, topology: Topology, collective: Collective, models: Iterable[LinkModel], reduce_bandwidth_gbps: float
    ) -> Converted:
        """Its schedule of a collective on a network; with several link models, the faster one.

        Parameters
        ----------
        topology, collective
            What is to be scheduled. The program keeps its own number of chunks.
        models, reduce_bandwidth_gbps
            As for `convert`.

        Raises
        ------
        ConfigError
            If the program is of another collective, or as `convert`.
        SynthesisError
            As `convert`.
        """
        if reason := self.why_not(collective):
            raise ConfigError(f"{self.proven.path}: {reason}")
        conversions = [convert(self.proven, topology, collective.size_bytes, model, reduce_bandwidth_gbps) for model in models]
        return min(conversions, key=lambda conversion: exact_time_ns(conversion.schedule))

    def why_not(self, collective: Collective) -> str | None:
        """The reason why this program does not do a collective; None if it does."""
        proven = self.proven
        if proven.collective != collective.name:
            return f"is of {proven.collective}, not of {collective.name}"
        if not np.array_equal(collective.member_npus, np.arange(proven.num_ranks)):
            return f"is for {proven.num_ranks} NPUs, not for {collective.num_members} of {collective.num_npus}"
        if proven.root != collective.root:
            return f"has the root {proven.root}, not {collective.root}"
        return None

    def note(self, collective: Collective) -> str:
        """What there is to say of a size that the file is not meant for; empty if it is."""
        least, most = self.proven.least_bytes or 0, self.proven.most_bytes
        if least <= collective.buffer_bytes and (most is None or collective.buffer_bytes <= most):
            return ""
        limits = f"{format_size(least)} or more" if most is None else f"{format_size(least)} to {format_size(most)}"
        return f"{self.proven.path.name} is meant for buffers of {limits}"


def read_candidate(path: str | Path, collective_name: str | None = None) -> Candidate:
    """Read and prove the program of a file.

    Parameters
    ----------
    path
        An MSCCL XML, an MSCCL++ plan (`.json`), or the prefix of a collective's Chakra traces.
    collective_name
        What a file that says `custom` has to compute.

    Raises
    ------
    ConfigError
        If the file is not well-formed.
    VerificationError
        If the program is not proven to compute its collective.
    """
    proven = prove(path, collective_name)
    files = [Path(path)] if Path(path).is_file() else [Path(f"{path}.{rank}.et") for rank in range(proven.num_ranks)]
    digest = sha256()
    for file in files:
        digest.update(file.read_bytes())
    return Candidate(proven, digest.hexdigest())
