"""Sound runs, and runs that others published, with a few faults of those that `lint` finds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from helpers.lint_runs import Node, RunFiles, coll, comp, drop, node, recv, send
from hypothesis import strategies as st

from astra_tacos.network.network_config import read_network
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.run.trace.schema import CommType, NodeType

_PATTERNS = (CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL)
_SHAPES = ((("Ring",), (3,)), (("FullyConnected",), (4,)), (("Switch",), (4,)), (("Ring", "Switch"), (2, 2)), (("Ring",), (2,)))
_NATIVE = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


@st.composite
def sound_runs(draw: st.DrawFn) -> RunFiles:
    """Computation, collectives of all ranks and of groups, and messages, in one order on all ranks."""
    topology, npus = draw(st.sampled_from(_SHAPES))
    count = 1
    for size in npus:
        count *= size
    groups = {"1": list(range(count - 1)), "2": [0, count - 1]} if count > 2 else {"1": [0, 1]}
    ranks: list[list[Node]] = [[] for _ in range(count)]

    def add(rank: int, make: Any) -> None:
        number = len(ranks[rank])
        deps = [number - 1] if number and draw(st.integers(0, 3)) else []
        ranks[rank].append(make(number, deps))

    for step in range(draw(st.integers(2, 7))):
        kind = draw(st.integers(0, 4))
        if kind < 2:
            for rank in range(count):
                us = draw(st.sampled_from((0, 1, 7, 300)))
                add(rank, lambda number, deps, us=us: comp(number, deps, us=us))
        elif kind == 2:
            source = draw(st.integers(0, count - 1))
            target = (source + draw(st.integers(1, count - 1))) % count
            add(source, lambda number, deps, step=step, target=target: send(number, target, deps, tag=step))
            add(target, lambda number, deps, step=step, source=source: recv(number, source, deps, tag=step))
        else:
            group = draw(st.sampled_from((None, *groups)))
            pattern, size = draw(st.sampled_from(_PATTERNS)), draw(st.sampled_from((64, 4096, 1 << 20)))
            for rank in range(count) if group is None else groups[group]:
                add(
                    rank, lambda number, deps, p=pattern, s=size, g=group: coll(number, deps, p, s, None if g is None else int(g))
                )
    for rank in range(count):
        add(rank, lambda number, deps: comp(number, deps, us=2))
    return RunFiles(ranks, {}, {}, groups, topology, npus)


def published_run(prefix: Path, system: Path, network: Path, groups: Path) -> RunFiles:
    """A run that others published, to be mutated."""
    shape = read_network(network)
    ranks = [read_messages(path)[1] for path in trace_files(prefix, shape.num_npus)]
    # What a run has by default is taken away where the system lacks it.
    defaults = dict.fromkeys([f"{key}-implementation" for key in _NATIVE])
    given = json.loads(system.read_text())
    return RunFiles(
        ranks,
        {},
        defaults | given,
        json.loads(groups.read_text()),
        [dimension.block for dimension in shape.dimensions],
        [dimension.size for dimension in shape.dimensions],
        shape.dimensions[0].bandwidth_gibps,
        shape.dimensions[0].latency_ns,
    )


@dataclass
class _Wreck:
    """A run whose parts may be changed."""

    ranks: list[list[Node]]
    groups: dict[str, list[int]]
    system: dict[str, object] = field(default_factory=dict)

    def pick(self, draw: st.DrawFn, *kinds: NodeType) -> tuple[int, int] | None:
        """Rank and place of a node of some kinds."""
        ranks = [rank for rank, nodes in enumerate(self.ranks) if any(message.type in kinds for message in nodes)]
        if not ranks:
            return None
        rank = draw(st.sampled_from(ranks))
        return rank, draw(st.sampled_from([at for at, message in enumerate(self.ranks[rank]) if message.type in kinds]))

    def node(self, draw: st.DrawFn, *kinds: NodeType) -> Node | None:
        at = self.pick(draw, *kinds)
        return at and self.ranks[at[0]][at[1]]


_COMM = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
_ANY = (NodeType.COMP, *_COMM)


def _attribute(message: Node, name: str, kind: str, value: object) -> None:
    drop(message, name)
    setattr(message.attr.add(name=name), kind, value)


def _lose_an_attribute(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, *_COMM):
        names = ("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst", "is_cpu_op", "pg_name")
        drop(message, draw(st.sampled_from(names)))


def _change_a_number(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, *_COMM):
        name = draw(st.sampled_from(("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst")))
        value = draw(st.sampled_from((-1, 0, 1, 2, 3, 5, 9, 8192)))
        _attribute(message, name, "int64_val", value)


def _change_a_type(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, *_COMM):
        for entry in list(message.attr):
            if entry.name == "comm_size" and entry.WhichOneof("value") == "int64_val":
                kind, value = draw(
                    st.sampled_from((("double_val", float(entry.int64_val)), ("string_val", str(entry.int64_val))))
                )
                _attribute(message, "comm_size", kind, value)
                return


def _put_on_the_cpu(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, *_ANY):
        _attribute(message, "is_cpu_op", "bool_val", True)


def _give_another_id(draw: st.DrawFn, run: _Wreck) -> None:
    if (message := run.node(draw, *_ANY)) and (other := run.node(draw, *_ANY)):
        message.id = other.id


def _depend(draw: st.DrawFn, run: _Wreck) -> None:
    """On what does not exist, on a later node, or on itself."""
    if at := run.pick(draw, *_ANY):
        nodes = run.ranks[at[0]]
        known = [message.id for message in nodes]
        deps = draw(st.sampled_from(("data_deps", "ctrl_deps")))
        getattr(nodes[at[1]], deps).append(draw(st.sampled_from((max(known) + 5, known[-1], known[at[1]]))))


def _insert(draw: st.DrawFn, run: _Wreck) -> None:
    """A node of no use: metadata, INVALID, a collective that nobody else has, or a message to nobody."""
    rank = draw(st.sampled_from([rank for rank, nodes in enumerate(run.ranks) if nodes] or [0]))
    number = max((message.id for message in run.ranks[rank]), default=0) + 1
    made = (
        node(number, NodeType.METADATA),
        node(number, NodeType(0)),
        coll(number),
        coll(number, comm_type=CommType.BARRIER),
        send(number, rank),
        recv(number, (rank + 1) % len(run.ranks), tag=77),
    )
    place = draw(st.integers(0, len(run.ranks[rank])))
    run.ranks[rank].insert(place, draw(st.sampled_from(made)))


def _lose_a_node(draw: st.DrawFn, run: _Wreck) -> None:
    if at := run.pick(draw, *_COMM):
        del run.ranks[at[0]][at[1]]


def _lose_a_rank(draw: st.DrawFn, run: _Wreck) -> None:
    run.ranks[draw(st.integers(0, len(run.ranks) - 1))].clear()


def _swap(draw: st.DrawFn, run: _Wreck) -> None:
    """Two nodes of a rank change their contents, not their ids and dependencies."""
    if (at := run.pick(draw, *_COMM)) and len(run.ranks[at[0]]) > 1:
        nodes = run.ranks[at[0]]
        first, second = nodes[at[1]], nodes[draw(st.integers(0, len(nodes) - 1))]
        if first is second:
            return
        mine, yours = list(first.attr), list(second.attr)
        mine, yours = (
            [type(entry).FromString(entry.SerializeToString()) for entry in mine],
            [type(entry).FromString(entry.SerializeToString()) for entry in yours],
        )
        for message, attributes in ((first, yours), (second, mine)):
            del message.attr[:]
            message.attr.extend(attributes)
        first.type, second.type = second.type, first.type
        first.duration_micros, second.duration_micros = second.duration_micros, first.duration_micros


def _change_a_group(draw: st.DrawFn, run: _Wreck) -> None:
    names = list(run.groups)
    if not names:
        return
    name = draw(st.sampled_from(names))
    how = draw(st.integers(0, 4))
    if how == 0:
        del run.groups[name]
    elif how == 1:
        run.groups[name] = run.groups[name][:-1]
    elif how == 2:
        run.groups[name] = [*run.groups[name], len(run.ranks) + 3]
    elif how == 3:
        run.groups["0"] = run.groups.pop(name)
    else:
        run.groups[name] = [*run.groups[name], *run.groups[name][:1]]


def _name_another_group(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, NodeType.COMM_COLL):
        _attribute(message, "pg_name", "string_val", draw(st.sampled_from(("0", "1", "2", "7", "0.0", "tp"))))


def _name_dimensions(draw: st.DrawFn, run: _Wreck) -> None:
    if message := run.node(draw, NodeType.COMM_COLL):
        drop(message, "involved_dim").attr.add(name="involved_dim").bool_list.values.extend(
            draw(st.lists(st.booleans(), max_size=3))
        )


def _change_the_system(draw: st.DrawFn, run: _Wreck) -> None:
    faults = (
        ("scheduling-policy", None),
        ("preferred-dataset-splits", 0),
        ("preferred-dataset-splits", -1),
        ("collective-optimization", None),
        ("all-reduce-implementation", None),
        ("all-gather-implementation", ["ring"] * 4),
        ("reduce-scatter-implementation", ["nonsense"]),
        ("roofline-enabled", 1),
        ("replay-only", 1),
        ("endpoint-delay", None),
        ("active-chunks-per-dimension", 0),
    )
    key, value = draw(st.sampled_from(faults))
    run.system[key] = value


MUTATIONS = (
    _lose_an_attribute,
    _change_a_number,
    _change_a_type,
    _put_on_the_cpu,
    _give_another_id,
    _depend,
    _insert,
    _lose_a_node,
    _lose_a_rank,
    _swap,
    _change_a_group,
    _name_another_group,
    _name_dimensions,
    _change_the_system,
)


@st.composite
def mutated_runs(draw: st.DrawFn, sound: st.SearchStrategy[RunFiles] | None = None) -> RunFiles:
    """Runs with one to four faults; `sound` are the runs that get them."""
    run = draw(sound_runs() if sound is None else sound)
    wreck = _Wreck([[_copied(message) for message in nodes] for nodes in run.ranks], dict(run.groups or {}), dict(run.system))
    for mutate in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=4)):
        mutate(draw, wreck)
    return replace(run, ranks=wreck.ranks, groups=wreck.groups, system=wreck.system)


def _copied(message: Node) -> Node:
    return type(message).FromString(message.SerializeToString())
