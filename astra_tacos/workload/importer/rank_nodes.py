"""Which documents are traces of which rank, and a rank's nodes: measured computation, communication, and what waits for what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from astra_tacos.run.trace.node_bytes import new_node
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.documents import Document
from astra_tacos.workload.importer.host_trace import Communication, HostTrace, is_host_trace, read_host_trace
from astra_tacos.workload.importer.kineto import GpuOperation, KinetoTrace, is_kineto_trace, read_kineto_trace
from astra_tacos.workload.repairer.draft import Log
from astra_tacos.workload.repairer.node import DraftNode

_NUMBER_AFTER_WORD = re.compile(r"(?:rank|worker|gpu|node|eg|et|trace|kineto|host|dev(?:ice)?)[-_. ]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+)")
_Trace = TypeVar("_Trace", HostTrace, KinetoTrace)
_LOOKED_BACK = 64
"""Operations of another stream that are looked at for the one that an operation waited for."""


@dataclass(frozen=True, slots=True, eq=False)
class RankSource:
    """The traces of one rank: that of the host, that of its GPU, or both; `rank` is that of the job."""

    rank: int
    host: HostTrace | None
    device: KinetoTrace | None

    @property
    def world_size(self) -> int | None:
        """Number of ranks of the job, as far as the traces say it."""
        sizes = [trace.world_size for trace in (self.host, self.device) if trace is not None and trace.world_size]
        return max(sizes, default=None)

    @property
    def groups(self) -> dict[str, list[int]]:
        """Ranks of each group that the traces define."""
        return (self.host.groups if self.host else {}) | (self.device.groups if self.device else {})

    @property
    def names(self) -> str:
        """The documents."""
        return " with ".join(trace.name for trace in (self.host, self.device) if trace is not None)


def find_ranks(documents: Iterable[Document]) -> list[RankSource]:
    """The traces of each rank, in order of rank.

    A Kineto trace says its rank; otherwise the number in a file's name counts: `rank3.json`, `dlrm_eg_3.json`. A single trace
    that does not say its rank is that of rank 0.

    Raises
    ------
    ConfigError
        If a document is no trace of PyTorch, two are of one rank, or a rank is missing between others.
    """
    hosts: list[HostTrace] = []
    devices: list[KinetoTrace] = []
    for document in documents:
        if is_host_trace(document):
            hosts.append(read_host_trace(document))
        elif is_kineto_trace(document):
            devices.append(read_kineto_trace(document))
        else:
            raise ConfigError(
                f"{document.name}: neither nodes with a schema nor traceEvents, expected a trace of PyTorch or Kineto"
            )
    host_of, device_of = _by_rank(hosts), _by_rank(devices)
    ranks = sorted(host_of.keys() | device_of.keys())
    if not ranks:
        raise ConfigError("no traces, expected PyTorch execution traces or Kineto traces")
    if ranks != list(range(len(ranks))):
        missing = next(rank for rank in range(len(ranks) + 1) if rank not in ranks)
        last = (host_of.get(ranks[-1]) or device_of[ranks[-1]]).name
        raise ConfigError(f"{last}: a trace of rank {ranks[-1]}, but there is none of rank {missing}, expected all")
    lacking = [rank for rank in ranks if rank not in device_of]
    if device_of and lacking:
        alone = host_of[lacking[0]].name
        raise ConfigError(f"{alone}: a host trace without a Kineto trace, although other ranks have one: expected all or none")
    named_rank = next(iter(device_of.values())).rank if len(ranks) == 1 and device_of else None
    return [RankSource(rank if named_rank is None else named_rank, host_of.get(rank), device_of.get(rank)) for rank in ranks]


def _by_rank(traces: list[_Trace]) -> dict[int, _Trace]:
    trace_of: dict[int, _Trace] = {}
    for trace in traces:
        given = trace.rank if isinstance(trace, KinetoTrace) else None
        rank = 0 if len(traces) == 1 else given if given is not None else _rank_of_name(trace.name)
        if rank in trace_of:
            raise ConfigError(f"{trace.name}: a second trace of rank {rank}, expected one (ranks are numbers in files' names)")
        trace_of[rank] = trace
    return trace_of


def _rank_of_name(name: str) -> int:
    base = name.rpartition("/")[2].rpartition(": ")[2]
    match = _NUMBER_AFTER_WORD.search(base) or _NUMBER.search(base)
    if match is None:
        raise ConfigError(f"{name}: no rank in the file's name, expected one, like rank3.json, where there are several files")
    return int(match[1])


@dataclass(frozen=True, slots=True)
class RankNode:
    """A node of a rank, whose id is its place among them.

    Parameters
    ----------
    call
        What it communicates, None for computation.
    """

    name: str
    kind: NodeType
    duration_us: int
    deps: tuple[int, ...]
    on_cpu: bool = False
    call: Communication | None = None
    peer: int = 0
    tag: int = 0

    def to_draft(self, node_id: int) -> DraftNode:
        """The node of a draft."""
        attributes: dict[str, object] = {"is_cpu_op": self.on_cpu}
        if self.call is not None and self.call.size_bytes is not None:
            attributes["comm_size"] = self.call.size_bytes
        if self.call is not None and self.call.pattern is not None:
            attributes |= {"comm_type": int(self.call.pattern), "pg_name": self.call.group}
        elif self.call is not None:
            attributes |= {"comm_dst" if self.kind == NodeType.COMM_SEND else "comm_src": self.peer, "comm_tag": self.tag}
        node = new_node(node_id, self.name, self.kind, duration_us=self.duration_us, data=self.deps, **attributes)
        return DraftNode(node)


def rank_nodes(rank: int, source: RankSource, log: Log) -> list[RankNode]:
    """The nodes of a rank."""
    builder = Builder(rank, source.groups)
    if source.device is not None:
        _add_device(builder, source.device, _described(rank, source.device, source.host, log))
        return builder.nodes
    # Communication in the order of the host: a trace of the host has no times.
    previous: tuple[int, ...] = ()
    for call in source.host.communications if source.host else ():
        previous = (builder.communicate(call, 0, previous),)
    return builder.nodes


@dataclass(slots=True)
class Rounding:
    """Whole us of parts of a sum: no us is lost or gained in the sum."""

    exact: float = 0.0
    given: int = 0

    def take(self, us: float) -> int:
        """The whole us of the next part."""
        self.exact += us
        whole_us = max(round(self.exact) - self.given, 0)
        self.given += whole_us
        return whole_us


@dataclass(slots=True)
class Builder:
    """The nodes of a rank, as they are added."""

    rank: int = 0
    groups: dict[str, list[int]] = field(default_factory=dict)
    nodes: list[RankNode] = field(default_factory=list)
    tags: Counter[tuple[int, int]] = field(default_factory=Counter)

    def compute(self, name: str, us: int, deps: tuple[int, ...], *, on_cpu: bool) -> int:
        """Add a compute node; returns its id."""
        return self._add(RankNode(name, NodeType.COMP, us, tuple(dict.fromkeys(deps)), on_cpu))

    def communicate(self, call: Communication, us: int, deps: tuple[int, ...]) -> int:
        """Add a collective or a message with its measured time; returns its id."""
        waits = tuple(dict.fromkeys(deps))
        if call.pattern is not None:
            return self._add(RankNode(call.name, NodeType.COMM_COLL, us, waits, call=call))
        members = self.groups.get(call.group, [])
        peer = call.peer or 0
        peer = members[peer] if peer < len(members) else peer
        ends = (self.rank, peer) if call.is_send else (peer, self.rank)
        tag = self.tags[ends]
        self.tags[ends] += 1
        kind = NodeType.COMM_SEND if call.is_send else NodeType.COMM_RECV
        return self._add(RankNode(call.name, kind, us, waits, call=call, peer=peer, tag=tag))

    def _add(self, node: RankNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


@dataclass(slots=True)
class Chain:
    """Computation in turn: `last` are the nodes that the next one waits for. No time is lost, though durations are whole us."""

    builder: Builder
    on_cpu: bool
    last: tuple[int, ...] = ()
    rounding: Rounding = field(default_factory=Rounding)

    def compute(self, name: str, us: float) -> None:
        """Add some time, where it comes to a whole us."""
        if whole_us := self.rounding.take(us):
            self.last = (self.builder.compute(name, whole_us, self.last, on_cpu=self.on_cpu),)


def _add_device(builder: Builder, device: KinetoTrace, calls: list[Communication | None]) -> None:
    """Add the operations, each with what it communicates, in the order in which the host launched them.

    An operation waits for the one before it on its stream and for the host's time until its launch. A communication also waits
    for the computation before it, and computation after a wait for an event for the communication before that: of each stream,
    for the last operation that had ended when the waiting one began. The host waits where it synchronises.
    """
    host, at_us = Chain(builder, on_cpu=True), device.begin_us
    busy: dict[tuple[int, bool], Rounding] = {}
    streams: dict[int, list[tuple[GpuOperation, int, bool]]] = {}
    waits = False
    pending = list(reversed(device.calls))
    for event, call in zip(device.operations, calls, strict=True):
        while pending and pending[-1].end_us <= event.launch_us:
            host_call = pending.pop()
            if host_call.blocks_host:
                ended = (_last_ended(stream, host_call.end_us, None) for stream in streams.values())
                # The time of the wait is none of the host's own, but for launches by other threads.
                host.compute("host", max(host_call.begin_us - at_us, 0))
                host.last = tuple(dict.fromkeys((*host.last, *(node for node in ended if node is not None))))
                at_us = max(at_us, host_call.end_us)
            waits = waits or not host_call.blocks_host
        host.compute("host", max(event.launch_us - at_us, 0))
        at_us = max(at_us, event.launch_us)
        nodes_of_stream = streams.setdefault(event.stream, [])
        deps = [*((nodes_of_stream[-1][1],) if nodes_of_stream else ()), *host.last]
        for stream, others in streams.items():
            if stream != event.stream and (call is not None or waits):
                last_node = _last_ended(others, event.begin_us, call is None)
                deps += [] if last_node is None else [last_node]
        waits = False  # a communication's own launch waits for an event, too
        us = busy.setdefault((event.stream, call is None), Rounding()).take(event.duration_us)
        if call is not None:
            added = builder.communicate(call, us, tuple(deps))
        else:
            added = builder.compute(event.name, us, tuple(deps), on_cpu=False)
        nodes_of_stream.append((event, added, call is not None))


def _last_ended(stream: list[tuple[GpuOperation, int, bool]], until_us: float, communicates: bool | None) -> int | None:
    """The last operation of a stream that had ended at some time: of communication, of computation, or (None) of both."""
    for event, added, is_communication in reversed(stream[-_LOOKED_BACK:]):
        if event.end_us <= until_us and communicates in (None, is_communication):
            return added
    return None


def _described(rank: int, device: KinetoTrace, host: HostTrace | None, log: Log) -> list[Communication | None]:
    """What each operation communicates; sizes and groups are those of the host's trace where the two traces agree.

    The n-th communication of a kind in one trace is the n-th in the other if both have as many.
    """
    calls = [operation.communication for operation in device.operations]
    for operation in device.operations:
        if operation.communication is None and "nccl" in operation.name.lower():
            log.add(
                f"{operation.name} is computation of its {operation.duration_us:g} us",
                "it communicates, and nothing says what",
                rank,
                is_assumed=True,
            )
    if host is None:
        return calls
    counts = Counter(call.kind for call in calls if call is not None)
    known = Counter(call.kind for call in host.communications)
    of_kind: dict[tuple[str, int | None], Iterator[Communication]] = {
        kind: iter([other for other in host.communications if other.kind == kind]) for kind in known
    }
    for number, call in enumerate(calls):
        if call is None or counts[call.kind] != known[call.kind]:
            continue
        there = next(of_kind[call.kind])
        size = there.size_bytes if there.size_bytes is not None else call.size_bytes
        calls[number] = replace(call, size_bytes=size, group=there.group)
    for kind in sorted(counts.keys() | known.keys(), key=str):
        if counts[kind] != known[kind]:
            change = f"{kind[0]}: {counts[kind]} on the GPU, {known[kind]} on the host: those of the GPU count"
            log.add(change, "the host's trace and Kineto's differ, as where they begin at other times", rank, is_assumed=True)
    return calls
