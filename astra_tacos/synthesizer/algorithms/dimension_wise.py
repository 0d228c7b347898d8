"""Dimension-wise: every dimension exchanges what there is in its own form, in a mix that is searched.

In a dimension of an All-Reduce, NPUs of a group either exchange whole chunks, so that all of them go on with the sum (one-shot:
everybody gets the contributions of the others and adds them itself, straight, over shortest routes or as in Bruck's algorithm; or
recursive doubling), or they share them (reduce-scatter before the other dimensions and all-gather after them, straight, over
shortest routes or by halving and doubling), or one of them takes all (reduce, then broadcast). All NPUs as one group are tried,
too. Few messages, each with everything that goes to one NPU in one step, suit small buffers. The buffer is cut as the chosen mix
needs, whatever number of chunks is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.synthesizer.exchange.best import counted_ns, least_ns, num_mixes, promising_mixes, promising_plans
from astra_tacos.synthesizer.exchange.cost import MOST_CELLS
from astra_tacos.synthesizer.parts.dimension_order import refuse_without_dimensions
from astra_tacos.synthesizer.work import dispatch_work, exchange_work


def dimension_wise(problem: Problem, seed: int) -> Schedule:
    """The fastest of the mixes of forms that promise most.

    Other collectives go through the dimensions in turn, in each straight (over shortest routes) or by doubling: an All-Gather by
    recursive doubling or Bruck's concatenation, a Reduce-Scatter as its mirror image, an All-to-All by Bruck's index algorithm.

    Parameters
    ----------
    problem
        The collective to synthesize. An All-Reduce is cut into another number of chunks.
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If every mix has chunks that are too small for the links.
    """
    schedules = mixes_on_fabrics(problem.topology, problem, seed)
    return min(schedules, key=exact_time_ns if problem.collective.num_phases < 2 else counted_ns)


def mixes_on_fabrics(fabric: Topology, problem: Problem, seed: int) -> Iterator[Schedule]:
    """The mixes that promise most.

    Parameters
    ----------
    fabric, problem
        The network that sends cross, and the problem on its `levels_or_pairs`, which is the same where no device forwards.
    """
    topology, collective, timing = problem
    if collective.num_phases < 2:
        return promising_mixes(problem, "dimension-wise", seed)
    return promising_plans(topology, fabric, collective.size_bytes, timing, "dimension-wise", seed)


def mixes_work(topology: Topology, collective: Collective) -> int:
    """Work of the mixes."""
    if collective.num_phases == 2:
        return exchange_work(topology)
    return num_mixes(topology, collective) * dispatch_work(topology, collective)


def least_mix_ns(topology: Topology, collective: Collective) -> float:
    """A time that no mix beats, 0 for collectives of one phase."""
    return least_ns(topology, collective.size_bytes) if collective.num_phases == 2 else 0.0


def refuse_too_many_values(topology: Topology, collective: Collective) -> str | None:
    """In an All-Reduce every NPU takes note of the contributions of all others; for others there have to be dimensions."""
    if collective.num_phases < 2:
        return refuse_without_dimensions(topology, collective)
    most = int((MOST_CELLS // 2) ** 0.5)
    if topology.num_npus > most:
        return f"has {topology.num_npus:,} NPUs, exchanges values among at most {most:,}"
    return None
