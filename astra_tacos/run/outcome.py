"""The outcome of replaying a run: what was observed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.backend import Backend


@dataclass(frozen=True, slots=True, eq=False)
class Transmissions:
    """Every time a link carried a message, in order of start. Arrays are read-only.

    Parameters
    ----------
    link
        int32[n], number of the link.
    src, dst
        int32[n], ranks that sent and will receive the message.
    size_bytes, start_ns, end_ns
        int64[n]; the link is held from start to end.
    """

    link: NDArray[np.int32]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LinkLoads:
    """What messages put on the links of their routes, where the model has no links that they could wait for.

    Parameters
    ----------
    src, dst
        int32[num_links], devices at the ends of each directed link, switches after the NPUs.
    dimension
        int16[num_links], the network's dimension that it belongs to.
    size_bytes, busy_ns
        int64[num_links], what it carries, and the time that this takes at its bandwidth, which may be more than the run takes.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    dimension: NDArray[np.int16]
    size_bytes: NDArray[np.int64]
    busy_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """What a replay of a run saw. Arrays are read-only.

    Parameters
    ----------
    backend
        The network model.
    approximate
        Why the result is no exact image of ASTRA-sim's; empty where it is.
    finish_ns, compute_ns, sent_bytes
        int64[num_ranks]: when a rank's last node completes (ASTRA-sim's `finished, T cycles`); the sum of its GPU compute
        nodes; the bytes it sent.
    node_issue_ns, node_finish_ns
        int64[num_nodes], by row of the workload; -1 for nodes that never ran (a cycle, which ASTRA-sim drops).
    collective
        int32[num_nodes], entry of `collective_names` that a collective node ran, -1 for other nodes.
    collective_names
        Custom trace or native algorithm.
    replaced
        int64[...], rows of collective nodes that ran another node's implementation, as their communicator group remembers the
        first of each pattern (`CommunicatorGroup.cc`, `get_collective_plan`).
    link_src, link_dst
        int32[num_links], devices at the ends of each directed link, switches after the NPUs; empty where the backend models none.
    link_bytes, link_busy_ns
        int64[num_links], what each link carried, and how long it was held.
    transmissions, loads
        None unless asked for; `loads` only where the model has no links.
    """

    backend: Backend
    approximate: tuple[str, ...]
    finish_ns: NDArray[np.int64]
    compute_ns: NDArray[np.int64]
    sent_bytes: NDArray[np.int64]
    node_issue_ns: NDArray[np.int64]
    node_finish_ns: NDArray[np.int64]
    collective: NDArray[np.int32]
    collective_names: tuple[str, ...]
    replaced: NDArray[np.int64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]
    link_bytes: NDArray[np.int64]
    link_busy_ns: NDArray[np.int64]
    transmissions: Transmissions | None
    loads: LinkLoads | None = None

    @property
    def exposed_comm_ns(self) -> NDArray[np.int64]:
        """int64[num_ranks], ASTRA-sim's `exposed communication`: finish minus compute (`Workload.cc`, `report`)."""
        return self.finish_ns - self.compute_ns

    @property
    def end_ns(self) -> int:
        """When the last rank has finished."""
        return int(self.finish_ns.max())
