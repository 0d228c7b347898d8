"""Actions of the nodes of a workload when they are issued, and their durations (`astra-sim`, `workload/Workload.cc`).

Nodes that ASTRA-sim cannot run are refused by errors that name them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.run import PATTERN_KEYS, Run
from astra_tacos.run.system import RemoteMemory
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, WORKLOAD_ATTRIBUTES, Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError
from astra_tacos.support.units import MAX_SIZE_BYTES, NS_PER_US

LONGEST_NS = 1 << 60
"""Longest delay, so that sums of a few delays fit int64."""
_MAX_TAG = (1 << 31) - 1
_KINDS = [kind.value for kind in NodeType]


class NodeCheck:
    """Rejects rows of a trace. The error is one line: the node, what was found, what was expected."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def reject(self, bad: Bools, found: str, expected: str, error: type[AstraTacosError] = ConfigError, **values: object) -> None:
        """Raise `error` for the first row that is `bad`, if there is one.

        Parameters
        ----------
        bad
            bool[num_nodes], rows to reject.
        found
            What was found; a format string that may name {kind}, {size}, {peer}, {tag}, {duration} and keys of `values`.
        **values
            Columns of further values that `found` names.
        """
        if not bad.any():
            return
        row = int(np.argmax(bad))
        trace = self.trace
        kind = int(trace.kind[row])
        is_send = kind == NodeType.COMM_SEND
        named = found.format(
            kind=NodeType(kind).name if kind in _KINDS else f"type {kind}",
            size=trace.size_bytes[row],
            peer=f"{'comm_dst' if is_send else 'comm_src'} {trace.peer[row]}",
            tag=trace.tag[row],
            duration=trace.duration_us[row],
            **{name: np.asarray(value)[row] for name, value in values.items()},
        ).replace(f" {ABSENT}", " missing")
        raise error(f"{trace.prefix}: {trace.describe_node(row)}: {named}, expected {expected}")

    def messages(self, chosen: Bools, num_peers: int) -> None:
        """Reject sends and receives that lack size, peer or tag, or whose peer is no other rank below `num_peers`."""
        trace = self.trace
        message = chosen & ((trace.kind == NodeType.COMM_SEND) | (trace.kind == NodeType.COMM_RECV))
        bad_size = (trace.size_bytes < 1) | (trace.size_bytes > MAX_SIZE_BYTES)
        self.reject(message & bad_size, "{kind} with comm_size {size}", "1 to 2**53 bytes")
        outside = (trace.peer < 0) | (trace.peer >= num_peers)
        self.reject(message & outside, "{kind} with {peer}", f"a rank below {num_peers}")
        self.reject(message & (trace.peer == trace.owner), "{kind} with {peer}, its own rank", "another rank")
        self.reject(message & ((trace.tag < 0) | (trace.tag > _MAX_TAG)), "{kind} with comm_tag {tag}", "0 to 2**31 - 1")

    def durations(self, chosen: Bools) -> None:
        """Reject durations that do not fit int64 in nanoseconds."""
        longest = LONGEST_NS // NS_PER_US
        self.reject(chosen & (self.trace.duration_us > longest), "{kind} with duration_micros {duration}", f"at most {longest}")

    def dependencies(self) -> None:
        """Reject dependencies on ids that do not exist, and ranks in which every node waits (`dependancy_solver.cpp` throws)."""
        trace = self.trace
        if (trace.dep == DANGLING).any():
            dangling = np.zeros(trace.num_nodes, np.bool_)
            dangling[np.searchsorted(trace.dep_first, np.flatnonzero(trace.dep == DANGLING), side="right") - 1] = True
            self.reject(dangling, "{kind} that waits for a node that does not exist", "dependencies within its file", ReplayError)
        free = np.concatenate(([0], np.cumsum(np.diff(trace.dep_first) == 0)))
        num_free = np.diff(free[trace.rank_first])
        if num_free.size and num_free.min() == 0:
            rank = int(num_free.argmin())
            raise ReplayError(
                f"{trace.prefix}: rank {rank}: every node waits for another, a cycle that ASTRA-sim refuses, "
                "expected a node without dependencies"
            )


def check_num_ranks(trace: Trace | CompactTrace, num_members: int, user: str) -> None:
    """Check that a custom collective's trace has the positions of its user's group, or if they are listed at least so many."""
    if trace.num_ranks < num_members or (isinstance(trace, CompactTrace) and trace.num_ranks != num_members):
        raise ConfigError(f"{trace.prefix}: traces of {trace.num_ranks} ranks, but {user} has {num_members}")


def check_collective(trace: Trace, num_members: int, user: str) -> None:
    """Check every node of a custom collective's trace by itself.

    Raises
    ------
    ConfigError
        If a node is of another kind than COMM_SEND, COMM_RECV and COMP, or incomplete, or the trace has too few ranks for its
        `user`, whose group has `num_members`.
    ReplayError
        If a node waits for one that does not exist, or all wait.
    """
    used = np.ones(trace.num_nodes, np.bool_)
    if trace.owners is None:
        check_num_ranks(trace, num_members, user)
        used[trace.rank_first[num_members] :] = False
    check = NodeCheck(trace)
    unknown = (trace.kind < NodeType.COMP) | (trace.kind > NodeType.COMM_RECV)
    check.reject(unknown & used, "{kind}", "COMM_SEND, COMM_RECV or COMP (ASTRA-sim stalls on others in a custom collective)")
    check.messages(used, num_members)
    check.durations(used & (trace.kind == NodeType.COMP))
    check.dependencies()


def unsupported_pattern(comm_type: int) -> str:
    """Name of a pattern that ASTRA-sim throws for."""
    return CommType(comm_type).name if comm_type in [pattern.value for pattern in CommType] else f"comm_type {comm_type}"


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
    trace, columns = run.workload, run.columns
    check = NodeCheck(trace)
    check.dependencies()
    kind = trace.kind
    everything = np.ones(trace.num_nodes, np.bool_)
    check.reject(kind == NodeType.METADATA, "METADATA", "other kinds: ASTRA-sim's statistics stop at one (`Statistics.cc`)")
    check.reject(kind > NodeType.COMM_COLL, "{kind}", "a kind of the Chakra schema")
    _check_values(run, check)
    check.durations(everything)
    action = np.full(trace.num_nodes, kernels.SKIP, np.uint8)
    amount = np.maximum(trace.duration_us * NS_PER_US, 1)
    counts = ~columns.is_cpu_op
    slot = np.full(trace.num_nodes, kernels.NETWORK, np.uint8)
    slot[kind == NodeType.COMP] = kernels.GPU
    slot[kind == NodeType.COMM_RECV] = kernels.NO_SLOT
    slot[columns.is_cpu_op] = kernels.CPU
    if run.system.replay_only:
        return Actions(np.full_like(action, kernels.COMPUTE), amount, slot, counts)

    _add_compute(run, check, action, amount)
    _add_messages(run, check, action, amount)
    accesses = (kind == NodeType.MEM_LOAD) | (kind == NodeType.MEM_STORE)
    if accesses.any():
        check.reject(accesses & (columns.tensor_size < 0), "{kind} without tensor_size", "its bytes")
        if run.remote_memory is None or run.remote_memory.kind == "none":
            check.reject(accesses, "{kind}", "remote memory for it (--remote-memory): ASTRA-sim stops without")
        else:
            amount[accesses] = _access_ns(check, accesses, columns.tensor_size, run.remote_memory)[accesses]
            action[accesses] = kernels.MEMORY
    counts = (action == kernels.COMPUTE) & ~columns.is_cpu_op
    takes_time = counts & (run.system.roofline_enabled | (trace.duration_us > 0))  # without a duration a node takes 1 ns anyway
    for rank, factor in run.slow:
        own = np.flatnonzero(takes_time & (trace.owner == rank))
        amount[own] = np.rint(amount[own] * factor)
    return Actions(action, amount, slot, counts)


_READ_OF = {
    NodeType.COMM_SEND: ("comm_src", "comm_dst", "comm_size", "comm_tag"),
    NodeType.COMM_RECV: ("comm_src", "comm_dst", "comm_size", "comm_tag"),
    NodeType.COMM_COLL: ("comm_type", "comm_size", "comm_priority", "pg_name", "involved_dim"),
    NodeType.MEM_LOAD: ("tensor_size",),
    NodeType.MEM_STORE: ("tensor_size",),
}
_EXPECTED_OF = {"pg_name": "a string", "involved_dim": "a list of bools"}


def _check_values(run: Run, check: NodeCheck) -> None:
    """Reject attribute values at which ASTRA-sim's reader throws (`feeder_v3/et_feeder_node.h`)."""
    columns, kind = run.columns, run.workload.kind
    faulty = columns.wrong_type | columns.no_value
    if not faulty.any():
        return
    everything = np.ones(len(kind), np.bool_)
    read = [("is_cpu_op", everything)]
    if not run.system.replay_only:
        read += [(name, kind == its_kind) for its_kind, names in _READ_OF.items() for name in names]
        if run.system.roofline_enabled:
            read += [(name, (kind == NodeType.COMP) & ~columns.is_cpu_op) for name in ("num_ops", "tensor_size")]
    for name, rows in read:
        bit = np.uint32(1 << WORKLOAD_ATTRIBUTES.index(name))
        expected = _EXPECTED_OF.get(name, "a number without fraction")
        check.reject(rows & (columns.no_value & bit > 0), f"{name} without a value", f"{expected}: ASTRA-sim throws")
        check.reject(rows & (columns.wrong_type & bit > 0), f"{name} of another type", f"{expected}: ASTRA-sim throws")


def _add_compute(run: Run, check: NodeCheck, action: NDArray[np.uint8], amount: Ints) -> None:
    columns = run.columns
    compute = run.workload.kind == NodeType.COMP
    action[compute] = kernels.COMPUTE
    modelled = compute & ~columns.is_cpu_op
    if not run.system.roofline_enabled or not modelled.any():
        return
    roofline = "with roofline-enabled"
    check.reject(modelled & (columns.num_ops < 0), "COMP without num_ops", f"its operations, {roofline}")
    check.reject(modelled & (columns.tensor_size < 0), "COMP without tensor_size", f"its bytes, {roofline}")
    modelled &= columns.tensor_size > 0
    action[compute & ~columns.is_cpu_op & ~modelled] = kernels.SKIP
    check.reject(modelled & (columns.num_ops == 0), "COMP with num_ops 0", f"1 or more, {roofline}: ASTRA-sim divides 0 by 0")
    peak, bandwidth = run.system.peak_perf_tflops * _OPS_PER_TERA, run.system.local_mem_bw_gbps * _BYTES_PER_GB
    if modelled.any() and not min(peak, bandwidth) > 0:
        key = "peak-perf" if not peak > 0 else "local-mem-bw"
        raise ConfigError(f"{run.system.source}: {key} is 0 or missing, expected more than 0 {roofline}")
    # The order of operations is ASTRA-sim's (`Roofline.cc`, `Workload::issue_comp`), as it decides how results round.
    num_ops = columns.num_ops[modelled].astype(np.float64)
    performance = np.minimum(bandwidth * (num_ops / columns.tensor_size[modelled].astype(np.float64)), peak)
    time_ns = num_ops / performance * _NS_PER_S
    if time_ns.size and not time_ns.max() < LONGEST_NS:
        row = np.zeros(len(action), np.bool_)
        row[np.flatnonzero(modelled)[np.argmax(time_ns)]] = True
        check.reject(row, "COMP that takes too long", "less than 2**60 ns")
    amount[modelled] = time_ns.astype(np.int64)


def _add_messages(run: Run, check: NodeCheck, action: NDArray[np.uint8], amount: Ints) -> None:
    trace, columns = run.workload, run.columns
    kind = trace.kind
    communication = kind >= NodeType.COMM_SEND
    check.reject(communication & columns.is_cpu_op, "{kind} with is_cpu_op", "a communication node not to be on the CPU")
    point_to_point = communication & (kind != NodeType.COMM_COLL)
    check.messages(point_to_point, run.network.num_npus)
    elsewhere = point_to_point & (columns.own >= 0) & (columns.own != trace.owner)
    check.reject(elsewhere, "{kind} whose own end is rank {own}", "the rank that has the node", own=columns.own)
    action[kind == NodeType.COMM_SEND] = kernels.SEND
    action[kind == NodeType.COMM_RECV] = kernels.RECEIVE
    amount[point_to_point] = trace.size_bytes[point_to_point]

    collective = kind == NodeType.COMM_COLL
    check.reject(collective & (columns.comm_type < 0), "COMM_COLL without comm_type", "a collective pattern")
    waits = collective & (columns.comm_type == CommType.BROADCAST)
    runs = collective & np.isin(columns.comm_type, list(PATTERN_KEYS))
    lacking = collective & ~waits & ~runs
    if lacking.any():
        name = unsupported_pattern(int(columns.comm_type[np.argmax(lacking)]))
        known = ", ".join(pattern.name for pattern in PATTERN_KEYS)
        check.reject(lacking, f"COMM_COLL of {name}", f"{known} or BROADCAST: ASTRA-sim throws for others")
    check.reject(
        collective & (trace.size_bytes < 0) | (collective & (trace.size_bytes > MAX_SIZE_BYTES)),
        "COMM_COLL with comm_size {size}",
        "0 to 2**53 bytes",
    )
    empty = collective & (columns.comm_type == CommType.ALL_GATHER) & (trace.size_bytes == 0)
    if empty.any():
        node = trace.describe_node(int(np.argmax(empty)))
        raise ReplayError(f"{trace.prefix}: deadlock: {node} is an ALL_GATHER with comm_size 0, which ASTRA-sim never ends")
    action[waits] = kernels.WAIT
    action[runs] = kernels.COLLECTIVE


def _access_ns(check: NodeCheck, chosen: Bools, size_bytes: Ints, memory: RemoteMemory) -> Ints:
    """int64, duration of the chosen accesses in ns (`AnalyticalRemoteMemory.cc`, `get_remote_mem_runtime`)."""
    if memory.bytes_per_ns < 1:
        raise ConfigError(f"{memory.source}: remote-mem-bw is 0 or missing, expected 1 or more, in GB/s")
    if memory.kind == "per-node" and memory.npus_per_node < 1:
        raise ConfigError(f"{memory.source}: num-npus-per-node is 0 or missing, expected 1 or more")
    time_ns = np.maximum(size_bytes, 0) / memory.bytes_per_ns
    check.reject(chosen & (memory.latency_ns + time_ns >= LONGEST_NS), "{kind} that takes too long", "less than 2**60 ns")
    return memory.latency_ns + time_ns.astype(np.int64)
