"""What is wrong with traces: nodes that ASTRA-sim cannot run, and, after a replay that got stuck, who waits for whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import NetworkConfig
from astra_tacos.errors import AstraTacosError, ConfigError, ReplayError
from astra_tacos.replayer.routes import Routes
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import ABSENT, DANGLING, Trace
from astra_tacos.units import MAX_SIZE_BYTES, NS_PER_US

_MAX_TIME_NS = float(1 << 62)
_CHAIN_ENDS = 4


def check_nodes(trace: Trace, network: NetworkConfig) -> None:
    """Everything that can be told from nodes one by one.

    Raises
    ------
    ConfigError
        If a node is of another kind than COMM_SEND, COMM_RECV and COMP, or incomplete, or the ranks are not the network's NPUs.
    ReplayError
        If a node waits for one that does not exist.
    """
    if trace.num_ranks != network.num_npus:
        raise ConfigError(f"{trace.prefix}: traces of {trace.num_ranks} ranks, but {network.source} has {network.num_npus} NPUs")
    if np.diff(trace.rank_first).min() < 1:
        raise ConfigError(f"{trace.prefix}: rank {np.diff(trace.rank_first).argmin()} has no nodes, expected at least one")
    send, recv, comp = (trace.kind == kind for kind in (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP))
    message = send | recv

    def reject(bad: NDArray[np.bool_], found: str, expected: str, error: type[AstraTacosError] = ConfigError) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            known = trace.kind[row] in [kind.value for kind in NodeType]
            named = found.format(
                kind=NodeType(trace.kind[row]).name if known else f"type {trace.kind[row]}",
                size=trace.size_bytes[row],
                peer=f"{'comm_dst' if send[row] else 'comm_src'} {trace.peer[row]}",
                tag=trace.tag[row],
                duration=trace.duration_us[row],
            ).replace(f" {ABSENT}", " missing")
            raise error(f"{trace.prefix}: {trace.describe_node(row)}: {named}, expected {expected}")

    kinds = "COMM_SEND, COMM_RECV or COMP (ASTRA-sim stalls on others in a custom collective)"
    reject(~(message | comp), "{kind}", kinds)
    bad_size = (trace.size_bytes < 1) | (trace.size_bytes > MAX_SIZE_BYTES)
    reject(message & bad_size, "{kind} with comm_size {size}", "1 to 2**53 bytes")
    outside = (trace.peer < 0) | (trace.peer >= trace.num_ranks)
    reject(message & outside, "{kind} with {peer}", f"a rank below {trace.num_ranks}")
    reject(message & (trace.peer == trace.rank), "{kind} with {peer}, its own rank", "another rank")
    reject(message & (trace.tag < 0), "{kind} with comm_tag {tag}", "0 or more")
    longest = int(_MAX_TIME_NS) // NS_PER_US
    reject(comp & (trace.duration_us > longest), "COMP with duration_micros {duration}", f"at most {longest}")
    dangling = np.zeros(trace.num_nodes, np.bool_)
    dangling[np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))[trace.dep == DANGLING]] = True
    reject(dangling, "{kind} that waits for a node that does not exist", "dependencies within its file", ReplayError)


def check_range(trace: Trace, routes: Routes, sends: NDArray[np.int64], compute_ns: float) -> None:
    """No time may overflow: all delays one after another bound every time."""
    total = compute_ns + float(routes.direct_ns.sum(dtype=np.float64))
    if len(routes.latency_ns) and len(sends):
        slowest = routes.latency_ns.max() + trace.size_bytes[sends] / routes.bytes_per_ns.min()
        total += float(((routes.end - routes.first) * slowest).sum())
    if not total < _MAX_TIME_NS:
        raise ConfigError(f"{trace.prefix}: all delays together make {total:.3g} ns, expected less than 2**62")


def wait_chain(trace: Trace, key: NDArray[np.int64], issue_ns: NDArray[np.int64], finish_ns: NDArray[np.int64]) -> str:
    """Who waits for what, from the first node that never finishes to the message or node that is to blame."""
    row = int(np.argmax(finish_ns < 0))
    steps = [trace.describe_node(row)]
    seen = {row}
    while True:
        if issue_ns[row] < 0:
            awaited = trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]]
            row = int(awaited[np.argmax(finish_ns[awaited] < 0)])
            steps.append(f"waits for {trace.describe_node(row)}")
        else:
            held_back = (key == key[row]) & (trace.kind == NodeType.COMM_SEND) & (issue_ns < 0)
            if not held_back.any():
                steps.append(_missing_message(trace, key, row))
                break
            row = int(np.argmax(held_back))
            steps.append(f"waits for the message of {trace.describe_node(row)}")
        if row in seen:
            steps.append("a cycle")
            break
        seen.add(row)
    if len(steps) > 2 * _CHAIN_ENDS + 1:
        steps[_CHAIN_ENDS:-_CHAIN_ENDS] = [f"... ({len(steps) - 2 * _CHAIN_ENDS} more)"]
    return f"{steps[0]} {', which '.join(steps[1:])}".replace(", which a cycle", ": a cycle").replace(", which ...", ", ...")


def _missing_message(trace: Trace, key: NDArray[np.int64], row: int) -> str:
    """What a receive waits for, and the send that was probably meant."""
    rank, peer = int(trace.rank[row]), int(trace.peer[row])
    size, tag = int(trace.size_bytes[row]), int(trace.tag[row])
    text = f"waits for a message from rank {peer} ({size} bytes, tag {tag}) that "
    candidates = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & (trace.rank == peer) & (trace.peer == rank))
    if np.any(key[candidates] == key[row]):
        return text + "is not sent often enough"
    near = candidates[(trace.size_bytes[candidates] == size) | (trace.tag[candidates] == tag)]
    if not near.size:
        return text + "no node sends"
    other = int(near[0])
    return text + f"no node sends ({trace.describe_node(other)} sends {trace.size_bytes[other]} bytes, tag {trace.tag[other]})"
