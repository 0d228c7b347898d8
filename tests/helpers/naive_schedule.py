"""Slow, obvious twins of the kernels that time and check schedules."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule

BYTES_PER_GIB = 2**30


def rows_of_message(schedule: Schedule, row: int) -> list[int]:
    """The rows that leave together with a row."""
    if schedule.message_first is None:
        return [row]
    first = schedule.message_first.tolist()
    return next(list(range(a, b)) for a, b in pairwise(first) if a <= row < b)


def message_bytes(schedule: Schedule, row: int) -> float:
    return float(sum(int(schedule.collective.chunk_size_bytes[schedule.chunk[each]]) for each in rows_of_message(schedule, row)))


def adding_ns(schedule: Schedule, size_bytes: float) -> int:
    """How long a COMP node takes to add: whole microseconds, 1 ns if none."""
    rate = schedule.timing.reduce_bandwidth_gbps
    return max(round(size_bytes / (rate * 1e9) * 1e6) * 1000 if rate else 0, 1)


def delays(schedule: Schedule, row: int, link: int) -> tuple[int, int]:
    """int(size / bandwidth), int(latency + size / bandwidth) of a send's message on a link.

    A message is as long as what the link, and each link of the switch at its end, carries in 1 ns, at least.
    """
    topology = schedule.topology
    rates = (topology.link_bandwidth_gibps * BYTES_PER_GIB / 1e9).tolist()
    ends = list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    switches = {device for device in ends[link] if device >= topology.num_npus}
    near = [rate for rate, pair in zip(rates, ends, strict=True) if switches & set(pair)] + [rates[link]]
    serialisation = max(message_bytes(schedule, row), math.ceil(max(near))) / rates[link]
    return int(serialisation), int(float(topology.link_latency_ns[link]) + serialisation)


def blocking_delay(schedule: Schedule, row: int) -> int:
    topology = schedule.topology
    links = [int(topology.channel_link[schedule.channel[row]]), int(topology.channel_down_link[schedule.channel[row]])]
    links = [link for link in links if link >= 0]
    size = message_bytes(schedule, row)
    rate = min(float(topology.link_bandwidth_gibps[link]) * BYTES_PER_GIB / 1e9 for link in links)
    return int(sum(float(topology.link_latency_ns[link]) for link in links) + size / rate)


def naive_times(schedule: Schedule, awaited: list[list[int]]) -> tuple[list[int], list[int]]:
    """Start and end of each send when links keep the order of the messages; nanosecond by nanosecond of interest.

    `awaited[row]`: the rows whose chunk a send forwards; of no account where values say what a send carries. A down-link under
    store and forward serves who reaches it first, then who started first, then the lower up-link.
    """
    topology, blocking = schedule.topology, schedule.timing.is_blocking
    rows = [rows_of_message(schedule, row)[0] for row in range(schedule.num_sends)]
    head = rows.copy()
    rows = sorted(set(rows))
    up = [int(topology.channel_link[channel]) for channel in schedule.channel]
    down = [int(topology.channel_down_link[channel]) for channel in schedule.channel]
    queue: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        queue[up[row]].append(row)
        if blocking and down[row] >= 0:
            queue[down[row]].append(row)
    free: dict[int, int] = defaultdict(int)
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    usable: dict[int, int] = {}
    at_switch: list[tuple[int, int, int, int]] = []
    now = 0

    def finish(row: int, time: int) -> None:
        end[row] = time
        usable[row] = time + (adding_ns(schedule, message_bytes(schedule, row)) if schedule.reduces[row] else 0)

    def has_all(row: int) -> float:
        """When the source has what a message carries, as far as that is known."""
        of_message = rows_of_message(schedule, row)
        if schedule.sums is None:
            return max((usable.get(head[other], math.inf) for each in of_message for other in awaited[each]), default=0)
        return max(carried_time(schedule, usable, each) for each in of_message)

    while len(end) < len(rows):
        for _, _, _, row in sorted(entry for entry in at_switch if entry[0] <= now):
            hold, delay = delays(schedule, row, down[row])
            through = max(now, free[down[row]])
            free[down[row]] = through + hold
            finish(row, through + delay)
        at_switch = [entry for entry in at_switch if entry[0] > now]
        for row in rows:
            mine = [up[row], down[row]] if blocking and down[row] >= 0 else [up[row]]
            if row in start or has_all(row) > now or any(free[link] > now or queue[link][0] != row for link in mine):
                continue
            start[row] = now
            for link in mine:
                queue[link].pop(0)
            hold, delay = delays(schedule, row, up[row])
            if blocking:
                for link in mine:
                    free[link] = now + blocking_delay(schedule, row)
                finish(row, now + blocking_delay(schedule, row))
            elif down[row] >= 0:
                free[up[row]] = now + hold
                at_switch.append((now + delay, now, up[row], row))
            else:
                free[up[row]] = now + hold
                finish(row, now + delay)
        future = [*free.values(), *usable.values(), *(entry[0] for entry in at_switch)]
        future += [time for time in map(has_all, rows) if time < math.inf]
        later = [time for time in future if time > now]
        if not later:
            break
        now = min(later)
    return [start.get(row, -1) for row in head], [end.get(row, -1) for row in head]


def carried_time(schedule: Schedule, usable: dict[int, int], row: int) -> float:
    """When what a row carries is at its source: a value at an NPU, or what the hop before of its trip brought to a device."""
    device = int(schedule.src[row])
    if device < schedule.topology.num_endpoints:
        return value_time(schedule, usable, device, int(schedule.value[row]))
    trip = [other for other in range(schedule.num_sends) if schedule.trip[other] == schedule.trip[row]]
    return next((usable.get(other, math.inf) for other in trip if schedule.dst[other] == device), math.inf)


def value_time(schedule: Schedule, usable: dict[int, int], npu: int, value: int) -> float:
    """When an NPU has a value: at once, on arrival, or when it has all parts and has added them up."""
    sums = schedule.sums
    if sums.npu[value] == npu:
        return 0
    arriving = [row for row in range(schedule.num_sends) if schedule.dst[row] == npu and schedule.value[row] == value]
    if arriving:
        return min(usable.get(rows_of_message(schedule, row)[0], math.inf) for row in arriving)
    parts = sums.part[sums.part_first[value] : sums.part_first[value + 1]].tolist()
    if not parts:
        return math.inf
    size = (len(parts) - 1) * int(schedule.collective.chunk_size_bytes[sums.chunk[value]])
    return max(value_time(schedule, usable, npu, part) for part in parts) + adding_ns(schedule, size)


def naive_dependencies(schedule: Schedule) -> list[list[int]]:
    """Rows that each send's chunk comes from: the last copy that came before it, and the reductions since."""
    awaited = []
    done = schedule.done_ns.tolist()
    for row in range(schedule.num_sends):
        before = [
            other
            for other in range(schedule.num_sends)
            if schedule.dst[other] == schedule.src[row]
            and schedule.chunk[other] == schedule.chunk[row]
            and done[other] <= schedule.start_ns[row]
        ]
        before.sort(key=lambda other: (done[other], other))
        copies = [position for position, other in enumerate(before) if not schedule.reduces[other]]
        awaited.append(before[copies[-1] :] if copies else before)
    return awaited


def sums_up(schedule: Schedule) -> bool:
    """Whether values are what their parts make them, and are where they are needed at the end of a schedule with sums."""
    sums, collective = schedule.sums, schedule.collective
    npus = collective.member_npus.tolist()

    def contributions(value: int) -> list[int]:
        parts = sums.part[sums.part_first[value] : sums.part_first[value + 1]].tolist()
        return [npu for part in parts for npu in contributions(part)] if parts else [int(sums.npu[value])]

    usable = {row: int(schedule.end_ns[row]) for row in range(schedule.num_sends)}
    if any(schedule.start_ns[row] < carried_time(schedule, usable, row) for row in usable):
        return False
    for chunk in range(collective.num_chunks):
        _, needing = _ends(collective, list(npus), chunk)
        total = int(sums.total[chunk])
        if sorted(contributions(total)) != list(npus) or sums.chunk[total] != chunk:
            return False
        if any(value_time(schedule, usable, npu, total) == math.inf for npu in needing):
            return False
    return True


def computes_collective(schedule: Schedule) -> bool:
    """Whether sets of contributions, moved and united event by event, end up as the collective promises."""
    collective = schedule.collective
    members = list(range(collective.num_npus)) if collective.members is None else collective.members.tolist()
    for chunk in range(collective.num_chunks):
        owner, needing = _ends(collective, members, chunk)
        held = {npu: set() for npu in range(collective.num_npus)} | {npu: {npu} for npu in members if collective.reduces}
        if not collective.reduces:
            held[owner] = {owner}
        events = []
        for row in range(schedule.num_sends):
            if schedule.chunk[row] == chunk:
                events.append((int(schedule.start_ns[row]), 1, row))
                events.append((int(schedule.done_ns[row]), 0, row))
        carried: dict[int, set[int]] = {}
        for _, departs, row in sorted(events):
            if departs:
                carried[row] = set(held[schedule.src[row]])
            elif schedule.reduces[row]:
                if held[schedule.dst[row]] & carried[row]:
                    return False
                held[schedule.dst[row]] |= carried[row]
            else:
                held[schedule.dst[row]] = carried[row]
        full = set(members) if collective.reduces else {owner}
        if any(held[npu] != full for npu in needing):
            return False
    return True


def _ends(collective: Collective, members: list[int], chunk: int) -> tuple[int, list[int]]:
    """Where a chunk begins or is summed up, and who needs it, from the collective's name alone."""
    number = chunk // collective.chunks_per_npu
    if collective.name == "all-to-all":
        pairs = [(src, dst) for src in members for dst in members if src != dst]
        return pairs[number][0], [pairs[number][1]]
    others = [npu for npu in members if npu != collective.root]
    if collective.name == "scatter":
        return collective.root, [others[number]]
    if collective.name == "gather":
        return others[number], [collective.root]
    owner = members[number] if collective.root is None else collective.root
    return owner, members if collective.gathers else [owner]
