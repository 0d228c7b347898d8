"""Reduction and multicast in the network: trees that branch at reducing devices, mixed with trees between NPUs.

A reducing device adds what its children send and passes one sum up; results come down the same way, one copy for each branch. So
each link of a tree carries a chunk once up and once down, however many NPUs there are (SwitchML, Sapio et al., NSDI 2021; SHARP,
Graham et al., COMHPC 2016). A linear programme says how much of the data goes along which tree, as in `column_generation`, whose
trees it mixes in: where devices are slow, few or have small windows, NPUs add up what devices cannot.

Parameter servers: NPUs that are no members of a collective add what members push to them, and answer with the sum.

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
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.algorithms.column_generation import along_shares, refuse_dimensions
from astra_tacos.synthesizer.chunk_counts import advise_for_trips
from astra_tacos.synthesizer.columns.routes import RouteFinder

_MOST_NPUS = 128
_UNDER_WAY = 8
"""Chunks that a window should hold at least, so that few bytes of it are lost to the last chunk that does not fit."""


def refuse_without_devices(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if not topology.reducing:
        return "expected a network with devices that add (astra_tacos: reducing)"
    reason = refuse_dimensions(topology, collective)
    if reason is not None:
        return reason
    if topology.num_endpoints > _MOST_NPUS:
        return f"solves programmes of at most {_MOST_NPUS} NPUs, these are {topology.num_endpoints:,}"
    windows = [device.window_bytes for device in topology.reducing if device.window_bytes is not None]
    chunk = int(collective.class_size_bytes[-1])
    if collective.reduces and len(windows) == len(topology.reducing) and chunk > max(windows):
        return f"a chunk of {format_size(chunk)} fits no window of a device, expected at most {format_size(max(windows))}"
    return None


def in_network(problem: Problem, seed: int) -> Schedule:
    """Choose trees over reducing devices and between NPUs by a linear programme, and schedule the sends of chunks along them."""
    topology, collective = problem.topology, problem.collective
    smallest, members = 1 << 20, collective.member_npus.tolist()
    cut = smallest * len(members), 1
    if any(device.window_bytes is not None for device in topology.reducing):
        chunk_bytes = int(collective.class_size_bytes[-1])
        size_bytes = max(chunk_bytes, smallest) * len(members)
        uncut = make_collective(collective.name, topology.num_npus, size_bytes, 1, collective.root, members)
        count = max(1, round(int(uncut.class_size_bytes[-1]) / chunk_bytes))
        cut = chunk_bytes * len(members) * count, count
    return along_shares(problem, "in-network", seed, True, cut)


def advise_for_devices(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU with which it should come close to its best; see `advise_for_trips`. Windows ask for small chunks.

    Parameters
    ----------
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.
    """
    count = advise_for_trips(topology, name, size_bytes, link_model, max_sends)
    windows = [device.window_bytes for device in topology.reducing if device.window_bytes is not None]
    if not windows:
        return count
    uncut = make_collective(name, topology.num_npus, size_bytes, 1, members=topology.endpoints)
    return max(count, -(-int(uncut.class_size_bytes[-1]) * _UNDER_WAY // min(windows)))


_MOST_SENDS = 1 << 22


def refuse_without_servers(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if collective.num_members == topology.num_endpoints:
        return "expected NPUs that take no part and can serve (--helpers): if all NPUs serve, the algorithm is direct"
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


def parameter_server(problem: Problem, seed: int) -> Schedule:
    """Deal chunks to servers and members by a linear programme, and schedule the sends."""
    return along_shares(problem, "parameter-server", seed, with_devices=False)
