"""The order in which the messages of a program start on a network, if every thread block does its steps one after another.

A step begins when the step before it in its thread block, the steps that it depends on and the message that it receives are
there. It holds its thread block until its own message has left the link; links queue first come, first served. Messages between
NPUs without a channel travel over a shortest path, hop by hop.

What messages carry is found here, too: chunks, or the contributions and sums of a reduction.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by
from astra_tacos.verifier.program import ProvenProgram
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
    """

    actions: list[int]
    hops: list[tuple[int, int, int, int]]
    sends: dict[int, list[int]]
    end_ns: int


def messages_of(program: Program) -> Ints:
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


def execute(program: Program, topology: Topology, timing: Timing, size_class: NDArray[np.integer], message: Ints) -> Execution:
    """Execute a program on a network.

    Parameters
    ----------
    program
        A program without deadlocks whose ranks are the network's NPUs.
    size_class
        int64[num_actions], the class of the message of each action.
    message
        See `messages_of`.
    """
    first_act, acts = (
        column.tolist() for column in group_by(program.action_op, np.arange(len(program.action_op)), program.num_ops)
    )
    first_after, after = (column.tolist() for column in group_by(program.before, program.after, program.num_ops))
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
            for action in acts[first_act[first] : first_act[first + 1]]:
                done.append(action)
                if kinds[action] == Action.SEND and leaders[action] == action:
                    ended = max(ended, hop(now, action, 0))
            add(ended, _STEP, first, 1)
        elif kind == _STEP:
            ready = after[first_after[first] : first_after[first + 1]]
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
    path_of: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    before: dict[int, list[int]] = {}
    paths = {}
    for action, here, there, direct in zip(*(column.tolist() for column in (sends, src, dst, channel)), strict=True):
        if (here, there) not in path_of:
            path_of[here, there] = [(here, there, direct)] if direct >= 0 else _shortest(topology, timing, here, there, before)
        paths[action] = path_of[here, there]
    return paths


def _shortest(topology: Topology, timing: Timing, src: int, dst: int, before: dict[int, list[int]]) -> list[tuple[int, int, int]]:
    if src not in before:
        graph = topology.channel_graph(timing.channel_delay_ns[:, -1] + 1e-3)
        before[src] = graph.ways([src])[1][0].tolist()
    npus = [dst]
    while npus[-1] != src:
        npus.append(before[src][npus[-1]])
    npus.reverse()
    channels = topology.channel_of(np.array(npus[:-1]), np.array(npus[1:])).tolist()
    return list(zip(npus[:-1], npus[1:], channels, strict=True))


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


_Held = frozenset[int]
"""What is at a location: the values that have been added up there."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What messages carry.

    Parameters
    ----------
    of_send
        By send action: the value of each of its chunks, in the order of the message.
    sums
        The values; None if the collective does not reduce, so that values are numbers of chunks of the program.
    made
        NPU and value of the sums that an NPU makes before it has received them, if it ever receives them.
    """

    of_send: dict[int, list[int]]
    sums: PartialSums | None
    made: set[tuple[int, int]]


class _Table:
    """Values by what they add up: contributions first."""

    def __init__(self, num_ranks: int, num_chunks: int) -> None:
        self.num_ranks = num_ranks
        self.chunk = [chunk for chunk in range(num_chunks) for _ in range(num_ranks)]
        self.npu = [*range(num_ranks)] * num_chunks
        self.parts: list[tuple[int, ...]] = [()] * len(self.chunk)
        self._number: dict[_Held, int] = {frozenset((value,)): value for value in range(len(self.chunk))}

    def contribution(self, chunk: int, rank: int) -> int:
        return chunk * self.num_ranks + rank

    def value_of(self, held: _Held) -> int:
        """The one value that some values add up to; parts get smaller numbers than their sum."""
        number = self._number.get(held)
        if number is None:
            number = self._number[held] = len(self.chunk)
            self.chunk.append(self.chunk[next(iter(held))])
            self.npu.append(NO_NPU)
            self.parts.append(tuple(sorted(held)))
        return number

    def sums(self, total: list[int]) -> PartialSums:
        counts = np.array([len(parts) for parts in self.parts], np.int64)
        return PartialSums(
            np.array(self.chunk, np.int32),
            np.array(self.npu, np.int32),
            np.concatenate(([0], np.cumsum(counts))),
            np.array([part for parts in self.parts for part in parts], np.int32),
            np.array(total, np.int32),
        )


def carried_values(proven: ProvenProgram, actions: list[int], reduces: bool) -> Carried:
    """Follow the values of a program through its messages.

    Raises
    ------
    SynthesisError
        If ranks add the contributions to one chunk up in different ways, of which a schedule has one name only.
    """
    program = proven.program
    table = _Table(proven.num_ranks, proven.whole) if reduces else None
    stride = program.buffers.stride if program.buffers else 1
    memory: dict[int, _Held] = {}
    for location, (number, bits) in proven.before.items():
        value = table.contribution(number, bits.bit_length() - 1) if table else number
        memory[location] = frozenset((value,))
    sent_by = dict(zip(program.message_recv.tolist(), program.message_send.tolist(), strict=True))
    columns = (program.action_kind, program.action_src, program.action_dst, program.action_count)
    kinds, sources, targets, counts = (column.tolist() for column in columns)
    of_send: dict[int, list[int]] = {}
    sums: set[tuple[int, int]] = set()
    received: set[tuple[int, int]] = set()

    def value_at(location: int) -> int:
        held = memory[location]
        if len(held) == 1 or table is None:
            return next(iter(held))
        value = table.value_of(held)
        rank = location // stride
        if (rank, value) not in received:
            sums.add((rank, value))
        memory[location] = frozenset((value,))
        return value

    for action in actions:
        kind, src, dst, count = kinds[action], sources[action], targets[action], counts[action]
        if kind == Action.SEND:
            of_send[action] = [value_at(src + k) for k in range(count)]
            continue
        if kind in (Action.RECV, Action.RECV_REDUCE):
            arrived = [frozenset((value,)) for value in of_send[sent_by[action]]]
            received.update((dst // stride, value) for value in of_send[sent_by[action]])
        else:
            arrived = [memory.get(src + k, frozenset()) for k in range(count)]
        added_to = {Action.RECV_REDUCE: src, Action.REDUCE: dst}.get(Action(kind))
        for k, held in enumerate(arrived):
            memory[dst + k] = held if added_to is None else memory[added_to + k] | held
    if table is None:
        return Carried(of_send, None, sums)
    total: dict[int, int] = {}
    for location, (chunk, _) in proven.after.items():
        value = value_at(location)
        if total.setdefault(chunk, value) != value:
            raise SynthesisError(
                f"{proven.path}: NPU {location // stride} adds chunk {chunk} up in another way than other NPUs, "
                "expected one way for all"
            )
    return Carried(of_send, table.sums([total[chunk] for chunk in range(proven.whole)]), sums)
