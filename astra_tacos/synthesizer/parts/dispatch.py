"""Dispatch: list scheduling of a send graph. Every link that becomes free takes the most urgent send that is ready for it.

Occupancy: the time that a send holds the links of its channel, counted from its start.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by
from astra_tacos.synthesizer.parts.send_graph import SendGraph, find_slots
from astra_tacos.synthesizer.work import EXAMINED_CHANNEL


def link_occupancy(timing: Timing, link: Ints32, down: Ints32, *, by_size: bool = False) -> tuple[Ints, Ints, Ints]:
    """Times, counted from its start, until which a send holds its up-link and its down-link; and the down-links' head start.

    Under store and forward a down-link is taken only when the chunk reaches the switch. Counted from the start of the send,
    that is a shift by the up-link's delay; where up-links differ, the smallest delay of a down-link's up-links is used.

    Parameters
    ----------
    link, down
        int32[num_channels], the first and the second link of each channel.
    by_size
        Whether the up-link's delay of a chunk's own size counts, instead of the smallest of all sizes. That is right for sizes
        that differ much, if chunks of one size follow one another, and a good guess if not.

    Returns
    -------
    up_busy, down_busy, head_start
        int64[num_channels, classes] twice; int64[num_links], how long before a down-link takes a chunk a send through it has to
        start.
    """
    if timing.is_blocking:
        return timing.channel_delay_ns, timing.channel_delay_ns, np.zeros(len(timing.link_hold_ns), np.int64)
    switched = down != NO_LINK
    shift = timing.link_delay_ns[link[switched]]
    least = np.full(timing.link_hold_ns.shape, np.iinfo(np.int64).max)
    np.minimum.at(least, down[switched], shift)
    head_start = least.min(axis=1)
    down_busy = np.zeros_like(timing.channel_delay_ns)
    down_busy[switched] = (
        timing.link_hold_ns[down[switched]] + shift - (least if by_size else head_start[:, None])[down[switched]]
    )
    return timing.link_hold_ns[link], down_busy, np.where(head_start == np.iinfo(np.int64).max, 0, head_start)


def dispatch(
    problem: Problem,
    sends: SendGraph,
    synthesizer: str = "",
    seed: int = 0,
    busy_share: float = np.inf,
) -> Schedule:
    """List scheduling of a send graph, as a simulation in the order of time.

    Whenever a link becomes free or a chunk arrives, the sends that could start at that instant do so by ascending rank; a send
    through a switch needs both links of its channel. No link idles while there is a send that it could take.

    Parameters
    ----------
    problem, sends
        The network, the collective and the timing; and what is sent on which channel.
    synthesizer, seed
        What the schedule names as its maker; "" for the name that is registered.
    busy_share
        A switch with a link that is busy for at least this share of what the busiest link of all is, pairs its links by how
        many sends they have left: of the sends that could start, the one with the most left on either link goes first, and
        only then the one of the smallest rank. (Open-shop scheduling: otherwise some link has too much left in the end.)

    Raises
    ------
    SynthesisError
        If sends wait for one another in a cycle, or a chunk, a channel or a rank does not exist: faults of the synthesizer.

    Examples
    --------
    >>> import numpy as np
    >>> from astra_tacos import Problem, SendGraph, build_topology, broadcast, dispatch, read_network, verify
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> to_all = np.flatnonzero(topology.channel_src == 0).astype(np.int32)
    >>> zeros = np.zeros(len(to_all), np.int32)
    >>> schedule = dispatch(Problem.of(topology, broadcast(16, 1 << 20)), SendGraph(zeros, to_all, zeros > 0, zeros), "mine")
    >>> verify(schedule)[0].code
    'incomplete'
    """
    topology, collective, timing = problem
    _check(problem, sends, synthesizer)
    from astra_tacos.synthesizer.parts import _dispatch_kernels as kernels

    # Messages are numbered by channel, then by urgency, so that a channel's most urgent one is the one of the smallest number.
    numbered, urgency = sends.by_urgency()
    *feeds, slots = find_slots(problem, numbered)
    sizes = numbered.sizes(topology, collective, timing)
    row = numbered.first[:-1]
    channel, reduces, size_class = numbered.channel[row], numbered.reduces[row], sizes.size_class
    first = np.searchsorted(channel, np.arange(topology.num_channels + 1))

    by_size = collective.part_bytes is not None
    up_busy, down_busy, _ = link_occupancy(sizes.timing, topology.channel_link, topology.channel_down_link, by_size=by_size)
    usable = sizes.timing.channel_delay_ns[channel, size_class] + np.where(
        reduces, sizes.timing.reduction_at(topology.channel_dst[channel], size_class), 0
    )
    up_ns, down_ns = up_busy[channel, size_class], down_busy[channel, size_class]
    sends_left = _sends_left(topology, channel, up_ns, down_ns, busy_share)
    place = np.empty(len(urgency), np.int64)
    place[np.lexsort((channel, urgency))] = np.arange(len(urgency))
    switched = np.flatnonzero(topology.channel_down_link != NO_LINK)
    links = np.concatenate((topology.channel_link[switched], topology.channel_down_link[switched]))
    through = group_by(links, np.concatenate((switched, switched)), topology.num_links)
    examined = np.zeros(1, np.int64)
    started = kernels.start_order(
        kernels.Sends(channel, place, up_ns, down_ns, usable, *feeds),
        slots,
        kernels.Channels(first, topology.channel_link, topology.channel_down_link, *through),
        sends_left,
        examined,
    )
    count_work(len(sends.chunk) + EXAMINED_CHANNEL * float(examined[0]))
    if len(started) < numbered.num_messages:
        raise SynthesisError(f"{synthesizer}: {numbered.num_messages - len(started)} sends wait for one another")
    return settle(problem, numbered.in_order(started), synthesizer, seed)


def _check(problem: Problem, sends: SendGraph, synthesizer: str) -> None:
    """Check that all numbers of a send graph stand for something: kernels do not."""
    limits = {"chunk": problem.collective.num_chunks, "channel": problem.topology.num_channels, "rank": 1 << 31}
    for name, limit in limits.items():
        column = np.asarray(getattr(sends, name))
        if column.shape != np.shape(sends.chunk):
            raise SynthesisError(
                f"{synthesizer}: {column.size:,} entries of {name}, expected {np.size(sends.chunk):,}, one per send"
            )
        wrong = np.flatnonzero((column < 0) | (column >= limit))
        if wrong.size:
            raise SynthesisError(f"{synthesizer}: send {wrong[0]} has the {name} {column[wrong[0]]}, expected 0 to {limit - 1:,}")


def _sends_left(topology: Topology, channel: Ints32, up_ns: Ints, down_ns: Ints, busy_share: float) -> Ints:
    """int64[num_links], the number of sends over each link of a busy switch; far below 0 for all other links."""
    down = topology.channel_down_link[channel]
    switched = down != NO_LINK
    link = np.concatenate((topology.channel_link[channel], down[switched]))
    busy_ns = np.bincount(link, np.concatenate((up_ns, down_ns[switched])), topology.num_links)
    switch = np.maximum(topology.link_src, topology.link_dst)
    most_ns = np.zeros(topology.num_devices)
    np.maximum.at(most_ns, switch, busy_ns)
    matters = (switch >= topology.num_npus) & (most_ns[switch] >= busy_share * busy_ns.max(initial=0.0))
    return np.where(matters, np.bincount(link, minlength=topology.num_links), -(1 << 32))
