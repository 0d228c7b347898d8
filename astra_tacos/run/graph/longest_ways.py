"""The longest ways through a run: what its dependencies, messages and collectives take at least."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class LeastTimes:
    """What the parts of a run take at least, in ns.

    Parameters
    ----------
    node_ns
        int64[num_nodes], of nodes that are no collectives.
    send, message_ns
        int64[num_nodes], the send that a receive waits for, -1 for none, and what its message takes.
    waits
        bool[num_instances], whether all members of a collective wait for one another.
    first_ns, all_ns, in_step_ns
        int64[num_instances]: until the first member has what it needs; until all have; the same if all begin together.
    """

    node_ns: Ints
    send: Ints
    message_ns: Ints
    waits: Bools
    first_ns: Ints
    all_ns: Ints
    in_step_ns: Ints


def longest_ways(trace: Trace, order: Ints, collectives: tuple[Ints, Ints], least: LeastTimes) -> tuple[int, int]:
    """The longest way through a run in ns, and the longest one if the members of collectives keep in step.

    Parameters
    ----------
    order
        int64[...], rows, and collectives numbered after them, each after all that it waits for (`MergedGraph.order`).
    collectives
        int64[num_instances + 1] and int64[...], the rows of each collective (CSR).
    """
    from astra_tacos.run.graph import _order_kernels as kernels

    waits = kernels.Waits(trace.dep_first, trace.dep, least.node_ns, least.send, least.message_ns)
    together = kernels.Together(*collectives, least.waits, least.first_ns, least.all_ns, least.in_step_ns)
    longest, in_step = kernels.longest_ways(order, waits, together)
    return longest, in_step
