"""Errors for nodes that ASTRA-sim cannot run, each naming the node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, Trace
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

    def reject(
        self, bad: NDArray[np.bool_], found: str, expected: str, error: type[AstraTacosError] = ConfigError, **values: object
    ) -> None:
        """Raise `error` for the first row that is `bad`, if there is one.

        Parameters
        ----------
        bad
            bool[num_nodes], rows to reject.
        found
            What was found; a format string that may name {kind}, {size}, {peer}, {tag}, {duration} and keys of `values`.
        expected
            What was expected.
        error
            Class of the exception.
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

    def messages(self, chosen: NDArray[np.bool_], num_peers: int) -> None:
        """Reject sends and receives that lack size, peer or tag, or whose peer is no other rank below `num_peers`."""
        trace = self.trace
        message = chosen & ((trace.kind == NodeType.COMM_SEND) | (trace.kind == NodeType.COMM_RECV))
        bad_size = (trace.size_bytes < 1) | (trace.size_bytes > MAX_SIZE_BYTES)
        self.reject(message & bad_size, "{kind} with comm_size {size}", "1 to 2**53 bytes")
        outside = (trace.peer < 0) | (trace.peer >= num_peers)
        self.reject(message & outside, "{kind} with {peer}", f"a rank below {num_peers}")
        own = np.zeros(trace.num_nodes, np.bool_)
        for rank in range(trace.num_ranks):
            rows = slice(trace.rank_first[rank], trace.rank_first[rank + 1])
            own[rows] = trace.peer[rows] == rank
        self.reject(message & own, "{kind} with {peer}, its own rank", "another rank")
        self.reject(message & ((trace.tag < 0) | (trace.tag > _MAX_TAG)), "{kind} with comm_tag {tag}", "0 to 2**31 - 1")

    def durations(self, chosen: NDArray[np.bool_]) -> None:
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
    if trace.num_ranks < num_members:
        raise ConfigError(f"{trace.prefix}: traces of {trace.num_ranks} ranks, but {user} has {num_members}")
    check = NodeCheck(trace)
    used = np.zeros(trace.num_nodes, np.bool_)
    used[: trace.rank_first[num_members]] = True
    unknown = (trace.kind < NodeType.COMP) | (trace.kind > NodeType.COMM_RECV)
    check.reject(unknown & used, "{kind}", "COMM_SEND, COMM_RECV or COMP (ASTRA-sim stalls on others in a custom collective)")
    check.messages(used, num_members)
    check.durations(used & (trace.kind == NodeType.COMP))
    check.dependencies()


def unsupported_pattern(comm_type: int) -> str:
    """Name of a pattern that ASTRA-sim throws for."""
    return CommType(comm_type).name if comm_type in [pattern.value for pattern in CommType] else f"comm_type {comm_type}"
