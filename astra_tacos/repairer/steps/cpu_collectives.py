"""Communication on GPUs, not on CPUs."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import NodeType


def mend_cpu_communication(draft: Draft, log: Log) -> None:
    """Make the host side of a collective a CPU node of the same duration, and other communication on the CPU a GPU's.

    ASTRA-sim throws at a communication node with `is_cpu_op`. Converters write two nodes for one collective of PyTorch: the
    operator on the host (`c10d::allreduce_`), which states no size, or starts a collective of the same pattern and size, and
    NCCL's kernel. The operator keeps its time on the host; the kernel communicates.
    """
    for rank, nodes in enumerate(draft.ranks):
        kinds = NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV
        on_cpu = [node for node in nodes.of_kind(*kinds) if node.is_cpu_op]
        if not on_cpu:
            continue
        started = {
            (dep, node.number("comm_type"), node.number("comm_size"))
            for node in nodes.of_kind(NodeType.COMM_COLL)
            if not node.is_cpu_op
            for dep in node.deps
        }
        for node in on_cpu:
            key = (node.id, node.number("comm_type"), node.number("comm_size"))
            if node.is_collective and (None in key or key in started):
                _make_host_time(log, rank, node)
            else:
                log.add("is_cpu_op became False", "ASTRA-sim communicates on GPUs only", rank, node.id)
                node.set("is_cpu_op", False)


def _make_host_time(log: Log, rank: int, node: DraftNode) -> None:
    log.add(
        f"{node.name} became a CPU node of its {node.duration_us:,} us",
        "it is the host side of a collective: ASTRA-sim communicates on GPUs only",
        rank,
        node.id,
        compute_us=node.duration_us,
    )
    node.message.type = int(NodeType.COMP)
    for name in ("comm_type", "comm_size", "pg_name", "involved_dim", "comm_priority"):
        node.drop(name)


STEP = Step("cpu-collectives", ("A11",), mend_cpu_communication)
