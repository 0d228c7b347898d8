"""Joining: neighbouring messages of a link that could leave together become one, which pays the link's latency once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.dependencies import operations, previous_on_link
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns, settle

MOST_MESSAGES = 100_000
_LONGEST = (1 << 20, 8, 4, 2)
"""Most messages that become one; a joined message arrives as a whole, so shorter ones can be faster."""
_MOST_ROUNDS = 4


def join_messages(schedule: Schedule) -> Schedule:
    """The schedule with messages joined as long as that makes it faster, or not slower with fewer messages.

    A message can join those before it on its link if it goes over the same channel, both add or both copy, and what it carries is
    at its source when the first of them starts. Hops over devices that only forward stay as they are.
    """
    if schedule.trip is not None:
        return schedule
    best, best_ns = schedule, exact_time_ns(schedule)
    if schedule.num_messages > MOST_MESSAGES:
        return best
    for _ in range(_MOST_ROUNDS):
        tried = [_joined(best, heads) for heads in _distinct_heads(best)]
        timed = [(exact_time_ns(other), other.num_messages, i) for i, other in enumerate(tried)]
        time, messages, which = min(timed)
        if (time, messages) >= (best_ns, best.num_messages):
            break
        best, best_ns = tried[which], time
    return best


def _distinct_heads(schedule: Schedule) -> list[NDArray[np.int64]]:
    """By longest run, int64[num_messages], the first message of the run that each message joins; each only once."""
    previous, row = previous_on_link(schedule), schedule.message_row
    channel, reduces, start = schedule.channel[row], schedule.reduces[row], schedule.start_ns[row]
    ready = _ready_ns(schedule)
    alike = (previous >= 0) & (channel == channel[previous]) & (reduces == reduces[previous])
    # No run begins after its last message does.
    message = np.flatnonzero(alike & (ready <= start[previous]))
    joining = list(zip(message.tolist(), previous[message].tolist(), ready[message].tolist(), strict=True))
    begin = start.tolist()
    found: dict[bytes, NDArray[np.int64]] = {}
    for longest in _LONGEST:
        heads = _heads(joining, begin, longest)
        found.setdefault(heads.tobytes(), heads)
    return list(found.values())


def _heads(joining: list[tuple[int, int, int]], begin: list[int], longest: int) -> NDArray[np.int64]:
    """The first message of each one's run, where messages join that before them on their link as early as they are ready."""
    head = list(range(len(begin)))
    length = [1] * len(begin)
    for message, before, ready in joining:
        first = head[before]
        if ready <= begin[first] and length[first] < longest:
            head[message] = first
            length[first] += 1
    return np.array(head, np.int64)


def _joined(schedule: Schedule, heads: NDArray[np.int64]) -> Schedule:
    """The messages of each run as one message at the place of their first."""
    order = np.argsort(heads, kind="stable")
    in_order = schedule.sends.in_order(order)
    first_of = np.flatnonzero(np.diff(heads[order], prepend=-1))
    joined = replace(in_order, message_first=np.append(in_order.first[first_of], schedule.num_sends))
    return settle(schedule.topology, schedule.collective, schedule.timing, joined, schedule.synthesizer, schedule.seed)


def _ready_ns(schedule: Schedule) -> NDArray[np.int64]:
    """int64[num_messages], when everything that a message carries is at its source."""
    done = operations(schedule)
    usable = np.concatenate((schedule.done_ns[schedule.message_row], schedule.addition_end_ns))
    ready = np.zeros(len(done.first) - 1, np.int64)
    np.maximum.at(ready, np.repeat(np.arange(len(ready)), np.diff(done.first)), usable[done.awaited])
    return ready[: done.num_messages]
