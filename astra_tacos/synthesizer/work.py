"""Estimated work of synthesizers, by which a search decides what to try first and when to stop. Unit: one examined send.

One examined send is the dispatcher's work for one send: finding when its links are free and which sends wait for it. The work of
other parts per send, link or channel is a fraction or a multiple of that, as measured on one core in 2026. The functions here
estimate work beforehand; the parts themselves count it (`count_work`). Neither looks at a clock, so a search within a budget
gives the same result everywhere.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.synthesizer.routing.tree_growth import may_choose_roots

SENDS_PER_SECOND = 1_000_000
"""Sends examined that count as a second of budget, on every machine: about what a core of 2026 does."""
CHECKS, JUDGING = 3.0, 8.0
"""Sends examined that a send of a result counts as while it is checked by the oracle and the replay, and while its traces are
replayed on the judges of its network and it is certified."""
EXAMINED_CHANNEL = 0.01
"""Cost of one channel through a switch that list scheduling looks at for a send that could start, in sends examined."""
_OVERHEAD = 500
_MATCH = 0.3
"""Cost of one send in the matcher, in sends examined."""
_PATH_LOOK, _TREE_LOOK, _RESTART = 0.04, 0.1, 0.4
"""Costs of one link that a path looks at, of one that a tree looks at, and of one device where a tree starts to look again."""
_MOST_LOOKS = 1 << 24
_BRANCHING = 1.0
"""Cost of one link that the flows to an NPU look at, all together."""
_ROUTED_SENDS, _ROUTED_PHASE = 2.0, 3.0
"""How often list scheduling takes each send: for paths, and for trees per phase."""
_MIXES, _MOST_OF_MIXES = 100, 1_000_000
"""Sends examined per pair of NPUs while mixes of exchanges are compared and the best few scheduled; and at most."""
_PROGRAMME, _HOPS_OF_TRIP = 500_000, 4
"""A linear programme over columns where devices forward; and the cost of a send over them."""
_BUDGET = re.compile(r"\s*((?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:e[+-]?\d{1,2})?)\s*([skMG]?)\s*", re.ASCII)
_UNITS = {"": SENDS_PER_SECOND, "s": SENDS_PER_SECOND, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def parse_budget(text: str, where: str = "budget") -> int:
    """Examined sends from text: 500k, 20M, 1G; or 10s or 10, for the number that counts as 10 seconds (`SENDS_PER_SECOND`).

    Raises
    ------
    ConfigError
        If it is none of these, or less than one.
    """
    match = _BUDGET.fullmatch(text)
    amount = float(match[1]) * _UNITS[match[2]] if match else math.nan
    if not 1 <= amount < 1 << 62:
        raise ConfigError(f"{where}: found {quoted(text)}, expected sends examined such as 20M, or seconds such as 10s")
    return int(amount)


def dispatch_work(topology: Topology, collective: Collective) -> int:
    """Work of building a send graph and dispatching it."""
    sends = fewest_crossings(topology, collective) if collective.is_personalised else collective.least_sends
    return _OVERHEAD + int(work_per_send(topology) * sends)


@lru_cache(maxsize=4)
def work_per_send(topology: Topology) -> float:
    """Sends examined that list scheduling of one send counts as: a port of a switch looks at the channels through it."""
    up, down = topology.channel_link, topology.channel_down_link
    switched = down != NO_LINK
    through = np.bincount(np.concatenate((up[switched], down[switched])), minlength=topology.num_links)
    return 1 + EXAMINED_CHANNEL * float((through[up] + through[down])[switched].sum() / max(topology.num_channels, 1))


def exchange_work(topology: Topology) -> int:
    """Work of choosing among mixes of exchanges, whatever the number of chunks, and of dispatching the best few."""
    return _OVERHEAD + min(_MIXES * topology.num_npus * max(topology.num_npus, 8), _MOST_OF_MIXES)


def match_work(topology: Topology, collective: Collective) -> int:
    """Work of the matcher alone."""
    return _OVERHEAD + int(_MATCH * collective.least_sends)


def matched_work(topology: Topology, collective: Collective) -> int:
    """Work of matching; an All-Reduce is settled twice."""
    return match_work(topology, collective) + (collective.least_sends if collective.num_phases == 2 else 0)


def tree_work(topology: Topology, collective: Collective) -> int:
    """Work of trees, or paths, that all NPUs use alike: those of one NPU's chunks."""
    return _OVERHEAD + dispatch_work(topology, collective) // topology.num_npus


def route_work(topology: Topology, collective: Collective) -> int:
    """Work of finding paths or trees, for which bundles of chunks examine every link, and of dispatching the sends along them."""
    phases = collective.num_phases
    # Where trees may also have idle roots, they are made again, and then grow from two roots each.
    times_grown, times_made = (3, 2) if may_choose_roots(topology, collective) else (1, 1)
    looks = min(_MOST_LOOKS, collective.num_chunks * topology.num_links) * phases * times_grown
    if collective.is_personalised:
        return _OVERHEAD + int(
            _PATH_LOOK * looks + _ROUTED_SENDS * fewest_crossings(topology, collective) * work_per_send(topology)
        )
    restarts = 0
    if topology.has_switches:
        # Many chunks of one root share a tree, but every root has one.
        most = _MOST_LOOKS // (topology.num_links * collective.num_members * phases)
        roots = 1 if collective.root is not None else collective.num_members
        num_trees = min(collective.num_chunks, max(most, roots))
        looks = num_trees * topology.num_links * phases * times_grown
        restarts = num_trees * collective.num_members * topology.num_devices * phases * times_grown
    sends = phases * times_made * collective.least_sends * work_per_send(topology)
    return _OVERHEAD + int(_TREE_LOOK * looks + _RESTART * restarts + _ROUTED_PHASE * sends)


def branch_work(topology: Topology, collective: Collective) -> int:
    """Work of packing arborescences, for which flows to every NPU look at every link, and of dispatching the sends along them."""
    return _OVERHEAD + int(_BRANCHING * topology.num_npus * topology.num_links + work_per_send(topology) * collective.least_sends)


def trip_work(topology: Topology, collective: Collective) -> int:
    """Of trees or paths over forwarding devices: a linear programme, and the hops of their sends."""
    return (_PROGRAMME + _HOPS_OF_TRIP * collective.least_sends) if topology.forwarding else _OVERHEAD + collective.least_sends


def device_work(topology: Topology, collective: Collective) -> int:
    """Of trees over reducing devices: the same, with a tree for every device in every round of the programme."""
    return trip_work(topology, collective) + _PROGRAMME * len(topology.reducing) // 8
