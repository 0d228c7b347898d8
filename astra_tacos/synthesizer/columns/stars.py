"""Stars: every member pushes its part of a chunk to a server, which adds them and answers with the sum; no chain, no tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.columns.column import Trip, column_of
from astra_tacos.synthesizer.columns.programme import Solution
from astra_tacos.synthesizer.columns.routes import RouteFinder


def server_stars(topology: Topology, collective: Collective, servers: Sequence[int]) -> Solution:
    """An All-Reduce in which each of some NPUs serves as much as every other: members themselves, or others.

    Parameters
    ----------
    topology
        The network.
    collective
        An All-Reduce.
    servers
        NPUs.

    Raises
    ------
    ConfigError
        If there is no server, or one cannot reach a member without passing NPUs.
    """
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    routes = RouteFinder(topology).find(1.0 / rate)
    members = collective.member_npus.tolist()
    pairs = [(member, server) for server in servers for member in members if member != server]
    if not pairs or not all(np.isfinite([routes.cost[pair], routes.cost[pair[::-1]]]).all() for pair in pairs):
        raise ConfigError(
            f"{topology.name}: servers are {list(servers)}, expected NPUs that reach all members and nothing between"
        )
    columns = []
    for server in servers:
        others = [member for member in members if member != server]
        up = [Trip(tuple(routes.links(member, server)), True) for member in others]
        down = [Trip(tuple(routes.links(server, member)), False) for member in others]
        columns.append(column_of(0, [*up, *down]))
    share = np.full(len(columns), float(collective.chunk_size_bytes.sum()) / len(columns))
    load = np.zeros(topology.num_links)
    for column, amount in zip(columns, share.tolist(), strict=True):
        load[column.rows] += column.load * amount
    time = float((load / rate).max())
    return Solution(tuple(columns), share, time, time)
