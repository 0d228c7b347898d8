"""The `RunOutcome` class: times, bytes and link loads that the replay of a run found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.backend import Backend
from astra_tacos.support.arrays import Ints, Ints32


@dataclass(frozen=True, slots=True, eq=False)
class Transmissions:
    """The transmissions of messages over links, in order of start. Arrays are read-only.

    Parameters
    ----------
    link
        int32[n], number of the link.
    src, dst
        int32[n], ranks that sent and will receive the message.
    size_bytes, start_ns, end_ns
        int64[n], size of the message, and the times from and to which it holds the link.
    """

    link: Ints32
    src: Ints32
    dst: Ints32
    size_bytes: Ints
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class LinkLoads:
    """Loads of links where the network model has no links: sums over the routes that messages would take.

    Parameters
    ----------
    src, dst
        int32[num_links], devices at the ends of each directed link, switches after the NPUs.
    dimension
        int16[num_links], the dimension of the network that each link belongs to.
    size_bytes, busy_ns
        int64[num_links], bytes that each link carries, and their time at its bandwidth, which may exceed the time of the run.
    """

    src: Ints32
    dst: Ints32
    dimension: NDArray[np.int16]
    size_bytes: Ints
    busy_ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """The result of the replay of a run. Arrays are read-only.

    Parameters
    ----------
    backend
        The network model.
    approximate
        Reasons why the times may differ from ASTRA-sim's; empty if they are exact.
    finish_ns, compute_ns, sent_bytes
        int64[num_ranks]: time at which a rank's last node completes (T in ASTRA-sim's `finished, T cycles`); the sum of the
        durations of its GPU compute nodes; the bytes that it sent.
    node_issue_ns, node_finish_ns
        int64[num_nodes], by row of the workload; -1 for nodes that never ran, as they are in a cycle, which ASTRA-sim drops.
    node_cause, node_origin
        int32[num_nodes]: the row whose end had this one issued (of the same rank, at that instant), -1 at the start of the run;
        the row with whose issue the events began that led to this one's end: itself for compute, and for a collective or a
        message that of whatever was last to begin of all that it waited for, on any rank. -1 for nodes that never ran.
    collective
        int32[num_nodes], entry of `collective_names`: what a collective node ran; -1 for other nodes.
    collective_names
        Custom traces and native algorithms.
    replaced
        int64[...], rows of collective nodes that ran another node's implementation, as their communicator group remembers the
        first of each pattern (`CommunicatorGroup.cc`, `get_collective_plan`).
    link_src, link_dst
        int32[num_links], devices at the ends of each directed link, switches after the NPUs; empty if the backend has no links.
    link_bytes, link_busy_ns
        int64[num_links], bytes that each link carried, and time for which it was held.
    num_messages
        How many messages ranks sent each other, those of collectives and others.
    transmissions, loads
        None unless asked for; `loads` only if the backend has no links.
    """

    backend: Backend
    approximate: tuple[str, ...]
    finish_ns: Ints
    compute_ns: Ints
    sent_bytes: Ints
    node_issue_ns: Ints
    node_finish_ns: Ints
    node_cause: Ints32
    node_origin: Ints32
    collective: Ints32
    collective_names: tuple[str, ...]
    replaced: Ints
    link_src: Ints32
    link_dst: Ints32
    link_bytes: Ints
    link_busy_ns: Ints
    num_messages: int
    transmissions: Transmissions | None
    loads: LinkLoads | None = None

    @property
    def exposed_comm_ns(self) -> Ints:
        """int64[num_ranks], ASTRA-sim's `exposed communication`: finish minus compute (`Workload.cc`, `report`)."""
        return self.finish_ns - self.compute_ns

    @property
    def end_ns(self) -> int:
        """Time at which the last rank finishes, in ns."""
        return int(self.finish_ns.max())
