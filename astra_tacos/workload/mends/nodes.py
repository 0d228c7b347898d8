"""Nodes of kinds and ids that ASTRA-sim runs."""

from __future__ import annotations

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode


@mend("metadata-nodes", "A12")
def drop_metadata(draft: Draft, log: Log) -> None:
    """Remove METADATA nodes and nodes of unknown types; what depended on them depends on what they depended on.

    ASTRA-sim's statistics abort at such a node. It computes nothing.
    """
    gone = []
    for node in (node for nodes in draft.ranks for node in nodes.not_run()):
        kind = "METADATA" if node.kind == NodeType.METADATA else f"type {node.kind}"
        gone.append((node, f"{node.name or 'the node'} ({kind})", "ASTRA-sim aborts at such nodes"))
    draft.remove(log, gone)


@mend("cpu-collectives", "A11")
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


@mend("skipped-nodes", "A13")
def drop_skipped(draft: Draft, log: Log) -> None:
    """Remove nodes of type INVALID; what depended on them depends on what they depended on.

    ASTRA-sim skips such a node, and starts what depends on it with the rank's next event, which may never come.
    """
    why = "ASTRA-sim skips the node, and may stall behind it"
    draft.remove(log, ((node, "(INVALID)", why) for node in draft.nodes(NodeType.INVALID)))


@mend("duplicate-ids", "F08")
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
