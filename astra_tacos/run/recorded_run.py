"""`record_run`: makes a `Recording` out of replays in memory.

`run.recording` defines what a recording holds, and reads and writes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import build_topology
from astra_tacos.network.topology import Topology
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recording import COLLECTIVE, COMPUTE, MEMORY, OTHER, RECEIVE, SEND, Nodes, RecordedReplay, Recording
from astra_tacos.run.run import Run
from astra_tacos.run.trace.reader import read_names
from astra_tacos.run.trace.schema import NodeType

_KIND_OF = {
    NodeType.COMP: COMPUTE,
    NodeType.COMM_COLL: COLLECTIVE,
    NodeType.COMM_SEND: SEND,
    NodeType.COMM_RECV: RECEIVE,
    NodeType.MEM_LOAD: MEMORY,
    NodeType.MEM_STORE: MEMORY,
}


class _Texts:
    """Numbers distinct texts in the order in which they first occur."""

    def __init__(self) -> None:
        self.entry_of: dict[str, int] = {}

    def entries(self, texts: list[str]) -> NDArray[np.int32]:
        """int32[len(texts)], number of each text, -1 for empty ones."""
        return np.array([self.entry_of.setdefault(text, len(self.entry_of)) if text else -1 for text in texts], np.int32)


def record_run(
    run: Run, after: RunOutcome, before: RunOutcome | None = None, pattern: NDArray[np.int64] | None = None
) -> Recording:
    """Make the recording of one or two replays of a run, which holds all that a report needs.

    Parameters
    ----------
    run
        The run; its workload has the nodes of both replays.
    after, before
        Outcome of this run, and of the same run before it was planned, if that is to be recorded too.
    pattern
        int64[num_nodes], `CommType` that each collective node stands for (`run.patterns`); None for the one in its trace.
    """
    trace, columns = run.workload, run.columns
    kind = np.full(256, OTHER, np.uint8)
    for node_type, number in _KIND_OF.items():
        kind[node_type] = number
    what = kind[trace.kind]
    what[(what == COMPUTE) & columns.is_cpu_op] = OTHER
    collective, sized = what == COLLECTIVE, np.isin(what, (COLLECTIVE, SEND, RECEIVE))
    texts = _Texts()
    groups = np.append(texts.entries(list(columns.group_names)), np.int32(-1))
    nodes = Nodes(
        rank_first=trace.rank_first.astype(np.int64),
        node_id=trace.node_id,
        kind=what,
        pattern=np.where(collective, columns.comm_type if pattern is None else pattern, -1).astype(np.int8),
        size_bytes=np.where(sized, trace.size_bytes, -1),
        group=np.where(collective, groups[columns.group], np.int32(-1)),
        name=texts.entries(read_names(trace, range(trace.num_nodes))),
    )
    topology = build_topology(run.network, may_forward=True) if len(after.link_src) else None
    recorded_after = _recorded(after, topology, texts)
    recorded_before = None if before is None else _recorded(before, topology, texts)
    return Recording(
        network=run.network.name,
        shape=" x ".join(f"{dim.block} {dim.size}" for dim in run.network.dimensions),
        block_sizes=tuple(dim.size for dim in run.network.dimensions),
        num_npus=run.network.num_npus,
        backend=after.backend.name,
        texts=tuple(texts.entry_of),
        nodes=nodes,
        after=recorded_after,
        before=recorded_before,
    )


def _recorded(outcome: RunOutcome, topology: Topology | None, texts: _Texts) -> RecordedReplay:
    loads = outcome.loads
    names = np.append(texts.entries(list(outcome.collective_names)), np.int32(-1))
    return RecordedReplay(
        finish_ns=outcome.finish_ns,
        compute_ns=outcome.compute_ns,
        sent_bytes=outcome.sent_bytes,
        issue_ns=outcome.node_issue_ns,
        end_ns=outcome.node_finish_ns,
        cause=outcome.node_cause,
        origin=outcome.node_origin,
        algorithm=names[outcome.collective],
        link_src=loads.src if loads else outcome.link_src,
        link_dst=loads.dst if loads else outcome.link_dst,
        link_dimension=loads.dimension if loads else topology.link_dimension if topology else np.empty(0, np.int16),
        link_bytes=loads.size_bytes if loads else outcome.link_bytes,
        link_busy_ns=loads.busy_ns if loads else outcome.link_busy_ns,
        approximate=outcome.approximate,
        links_are_routed=loads is not None,
    )
