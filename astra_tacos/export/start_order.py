"""The order in which the messages of a program start on a network, if every thread block does its steps one after another.

A step begins when the step before it in its thread block, the steps that it depends on and the message that it receives are
there. It holds its thread block until its own message has left the link; links queue first come, first served. Messages between
NPUs without a channel travel over a shortest path, hop by hop.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.csr import group_by
from astra_tacos.verifier.program_form import Action, Program

_HOP, _STEP = range(2)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a program.

    Parameters
    ----------
    actions
        Every action, in an order in which they can happen: receives when their message has arrived, other actions when their
        step begins.
    hops
        Every hop of every message, in the order in which links take them: the message's first send action, the source, the
        destination, the channel.
    sends
        By a message's first send action, all its send actions.
    end_ns
        When the last step has ended.
    """

    actions: list[int]
    hops: list[tuple[int, int, int, int]]
    sends: dict[int, list[int]]
    end_ns: int


def messages_of(program: Program) -> NDArray[np.int64]:
    """int64[num_actions], the first send action of each send action's message; its own number for other actions.

    What one step sends to one other step is one message.
    """
    first = np.arange(len(program.action_op))
    known: dict[tuple[int, int], int] = {}
    receivers = program.action_op[program.message_recv]
    pairs = zip(program.message_send.tolist(), receivers.tolist(), strict=True)
    for send, receiver in sorted(pairs):
        first[send] = known.setdefault((int(program.action_op[send]), receiver), send)
    return first


def execute(
    program: Program, topology: Topology, timing: Timing, size_class: NDArray[np.integer], message: NDArray[np.int64]
) -> Execution:
    """Execute a program on a network.

    Parameters
    ----------
    program
        A program without deadlocks whose ranks are the network's NPUs.
    topology, timing
        The network, and its delays for each class of message.
    size_class
        int64[num_actions], the class of the message of each action.
    message
        See `messages_of`.
    """
    actions_of, acts = _actions_by_step(program)
    followers = _followers(program)
    waiting = np.bincount(program.after, minlength=program.num_ops)
    receiver = dict(zip(program.message_send.tolist(), program.action_op[program.message_recv].tolist(), strict=True))
    waiting += np.bincount(program.action_op[program.message_recv], minlength=program.num_ops)
    missing = waiting.tolist()
    leaders = message.tolist()
    sends: dict[int, list[int]] = {}
    for action in program.message_send.tolist():
        sends.setdefault(leaders[action], []).append(action)
    classes, kinds = size_class.tolist(), program.action_kind.tolist()
    links = _Links(topology, timing)
    paths = message_paths(program, topology, timing)
    events: list[tuple[int, int, int, int, int]] = []
    made = 0

    def add(time: int, kind: int, first: int, second: int) -> None:
        nonlocal made
        heapq.heappush(events, (time, made, kind, first, second))
        made += 1

    for op in np.flatnonzero(waiting == 0).tolist():
        add(0, _STEP, op, 0)
    done: list[int] = []
    hops: list[tuple[int, int, int, int]] = []
    end = 0

    def hop(time: int, action: int, number: int) -> int:
        """Let a link take a hop of a message; returns when it leaves the source's link."""
        path = paths[action]
        src, dst, channel = path[number]
        hops.append((action, src, dst, channel))
        left, arrived = links.take(time, channel, classes[action])
        add(arrived, _HOP, action, number + 1)
        return left

    while events:
        now, _, kind, first, second = heapq.heappop(events)
        end = max(end, now)
        if kind == _HOP and second < len(paths[first]):
            hop(now, first, second)
            continue
        ready = [receiver[first]] * len(sends[first]) if kind == _HOP else []
        if kind == _STEP and not second:
            ended = now
            for action in acts[actions_of[first] : actions_of[first + 1]]:
                done.append(action)
                if kinds[action] == Action.SEND and leaders[action] == action:
                    ended = max(ended, hop(now, action, 0))
            add(ended, _STEP, first, 1)
        elif kind == _STEP:
            ready = followers[0][followers[1][first] : followers[1][first + 1]]
        for op in ready:
            missing[op] -= 1
            if not missing[op]:
                add(now, _STEP, op, 0)
    return Execution(done, hops, sends, end)


def message_paths(program: Program, topology: Topology, timing: Timing) -> dict[int, list[tuple[int, int, int]]]:
    """By send action: the hops of its message, each with source, destination and channel."""
    sends = np.flatnonzero(program.action_kind == Action.SEND)
    src, dst = program.op_rank[program.action_op[sends]], program.action_peer[sends]
    channel = topology.channel_of(src, dst)
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    before: dict[int, list[int]] = {}
    paths = {}
    for action, here, there, direct in zip(*(column.tolist() for column in (sends, src, dst, channel)), strict=True):
        if (here, there) not in found:
            found[here, there] = [(here, there, direct)] if direct >= 0 else _shortest(topology, timing, here, there, before)
        paths[action] = found[here, there]
    return paths


def _shortest(topology: Topology, timing: Timing, src: int, dst: int, before: dict[int, list[int]]) -> list[tuple[int, int, int]]:
    from scipy.sparse.csgraph import dijkstra

    if src not in before:
        graph = topology.channel_graph(timing.channel_delay_ns[:, -1] + 1e-3)
        before[src] = dijkstra(graph, indices=src, return_predecessors=True)[1].tolist()
    npus = [dst]
    while npus[-1] != src:
        npus.append(before[src][npus[-1]])
    npus.reverse()
    channels = topology.channel_of(np.array(npus[:-1]), np.array(npus[1:])).tolist()
    return list(zip(npus[:-1], npus[1:], channels, strict=True))


def _actions_by_step(program: Program) -> tuple[list[int], list[int]]:
    first, actions = group_by(program.action_op, np.arange(len(program.action_op)), program.num_ops)
    return first.tolist(), actions.tolist()


def _followers(program: Program) -> tuple[list[int], list[int]]:
    first, after = group_by(program.before, program.after, program.num_ops)
    return after.tolist(), first.tolist()


class _Links:
    """When each link is free."""

    def __init__(self, topology: Topology, timing: Timing) -> None:
        self._free = [0] * topology.num_links
        self._up, self._down = topology.channel_link.tolist(), topology.channel_down_link.tolist()
        self._hold, self._delay = timing.link_hold_ns.tolist(), timing.link_delay_ns.tolist()
        self._through = timing.channel_delay_ns.tolist()
        self._is_blocking = timing.is_blocking

    def take(self, now: int, channel: int, size: int) -> tuple[int, int]:
        """When a message that is ready now leaves the source's link, and when it arrives."""
        up, down = self._up[channel], self._down[channel]
        start = max(now, self._free[up])
        if self._is_blocking:
            start = max(start, self._free[down] if down != NO_LINK else 0)
            end = start + self._through[channel][size]
            for link in (up, down):
                if link != NO_LINK:
                    self._free[link] = end
            return end, end
        left, arrived = start + self._hold[up][size], start + self._delay[up][size]
        self._free[up] = left
        if down != NO_LINK:
            begin = max(arrived, self._free[down])
            self._free[down] = begin + self._hold[down][size]
            arrived = begin + self._delay[down][size]
        return left, arrived
