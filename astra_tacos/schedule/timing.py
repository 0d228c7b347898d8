"""Timing of a send: how long a chunk occupies a link and when it arrives. All delays are computed and truncated here.

Arithmetic as in ASTRA-sim (`astra-network-analytical`, `congestion_aware/Link.cpp` and `congestion_unaware/BasicTopology.cpp`):
double precision, then truncation to whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.partial_sums import check_endpoints
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.units import BYTES_PER_GB, NS_PER_S, bytes_per_ns, format_size, reduction_ns, reduction_us

LinkModel = Literal["blocking", "pipelined"]
LINK_MODELS: tuple[LinkModel, ...] = ("blocking", "pipelined")
_Number = TypeVar("_Number", bound=np.number)
_MAX_DELAY_NS = float(1 << 52)
_ROUNDING = 1e-6
"""Of a unit: what double precision may add to a whole number of them."""
_MOST_DELAYS = 1 << 26
"""Channels times different sizes: half a gigabyte for each table of delays."""
MOST_TRUNCATED = 0.005
"""By what share truncated delays may shorten a time that still counts as physically possible."""
TRUNCATION_HANDICAP = 1.05
"""What the exact times of schedules that are truncated by more are multiplied by, when schedules are compared."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Timing:
    """Delays of every chunk size of a collective on a topology; the last axis is the chunk's size class.

    Parameters
    ----------
    link_model
        `blocking`: a send holds its links until it has arrived. `pipelined`: a link is held while it serialises.
    link_hold_ns
        int64[num_links, classes], int(size / bandwidth): how long `pipelined` holds a link.
    link_delay_ns
        int64[num_links, classes], int(latency + size / bandwidth): one store-and-forward hop.
    channel_delay_ns
        int64[num_channels, classes], from the start of a send to its arrival when nothing is in the way. Through a switch
        that is int(latencies + size / bandwidth) under `blocking` and two hops under `pipelined`.
    reduce_bandwidth_gbps
        Decimal GB/s at which an NPU reduces what it received, 0 for infinitely fast.
    reduction_us, reduction_ns
        int64[classes], a COMP node's `duration_micros` and the time it takes.
    device_reduction_ns
        int64[num_npus], how long a reducing device takes to add a chunk of any size, -1 for others; empty if there are none.

    Examples
    --------
    >>> from astra_tacos import all_gather, build_topology, compute_timing, read_network
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> timing = compute_timing(topology, all_gather(16, 1 << 20), "pipelined")
    >>> timing.link_hold_ns.shape
    (64, 1)
    """

    link_model: LinkModel
    link_hold_ns: Ints
    link_delay_ns: Ints
    channel_delay_ns: Ints
    reduce_bandwidth_gbps: float
    reduction_us: Ints
    reduction_ns: Ints
    device_reduction_ns: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def reduction_at(self, npu: NDArray[np.integer], size_class: NDArray[np.integer]) -> Ints:
        """int64[n], how long each of some NPUs or reducing devices takes to add a chunk of a class of size."""
        as_npu: Ints = self.reduction_ns[size_class]
        if not len(self.device_reduction_ns):
            return as_npu
        own_ns = self.device_reduction_ns[npu]
        return np.where(own_ns >= 0, own_ns, as_npu).astype(np.int64)

    def __repr__(self) -> str:
        return f"<Timing: {self.link_model}, {self.link_hold_ns.shape[0]:,} links>"

    @property
    def least_reduction_ns(self) -> int:
        """The least that adding a chunk takes anywhere."""
        devices = self.device_reduction_ns[self.device_reduction_ns >= 0]
        return int(np.append(devices, self.reduction_ns[0]).min())

    def of(self, topology: Topology, collective: Collective) -> Timing:
        """Delays of another collective, or on another topology, under the same timing model."""
        return compute_timing(topology, collective, self.link_model, self.reduce_bandwidth_gbps)

    @property
    def is_blocking(self) -> bool:
        """Whether a chunk holds a link until it has arrived."""
        return self.link_model == "blocking"


def compute_timing(
    topology: Topology, collective: Collective, link_model: LinkModel, reduce_bandwidth_gbps: float = 0.0
) -> Timing:
    """Delays of a collective's chunks on a topology's links.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective, whose chunks have sizes.
    link_model
        How long a chunk holds a link.
    reduce_bandwidth_gbps
        Decimal GB/s at which an NPU reduces a received chunk, 0 for infinitely fast (ASTRA-sim's 1 ns).

    Raises
    ------
    SynthesisError
        If a chunk takes longer than 2**52 ns, or there are several per NPU that take less than 1 ns of a link.
    ConfigError
        If a member of the collective is a device that only forwards.

    Examples
    --------
    >>> from astra_tacos import all_gather, build_topology, compute_timing, read_network
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> compute_timing(topology, all_gather(16, 1 << 20), "blocking").link_delay_ns.shape
    (64, 1)
    """
    check_endpoints(topology, collective)
    most = max(_MOST_DELAYS // max(topology.num_channels, topology.num_links), 2)
    if collective.part_bytes is not None and len(collective.class_size_bytes) > most:
        raise SynthesisError(
            f"{topology.name}: {len(collective.class_size_bytes):,} sizes of chunks on {topology.num_channels:,} channels, "
            f"expected at most {most:,}: round sizes to a multiple"
        )
    if collective.chunks_per_npu > 1:
        refuse_instant(topology, int(collective.class_size_bytes[0]), link_model)
    return timing_of_sizes(topology, collective.class_size_bytes, link_model, reduce_bandwidth_gbps)


def refuse_instant(topology: Topology, chunk_bytes: int, link_model: LinkModel) -> None:
    """Refuse chunks that are smaller than messages (`least_bytes`), where there may be fewer of them.

    Raises
    ------
    SynthesisError
        If a chunk takes less than 1 ns of a link.
    """
    if link_model == "pipelined" and np.any(chunk_bytes < least_bytes(topology)):
        raise SynthesisError(
            f"a chunk of {format_size(chunk_bytes)} holds a link of {topology.name} for less than 1 ns, which ASTRA-sim cannot "
            "simulate: use fewer chunks per NPU, a larger size or --link-model blocking"
        )


def least_bytes(topology: Topology) -> Ints:
    """int64[num_links], the size of messages that hold each link, and others that they cross with it, for at least 1 ns.

    ASTRA-sim's queues stop at a message that holds a link for less than that at time 0, and let any number of such messages
    cross the link at once. So smaller messages are sent as so many bytes where sends queue (`wire_bytes`): networks have a
    shortest packet, too.
    """
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    highest = np.zeros(topology.num_devices)
    for ends in (topology.link_src, topology.link_dst):
        at_switch = ends >= topology.num_npus
        np.maximum.at(highest, ends[at_switch], rate[at_switch])
    highest[: topology.num_npus] = 0
    crossed = np.maximum(highest[topology.link_src], highest[topology.link_dst])
    return np.asarray(np.ceil(np.maximum(rate, crossed)), np.int64)


def wire_bytes(topology: Topology, message_bytes: Ints, channel: NDArray[np.integer], link_model: LinkModel) -> Ints:
    """int64[num_messages], the size of each message on links (`least_bytes`).

    Parameters
    ----------
    message_bytes, channel
        int64[num_messages], bytes that each message carries, and the channel it takes.
    """
    if link_model == "blocking":
        return message_bytes
    return np.asarray(np.maximum(message_bytes, least_bytes(topology)[topology.channel_link[channel]]), np.int64)


def timing_of_sizes(
    topology: Topology,
    size_bytes: Ints,
    link_model: LinkModel,
    reduce_bandwidth_gbps: float = 0.0,
    *,
    may_be_instant: bool = False,
) -> Timing:
    """Delays of messages of some sizes on a topology's links.

    Parameters
    ----------
    size_bytes
        int64[classes], ascending.
    link_model, reduce_bandwidth_gbps
        As for `compute_timing`, which says what is raised, too.
    may_be_instant
        Whether sizes that hold a link for less than 1 ns stay as small as they are: for delays that no message has.
    """
    if not np.isfinite(reduce_bandwidth_gbps) or reduce_bandwidth_gbps < 0:
        raise ConfigError(f"reduce bandwidth: found {reduce_bandwidth_gbps}, expected a number of GB/s, 0 or more")
    if reduce_bandwidth_gbps and float(size_bytes[-1]) / reduce_bandwidth_gbps / BYTES_PER_GB * NS_PER_S > _MAX_DELAY_NS:
        raise ConfigError(f"reduce bandwidth: at {reduce_bandwidth_gbps} GB/s a chunk takes longer than 2**52 ns, expected less")
    is_blocking = link_model == "blocking"
    hold, delay = (
        _truncate(times, topology) for times in _link_times(topology, size_bytes, not is_blocking and not may_be_instant)
    )
    timing = Timing(
        link_model,
        hold,
        delay,
        _truncate(_held_channels(topology, size_bytes), topology) if is_blocking else _over_channels(topology, delay),
        reduce_bandwidth_gbps,
        reduction := reduction_us(size_bytes, reduce_bandwidth_gbps),
        reduction_ns(reduction),
        _of_devices(topology, lambda ns: max(ns, 1)),
    )
    if timing.is_blocking and timing.channel_delay_ns.min() < 1 and not may_be_instant:
        raise SynthesisError(
            f"a chunk of {format_size(int(size_bytes[0]))} holds a link of {topology.name} for less than 1 ns, which ASTRA-sim "
            "cannot simulate: use fewer chunks per NPU or a larger size"
        )
    return timing


def _link_times(topology: Topology, size_bytes: Ints, queues: bool) -> tuple[Floats, Floats]:
    """float64[num_links, classes] each: for how long messages hold links, and when they have arrived.

    Where sends queue, short messages are longer on links (`least_bytes`).
    """
    sizes = np.maximum(size_bytes, least_bytes(topology)[:, None]) if queues else size_bytes
    hold = sizes / bytes_per_ns(topology.link_bandwidth_gibps)[:, None]
    return hold, topology.link_latency_ns[:, None] + hold


def _over_channels(topology: Topology, of_links: NDArray[_Number]) -> NDArray[_Number]:
    """[num_channels, ...], the sum over the links of each channel of what there is for each link."""
    down = topology.channel_down_link
    summed: NDArray[_Number] = of_links[topology.channel_link] + np.where(down[:, None] != NO_LINK, of_links[down], 0)
    return summed


def _held_channels(topology: Topology, size_bytes: Ints) -> Floats:
    """float64[num_channels, classes], when messages arrive that hold all links of their channels at once."""
    up, down = topology.channel_link, topology.channel_down_link
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    slowest = np.where(down != NO_LINK, np.minimum(rate[up], rate[down]), rate[up])
    return _over_channels(topology, topology.link_latency_ns[:, None]) + size_bytes / slowest[:, None]


def untruncated(
    topology: Topology, size_bytes: Ints, link_model: LinkModel, reduce_bandwidth_gbps: float, units_per_ns: int
) -> Timing:
    """Delays of messages of some sizes in units of a fraction of a nanosecond, rounded up, so that none is below what links need.

    Parameters
    ----------
    topology, size_bytes, link_model, reduce_bandwidth_gbps
        As for `timing_of_sizes`.
    """
    is_blocking = link_model == "blocking"
    hold, delay = _link_times(topology, size_bytes, not is_blocking)
    channel = _held_channels(topology, size_bytes) if is_blocking else _over_channels(topology, delay)
    link_hold, link_delay, channel_delay = (
        np.ceil(t * units_per_ns - _ROUNDING).astype(np.int64) for t in (hold, delay, channel)
    )
    none = np.zeros(len(size_bytes), np.int64)
    adding = adding_time(size_bytes, reduce_bandwidth_gbps, units_per_ns)
    of_devices = _of_devices(topology, lambda ns: ns * units_per_ns)
    return Timing(link_model, link_hold, link_delay, channel_delay, reduce_bandwidth_gbps, none, adding, of_devices)


def _of_devices(topology: Topology, time_of: Callable[[int], int]) -> Ints:
    """Times of reductions by reducing device, as a `Timing` has them."""
    if not topology.reducing:
        return np.empty(0, np.int64)
    times = np.full(topology.num_npus, -1, np.int64)
    for device in topology.reducing:
        times[device.device] = time_of(device.reduction_ns)
    return times


def adding_time(size_bytes: Ints, reduce_bandwidth_gbps: float, units_per_ns: int) -> Ints:
    """How long an NPU takes to add some numbers of bytes, in units of a fraction of a nanosecond; 0 if it is infinitely fast."""
    if not reduce_bandwidth_gbps:
        return np.zeros(len(size_bytes), np.int64)
    return np.rint(size_bytes / (reduce_bandwidth_gbps * BYTES_PER_GB) * NS_PER_S * units_per_ns).astype(np.int64)


def choose_link_model(topology: Topology) -> tuple[LinkModel, str]:
    """`pipelined` where stock ASTRA-sim has these links, else `blocking`; with the reason in words."""
    if topology.forwarding:
        return (
            "pipelined",
            "devices that forward store a whole chunk and pass it on, as links of ASTRA-sim's congestion-aware model do",
        )
    if not can_replay_pipelined(topology):
        if topology.has_switches:
            return "blocking", "ASTRA-sim's congestion-aware model has switches in one dimension only"
        return "blocking", "ASTRA-sim replays unequal links exactly only when a send holds its link until it has arrived"
    if topology.has_switches:
        return "pipelined", "ASTRA-sim's congestion-aware model has this switch"
    return "pipelined", "ASTRA-sim's congestion-aware model replays this network exactly"


def can_replay_blocking(topology: Topology) -> bool:
    """Whether the congestion-unaware backend, which has every block but no unequal links, gives the times of held links."""
    if not topology.dimensions:
        return topology.is_uniform
    return topology.is_regular and not topology.has_switches


def can_replay_pipelined(topology: Topology) -> bool:
    """Whether the congestion-aware backend, which has one dimension, can stand for this network."""
    if topology.has_switches:
        return len(topology.dimensions) == 1 and topology.is_regular
    return topology.is_uniform


def _truncate(delay_ns: Floats, topology: Topology) -> Ints:
    if not delay_ns.size or not delay_ns.max() < _MAX_DELAY_NS:
        raise SynthesisError(f"a chunk takes longer than 2**52 ns on a link of {topology.name}, expected less")
    return delay_ns.astype(np.int64)
