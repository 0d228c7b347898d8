"""Compilation of a run into the arrays of the replay kernel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer import _run_layout_kernels as layout
from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.replayer.casting import Casts
from astra_tacos.replayer.collective_program import CollectiveProgram, LocalKind
from astra_tacos.replayer.routes import NetworkModel
from astra_tacos.replayer.workload_actions import Actions
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError

_POINT_TO_POINT = 0
_NATIVE_SPACE = 1
_ACTIONS = {NodeType.COMM_SEND: kernels.SEND, NodeType.COMM_RECV: kernels.RECEIVE, NodeType.COMP: kernels.COMPUTE}
_NATIVE_ACTIONS = {
    NodeType.COMM_SEND: kernels.POST,
    NodeType.COMM_RECV: kernels.RECEIVE,
    NodeType.COMP: kernels.COMPUTE,
    LocalKind.TAKE: kernels.TAKE,
    LocalKind.PUT: kernels.PUT,
    LocalKind.PULSE: kernels.PULSE,
}
_Based = list[tuple[CollectiveProgram, int]]
"""Each program and its first row, which comes after the rows of the workload."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """The `Code` of a run, its number of message keys, and the ends of its messages: pair p goes from `pair_src` to `pair_dst`.

    Row `program_first[p + 1]` is the first row of program p; link l of `Code` is link `used_links[l]` of the network.
    """

    code: kernels.Code
    num_keys: int
    pair_src: Ints
    pair_dst: Ints
    program_first: Ints
    used_links: Ints32
    owners: Ints
    stands_for_many: bool

    def by_link(self, figures: Ints, num_links: int) -> Ints:
        """int64[num_links]: `figures` of the used links at their places among all links, 0 for the others."""
        spread = np.zeros(num_links, np.int64)
        spread[self.used_links] = figures
        return spread


def are_sends(code: kernels.Code, rows: Ints) -> Bools:
    """bool[len(rows)], whether each row sends a message."""
    return np.isin(code.nodes["action"][rows], (kernels.SEND, kernels.POST))


def template_sends(code: kernels.Code, template: int) -> Ints:
    """The rows of a template that send."""
    rows = np.arange(code.template_first[template], code.template_first[template + 1])
    return rows[are_sends(code, rows)]


def compile_run(
    workload: Trace,
    actions: Actions,
    casts: Casts,
    network: NetworkModel,
    starts_at_once: bool,
    server: Ints32,
    lattice: Lattice | None = None,
) -> Compiled:
    """Lay out the workload and the programs one after another, number the messages, and find their routes.

    `Code` defines templates, rows and live nodes.

    Parameters
    ----------
    starts_at_once
        As in `Code`.
    server
        int32[num_ranks], as in `Code`.
    lattice
        Where each rank of the workload stands for all that translations move it to.
    """
    num_ranks, programs = workload.num_ranks, casts.programs
    program_first = np.concatenate(([0], np.cumsum([workload.num_nodes, *(program.num_nodes for program in programs)])))
    based = list(zip(programs, program_first[1:-1].tolist(), strict=True))
    firsts = [program.rank_first[:-1] + base for program, base in based]
    template_first = np.concatenate([workload.rank_first[:-1], *firsts, program_first[-1:]]).astype(np.int64)
    program_template = np.concatenate(([num_ranks], num_ranks + np.cumsum([program.num_positions for program in programs])))
    with ThreadPoolExecutor(2) as other_threads:
        messages = other_threads.submit(_messages, workload, actions, casts, program_first, lattice)
        node_id = np.concatenate([workload.node_id, *(program.node_id.view(np.uint64) for program in programs)])
        num_waits, child_first, child = _children([workload, *programs], program_first)
        root, root_first = _roots(num_waits, template_first)
        set_level = np.zeros(len(template_first) - 1, np.int64)
        rows = _Rows(node_id, num_waits, template_first, set_level, layout.Children(child_first, child), root_first, root)
        hashed = _order_programs(rows, based, program_template, other_threads)
        nodes = _nodes(actions, based, child_first)
        address, cast_shift, num_keys, pair_src, pair_dst = messages.result()
    routes = network.routes(pair_src, pair_dst)
    used_links, hop_link = _used_links(routes.link)
    order, by_order, heap_first = _workload_order(workload, actions.slot)
    cast_template = program_template[casts.cast_program].astype(np.int32)
    native_template = np.where(casts.native >= 0, np.append(cast_template, 0)[casts.native] + casts.native_position, -1)
    code = kernels.Code(
        node_id=node_id,
        nodes=nodes,
        num_waits=num_waits,
        child=child,
        template_first=template_first,
        root_first=root_first,
        root=root,
        set_level=set_level,
        hashed=hashed,
        address=address,
        pair_hop=routes.first_hop,
        hop_link=hop_link,
        pair_latency_ns=routes.direct_latency_ns,
        pair_bytes_per_ns=routes.direct_bytes_per_ns,
        link_latency_ns=network.link_latency_ns[used_links],
        link_bytes_per_ns=network.link_bytes_per_ns[used_links],
        hands_over=network.hands_over,
        slot=actions.slot,
        order=order,
        by_order=by_order,
        counts=actions.counts,
        heap_first=heap_first,
        custom=casts.custom,
        native=casts.native,
        plan=casts.plan,
        position=casts.position,
        native_template=native_template.astype(np.int32),
        cast_template=cast_template,
        cast_shift=cast_shift,
        cast_streams=np.array([_streams(programs[program]) for program in casts.cast_program.tolist()], np.int32),
        block_first=_blocks(workload, casts, cast_template, native_template, template_first),
        starts_at_once=starts_at_once,
        server=server,
        num_pools=max((_pools(program) for program in programs), default=0),
    )
    owners = np.arange(num_ranks) if workload.owners is None else workload.owners
    return Compiled(code, num_keys, pair_src, pair_dst, program_first, used_links, owners, lattice is not None)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of all templates, whose order within programs is to be found."""

    node_id: NDArray[np.uint64]
    num_waits: Ints32
    template_first: Ints
    set_level: Ints
    children: layout.Children
    root_first: Ints
    root: Ints32

    def order_positions(self, program: CollectiveProgram, base: int, begin: int, end: int) -> None:
        """`order_nodes` for the templates `begin` to `end - 1` of a program."""
        if begin == end:
            return
        first = self.template_first[begin : end + 1]
        most = int(np.diff(first).max())
        layout.order_nodes(
            layout.ProgramRows(self.node_id, first, base, program.dep_first, program.dep, self.num_waits),
            self.children,
            layout.Roots(self.root_first[begin : end + 1], self.root, self.set_level[begin:end]),
            layout.SetSpace(np.full(3 * most + 13, -1, np.int64), np.empty((4, most), np.int64)),
        )


def _order_programs(
    rows: _Rows,
    based: _Based,
    program_template: Ints,
    other_threads: ThreadPoolExecutor,
) -> Bools:
    """Order the nodes of custom collectives; returns which templates are theirs."""
    hashed = np.zeros(len(rows.set_level), np.bool_)
    for number, (program, base) in enumerate(based):
        if program.native:
            continue
        begin, end = program_template[number : number + 2].tolist()
        hashed[begin:end] = True
        half = (begin + end) // 2
        other_half = other_threads.submit(rows.order_positions, program, base, half, end)
        rows.order_positions(program, base, begin, half)
        other_half.result()
    return hashed


def _nodes(actions: Actions, based: _Based, child_first: Ints) -> NDArray[np.void]:
    """The nodes of all rows, and where the rows end that wait for the last."""
    nodes = np.empty(len(child_first), kernels.NODE)
    nodes["child_first"] = child_first
    num_rows = len(actions.action)
    nodes["action"][:num_rows], nodes["amount"][:num_rows] = actions.action, actions.amount
    for program, base in based:
        _fill_program(nodes[base : base + program.num_nodes], program)
    return nodes


def _used_links(link: Ints32) -> tuple[Ints32, Ints32]:
    """The links of routes, and the place of each hop's link among them, -1 where a route ends."""
    used, place = np.unique(link, return_inverse=True)
    if len(used) and used[0] < 0:
        used, place = used[1:], place - 1
    return used, place.astype(np.int32)


def _fill_program(nodes: NDArray[np.void], program: CollectiveProgram) -> None:
    table = np.full(256, kernels.STALL, np.uint8)
    for kind, action in (_NATIVE_ACTIONS if program.native else _ACTIONS).items():
        table[kind] = action
    nodes["action"] = table[program.kind]
    nodes["amount"] = program.size_bytes
    computes = program.kind == NodeType.COMP
    nodes["amount"][computes] = program.delay_ns[computes]
    if program.native:
        pools = program.kind > NodeType.COMM_COLL
        nodes["amount"][pools] = program.tag[pools]


def _streams(program: CollectiveProgram) -> int:
    """Number of streams that ASTRA-sim makes of a collective: one per chunk if it is native, else 1."""
    return int(program.tag[program.kind == NodeType.COMM_SEND].max(initial=0)) + 1 if program.native else 1


def _pools(program: CollectiveProgram) -> int:
    """Number of pools of tokens of a position."""
    pools = program.tag[program.kind > NodeType.COMM_COLL]
    return int(pools.max()) + 1 if pools.size else 0


def _children(traces: list[Trace | CollectiveProgram], first: Ints) -> tuple[Ints32, Ints, Ints32]:
    """Number of rows that each row waits for (int32[num_rows]), and the rows that wait for it (CSR)."""
    total = int(first[-1])
    num_waits, child_first = np.zeros(total, np.int32), np.zeros(total + 1, np.int64)
    child = np.empty(sum(len(trace.dep) for trace in traces), np.int32)
    for trace, base in zip(traces, first[:-1].tolist(), strict=True):
        layout.link_children(trace.num_nodes, base, trace.dep_first, trace.dep, num_waits, child_first, child)
    return num_waits, child_first, child


def _roots(num_waits: Ints32, template_first: Ints) -> tuple[Ints32, Ints]:
    root = np.flatnonzero(num_waits == 0).astype(np.int32)
    return root, np.searchsorted(root, template_first).astype(np.int64)


def _messages(
    workload: Trace, actions: Actions, casts: Casts, program_first: Ints, lattice: Lattice | None
) -> tuple[NDArray[np.void], Ints, int, Ints, Ints]:
    """Number the messages of the workload and of all casts.

    Returns the address of each row, the shift from a program's rows to the addresses of each cast, the number of keys, and the
    source and destination of each pair.
    """
    num_ranks, everyone = len(casts.members[0]), casts.members[0]
    played = [casts.programs[program] for program in casts.cast_program.tolist()]
    groups = [casts.members[group] for group in casts.cast_group.tolist()]
    ends = [int(program.rank_first[len(ranks)]) for program, ranks in zip(played, casts.players, strict=True)]
    starts = np.concatenate(([workload.num_nodes], workload.num_nodes + np.cumsum(ends))).astype(np.int64)
    address = np.empty(starts[-1], kernels.ADDRESS)
    is_message = (actions.action == kernels.SEND) | (actions.action == kernels.RECEIVE)
    workload_kind = np.where(is_message, workload.kind, NodeType.INVALID).astype(np.uint8)
    bound = int(is_message.sum()) + sum(
        int(np.count_nonzero((program.kind[:end] == NodeType.COMM_SEND) | (program.kind[:end] == NodeType.COMM_RECV)))
        for program, end in zip(played, ends, strict=True)
    )
    table_size = 1 << max(4, int(1.5 * bound).bit_length())
    pair_bound = min(bound, num_ranks * num_ranks)
    tables = layout.Tables(
        np.full(table_size, -1, np.int32),
        np.empty(bound, kernels.MEETING),
        np.full(1 << max(4, int(1.5 * pair_bound).bit_length()), -1, np.int32),
        np.empty(pair_bound, np.int64),
        counts := np.zeros(3, np.int64),
    )
    owners = everyone if workload.owners is None else workload.owners
    spaces = np.arange(len(casts.members)) if lattice is None else lattice.orbits(casts.members)
    digits = (np.empty(0, np.int64),) * 3 if lattice is None else lattice.columns
    parts: list[tuple[NDArray[np.uint8], Trace | CollectiveProgram, Ints, Ints, int, int]] = [
        (workload_kind, workload, owners, everyone, _POINT_TO_POINT, 0)
    ]
    for number, (program, members) in enumerate(zip(played, groups, strict=True)):
        space = _NATIVE_SPACE + int(spaces[casts.cast_group[number]]) if program.native else _POINT_TO_POINT
        parts.append((program.kind, program, casts.players[number], members, space, int(starts[number])))
    for kind, trace, players, members, space, start in parts:
        end = start + int(trace.rank_first[len(players)])
        layout.number_messages(
            layout.Messages(kind, trace.size_bytes, trace.peer, trace.tag, trace.rank_first),
            layout.Ends(players, members, space, num_ranks, TAGS, *digits),
            address[start:end],
            tables,
        )
    num_keys, num_pairs, _ = counts.tolist()
    pair_src, pair_dst = np.divmod(tables.pair_code[:num_pairs], num_ranks)
    if (pair_src == pair_dst).any():
        raise ConfigError(
            f"{workload.prefix}: a custom collective makes rank {pair_src[np.argmax(pair_src == pair_dst)]} send to itself, as "
            "its communicator group does not list its ranks in ascending order, expected them in order"
        )
    return address, starts[:-1] - program_first[1:][casts.cast_program], num_keys, pair_src, pair_dst


def _workload_order(workload: Trace, slot: NDArray[np.uint8]) -> tuple[Ints32, Ints32, Ints]:
    """Place of each row among the ids of its rank, the row at each place, and the begin of the heap of each rank and slot."""
    rank = workload.rank
    by_order = np.lexsort((workload.node_id, rank))
    order = np.empty(workload.num_nodes, np.int32)
    order[by_order] = np.arange(workload.num_nodes) - workload.rank_first[rank]
    counts = np.bincount(rank * kernels.SLOTS + slot, minlength=workload.num_ranks * kernels.SLOTS)
    return order, by_order.astype(np.int32), np.concatenate(([0], np.cumsum(counts)))[:-1].astype(np.int64)


def _blocks(
    workload: Trace,
    casts: Casts,
    cast_template: Ints32,
    native_template: Ints32,
    template_first: Ints,
) -> Ints:
    """int64[num_ranks + 1], first live node of each rank's block, which has room for the largest collective that it may run.

    The blocks come after the rows of the workload.
    """
    room = np.zeros(workload.num_ranks, np.int64)
    sizes = np.diff(template_first)
    custom_template = np.where(casts.custom >= 0, np.append(cast_template, 0)[casts.custom] + casts.position, -1)
    for template in (custom_template, native_template):
        rows = np.flatnonzero(template >= 0)
        np.maximum.at(room, workload.rank[rows], sizes[template[rows]])
    return workload.num_nodes + np.concatenate(([0], np.cumsum(room))).astype(np.int64)
