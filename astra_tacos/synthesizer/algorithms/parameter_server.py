"""Parameter servers: NPUs that are no members of a collective add what members push to them, and answer with the sum.

PHub (Luo et al., SoCC 2018) and BytePS (Jiang et al., OSDI 2020): chunks are dealt to servers, and to members, so that the
busiest port is done first. Here a linear programme deals them, over all trees that may branch at members and servers, so ports
may be unequal, and there may be several levels of servers. With equal ports its optimum is that of `server_shares`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.algorithms.column_generation import schedule_columns
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.device_trees import DeviceTrees
from astra_tacos.synthesizer.columns.programme import Solution, solve
from astra_tacos.synthesizer.columns.routes import RouteFinder

_SERVER = "parameter-server"
_REFERENCE_BYTES = 1 << 30
_MOST_NPUS = 128
_MOST_SENDS = 1 << 22


def refuse_without_servers(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if collective.num_members == topology.num_endpoints:
        return "expected NPUs that take no part, which can serve (--helpers): direct is what servers on all NPUs do"
    if topology.num_endpoints > _MOST_NPUS:
        return f"solves programmes of at most {_MOST_NPUS} NPUs, these are {topology.num_endpoints:,}"
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    if not _all_reach_all(topology):
        return "expected every NPU to reach every other without passing NPUs, over switches or links"
    return None


@lru_cache(maxsize=16)
def _all_reach_all(topology: Topology) -> bool:
    cost = RouteFinder(topology).find(np.ones(topology.num_links)).cost
    return bool(np.isfinite(cost[~np.eye(len(cost), dtype=np.bool_)]).all())


def parameter_server(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Deal chunks to servers and members by a linear programme, and schedule the sends.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize, of some NPUs; the others serve.
    timing
        Delays of chunks on the links of the network.
    seed
        Of ties between trees; the same arguments give the same schedule.
    """
    solution = server_solution(topology, collective, seed)
    demands = Demands(topology, collective, seed, DeviceTrees(topology, collective, with_devices=False))
    return schedule_columns(topology, collective, timing, solution, demands, _SERVER, seed)


def server_solution(topology: Topology, collective: Collective, seed: int = 0) -> Solution:
    """The best shares, whatever the chunks: trees and the bytes along each, for some size."""
    return _solved_for_servers(topology, collective.name, collective.root, collective.member_npus.tobytes(), seed)


@lru_cache(maxsize=8)
def _solved_for_servers(topology: Topology, name: str, root: int | None, members: bytes, seed: int) -> Solution:
    npus = np.frombuffer(members, np.int64).tolist()
    collective = make_collective(name, topology.num_npus, _REFERENCE_BYTES, 1, root, npus)
    return solve(Demands(topology, collective, seed, DeviceTrees(topology, collective, with_devices=False)))
