"""The `RunOutcome` class: times, bytes and link loads that the replay of a run found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.backend import Backend
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.rows import Result, Row, detail
from astra_tacos.support.units import format_time


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunOutcome(Result):
    """The result of the replay of a run. Arrays are read-only.

    Parameters
    ----------
    backend
        The network model.
    approximate
        Reasons why the times may differ from ASTRA-sim's; empty if they are exact.
    ranks
        int64[num_ranks], number of the rank that each entry of arrays by rank is of; of a compact run, those that stand for
        classes.
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

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, read_run, replay_run
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> outcome = replay_run(read_run(replace(inputs, network=Path("configs/network/torus_4x4.yml"))))
    >>> outcome.finish_ns.shape, outcome.backend.name
    ((16,), 'congestion-aware')
    """

    backend: Backend
    approximate: tuple[str, ...]
    ranks: Ints
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

    def title(self) -> str:
        """How many ranks were replayed, and by which network model."""
        return f"replay of {len(self.ranks):,} ranks, {self.backend.name}"

    def rows(self) -> list[Row]:
        """When the run ends, and what of this is compute and exposed communication; messages, and the busiest link."""
        lists = self.finish_ns, self.exposed_comm_ns, self.compute_ns, self.ranks
        rows = [*time_rows(*(array.tolist() for array in lists)), detail("messages", self.num_messages)]
        if len(self.link_busy_ns):
            link = int(self.link_busy_ns.argmax())
            busy_ns, share = int(self.link_busy_ns[link]), self.link_busy_ns[link] / max(self.end_ns, 1)
            ends = f"device {self.link_src[link]} -> {self.link_dst[link]}"
            rows.append(detail("busiest link", busy_ns, "ns", f"{ends}, {share:.1%} of the run"))
        return rows


def time_rows(finish_ns: Sequence[int], exposed_ns: Sequence[int], compute_ns: Sequence[int], ranks: Sequence[int]) -> list[Row]:
    """When a run ends, and what of this is compute and exposed communication, of lists by rank and the numbers of the ranks."""
    last, first, most = max(finish_ns), min(finish_ns), max(exposed_ns)
    exposed = f"{most / max(last, 1):.1%} of the run{_at_least(exposed_ns, ', ')}"
    return [
        Row("end of the run", last, "ns", f"{format_time(last)}, rank {ranks[finish_ns.index(last)]:,}"),
        *([Row("first to finish", first, "ns", f"rank {ranks[finish_ns.index(first)]:,}")] if first != last else []),
        Row("compute", max(compute_ns), "ns", _at_least(compute_ns)),
        Row("exposed", most, "ns", exposed),
    ]


def _at_least(values: Sequence[int], before: str = "") -> str:
    """What the rank with the least has, if ranks differ."""
    low = min(values)
    return "" if low == max(values) else f"{before}at least {low:,} ns on every rank"
