"""Operations of compute nodes under the roofline."""

from __future__ import annotations

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import NS_PER_US
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log

_OPS_PER_NS = 1000
"""Operations in a ns at 1 TFLOP/s."""


@mend("roofline", "A18", "S12")
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
        change = "peak-perf" if peak <= 0 else "local-mem-bw"
        raise ConfigError(f"system.json: {change} is absent or 0 under the roofline, and compute nodes have no durations")
    gone = []
    for node in lacking:
        if node.duration_us:
            # Half an operation per ns more, so that rounding never takes a ns away.
            operations = int((node.duration_us * NS_PER_US + 0.5) * peak * _OPS_PER_NS)
            node.set("num_ops", operations)
            node.set("tensor_size", 1)
            change = f"num_ops became {operations:,}, of 1 byte"
            log.add(change, f"it takes its {node.duration_us:,} us, and stated no operations under the roofline", node)
        else:
            gone.append((node, "", "no operations, no bytes or no duration: it takes no time under the roofline"))
    draft.remove(log, gone)
