"""Replays in which a nanosecond has a thousand parts, so that ASTRA-sim's whole numbers of them truncate next to nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from astra_tacos.network.network_config import MAX_LATENCY_NS, MIN_BANDWIDTH_GIBPS, Dimension, LinkSpec, NetworkConfig
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError

PARTS_PER_NS = 1000
"""Everything takes so many times as long, and ends so many times later."""
_Link = TypeVar("_Link", Dimension, LinkSpec)


def untruncated_trace_ns(trace: Trace, network: NetworkConfig, backend: Backend) -> float:
    """When the last NPU has finished the traces of a collective, in ns; what is raised, see `replay_trace`."""
    # A duration of 0 takes ASTRA-sim 1 ns, which is as many parts as 1 us has nanoseconds.
    duration_us = np.where(trace.kind == NodeType.COMP, np.maximum(trace.duration_us * PARTS_PER_NS, 1), 0)
    finer = replace(trace, duration_us=duration_us)
    return replay_trace(finer, _slowed(network), backend).collective_time_ns / PARTS_PER_NS


def untruncated_end_ns(run: Run, backend: Backend) -> float:
    """When a run of native collectives without compute ends, in ns; what is raised, see `replay_run`."""
    system = run.system
    finer = replace(
        system,
        endpoint_delay_ns=system.endpoint_delay_ns * PARTS_PER_NS,
        local_mem_bw_gbps=system.local_mem_bw_gbps / PARTS_PER_NS,
    )
    return replay_run(replace(run, network=_slowed(run.network), system=finer), backend).end_ns / PARTS_PER_NS


def _slowed(network: NetworkConfig) -> NetworkConfig:
    """The network on which everything takes `PARTS_PER_NS` times as long.

    Raises
    ------
    ConfigError
        If a link is so slow, or a latency so long, that no network may have what it would be then.
    """
    links: tuple[Dimension | LinkSpec, ...] = (*network.dimensions, *network.links, *network.link_overrides)
    slowest = min((link.bandwidth_gibps for link in links if link.bandwidth_gibps is not None), default=math.inf)
    longest = max((link.latency_ns for link in links if link.latency_ns is not None), default=0.0)
    if slowest <= MIN_BANDWIDTH_GIBPS * PARTS_PER_NS or longest >= MAX_LATENCY_NS / PARTS_PER_NS:
        raise ConfigError(
            f"{network.source}: links of {slowest:g} GB/s and latencies of up to {longest:g} ns, which no replay times to "
            f"parts of a nanosecond, expected more than {MIN_BANDWIDTH_GIBPS * PARTS_PER_NS:g} GB/s and less than "
            f"{MAX_LATENCY_NS / PARTS_PER_NS:g} ns"
        )

    def slowed(link: _Link) -> _Link:
        bandwidth, latency = link.bandwidth_gibps, link.latency_ns
        return replace(
            link,
            bandwidth_gibps=None if bandwidth is None else bandwidth / PARTS_PER_NS,
            latency_ns=None if latency is None else latency * PARTS_PER_NS,
        )

    return replace(
        network,
        dimensions=tuple(map(slowed, network.dimensions)),
        links=tuple(map(slowed, network.links)),
        link_overrides=tuple(map(slowed, network.link_overrides)),
    )
