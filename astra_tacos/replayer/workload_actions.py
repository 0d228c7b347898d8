"""Actions of the nodes of a workload when they are issued, and their durations (`astra-sim`, `workload/Workload.cc`).

Nodes that ASTRA-sim cannot run are refused by errors that name them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.rules.refusal import refuse_nodes
from astra_tacos.run.run import PATTERN_KEYS, Run
from astra_tacos.run.system import RemoteMemory
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import NS_PER_US

LONGEST_NS = 1 << 60
"""Longest delay, so that sums of a few delays fit int64."""
_MAX_TAG = (1 << 31) - 1


def _limit(trace: Trace, beyond: Bools, defect: str, expected: str) -> None:
    """Refuse the first node that is beyond what the replay's clock or tags count.

    Raises
    ------
    ConfigError
        If there is one.
    """
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ConfigError(f"{trace.prefix}: {trace.describe_node(row)}: {defect}, expected {expected}")


def check_tags(trace: Trace) -> None:
    """Refuse the first tag that the replay does not count.

    Raises
    ------
    ConfigError
        If there is one.
    """
    _limit(trace, trace.tag > _MAX_TAG, "a tag of 2**31 or more, of which ASTRA-sim keeps the lowest bits", "0 to 2**31 - 1")


_OPS_PER_TERA = 1e12
_BYTES_PER_GB = 1e9
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """Arrays of one entry per node of the workload.

    `action` (uint8) is what the node does when it is issued, `amount` (int64) its ns or bytes, `slot` (uint8) the hardware
    resource that it occupies, and `counts` (bool) whether its time counts as GPU time.
    """

    action: NDArray[np.uint8]
    amount: Ints
    slot: NDArray[np.uint8]
    counts: Bools

    @property
    def is_timed(self) -> Bools:
        """bool[num_nodes], nodes that take `amount` ns by themselves: compute and memory accesses."""
        return np.isin(self.action, (kernels.COMPUTE, kernels.MEMORY))

    @property
    def is_collective(self) -> Bools:
        """bool[num_nodes], nodes that run a collective."""
        return np.equal(self.action, kernels.COLLECTIVE)

    @property
    def is_send(self) -> Bools:
        """bool[num_nodes], nodes that send a message."""
        return np.equal(self.action, kernels.SEND)


def workload_actions(run: Run) -> Actions:
    """Find the actions of all nodes of a run's workload.

    Raises
    ------
    ConfigError
        If a node would make ASTRA-sim stop: its kind or pattern is not supported, or an attribute is missing or of a wrong type.
    ReplayError
        If a node waits for one that does not exist, all nodes of a rank wait, or an All-Gather has no bytes.
    """
    refuse_nodes(run)
    trace, columns, kind = run.workload, run.columns, run.workload.kind
    action = np.full(trace.num_nodes, kernels.SKIP, np.uint8)
    amount = np.maximum(trace.duration_us * NS_PER_US, 1)
    counts = ~columns.is_cpu_op
    slot = np.full(trace.num_nodes, kernels.NETWORK, np.uint8)
    slot[kind == NodeType.COMP] = kernels.GPU
    slot[kind == NodeType.COMM_RECV] = kernels.NO_SLOT
    slot[columns.is_cpu_op] = kernels.CPU
    if run.system.replay_only:
        _add_delays(run, amount)
        return Actions(np.full_like(action, kernels.COMPUTE), amount, slot, counts)

    check_tags(trace)
    _add_compute(run, action, amount)
    _add_messages(run, action, amount)
    accesses = (kind == NodeType.MEM_LOAD) | (kind == NodeType.MEM_STORE)
    if accesses.any() and run.remote_memory is not None:
        amount[accesses] = _access_ns(trace, accesses, columns.tensor_size, run.remote_memory)[accesses]
        action[accesses] = kernels.MEMORY
    counts = (action == kernels.COMPUTE) & ~columns.is_cpu_op
    takes_time = counts & (run.system.roofline_enabled | (trace.duration_us > 0))  # without a duration a node takes 1 ns anyway
    for rank, factor in run.slow:
        rows = np.flatnonzero(takes_time & (trace.owner == rank))
        amount[rows] = np.rint(amount[rows] * factor)
    _add_delays(run, amount)
    return Actions(action, amount, slot, counts)


def _add_delays(run: Run, amount: Ints) -> None:
    for rank, time_ns in run.delay:
        amount[run.workload.rank_first[rank]] = time_ns


def _add_compute(run: Run, action: NDArray[np.uint8], amount: Ints) -> None:
    columns = run.columns
    compute = run.workload.kind == NodeType.COMP
    action[compute] = kernels.COMPUTE
    modelled = compute & ~columns.is_cpu_op
    if not run.system.roofline_enabled or not modelled.any():
        return
    modelled &= columns.tensor_size > 0
    action[compute & ~columns.is_cpu_op & ~modelled] = kernels.SKIP
    peak, bandwidth = run.system.peak_perf_tflops * _OPS_PER_TERA, run.system.local_mem_bw_gbps * _BYTES_PER_GB
    # The order of operations is ASTRA-sim's (`Roofline.cc`, `Workload::issue_comp`), as it decides how results round.
    num_ops = columns.num_ops[modelled].astype(np.float64)
    performance = np.minimum(bandwidth * (num_ops / columns.tensor_size[modelled].astype(np.float64)), peak)
    time_ns = num_ops / performance * _NS_PER_S
    if time_ns.size and not time_ns.max() < LONGEST_NS:
        row = np.zeros(len(action), np.bool_)
        row[np.flatnonzero(modelled)[np.argmax(time_ns)]] = True
        _limit(run.workload, row, "COMP that takes too long", "less than 2**60 ns")
    amount[modelled] = time_ns.astype(np.int64)


def _add_messages(run: Run, action: NDArray[np.uint8], amount: Ints) -> None:
    trace, pattern = run.workload, run.columns.comm_type
    sends, receives = trace.kind == NodeType.COMM_SEND, trace.kind == NodeType.COMM_RECV
    action[sends], action[receives] = kernels.SEND, kernels.RECEIVE
    amount[sends | receives] = trace.size_bytes[sends | receives]
    collective = trace.kind == NodeType.COMM_COLL
    action[collective & (pattern == CommType.BROADCAST)] = kernels.WAIT
    action[collective & np.isin(pattern, list(PATTERN_KEYS))] = kernels.COLLECTIVE


def _access_ns(trace: Trace, chosen: Bools, size_bytes: Ints, memory: RemoteMemory) -> Ints:
    """int64, duration of the chosen accesses in ns (`AnalyticalRemoteMemory.cc`, `get_remote_mem_runtime`)."""
    if memory.bytes_per_ns < 1:
        raise ConfigError(f"{memory.source}: remote-mem-bw is 0 or missing, expected 1 or more, in GB/s")
    if memory.kind == "per-node" and memory.npus_per_node < 1:
        raise ConfigError(f"{memory.source}: num-npus-per-node is 0 or missing, expected 1 or more")
    time_ns = np.maximum(size_bytes, 0) / memory.bytes_per_ns
    too_long = chosen & (memory.latency_ns + time_ns >= LONGEST_NS)
    _limit(trace, too_long, "a load or store that takes too long", "less than 2**60 ns")
    return memory.latency_ns + time_ns.astype(np.int64)
