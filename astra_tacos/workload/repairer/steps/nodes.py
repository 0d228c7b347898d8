"""Traces of ranks: one for each NPU, with nodes of kinds, ids, attributes and dependencies that ASTRA-sim runs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from astra_tacos.run.trace.node_bytes import new_node
from astra_tacos.run.trace.schema import ATTRIBUTE_KINDS, NodeType
from astra_tacos.run.trace.trace import WORKLOAD_ATTRIBUTES
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import NS_PER_US
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode, accepted_fields

_OPS_PER_NS = 1000
"""Operations in a ns at 1 TFLOP/s."""
_SHOWN = 4
"""Ids that a change lists."""


def convert_values(draft: Draft, log: Log) -> None:
    """Convert values of types at which ASTRA-sim's reader throws, and remove attributes that have no value.

    `"4096"` and 4096.0 become the whole number 4096. A value that is no number where one is needed is refused.
    """
    for node in (node for nodes in draft.ranks for node in nodes.doubtful()):
        for name in WORKLOAD_ATTRIBUTES:
            kind = node.field(name)
            if kind == "":
                node.drop(name)
                log.add(f"{name} removed", "it has no value", node)
            elif kind is not None and kind not in accepted_fields(name):
                value = _converted(draft, node, name)
                log.add(f"{name}: {node.get(name)!r} became {value!r}", f"ASTRA-sim does not read {kind} here", node)
                node.set(name, value)


def _converted(draft: Draft, node: DraftNode, name: str) -> Any:
    value = node.get(name)
    if hasattr(value, "values"):
        value = list(value.values)
    kind = ATTRIBUTE_KINDS[name]
    if kind == "string" and not isinstance(value, (list, bytes)):
        return str(value)
    if kind == "bool_list":
        flags = value if isinstance(value, list) else [value]
        if flags and all(flag in (0, 1) for flag in flags):
            return [bool(flag) for flag in flags]
    elif isinstance(value, (bool, int, float, str)):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if abs(number) < 1 << 53 and number == int(number):
            return bool(number) if kind == "bool" else int(number)
    raise draft.fault(node, f"{name} is {value!r}, which is no value that ASTRA-sim reads")


def drop_metadata(draft: Draft, log: Log) -> None:
    """Remove METADATA nodes and nodes of unknown types; what depended on them depends on what they depended on.

    ASTRA-sim's statistics abort at such a node. It computes nothing.
    """
    gone = []
    for node in (node for nodes in draft.ranks for node in nodes.not_run()):
        kind = "METADATA" if node.kind == NodeType.METADATA else f"type {node.kind}"
        gone.append((node, f"{node.name or 'the node'} ({kind})", "ASTRA-sim aborts at such nodes"))
    draft.remove(log, gone)


def mend_cpu_communication(draft: Draft, log: Log) -> None:
    """Make the host side of a collective a CPU node of the same duration, and other communication on the CPU a GPU's.

    ASTRA-sim throws at a communication node with `is_cpu_op`. Converters write two nodes for one collective of PyTorch: the
    operator on the host (`c10d::allreduce_`), which states no size, or starts a collective of the same pattern and size, and
    NCCL's kernel. The operator keeps its time on the host; the kernel communicates.
    """
    for nodes in draft.ranks:
        on_cpu = nodes.communication_on_cpu()
        if not on_cpu:
            continue
        started = {
            (dep, node.pattern, node.size)
            for node in nodes.of_kind(NodeType.COMM_COLL)
            if not node.is_cpu_op
            for dep in node.deps
        }
        for node in on_cpu:
            key = (node.id, node.pattern, node.size)
            if node.is_collective and (None in key or key in started):
                _make_host_time(log, node)
            else:
                log.add("is_cpu_op became False", "ASTRA-sim communicates on GPUs only", node)
                node.set("is_cpu_op", False)


def _make_host_time(log: Log, node: DraftNode) -> None:
    log.add(
        f"{node.name} became a CPU node of its {node.duration_us:,} us",
        "it is the host side of a collective: ASTRA-sim communicates on GPUs only",
        node,
        compute_us=node.duration_us,
    )
    node.message.type = int(NodeType.COMP)
    for name in ("comm_type", "comm_size", "pg_name", "involved_dim", "comm_priority"):
        node.drop(name)


def drop_skipped(draft: Draft, log: Log) -> None:
    """Remove nodes of type INVALID; what depended on them depends on what they depended on.

    ASTRA-sim skips such a node, and starts what depends on it with the rank's next event, which may never come.
    """
    why = "ASTRA-sim skips the node, and may stall behind it"
    draft.remove(log, ((node, "(INVALID)", why) for node in draft.nodes(NodeType.INVALID)))


def mend_roofline(draft: Draft, log: Log) -> None:
    """Have compute nodes that state a duration take it, where the roofline is on and they state no operations.

    If no node states operations and bytes, the roofline is switched off, and durations count. Otherwise a node gets as many
    operations as the peak performance does in its duration. A node that states neither takes no time, and is removed.
    """
    if not draft.system.get("roofline-enabled"):
        return
    rest = [node for nodes in draft.ranks for node in nodes.may_lack_operations() if not node.is_cpu_op]
    lacking = [node for node in rest if any((node.number(name) or 0) <= 0 for name in ("num_ops", "tensor_size"))]
    none_states = len(lacking) == len(rest) and not any(nodes.states_operations() for nodes in draft.ranks)
    peak, memory = (float(draft.system.get(key) or 0) for key in ("peak-perf", "local-mem-bw"))
    if none_states and any(node.duration_us for node in lacking):
        draft.system["roofline-enabled"] = 0
        log.add("roofline-enabled became 0", "no compute node states operations and bytes: their durations count")
        return
    if (lacking or not none_states) and not (peak > 0 and memory > 0):
        if all(node.duration_us for node in draft.nodes(NodeType.COMP) if not node.is_cpu_op):
            draft.system["roofline-enabled"] = 0
            log.add("roofline-enabled became 0", "peak-perf or local-mem-bw is not known, and every compute node has a duration")
            return
        what = "peak-perf" if peak <= 0 else "local-mem-bw"
        raise ConfigError(f"system.json: {what} is absent or 0 under the roofline, and compute nodes have no durations")
    gone = []
    for node in lacking:
        if node.duration_us:
            # Half an operation per ns more, so that rounding never takes a ns away.
            operations = int((node.duration_us * NS_PER_US + 0.5) * peak * _OPS_PER_NS)
            node.set("num_ops", operations)
            node.set("tensor_size", 1)
            what = f"num_ops became {operations:,}, of 1 byte"
            log.add(what, f"it takes its {node.duration_us:,} us, and stated no operations under the roofline", node)
        else:
            gone.append((node, "", "no operations, no bytes or no duration: it takes no time under the roofline"))
    draft.remove(log, gone)


def decompress(draft: Draft, log: Log) -> None:
    """Write traces that are compressed by gzip as plain files.

    ASTRA-sim takes the compressed bytes for nodes.
    """
    for rank in draft.compressed:
        log.add("decompressed", "ASTRA-sim does not read gzip", rank)


def fit_ranks(draft: Draft, log: Log) -> None:
    """Replicate the trace of a single rank over all NPUs, and leave out traces that no NPU reads.

    A rank is replicated only where `--ranks` asks for it: as in data parallelism, every rank then computes the same, and runs the
    same collectives in the group of all ranks. Messages have other peers on every rank, so a rank that has some is not
    replicated. ASTRA-sim never opens traces of ranks beyond the network.
    """
    wanted, count = draft.network.num_npus, draft.num_ranks
    if count == 1 and wanted > 1:
        _replicate(draft, log, wanted)
    elif count < wanted:
        raise ConfigError(
            f"{draft.name}.{count}.et: no such file, and the network has {wanted:,} NPUs: what the ranks from {count:,} on do is "
            "not known, expected a trace per NPU, or a network of fewer"
        )
    for rank in draft.surplus:
        log.add("trace left out", f"the network has {wanted:,} NPUs: ASTRA-sim never reads it", rank)


def _replicate(draft: Draft, log: Log, wanted: int) -> None:
    nodes = draft.ranks[0]
    message = next(iter(nodes.of_kind(NodeType.COMM_SEND, NodeType.COMM_RECV)), None)
    if message is not None:
        raise ConfigError(
            f"{draft.name}.0.et: node {message.id} is a message to or from another rank, whose trace is missing: a rank with "
            "messages cannot be replicated"
        )
    compute_us = nodes.compute_us()
    for rank in range(1, wanted):
        draft.ranks.append(nodes.copy(rank))
        draft.metadata.append(draft.metadata[0])
        log.add(
            "copied from rank 0",
            f"there is one trace for {wanted:,} ranks: assumed that they are data-parallel",
            rank,
            compute_us=compute_us,
            is_assumed=True,
        )
    # Groups of a part of the ranks say nothing about copies: every collective is one of all ranks.
    for node in draft.collectives():
        if node.group_name not in (None, "", "0"):
            what = f"group {node.group_name!r} became all ranks"
            log.add(what, "every rank is a copy of rank 0", node, is_assumed=True)
            node.drop("pg_name")
    draft.groups.clear()


def fill_empty(draft: Draft, log: Log) -> None:
    """Give ranks without nodes one compute node of 0 us, which takes 1 ns.

    ASTRA-sim throws at a trace without nodes.
    """
    for nodes in draft.ranks:
        if not len(nodes):
            node = DraftNode(new_node(0, "nothing", NodeType.COMP, is_cpu_op=False))
            nodes.append(node)
            log.add("a compute node of 0 us (1 ns) added", "ASTRA-sim throws at a trace without nodes", node)


def delay_first(draft: Draft, log: Log) -> None:
    """Have ranks start with a compute node of 1 ns, where their first event would take less.

    ASTRA-sim asserts that its first event comes after time 0.
    """
    if not draft.found("N04"):
        return
    for rank, nodes in enumerate(draft.ranks):
        first = nodes.first()
        node = draft.pause(rank, "start")
        for other in first:
            other.depend((node.id,))
        nodes.append(node)
        log.add("starts with a compute node of 0 us (1 ns)", "ASTRA-sim aborts at less than 1 ns at time 0", node)


def end_with_compute(draft: Draft, log: Log) -> None:
    """Have a rank that runs CPU nodes and may end with a message end with a compute node of 1 ns instead.

    ASTRA-sim's statistics throw at CPU nodes as the rank ends. That does no harm, unless the rank's last event is a message:
    ASTRA-sim then aborts. Which of several nodes ends last depends on timing.
    """
    ranks = {found.rank for found in draft.report().findings if found.code == "A14"}
    for rank in sorted(rank for rank in ranks if rank is not None):
        last = draft.ranks[rank].last()
        if not any(node.is_message for node in last):
            continue
        node = draft.pause(rank, "end")
        node.depend(other.id for other in last)
        draft.ranks[rank].append(node)
        log.add("ends with a compute node of 0 us (1 ns)", "ASTRA-sim's statistics abort where a message ends it", node)


def renumber(draft: Draft, log: Log) -> None:
    """Give the later ones of several nodes with one id an id of their own.

    ASTRA-sim keeps the last one of them, with the dependencies of all. A dependency on such an id may mean any of the nodes:
    the run is refused.
    """
    for rank, nodes in enumerate(draft.ranks):
        if nodes.has_unique_ids:
            continue
        seen: set[int] = set()
        twice = [node for node in nodes if node.id in seen or seen.add(node.id)]  # type: ignore[func-returns-value]
        if not twice:
            continue
        needed = {dep for node in nodes for dep in node.deps}
        free = draft.new_id(rank)
        for number, node in enumerate(twice, free):
            if node.id in needed:
                raise ConfigError(
                    f"{draft.name}.{rank}.et: several nodes have the id {node.id}, and others depend on it: which one they mean "
                    "is not known"
                )
            log.add(f"id {node.id} became {number}", "an earlier node has the same id", node)
            node.message.id = number


def drop_dangling(draft: Draft, log: Log) -> None:
    """Remove dependencies on ids that no node of the rank has.

    Converters leave nodes out (of threads, of operators without kernels) and keep the ids of those that others waited for. What
    a missing node waited for is not in the file.
    """
    for nodes in draft.ranks:
        find = nodes.finder()
        for node in nodes.dangling():
            missing = {dep: None for dep in node.deps if find(dep) is None}
            if missing:
                listed = ", ".join(map(str, list(missing)[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
                what = f"no longer depends on {listed}"
                log.add(what, "no node of the rank has that id", node)
                node.replace_deps(lambda dep, gone=missing: () if dep in gone else (dep,))


def cut_cycles(draft: Draft, log: Log) -> None:
    """Cut cycles of dependencies, at the dependency that loses least.

    A control dependency goes before one on data, one on a later id before one on an earlier id, and among equals the one that
    cuts the most cycles of two. All others stay.
    """
    for nodes in draft.ranks:
        # With each dependency on a lower id, there is no cycle: every other one spans the ids of the cycles that it is in.
        by_id = {node.id: node for node in nodes.between(nodes.backward())}
        pending = _components(by_id, {node_id: _needed(node, by_id) for node_id, node in by_id.items()})
        while pending:
            members = pending.pop()
            inside = {node_id: _needed(by_id[node_id], members) for node_id in members}
            node_id, dep = _cheapest(by_id, inside)
            node = by_id[node_id]
            node.replace_deps(lambda other, dep=dep: () if other == dep else (other,))
            size = "itself" if node_id == dep else f"a cycle of {len(members):,} nodes"
            log.add(f"no longer depends on {dep}", f"it waited for {size}", node)
            inside[node_id].discard(dep)
            pending += _components(members, inside)


def _needed(node: DraftNode, among: Container[int]) -> set[int]:
    return {dep for dep in node.deps if dep in among}


def _cheapest(by_id: dict[int, DraftNode], inside: dict[int, set[int]]) -> tuple[int, int]:
    """A node and what it depends on: the dependency that loses least."""
    data = {node_id: set(by_id[node_id].message.data_deps) for node_id in inside}

    def cost(edge: tuple[int, int]) -> tuple[int, ...]:
        node_id, dep = edge
        return dep != node_id, dep in data[node_id], dep < node_id, node_id not in inside[dep], node_id

    return min(((node_id, dep) for node_id in sorted(inside) for dep in sorted(inside[node_id])), key=cost)


def _components(members: Iterable[int], needed: dict[int, set[int]]) -> list[set[int]]:
    """Sets of nodes that depend on one another in cycles."""
    from astra_tacos.planner.group_topology import components

    place = {node_id: number for number, node_id in enumerate(members)}
    edges = [(place[node_id], place[dep]) for node_id in place for dep in needed[node_id]]
    found: dict[int, set[int]] = {}
    for node_id, part in zip(place, components(len(place), *np.array(edges).T).tolist() if edges else (), strict=False):
        found.setdefault(part, set()).add(node_id)
    return [part for part in found.values() if len(part) > 1 or part <= needed[min(part)]]
