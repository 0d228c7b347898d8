"""Dimension-wise: an All-Reduce in which every dimension exchanges what there is in its own form, in a mix that is searched.

In a dimension, NPUs of a group either exchange whole chunks, so that all of them go on with the sum (one-shot: everybody gets the
contributions of the others and adds them itself, straight, over shortest routes or as in Bruck's algorithm; or recursive
doubling), or they share them (reduce-scatter before the other dimensions and all-gather after them, straight, over shortest
routes or by halving and doubling), or one of them takes all (reduce, then broadcast). All NPUs as one group are tried, too.

Few messages, each with everything that goes to one NPU in one step, suit small buffers. The buffer is cut as the chosen mix
needs, whatever number of chunks is asked for.
"""

from __future__ import annotations

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.exchange.best import best_plan
from astra_tacos.synthesizer.exchange.cost import MOST_CELLS
from astra_tacos.topology.topology import Topology


def dimension_wise(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """The fastest of the mixes of forms that promise most.

    Parameters
    ----------
    topology
        The network.
    collective
        The All-Reduce to synthesize. That of the schedule has another number of chunks.
    timing
        Its link model and reduce bandwidth.
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If every mix has chunks that are too small for the links.
    """
    return best_plan(topology, collective.size_bytes, timing, "dimension-wise", seed)


def refuse_too_many_values(topology: Topology, collective: Collective) -> str | None:
    """Every NPU has a contribution, and takes note of those of all others."""
    most = int((MOST_CELLS // 2) ** 0.5)
    if topology.num_npus > most:
        return f"has {topology.num_npus:,} NPUs, exchanges values among at most {most:,}"
    return None
