"""Nodes of kinds and with attributes that ASTRA-sim runs."""

from __future__ import annotations

from typing import Any

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import NS_PER_US
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import FIELDS, DraftNode, accepted_fields


def convert_values(draft: Draft, log: Log) -> None:
    """Convert values of types at which ASTRA-sim's reader throws, and remove attributes that have no value.

    `"4096"` and 4096.0 become the whole number 4096. A value that is no number where one is needed is refused.
    """
    for node in (node for nodes in draft.ranks for node in nodes.doubtful()):
        for name in FIELDS:
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
    field = FIELDS[name]
    if field == "string_val" and not isinstance(value, (list, bytes)):
        return str(value)
    if field == "bool_list":
        flags = value if isinstance(value, list) else [value]
        if flags and all(flag in (0, 1) for flag in flags):
            return [bool(flag) for flag in flags]
    elif isinstance(value, (bool, int, float, str)):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if abs(number) < 1 << 53 and number == int(number):
            return bool(number) if field == "bool_val" else int(number)
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
        kinds = NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV
        on_cpu = [node for node in nodes.of_kind(*kinds) if node.is_cpu_op]
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


_OPS_PER_NS = 1000
"""Operations in a ns at 1 TFLOP/s."""


def mend_roofline(draft: Draft, log: Log) -> None:
    """Have compute nodes that state a duration take it, where the roofline is on and they state no operations.

    If no node states operations and bytes, the roofline is switched off, and durations count. Otherwise a node gets as many
    operations as the peak performance does in its duration. A node that states neither takes no time, and is removed.
    """
    if not draft.system.get("roofline-enabled"):
        return
    rest = [node for nodes in draft.ranks for node in nodes.may_lack_operations() if not node.is_cpu_op]
    lacking = [node for node in rest if not _states_operations(node)]
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


def _states_operations(node: DraftNode) -> bool:
    return (node.number("num_ops") or 0) > 0 and (node.number("tensor_size") or 0) > 0
