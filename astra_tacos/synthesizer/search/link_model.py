"""The link model of a search: the one that stock ASTRA-sim replays most exactly."""

from __future__ import annotations

from astra_tacos.collective.all_reduce import all_reduce_of
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.timing import LinkModel, choose_link_model
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.topology.topology import Topology


def best_link_model(topology: Topology, collective: Collective, options: SearchOptions) -> tuple[LinkModel, str]:
    """The link model for the largest messages that the synthesizers of a search can send; with the reason in words.

    Parameters
    ----------
    topology, collective
        What is searched for.
    options
        What is asked of the search.
    """
    cut_themselves = any(collective.name in SYNTHESIZERS[name].cuts_itself for name in options.synthesizers)
    if cut_themselves and collective.members is None:
        collective = all_reduce_of(collective.num_npus, collective.size_bytes, 1)
    return choose_link_model(topology, collective)
