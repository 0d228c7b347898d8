"""The link models of a search: the one that stock ASTRA-sim replays exactly, or both where there is none."""

from __future__ import annotations

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, can_replay_blocking, choose_link_model
from astra_tacos.synthesizer.search.search_options import FASTEST, SearchOptions

FASTEST_REASON = "ASTRA-sim's congestion-unaware model has no queues to replay here, so the faster of both models is taken"
_HELD_REASON = "ASTRA-sim's congestion-unaware model replays held links exactly, and queues may be faster: both models are tried"
_WORTH_QUEUES = 1.005
"""By so much a schedule whose sends queue has to be faster than one that holds its links, where stock ASTRA-sim replays those."""


def link_models_of(topology: Topology, options: SearchOptions) -> tuple[tuple[LinkModel, ...], str]:
    """The link models of a search, whose schedules are compared, and why in words, "" where the options name them.

    Parameters
    ----------
    topology
        The network.
    options
        What is asked of the search.
    """
    if options.link_model == FASTEST:
        return LINK_MODELS, ""
    if options.link_model != "auto":
        return (options.link_model,), ""
    model, reason = choose_link_model(topology)
    return either(topology, model, reason)


def either(topology: Topology, model: LinkModel, reason: str) -> tuple[tuple[LinkModel, ...], str]:
    """A link model for which stock ASTRA-sim is chosen, and both models where that is the one that holds links.

    A send that holds its links for its latency, too, keeps others from using them: links allow that, and stock ASTRA-sim does,
    also for its own algorithms. So schedules of both models are made and compared by the time that their links need.

    Parameters
    ----------
    topology
        The network.
    model, reason
        What was chosen, and why.
    """
    if model == "blocking":
        return LINK_MODELS, _HELD_REASON if can_replay_blocking(topology) else FASTEST_REASON
    return (model,), reason


def handicaps(topology: Topology, models: tuple[LinkModel, ...]) -> dict[LinkModel, float]:
    """What the times of a link model are multiplied by in a search over several: times that stock ASTRA-sim prints are preferred.

    Parameters
    ----------
    topology, models
        The network, and the link models of the search.
    """
    return {"pipelined": _WORTH_QUEUES} if len(models) > 1 and can_replay_blocking(topology) else {}
