"""Whole runs of a few ranks, as small as a finding needs: workload, system, network, groups and custom collectives as files."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.internal.decoder import _DecodeVarint32

from astra_tacos.run.trace.schema import CommType, NodeType, schema_module

Node = Any
_schema: Any = schema_module()


def node(
    id: int, kind: NodeType, deps: Iterable[int] = (), ctrl: Iterable[int] = (), us: int = 0, name: str = "", **attributes: object
) -> Node:
    """A Chakra node; an attribute is an int (int64), bool, str, list of bools, a pair (field name, value), or None: no value."""
    message = _schema.Node(id=id, name=name or f"n{id}", type=int(kind), duration_micros=us)
    message.data_deps.extend(deps)
    message.ctrl_deps.extend(ctrl)
    for key, value in attributes.items():
        attribute = message.attr.add(name=key)
        if isinstance(value, tuple):
            setattr(attribute, *value)
        elif isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, int):
            attribute.int64_val = value
        elif isinstance(value, str):
            attribute.string_val = value
        elif isinstance(value, list):
            attribute.bool_list.values.extend(value)
    return message


def comp(id: int, deps: Iterable[int] = (), us: int = 1, **attributes: object) -> Node:
    return node(id, NodeType.COMP, deps, us=us, **{"is_cpu_op": False, **attributes})


def coll(
    id: int,
    deps: Iterable[int] = (),
    comm_type: CommType = CommType.ALL_REDUCE,
    size: int = 4096,
    group: int | None = None,
    **attributes: object,
) -> Node:
    given: dict[str, object] = {"is_cpu_op": False, "comm_type": int(comm_type), "comm_size": size}
    if group is not None:
        given["pg_name"] = str(group)
    return node(id, NodeType.COMM_COLL, deps, **{**given, **attributes})


def send(id: int, dst: int, deps: Iterable[int] = (), size: int = 4096, tag: int = 0, **attributes: object) -> Node:
    given = {"is_cpu_op": False, "comm_size": size, "comm_dst": dst, "comm_tag": tag}
    return node(id, NodeType.COMM_SEND, deps, **{**given, **attributes})


def recv(id: int, src: int, deps: Iterable[int] = (), size: int = 4096, tag: int = 0, **attributes: object) -> Node:
    given = {"is_cpu_op": False, "comm_size": size, "comm_src": src, "comm_tag": tag}
    return node(id, NodeType.COMM_RECV, deps, **{**given, **attributes})


def drop(message: Node, *names: str) -> Node:
    """The same node without some attributes."""
    kept = [attribute for attribute in message.attr if attribute.name not in names]
    del message.attr[:]
    message.attr.extend(kept)
    return message


def nodes(text: str) -> list[Node]:
    """Nodes as text, by kind, arguments in order, and named ones: `coll 1 group=1; send 2 1 [1] size=64; METADATA 3 -name`."""
    return [_node(*part.split()) for part in text.split(";") if part.strip()]


def _node(kind: str, *words: str) -> Node:
    make: Any = {"comp": comp, "coll": coll, "send": send, "recv": recv}.get(kind)
    named = dict(word.split("=", 1) for word in words if "=" in word)
    given = [_value(word) for word in words if "=" not in word and word[0] != "-"]
    if make is None:
        make, given[1:1] = node, [NodeType[kind]]
    left_out = (word[1:] for word in words if word[0] == "-")
    return drop(make(*given, **{name: _value(word) for name, word in named.items()}), *left_out)


def _value(word: str) -> object:
    if word in CommType.__members__:
        return CommType[word]
    number, shifted, by = word.partition("<<")
    try:
        return int(number) << int(by) if shifted else literal_eval(word)
    except ValueError:
        return word


def encode(nodes: Sequence[Node]) -> bytes:
    """A trace file."""
    return b"".join(_prefixed(message) for message in (_schema.GlobalMetadata(version="0.0.4"), *nodes))


def _prefixed(message: Any) -> bytes:
    body = message.SerializeToString()
    size, prefix = len(body), bytearray()
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes(prefix) + bytes([size]) + body


def bodies(data: bytes) -> list[bytes]:
    """The messages of a file."""
    found, at = [], 0
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        found.append(data[at : at + size])
        at += size
    return found


Traces = Sequence[Sequence[Node]] | str
"""By rank; as text, ranks are parted by `|`, and `3 * comp 0` are three of them."""


def traces_of(ranks: Traces) -> Sequence[Sequence[Node]]:
    if not isinstance(ranks, str):
        return ranks
    parts = [part.rpartition(" * ") for part in ranks.split("|")]
    return [nodes(text) for count, _, text in parts for _ in range(int(count or 1))]


@dataclass
class RunFiles:
    """A run to be written; by default what every rank has is fine."""

    ranks: Traces
    collectives: Mapping[str, Traces] = field(default_factory=dict)
    system: Mapping[str, object] | str = field(default_factory=dict)
    """Put over a system that runs native rings; None takes a key away."""
    groups: Mapping[str, Sequence[int]] | str | None = None
    topology: Sequence[str] = ("FullyConnected",)
    npus: Sequence[int] | None = None
    bandwidth: float = 50
    latency: float = 500
    per_node: Mapping[int, str] | str | None = None
    remote_memory: Mapping[str, object] | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ranks, str):  # with settings as YAML behind ##
            self.ranks, _, settings = self.ranks.partition(" ## ")
            for name, value in yaml.safe_load(settings or "{}").items():
                setattr(self, name, value)
        self.ranks = traces_of(self.ranks)
        for name in ("system", "groups", "per_node", "remote_memory"):
            if isinstance(given := getattr(self, name), str):  # as YAML
                setattr(self, name, yaml.safe_load(given))

    def write(self, folder: Path) -> dict[str, Any]:
        """Write it, and return the arguments of `RunInputs`."""
        (folder / "workload").mkdir(parents=True, exist_ok=True)
        for prefix, traces in {"workload/w": self.ranks, **self.collectives}.items():
            (folder / prefix).parent.mkdir(parents=True, exist_ok=True)
            for rank, trace in enumerate(traces_of(traces)):
                Path(f"{folder / prefix}.{rank}.et").write_bytes(encode(trace))
        system: dict[str, object] = {
            "scheduling-policy": "FIFO",
            "preferred-dataset-splits": 1,
            "collective-optimization": "baseline",
        }
        for key in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
            system[f"{key}-implementation"] = ["ring"] * len(self.topology)
        if self.per_node is not None:
            system["per-node-custom-implementation"] = "per_node.yml"
            (folder / "per_node.yml").write_text("".join(f"{id}: {prefix}\n" for id, prefix in self.per_node.items()))
        system |= self.system
        system = {key: value for key, value in system.items() if value is not None}
        (folder / "system.json").write_text(json.dumps(system))
        sizes = list(self.npus or [len(self.ranks)])
        dimensions = {
            "topology": list(self.topology),
            "npus_count": sizes,
            "bandwidth": [self.bandwidth] * len(sizes),
            "latency": [self.latency] * len(sizes),
        }
        (folder / "network.yml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in dimensions.items()))
        arguments: dict[str, Any] = {
            "workload": folder / "workload/w",
            "system": folder / "system.json",
            "network": folder / "network.yml",
            "directory": folder,
        }
        for key, name, content in (
            ("groups", "comm_group.json", self.groups),
            ("remote_memory", "remote_memory.json", self.remote_memory),
        ):
            if content is not None:
                (folder / name).write_text(json.dumps(content))
                arguments[key] = folder / name
        return arguments


def one_step_exchange(num_ranks: int = 2, size: int = 4096, tag: int = 0) -> list[list[Node]]:
    """A custom collective: every rank sends to the next one and reduces what comes."""
    return [
        [
            send(0, (rank + 1) % num_ranks, size=size, tag=tag + rank),
            recv(1, (rank - 1) % num_ranks, size=size, tag=tag + (rank - 1) % num_ranks),
            comp(2, [1]),
        ]
        for rank in range(num_ranks)
    ]


def run_of(run: RunFiles | str) -> RunFiles:
    return RunFiles(run) if isinstance(run, str) else run


def every(trace: Sequence[Node] | str, count: int = 2, **settings: Any) -> RunFiles:
    """A run in which every rank has these nodes."""
    return RunFiles([nodes(trace) if isinstance(trace, str) else trace] * count, **settings)
