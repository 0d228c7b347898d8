"""Schedules as Chakra traces of an ASTRA-sim custom collective: one file per NPU.

A message becomes a COMM_SEND node at its source and a COMM_RECV node at its destination, with a tag of its own; its reduction
becomes a COMP node after the receive, and a sum that an NPU makes of values a COMP node after all receives of its parts. Nodes
name the chunks that they move, or the places in memory of the values (`contents_of`). An NPU without messages gets a COMP
node without work, as ASTRA-sim refuses files without nodes.

ASTRA-sim issues every node that is ready, so the traces also have to fix the order of messages on a link: `serial` makes each
send depend on the arrival of the one before it, which is the blocking model. `tokens` adds a chain of COMP nodes without work (1
ns each), one per send, so that sends queue up on the link in order, which is the pipelined model. A token becomes ready together
with its send and releases the next token 1 ns later, so only sends that are ready at the same instant are delayed by it. `window`
has tokens, and each send also waits for the last one on its link that the schedule has arrived by then. This changes nothing
where links are queues, and where messages in flight share a link (ns-3) no more of them share it than the schedule says. `none`
keeps no order: a message leaves as soon as its data are there, as in ASTRA-sim's own algorithms.

What nodes move are chunks or places. Without partial sums, a rank has one value of each chunk, in one buffer. A message of
neighbouring chunks names the first and their number (`msg_chunk_idx`, `msg_chunk_cnt`), as converters do; another one lists them
(`msg_chunk_list`).

With partial sums, a rank needs several values of a chunk at a time, and its memory has three parts: of n = `total_chunk_cnt`
chunks, places 0 to n - 1 are the rank's own contributions, places n to 2 n - 1 are where whole sums have to be in the end, and
what else it has is in places of its own from 2 n on. A message lists places (`place_list`), those it is read from at its source
and those it goes to at its destination; an addition lists the place of the sum, then those of its parts.

`export_workload` writes the workload with a single collective, by which ASTRA-sim runs a custom collective alone.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import Collective
from astra_tacos.export.exporter import Exported, Exporter, one_of, whole_number
from astra_tacos.network.topology import NO_LINK
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, ChunkColumns, NumberLists, Trace
from astra_tacos.run.trace.writer import NodeTable, Values, encode_node, write_trace
from astra_tacos.schedule.dependencies import Operations, arrived_on_link, operations, previous_on_link
from astra_tacos.schedule.partial_sums import Additions, PartialSums, needed_totals
from astra_tacos.schedule.schedule import LINK_ORDERS, LinkOrder, Schedule
from astra_tacos.schedule.timing import wire_bytes
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.grouping import distinct, group_by, members_of
from astra_tacos.support.records import Keyed
from astra_tacos.support.units import bytes_per_ns, reduction_us

_LONG = 2.0
"""A message is long if a link takes so many times its latency to send it; on direct links, long ones wait for arrivals."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What messages and additions move.

    Parameters
    ----------
    range_first, range_count
        int64[num_messages], the first of neighbouring chunks and how many they are; 0 of them where a list says it.
    sent, received
        int64[num_messages], the list of what is read at the source and written at the destination; -1 for none.
    added
        int64[num_additions], the list of the sum and its parts.
    first, entry
        int64[num_lists + 1] and int32[...]: list i is `entry[first[i]:first[i + 1]]`.
    are_places
        Whether lists are of places, not of chunks.
    """

    range_first: Ints
    range_count: Ints
    sent: Ints
    received: Ints
    added: Ints
    first: Ints
    entry: Ints32
    are_places: bool

    def of_nodes(self, adds: Bools, sends: Bools, number: Ints) -> tuple[Ints, Ints, Ints]:
        """The first chunk, the number of neighbouring chunks and the list of each node.

        Parameters
        ----------
        adds, sends
            bool[num_nodes], whether a node is an addition, or a send; others receive.
        number
            int64[num_nodes], the addition or message that it is of; -1 for none.
        """
        columns = np.zeros((3, len(number)), np.int64)
        messages, additions = np.flatnonzero(~adds & (number >= 0)), np.flatnonzero(adds)
        of = number[messages]
        columns[0, messages], columns[1, messages] = self.range_first[of], self.range_count[of]
        columns[2, messages] = np.where(sends[messages], self.sent[of], self.received[of])
        columns[2, additions] = self.added[number[additions]]
        return columns[0], columns[1], columns[2]


def contents_of(schedule: Schedule, additions: Additions) -> Contents:
    """What the messages of a schedule and its additions move."""
    if schedule.sums is None:
        return _of_chunks(schedule)
    return _of_places(schedule, schedule.sums, additions)


def _of_chunks(schedule: Schedule) -> Contents:
    none = np.empty(0, np.int64)
    if schedule.message_first is None:
        num_messages = schedule.num_messages
        absent = np.full(num_messages, -1, np.int64)
        ones, chunk = np.ones(num_messages, np.int64), schedule.chunk.astype(np.int64)
        return Contents(chunk, ones, absent, absent, none, np.zeros(1, np.int64), np.empty(0, np.int32), False)
    message, first = schedule.message_of, schedule.message_first
    ascending = schedule.chunk[np.lexsort((schedule.chunk, message))]
    count = np.diff(first)
    breaks = np.zeros(schedule.num_messages, np.bool_)
    breaks[message[1:][(message[1:] == message[:-1]) & (np.diff(ascending) != 1)]] = True
    listed = np.flatnonzero(breaks)
    number = np.full(schedule.num_messages, -1, np.int64)
    number[listed] = np.arange(len(listed))
    list_first, at = members_of(first, listed)
    begin = ascending[first[:-1]].astype(np.int64)
    return Contents(begin, np.where(breaks, 0, count), number, number, none, list_first, ascending[at], False)


def _of_places(schedule: Schedule, sums: PartialSums, additions: Additions) -> Contents:
    num_messages, first = schedule.num_messages, np.append(schedule.message_row, schedule.num_sends)
    begin, at = members_of(sums.part_first, additions.value)
    # The sum itself, then its parts.
    at = np.insert(sums.part[at], begin[:-1], additions.value)
    adder = np.insert(np.repeat(additions.npu, np.diff(begin)), begin[:-1], additions.npu)
    begin = begin + np.arange(len(begin))
    npu = np.concatenate((schedule.src, schedule.dst, adder)).astype(np.int64)
    place = _places(schedule, sums, npu, np.concatenate((schedule.item, schedule.item, at)))
    number = np.arange(num_messages)
    zeros = np.zeros(num_messages, np.int64)
    list_first = np.concatenate((first[:-1], first[:-1] + schedule.num_sends, begin + 2 * schedule.num_sends))
    added = 2 * num_messages + np.arange(len(additions))
    return Contents(zeros, zeros, number, num_messages + number, added, list_first, place, True)


def _places(schedule: Schedule, sums: PartialSums, npu: Ints, value: NDArray[np.integer]) -> Ints32:
    """The place of each value at an NPU."""
    total = schedule.collective.num_chunks
    at = npu * sums.num_values + value
    known, which = np.unique(at, return_inverse=True)
    npus, values = known // sums.num_values, known % sums.num_values
    chunk = sums.chunk[values]
    is_own = sums.npu[values] == npus
    whole_at, whole = needed_totals(sums, schedule.collective)
    is_result = np.isin(known, whole_at * sums.num_values + whole) & ~is_own
    rest = ~is_own & ~is_result
    before = np.cumsum(rest) - rest
    begins = np.searchsorted(npus, np.arange(schedule.topology.num_npus))
    place = 2 * total + before - np.append(before, 0)[begins][npus]
    place = np.where(is_own, chunk, np.where(is_result, total + chunk, place))
    places: Ints32 = place[which].astype(np.int32)
    return places


TOKEN, SEND, RECV, REDUCE, ADD, NOTHING = range(6)
"""Kinds of nodes."""
_NAMES = ("token_", "send_", "recv_", "reduce_", "add_", "nothing_")
_NODE_TYPES = np.full(6, NodeType.COMP, np.uint8)
_NODE_TYPES[[SEND, RECV]] = NodeType.COMM_SEND, NodeType.COMM_RECV
_MESSAGE_ATTRIBUTES = ("comm_size", "comm_src", "comm_dst", "comm_tag")
_CHUNK_ATTRIBUTES = ("msg_chunk_cnt", "msg_chunk_idx", "msg_chunk_list", "place_list", "total_chunk_cnt", "is_rrc")


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the nodes of each message and addition: the row of the node table by kind and number, -1 for none.

    Rows are sorted by NPU; `number` and `kind` say of which message or addition each node is (`NOTHING` is of none: -1).
    """

    npu_first: Ints
    number: Ints
    kind: Ints
    row_of: Ints

    @classmethod
    def of(cls, npu_first: Ints, number: Ints, kind: Ints) -> Layout:
        """The layout of nodes in these rows."""
        row_of = np.full((ADD + 1, int(number.max(initial=-1)) + 1), -1, np.int64)
        some = np.flatnonzero(kind != NOTHING)
        row_of[kind[some], number[some]] = some
        return cls(npu_first, number, kind, row_of)

    def order(self, previous: Ints, arrived: Ints) -> tuple[Ints, Ints]:
        """Rows that each node follows on its link: the send that has to have arrived, and the token of the previous send.

        Parameters
        ----------
        previous, arrived
            int64[num_messages], the message before each on its link, and the one whose arrival it waits for; -1 for none.
        """
        tokens = waiting_for_token(previous, arrived)
        # What the previous send waits for has arrived by then.
        bound = np.flatnonzero((arrived >= 0) & ((arrived == previous) | (arrived != arrived[previous])))
        edges = [(self.row_of[kind, bound], self.row_of[SEND, arrived[bound]]) for kind in (SEND, TOKEN)]
        edges += [(self.row_of[kind, tokens], self.row_of[TOKEN, previous[tokens]]) for kind in (SEND, TOKEN)]
        return self._grouped(edges)

    def data(self, reduces: Bools, done: Operations) -> tuple[Ints, Ints]:
        """Rows of each node's data dependencies.

        A send's and its token's: what brought or made what it carries. A reduction's: its receive. An addition's: its parts.

        Parameters
        ----------
        reduces
            bool[num_messages], whether each is added up.
        """
        num_messages = done.num_messages
        provides = np.where(reduces, self.row_of[REDUCE, :num_messages], self.row_of[RECV, :num_messages])
        provides = np.concatenate((provides, self.row_of[ADD, : len(done.additions)]))
        waiting, awaited = np.repeat(np.arange(len(done.first) - 1), np.diff(done.first)), provides[done.awaited]
        adds = waiting >= num_messages
        message, reducing = waiting[~adds], np.flatnonzero(reduces)
        edges = [(self.row_of[kind, message], awaited[~adds]) for kind in (SEND, TOKEN)]
        edges.append((self.row_of[ADD, waiting[adds] - num_messages], awaited[adds]))
        edges.append((self.row_of[REDUCE, reducing], self.row_of[RECV, reducing]))
        return self._grouped(edges)

    def _grouped(self, edges: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
        """What each node waits for (CSR), of pairs of a node, -1 for none, and what it waits for."""
        node = np.concatenate([waiting for waiting, _ in edges])
        needed = np.concatenate([awaited for _, awaited in edges])
        exists = node >= 0
        return group_by(node[exists], needed[exists], len(self.number))


def waiting_for_token(previous: Ints, arrived: Ints) -> Ints:
    """The messages that wait for the token of the one before on its link, as its arrival is not awaited (`Layout.order`)."""
    return np.flatnonzero((previous >= 0) & (arrived != previous))


def export_chakra(
    schedule: Schedule,
    prefix: str | Path,
    link_order: LinkOrder | None = None,
    first_tag: int = 0,
    in_flight: int | None = None,
) -> list[Path]:
    """Write `PREFIX.<npu>.et` for every NPU.

    Parameters
    ----------
    schedule
        The schedule to write.
    prefix
        Files are called `PREFIX.<rank>.et`.
    link_order
        How the order of sends on a link is kept; None for the schedule's own order, or what its timing model asks for.
    first_tag
        Tag of the first message; the others follow.
    in_flight
        How many messages may be in flight on a link, for the link order `window`; None for as many as the schedule has.

    Raises
    ------
    ConfigError
        If the tags go past what ASTRA-sim tells apart.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, export_chakra, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> [path.name for path in export_chakra(schedule, "ring")]
    ['ring.0.et', 'ring.1.et', 'ring.2.et', 'ring.3.et']
    """
    return nodes_of(schedule, link_order, first_tag, in_flight).write(prefix)


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleFiles:
    """The files of a schedule as a custom collective of a run (`run.collective_files.CollectiveFiles`)."""

    schedule: Schedule
    first_tag: int

    def trace(self, prefix: str) -> Trace:
        """The nodes, as they are read of the files."""
        return replace(schedule_trace(self.schedule, prefix, first_tag=self.first_tag), chunks=None)

    def write(self, prefix: Path) -> None:
        """Write the files."""
        export_chakra(self.schedule, prefix, first_tag=self.first_tag)


def schedule_trace(
    schedule: Schedule, name: str, link_order: LinkOrder | None = None, first_tag: int = 0, in_flight: int | None = None
) -> Trace:
    """The trace of a schedule in memory, as `read_trace` reads the files of `export_chakra`, without the workload's columns.

    Parameters
    ----------
    schedule
        The schedule.
    name
        What the trace is to be called in messages.
    link_order, first_tag, in_flight
        As for `export_chakra`, which says what is raised, too.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, schedule_trace, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> schedule_trace(schedule, "ring").num_ranks
    4
    """
    order, in_flight = order_of_traces(schedule, link_order, in_flight)
    sends = tuple(id(getattr(schedule, field.name)) for field in fields(schedule) if field.name not in _BESIDE_SENDS)
    return replace(_last_trace(Keyed(sends, schedule), order, first_tag, in_flight), prefix=name)


_BESIDE_SENDS = {"link_order", "in_flight", "synthesizer", "seed"}
"""What a schedule says beside its sends; traces follow from these, and from the order of sends that is asked for."""


@lru_cache(maxsize=1)  # the judges of a schedule ask one after another
def _last_trace(sends: Keyed[Schedule], link_order: LinkOrder, first_tag: int, in_flight: int | None) -> Trace:
    return nodes_of(sends.value, link_order, first_tag, in_flight).trace("")


def order_of_traces(
    schedule: Schedule, link_order: LinkOrder | None = None, in_flight: int | None = None
) -> tuple[LinkOrder, int | None]:
    """The link order of traces, and how many messages may be in flight on a link (None: as many as the schedule has).

    What is asked for comes first, then what the schedule says, then a rule (`_order_by_rule`).
    """
    if link_order is None and in_flight is None:
        link_order, in_flight = schedule.link_order, schedule.in_flight
    return link_order or (_order_by_rule(schedule) if in_flight is None else "window"), in_flight


def timed_orders(schedule: Schedule) -> tuple[LinkOrder, ...]:
    """The orders of sends that replay as a schedule's timing model."""
    return ("serial",) if schedule.timing.is_blocking else ("window", "tokens")


def _order_by_rule(schedule: Schedule) -> LinkOrder:
    """The order of sends that replays as a schedule's timing model and takes least where messages in flight share a link.

    Tokens keep links busy with short messages, and a window through a switch waits for acknowledgements that come late. A window
    keeps apart long messages on direct links, messages of NPUs that send unequally many, and messages on the links of a graph.
    """
    topology, channel = schedule.topology, schedule.channel[schedule.message_row]
    if schedule.timing.is_blocking:
        return "serial"
    sent = np.bincount(topology.channel_src[channel], minlength=topology.num_npus)
    if not topology.dimensions or sent.min() < sent.max() or not sent.any():
        return "window"
    link = topology.channel_link[channel]
    wire_ns = schedule.message_bytes / bytes_per_ns(topology.link_bandwidth_gibps[link])
    is_short = np.median(wire_ns) <= _LONG * np.median(topology.link_latency_ns[link])
    return "tokens" if is_short or np.any(topology.channel_down_link[channel] != NO_LINK) else "window"


def keeps_timing(schedule: Schedule, link_order: LinkOrder | None, in_flight: int | None) -> bool:
    """Whether traces with an order of sends replay as a schedule's timing model."""
    order, most = order_of_traces(schedule, link_order, in_flight)
    return most is None and order in timed_orders(schedule)


@dataclass(frozen=True, slots=True, eq=False)
class TraceNodes:
    """The nodes of all NPUs' traces, to be written (`table`) or to be replayed and verified (`trace`).

    Parameters
    ----------
    npu_first
        int64[num_npus + 1], where the nodes of each NPU begin.
    kind, number
        int64[num_nodes], what each node is, and of which message or addition; -1 for none.
    duration_us
        int64[num_nodes].
    ctrl, data
        Rows of the nodes that each node depends on: where those of each begin (int64[num_nodes + 1]), and the rows.
    attributes
        By attribute, which nodes have one, and the values of all nodes, or one for all.
    """

    npu_first: Ints
    kind: Ints
    number: Ints
    duration_us: Ints
    ctrl: tuple[Ints, Ints]
    data: tuple[Ints, Ints]
    attributes: dict[str, tuple[Bools, Values]]
    contents: Contents
    first_tag: int

    @property
    def node_id(self) -> Ints:
        """int64[num_nodes], the id of each node in its file: its place there."""
        return np.arange(len(self.number)) - np.repeat(self.npu_first[:-1], np.diff(self.npu_first))

    def table(self) -> NodeTable:
        """The nodes as columns of files."""
        node_id = self.node_id
        return NodeTable.of(
            node_id=node_id,
            kind=_NODE_TYPES[self.kind],
            duration_us=self.duration_us,
            names=_NAMES,
            name=self.kind,
            name_number=np.where(self.kind == NOTHING, 0, self.number + self.first_tag),
            ctrl=(self.ctrl[0], node_id[self.ctrl[1]]),
            data=(self.data[0], node_id[self.data[1]]),
            attributes=self.attributes,
            lists=(self.contents.first, self.contents.entry),
        )

    def write(self, prefix: str | Path) -> list[Path]:
        """Write `PREFIX.<npu>.et` for every NPU."""
        table, first = self.table(), self.npu_first.tolist()
        paths = [Path(f"{prefix}.{npu}.et") for npu in range(len(first) - 1)]

        def write(npu: int) -> None:
            with replaced_file(paths[npu]) as temporary:
                write_trace(temporary, table, first[npu], first[npu + 1])

        # The encoder and the file system work without the interpreter lock.
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(write, range(len(paths))))
        return paths

    def trace(self, name: str) -> Trace:
        """What `read_trace` would read from the files, without the workload's columns."""

        def values(attribute: str) -> Ints:
            has, column = self.attributes[attribute]
            return np.where(has, column, ABSENT).astype(np.int64, copy=False)

        def lists(attribute: str) -> NumberLists:
            has, number = self.attributes[attribute]
            node = np.flatnonzero(has)
            assert not isinstance(number, int)
            first, at = members_of(self.contents.first, number[node])
            return NumberLists(node, first, self.contents.entry[at])

        sends, is_rrc = self.kind == SEND, self.attributes["is_rrc"][0]
        (ctrl_first, ctrl), (data_first, data) = self.ctrl, self.data
        # Data come before control.
        dep = np.empty(len(ctrl) + len(data), np.int64)
        dep[np.arange(len(data)) + np.repeat(ctrl_first[:-1], np.diff(data_first))] = data
        dep[np.arange(len(ctrl)) + np.repeat(data_first[1:], np.diff(ctrl_first))] = ctrl
        return Trace(
            prefix=name,
            rank_first=self.npu_first,
            node_id=self.node_id.view(np.uint64),
            kind=_NODE_TYPES[self.kind],
            duration_us=self.duration_us,
            size_bytes=values("comm_size"),
            peer=np.where(sends, values("comm_dst"), values("comm_src")),
            tag=values("comm_tag"),
            dep_first=data_first + ctrl_first,
            dep=dep,
            chunks=ChunkColumns(
                chunk=values("msg_chunk_idx"),
                num_chunks=values("msg_chunk_cnt"),
                total_chunks=values("total_chunk_cnt"),
                reduces=is_rrc,
                chunk_lists=lists("msg_chunk_list"),
                place_lists=lists("place_list"),
            ),
        )


def nodes_of(
    schedule: Schedule,
    link_order: LinkOrder | None = None,
    first_tag: int = 0,
    in_flight: int | None = None,
    message_bytes: Ints | None = None,
) -> TraceNodes:
    """All nodes of the traces, sorted by NPU.

    Parameters
    ----------
    schedule, link_order, first_tag, in_flight
        As for `export_chakra`.
    message_bytes
        int64[num_messages], the sizes that the nodes give; None for the messages' own.

    Raises
    ------
    ConfigError
        If there is no such link order, or the tags go past what ASTRA-sim tells apart.
    """
    if link_order is not None and link_order not in LINK_ORDERS:
        raise ConfigError(f"link order: found {link_order!r}, expected {' or '.join(LINK_ORDERS)}")
    if first_tag < 0:
        raise ConfigError(f"first tag: found {first_tag}, expected 0 or more")
    if first_tag + schedule.num_messages > TAGS:
        raise ConfigError(f"{first_tag + schedule.num_messages:,} tags, expected at most {TAGS:,}")
    link_order, in_flight = order_of_traces(schedule, link_order, in_flight)
    if in_flight is not None and (link_order != "window" or not 1 <= in_flight <= TAGS):
        raise ConfigError(f"in flight: found {in_flight} with link order {link_order}, expected 1 to {TAGS:,} with window")
    previous = previous_on_link(schedule) if link_order != "none" else np.full(schedule.num_messages, -1, np.int64)
    arrived = _arrived(schedule, previous, link_order, in_flight)
    done = operations(schedule)
    layout = _layout(schedule, done, distinct(previous[waiting_for_token(previous, arrived)]))
    number, kind = layout.number, layout.kind
    contents = contents_of(schedule, done.additions)
    duration = np.zeros(len(number), np.int64)
    reduces, adds = kind == REDUCE, kind == ADD
    duration[reduces] = schedule.reduction_us[schedule.message_row[number[reduces]]]
    duration[adds] = reduction_us(done.additions.size_bytes, schedule.timing.reduce_bandwidth_gbps)[number[adds]]
    return TraceNodes(
        layout.npu_first,
        kind,
        number,
        duration,
        layout.order(previous, arrived),
        layout.data(schedule.reduces[schedule.message_row], done),
        _attributes(schedule, layout, contents, first_tag, _wire_bytes(schedule) if message_bytes is None else message_bytes),
        contents,
        first_tag,
    )


def _wire_bytes(schedule: Schedule) -> Ints:
    """int64[num_messages], the sizes of a schedule's messages on links."""
    return wire_bytes(
        schedule.topology, schedule.message_bytes, schedule.channel[schedule.message_row], schedule.timing.link_model
    )


def _layout(schedule: Schedule, done: Operations, with_token: Ints) -> Layout:
    num_messages, additions, row = done.num_messages, done.additions, schedule.message_row
    exists = np.ones((num_messages, 4), bool)
    exists[:, TOKEN] = False
    exists[with_token, TOKEN] = True
    exists[:, REDUCE] = schedule.reduces[row]
    npu = np.empty((num_messages, 4), np.int32)
    npu[:, TOKEN] = npu[:, SEND] = schedule.src[row]
    npu[:, RECV] = npu[:, REDUCE] = schedule.dst[row]
    place = np.flatnonzero(exists)
    of_messages = np.stack((place >> 2, place & 3))
    of_additions = np.stack((np.arange(len(additions)), np.full(len(additions), ADD)))
    busy: Ints = np.concatenate((npu.ravel()[place], additions.npu))
    idle = np.flatnonzero(np.bincount(busy, minlength=schedule.topology.num_npus) == 0)
    of_none = np.stack((np.full(len(idle), -1), np.full(len(idle), NOTHING)))
    nodes = np.concatenate((of_messages, of_additions, of_none), axis=1)
    npus = np.concatenate((busy, idle))
    time = np.concatenate((schedule.start_ns[row][place >> 2], schedule.addition_end_ns, np.zeros(len(idle), np.int64)))
    # Not by message alone: where all NPUs do the same, nodes have the same order on all of them.
    in_time = np.lexsort((nodes[0], nodes[1], time))
    npu_first, order = group_by(npus[in_time], in_time, schedule.topology.num_npus)
    return Layout.of(npu_first, nodes[0, order], nodes[1, order])


def _arrived(schedule: Schedule, previous: Ints, link_order: LinkOrder, in_flight: int | None) -> Ints:
    """int64[num_messages], the earlier message on its link whose arrival each message waits for; -1 for none."""
    if link_order == "serial":
        return previous
    if link_order in ("tokens", "none"):
        return np.full(len(previous), -1, np.int64)
    return arrived_on_link(schedule) if in_flight is None else previous_on_link(schedule, in_flight)


def _attributes(
    schedule: Schedule, layout: Layout, contents: Contents, first_tag: int, message_bytes: Ints
) -> dict[str, tuple[Bools, Values]]:
    """Attributes of all nodes, in the order in which files have them."""
    number, kind, row = layout.number, layout.kind, schedule.message_row
    is_message = (kind == SEND) | (kind == RECV)
    names_chunks = is_message | (kind == REDUCE) | (kind == ADD)
    message = np.where(is_message, number, 0)
    total = schedule.collective.num_chunks
    of_message: tuple[NDArray[np.integer], ...] = (
        message_bytes,
        schedule.src[row],
        schedule.dst[row],
        first_tag + np.arange(len(row)),
    )
    columns: dict[str, tuple[Bools, Values]] = {"is_cpu_op": (np.ones(len(kind), np.bool_), 0)}
    for name, column in zip(_MESSAGE_ATTRIBUTES, of_message, strict=True):
        columns[name] = is_message, column[message] if len(row) else np.zeros(len(kind), np.int64)
    range_first, range_count, listed = contents.of_nodes(kind == ADD, kind == SEND, number)
    in_range, in_list = names_chunks & (range_count > 0), names_chunks & (range_count == 0)
    # Later versions of ASTRA-sim ask for both attributes of every message, and take -1 for what they do not say.
    has_range = in_range | is_message
    reduces = np.zeros(len(kind), np.bool_)
    receives = np.flatnonzero(kind == RECV)
    reduces[receives] = schedule.reduces[row[number[receives]]]
    values: tuple[tuple[Bools, Ints | int], ...] = (
        (has_range, np.where(in_range, range_count, -1)),
        (has_range, np.where(in_range, range_first, -1)),
        (in_list & (not contents.are_places), listed),
        (in_list & contents.are_places, listed),
        (names_chunks, total),
        (reduces, 1),
    )
    return columns | dict(zip(_CHUNK_ATTRIBUTES, values, strict=True))


def why_no_custom_collective(collective: Collective) -> str | None:
    """The reason why ASTRA-sim cannot run a collective by traces of every NPU; None if it can."""
    if collective.members is None:
        return None
    return (
        f"it is of {collective.num_members} of {collective.num_npus} NPUs, and ASTRA-sim's custom collectives run on their "
        "members only: expected one of all NPUs"
    )


def _why_not(schedule: Schedule) -> str | None:
    reason = why_no_custom_collective(schedule.collective)
    if reason is None and schedule.num_messages > TAGS:
        reason = f"it has {schedule.num_messages:,} messages, and ASTRA-sim distinguishes at most {TAGS:,} tags"
    return reason


def _write(
    schedule: Schedule, path: Path, link_order: LinkOrder | None = None, first_tag: int = 0, in_flight: int | None = None
) -> Exported:
    link_order, in_flight = order_of_traces(schedule, link_order, in_flight)
    export_chakra(schedule, path / schedule.collective.name.replace("-", "_"), link_order, first_tag, in_flight)
    if keeps_timing(schedule, link_order, in_flight):
        return Exported(path)
    return Exported(path, (note_on_link_order(link_order, in_flight),))


def note_on_link_order(link_order: LinkOrder, in_flight: int | None) -> str:
    """A note about traces whose link order differs from that of their timing model."""
    order = f"link order {link_order!r}" if in_flight is None else f"link order 'window' with {in_flight} in flight"
    return f"{order} is not that of the timing model: ASTRA-sim's cycles will differ"


_OWN_FILE = re.compile(rf"({'|'.join(name.replace('-', '_') for name in COLLECTIVES)})\.[0-9]+\.et")

EXPORTER = Exporter(
    name="chakra",
    summary="Chakra traces of the collective, one per NPU, for use as a custom collective of ASTRA-sim",
    writes="directory",
    suffix="_chakra",
    write=_write,
    why_not=_why_not,
    options={
        "link-order": one_of(LINK_ORDERS, "how traces keep the order of sends on a link; by default the schedule's own"),
        "in-flight": whole_number("messages in flight on a link, for the link order window; by default the schedule's own"),
        "first-tag": whole_number("tag of the first send, by default 0; the others follow"),
    },
    is_own=lambda names: all(_OWN_FILE.fullmatch(name) for name in names),
)


COMM_TYPES = {
    "all-reduce": CommType.ALL_REDUCE,
    "all-gather": CommType.ALL_GATHER,
    "reduce-scatter": CommType.REDUCE_SCATTER,
    "broadcast": CommType.ALL_REDUCE,
    "reduce": CommType.ALL_REDUCE,
    "all-to-all": CommType.ALL_TO_ALL,
    "all-to-allv": CommType.ALL_TO_ALL,
    "scatter": CommType.ALL_REDUCE,
    "gather": CommType.ALL_REDUCE,
}
"""ASTRA-sim has no custom Broadcast (it only waits) and throws for a Reduce, a Scatter or a Gather: the node of such a collective
is an All-Reduce of its size. What it does is in its custom traces."""


def export_workload(collective: Collective, prefix: str | Path) -> None:
    """Write `PREFIX.<npu>.et`, each with one COMM_COLL node of the collective."""
    attributes = {"is_cpu_op": 0, "comm_type": COMM_TYPES[collective.name], "comm_size": collective.size_bytes}
    encoded = encode_node(collective.name.replace("-", "_") + "_", NodeType.COMM_COLL, attributes)
    for npu in range(collective.num_npus):
        Path(f"{prefix}.{npu}.et").write_bytes(encoded)
