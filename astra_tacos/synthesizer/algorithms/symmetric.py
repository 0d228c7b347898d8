"""Symmetric: one tree per chunk of NPU 0, or one path per target, that all NPUs use alike. See docs/symmetric.md."""

from __future__ import annotations

from astra_tacos.collective.collective import Collective
from astra_tacos.network.rotations import is_whole_product, why_not_symmetric
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.symmetric.chunks import near_bound
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric


def symmetric(problem: Problem, seed: int) -> Schedule:
    """A schedule in which all NPUs do the same at the same moments, with all its sends.

    Parameters
    ----------
    problem
        The network, for which `refuse_asymmetric` has no reason.
    seed
        Has no influence.

    Raises
    ------
    SynthesisError
        If the chunks' paths take too much memory.
    """
    topology, collective, timing = problem
    task = _task(topology, collective, timing.link_model, timing.reduce_bandwidth_gbps)
    return synthesize_symmetric(task).expand(topology)


def symmetric_optimum(
    topology: Topology,
    collective: Collective,
    link_model: LinkModel,
    reduce_bandwidth_gbps: float,
    max_sends: int | None,
    worth: float,
) -> SymmetricSchedule | None:
    """A schedule close to the bound over all algorithms, None if there is no such symmetric schedule.

    Parameters
    ----------
    topology, collective, link_model, reduce_bandwidth_gbps
        What to synthesize, for which `refuse_asymmetric` has no reason.
    max_sends
        Most sends of a schedule with more than one chunk per NPU; None to keep the number of chunks.
    worth
        As `near_bound` takes it.
    """
    task = _task(topology, collective, link_model, reduce_bandwidth_gbps)
    try:
        return near_bound(task, max_sends, worth)
    except SynthesisError:  # chunks are too small
        return None


def _task(topology: Topology, collective: Collective, link_model: LinkModel, reduce_bandwidth_gbps: float) -> SymmetricTask:
    return SymmetricTask(
        topology.name,
        topology.dimensions,
        collective.name,
        collective.size_bytes,
        collective.chunks_per_npu,
        link_model,
        reduce_bandwidth_gbps,
    )


def refuse_asymmetric(topology: Topology, collective: Collective) -> str | None:
    """The reason why NPUs cannot all do the same; None if they can."""
    reason = why_not_symmetric(topology.dimensions)
    if reason is not None:
        return reason
    if not is_whole_product(topology):
        return "links failed or differ from their dimension's, expected a network that looks the same from every NPU"
    owners = collective.num_chunks // collective.chunks_per_npu
    if not collective.is_personalised and owners != collective.num_npus:
        return f"is for chunks of all {collective.num_npus} NPUs, not of {owners}"
    return None
