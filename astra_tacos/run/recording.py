"""The `Recording` class: the data of a report on a run, as it is and as it was before a plan, and its `.npz` file.

`record_run` makes a recording out of replays in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import MAX_NPUS
from astra_tacos.network.topology import Topology
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.archive import Archive, opened_archive, text, whole, write_archive
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.formats.values import are_texts, describe

REPLAY_FILE = "replay.npz"
"""Name of the recording's file in the directory of a plan or replay."""
FORMAT = "astra_tacos replay 2"
_MOST = 1 << 60
"""Limit on nanoseconds and bytes in a file, so that their sums do not overflow."""
_MOST_TEXT_BYTES = 1 << 30
"""Limit on the bytes of all texts; it is high because every node has a name."""
KINDS = ("compute", "collective", "send", "receive", "memory", "other")
"""Kinds of nodes by number. Compute nodes of the GPU are `compute`, those of the CPU `other`."""
COMPUTE, COLLECTIVE, SEND, RECEIVE, MEMORY, OTHER = range(len(KINDS))


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of a workload, sorted by rank.

    Parameters
    ----------
    rank_first
        int64[num_ranks + 1], first node of each rank.
    node_id
        uint64[num_nodes], ids in the workload.
    kind
        uint8[num_nodes], entry of `KINDS`.
    pattern
        int8[num_nodes], `CommType` of a collective, -1 for other nodes.
    size_bytes
        int64[num_nodes], size of a collective or message, -1 for other nodes.
    group, name
        int32[num_nodes], entries of `Recording.texts`: the group's id and the node's name; -1 where there is none.
    owners
        The number of each rank in the run, where these are the representatives of classes of ranks; empty if they are all ranks.
    """

    rank_first: Ints
    node_id: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    pattern: NDArray[np.int8]
    size_bytes: Ints
    group: Ints32
    name: Ints32
    owners: tuple[int, ...] = ()
    num_alike: int = 1

    @property
    def num_ranks(self) -> int:
        """Number of ranks with nodes of their own."""
        return len(self.rank_first) - 1

    @property
    def numbers(self) -> Sequence[int]:
        """The number of each rank in the run."""
        return self.owners or range(self.num_ranks)

    @property
    def owner(self) -> Ints:
        """int64[num_nodes], the number of the rank of each node in the run."""
        return np.asarray(self.numbers, np.int64)[self.rank]

    @property
    def title(self) -> str:
        """How many ranks there are, in words."""
        if self.owners:
            return f"{self.num_ranks * self.num_alike:,} ranks of {self.num_ranks:,} classes"
        return f"{self.num_ranks:,} ranks"

    @property
    def rank(self) -> Ints:
        """int64[num_nodes], rank of each node."""
        return np.repeat(np.arange(self.num_ranks), np.diff(self.rank_first))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedReplay:
    """The times and traffic of one replay.

    Parameters
    ----------
    finish_ns, compute_ns, sent_bytes
        int64[num_ranks], end of each rank, time that its GPU computed, bytes that it sent.
    issue_ns, end_ns
        int64[num_nodes], time at which a node began and ended; -1 if it never ran.
    cause, origin
        int32[num_nodes]: the node whose end had this one issued, -1 at the start; the node with whose issue the events began that
        led to this one's end (`RunOutcome`). -1 if it never ran.
    algorithm
        int32[num_nodes], entry of `Recording.texts`: the implementation that a collective ran; -1 for other nodes.
    link_src, link_dst, link_dimension
        int32, int32 and int16[num_links]: ends of each directed link, switches after the NPUs, and its dimension, -1 if none.
    link_bytes, link_busy_ns
        int64[num_links], bytes that each link carried, and time for which it was held.
    approximate
        Reasons why the times may differ from ASTRA-sim's; empty if they are exact.
    links_are_routed
        Whether the network model has no links, so that bytes and times of links are sums over the routes of messages.
    """

    finish_ns: Ints
    compute_ns: Ints
    sent_bytes: Ints
    issue_ns: Ints
    end_ns: Ints
    cause: Ints32
    origin: Ints32
    algorithm: Ints32
    link_src: Ints32
    link_dst: Ints32
    link_dimension: NDArray[np.int16]
    link_bytes: Ints
    link_busy_ns: Ints
    approximate: tuple[str, ...]
    links_are_routed: bool

    @property
    def exposed_comm_ns(self) -> Ints:
        """int64[num_ranks], ASTRA-sim's `exposed communication`: finish minus compute."""
        return self.finish_ns - self.compute_ns

    @property
    def run_end_ns(self) -> int:
        """Time at which the last rank finishes, in ns."""
        return int(self.finish_ns.max())


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The replays of a run, and its nodes.

    Parameters
    ----------
    network, shape, block_sizes, num_npus
        The network's name, its shape in words, the NPUs of each dimension (empty for a graph), and the number of all NPUs.
    nodes
        Nodes of the workload, the same in both replays.
    after, before
        Replay of the run, and of the same run before a plan; `before` is None if there was no plan, or if that replay stalls.
    """

    network: str
    shape: str
    block_sizes: tuple[int, ...]
    num_npus: int
    backend: str
    texts: tuple[str, ...]
    nodes: Nodes
    after: RecordedReplay
    before: RecordedReplay | None

    @property
    def replays(self) -> list[tuple[str, RecordedReplay]]:
        """The replays in the order of pictures: named `before` and `after`, or one without a name."""
        return [("", self.after)] if self.before is None else [("before", self.before), ("after", self.after)]


_NODES = {
    "rank_first": np.int64,
    "node_id": np.uint64,
    "kind": np.uint8,
    "pattern": np.int8,
    "size_bytes": np.int64,
    "group": np.int32,
    "name": np.int32,
}
_REPLAY = {
    "finish_ns": np.int64,
    "compute_ns": np.int64,
    "sent_bytes": np.int64,
    "issue_ns": np.int64,
    "end_ns": np.int64,
    "cause": np.int32,
    "origin": np.int32,
    "algorithm": np.int32,
    "link_src": np.int32,
    "link_dst": np.int32,
    "link_dimension": np.int16,
    "link_bytes": np.int64,
    "link_busy_ns": np.int64,
}
_OF_RANKS = ("finish_ns", "compute_ns", "sent_bytes")
_OF_NODES = ("issue_ns", "end_ns", "cause", "origin", "algorithm")


def save_recording(recording: Recording, path: Path) -> None:
    """Write a recording to `path`. Equal recordings make equal bytes."""
    arrays: dict[str, NDArray[Any]] = {f"nodes_{name}": getattr(recording.nodes, name) for name in _NODES}
    header: dict[str, Any] = {"format": FORMAT}
    header |= {name: getattr(recording, name) for name in ("network", "shape", "block_sizes", "num_npus", "backend", "texts")}
    if recording.nodes.owners:
        header["owners"] = recording.nodes.owners
    for when, replay in (("after", recording.after), ("before", recording.before)):
        header[when] = replay and {"approximate": replay.approximate, "links_are_routed": replay.links_are_routed}
        if replay is not None:
            arrays |= {f"{when}_{name}": getattr(replay, name) for name in _REPLAY}
    write_archive(path, np.frombuffer(json.dumps(header).encode(), np.uint8), arrays)


def load_recording(path: Path) -> Recording:
    """Read a recording.

    Raises
    ------
    ConfigError
        If the file is not a recording, or its columns do not fit one another.
    """
    with opened_archive(path, "recorded replay") as archive:
        header = archive.header(FORMAT, _MOST_TEXT_BYTES)
        num_npus = whole(header, "num_npus", MAX_NPUS)
        owners = tuple(whole({"a rank": rank}, "a rank", num_npus - 1) for rank in header.get("owners", ()))
        columns = archive.columns(_NODES, "nodes_")
        nodes = Nodes(**columns, owners=owners, num_alike=num_npus // len(owners) if owners else 1)
        replays = {when: _replay(archive, when, header[when], nodes) for when in ("after", "before")}
        if replays["after"] is None:
            raise ValueError("no replay")
        texts = _texts(header, "texts")
        _check(nodes, len(texts), [replay for replay in replays.values() if replay])
        return Recording(
            network=text(header, "network"),
            shape=text(header, "shape"),
            block_sizes=tuple(whole({"a block size": size}, "a block size", MAX_NPUS) for size in header["block_sizes"]),
            num_npus=num_npus,
            backend=text(header, "backend"),
            texts=texts,
            nodes=nodes,
            after=replays["after"],
            before=replays["before"],
        )


def _texts(header: dict[str, Any], name: str) -> tuple[str, ...]:
    texts = header[name]
    if not are_texts(texts):
        raise ValueError(f"{name} is {describe(texts)}, expected a list of texts")
    return tuple(texts)


def _replay(archive: Archive, when: str, header: dict[str, Any] | None, nodes: Nodes) -> RecordedReplay | None:
    if header is None:
        return None
    columns = archive.columns(_REPLAY, f"{when}_")
    for name, values in columns.items():
        wanted = nodes.num_ranks if name in _OF_RANKS else len(nodes.node_id) if name in _OF_NODES else len(columns["link_src"])
        if len(values) != wanted:
            raise ValueError(f"{when}: {len(values)} values of {name}, expected {wanted}")
        if not -1 <= values.min(initial=0) <= values.max(initial=0) <= _MOST:
            raise ValueError(f"{when}: {name} from {values.min()} to {values.max()}, expected -1 to {_MOST}")
    return RecordedReplay(**columns, approximate=_texts(header, "approximate"), links_are_routed=bool(header["links_are_routed"]))


def _check(nodes: Nodes, num_texts: int, replays: list[RecordedReplay]) -> None:
    """Check that numbers and times are in range; raises ValueError."""
    num_nodes = len(nodes.node_id)
    first = nodes.rank_first
    if nodes.num_ranks < 1 or first[0] != 0 or first[-1] != num_nodes or (np.diff(first) < 0).any():
        raise ValueError("its ranks' nodes do not follow one another")
    if any(len(getattr(nodes, name)) != num_nodes for name in _NODES if name != "rank_first"):
        raise ValueError("the columns of its nodes differ in length")
    if nodes.owners and len(nodes.owners) != nodes.num_ranks:
        raise ValueError("it does not say which ranks its classes stand for")
    if nodes.kind.max(initial=0) >= len(KINDS):
        raise ValueError("it has nodes of an unknown kind")
    for replay in replays:
        if max(replay.cause.max(initial=-1), replay.origin.max(initial=-1)) >= num_nodes:
            raise ValueError("a node is missing")
    for entries in (nodes.group, nodes.name, *(replay.algorithm for replay in replays)):
        if len(entries) and not -1 <= entries.min() <= entries.max() < num_texts:
            raise ValueError("a text is missing")


_KIND_OF = {
    NodeType.COMP: COMPUTE,
    NodeType.COMM_COLL: COLLECTIVE,
    NodeType.COMM_SEND: SEND,
    NodeType.COMM_RECV: RECEIVE,
    NodeType.MEM_LOAD: MEMORY,
    NodeType.MEM_STORE: MEMORY,
}


class _Texts:
    """Numbers distinct texts in the order in which they first occur."""

    def __init__(self) -> None:
        self.entry_of: dict[str, int] = {}

    def entries(self, texts: list[str]) -> Ints32:
        """int32[len(texts)], number of each text, -1 for empty ones."""
        for new in filter(None, dict.fromkeys(texts)):
            self.entry_of.setdefault(new, len(self.entry_of))
        numbers = {**self.entry_of, "": -1}
        return np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts))


def record_run(run: Run, after: RunOutcome, before: RunOutcome | None = None, pattern: Ints | None = None) -> Recording:
    """Make the recording of one or two replays of a run, which holds all that a report needs.

    Parameters
    ----------
    run
        The run; its workload has the nodes of both replays.
    after, before
        Outcome of this run, and of the same run before it was planned, if that is to be recorded too.
    pattern
        int64[num_nodes], `CommType` that each collective node stands for (`run.patterns`); None for the one in its trace.
    """
    trace, columns = run.workload, run.columns
    if trace.owners is not None:
        after, before = _without_links(after), before and _without_links(before)
    kind = np.full(256, OTHER, np.uint8)
    for node_type, number in _KIND_OF.items():
        kind[node_type] = number
    kinds = kind[trace.kind]
    kinds[(kinds == COMPUTE) & columns.is_cpu_op] = OTHER
    collective, sized = kinds == COLLECTIVE, np.isin(kinds, (COLLECTIVE, SEND, RECEIVE))
    texts = _Texts()
    groups = np.append(texts.entries(list(columns.group_names)), np.int32(-1))
    nodes = Nodes(
        rank_first=trace.rank_first.astype(np.int64),
        node_id=trace.node_id,
        kind=kinds,
        pattern=np.where(collective, columns.comm_type if pattern is None else pattern, -1).astype(np.int8),
        size_bytes=np.where(sized, trace.size_bytes, -1),
        group=np.where(collective, groups[columns.group], np.int32(-1)),
        name=texts.entries(run.names(range(trace.num_nodes))),
        owners=() if trace.owners is None else tuple(trace.owners.tolist()),
        num_alike=run.network.num_npus // trace.num_ranks,
    )
    topology = build_topology(run.network, may_forward=True) if len(after.link_src) else None
    recorded_after = _recorded(after, topology, texts)
    recorded_before = None if before is None else _recorded(before, topology, texts)
    return Recording(
        network=run.network.name,
        shape=" x ".join(f"{dim.block} {dim.size}" for dim in run.network.dimensions),
        block_sizes=tuple(dim.size for dim in run.network.dimensions),
        num_npus=run.network.num_npus,
        backend=after.backend.name,
        texts=tuple(texts.entry_of),
        nodes=nodes,
        after=recorded_after,
        before=recorded_before,
    )


def _without_links(outcome: RunOutcome) -> RunOutcome:
    """The outcome of a run of classes, whose links stand for others: a picture of links is of all."""
    none, nothing = np.empty(0, np.int32), np.empty(0, np.int64)
    return replace(outcome, link_src=none, link_dst=none, link_bytes=nothing, link_busy_ns=nothing)


def _recorded(outcome: RunOutcome, topology: Topology | None, texts: _Texts) -> RecordedReplay:
    loads = outcome.loads
    names = np.append(texts.entries(list(outcome.collective_names)), np.int32(-1))
    return RecordedReplay(
        finish_ns=outcome.finish_ns,
        compute_ns=outcome.compute_ns,
        sent_bytes=outcome.sent_bytes,
        issue_ns=outcome.node_issue_ns,
        end_ns=outcome.node_finish_ns,
        cause=outcome.node_cause,
        origin=outcome.node_origin,
        algorithm=names[outcome.collective],
        link_src=loads.src if loads else outcome.link_src,
        link_dst=loads.dst if loads else outcome.link_dst,
        link_dimension=loads.dimension if loads else topology.link_dimension if topology else np.empty(0, np.int16),
        link_bytes=loads.size_bytes if loads else outcome.link_bytes,
        link_busy_ns=loads.busy_ns if loads else outcome.link_busy_ns,
        approximate=outcome.approximate,
        links_are_routed=loads is not None,
    )
