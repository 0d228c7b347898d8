"""How many sends a schedule has, before it is made: what can be listed, and what `symmetric` does without a list."""

from __future__ import annotations

import math
from dataclasses import replace

from astra_tacos.collective import ROOTED
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.rotations import why_no_translations
from astra_tacos.schedule.symmetric_schedule import MOST_SENDS, SYMMETRIC_COLLECTIVES
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions


def is_symmetric(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether `symmetric` is asked for and can do a collective on a network."""
    return collective in SYMMETRIC_COLLECTIVES and "symmetric" in options.synthesizers and not why_no_translations(network)


def has_many_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether a schedule has more sends than the options allow, even in one chunk per NPU, or in as many as they say.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.
    """
    return sends_of_pair(collective, options) * network.num_npus * (network.num_npus - 1) > options.max_sends


def check_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> None:
    """Refuse, before the search, what has too many sends to be listed.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.

    Raises
    ------
    ConfigError
        If there are more than `MOST_SENDS` sends: says how many NPUs have fewer, and where `symmetric` does without a list.
    """
    if collective in ROOTED or not has_many_sends(network, collective, replace(options, max_sends=MOST_SENDS)):
        return
    instead = f"use at most {(1 + math.isqrt(1 + 4 * MOST_SENDS // sends_of_pair(collective, options))) // 2:,} NPUs"
    if isinstance(options.chunks_per_npu, int) and options.chunks_per_npu > 1:
        instead += ", or fewer chunks"
    if is_symmetric(network, collective, replace(options, synthesizer="symmetric")):
        instead += ", or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all"
    raise ConfigError(
        f"{network.source}: {network.num_npus:,} NPUs, for which {collective} has more than {MOST_SENDS:,} sends, too many to "
        f"list: {instead}"
    )


def lists_all_sends(collective: str, options: SearchOptions) -> bool:
    """Whether every synthesizer that is asked for takes the chunks as they are, so that each of them is a send to each NPU.

    Parameters
    ----------
    collective, options
        As for `is_symmetric`.
    """
    return not any(collective in SYNTHESIZERS[name].cuts_itself for name in options.synthesizers)


def sends_of_pair(collective: str, options: SearchOptions) -> int:
    """The least number of sends of a schedule by pair of NPUs, in one chunk per NPU or in as many as the options say."""
    chunks = options.first_chunks
    return 2 * chunks if collective == "all-reduce" else chunks
