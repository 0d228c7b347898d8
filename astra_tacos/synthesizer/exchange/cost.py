"""Estimated times of plans by latencies and bandwidths, by which the best few are found before they are scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from astra_tacos.network.blocks.routing import Spreads
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.arrays import Ints
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.exchange.level import DOUBLING, SHORTEST, Level, over_channels
from astra_tacos.synthesizer.exchange.plan import Form, Plan

MOST_ROWS = 1 << 18
MOST_CELLS = 1 << 25
"""Limits on sends, and on NPUs times values."""
_PIECES = (1, 2, 4, 8, 16)
_MOST_RELAYED = 1 << 14


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage of a level takes.

    Parameters
    ----------
    latency_ns, chain_ns
        Of the longest chain of sends that wait for one another: ns, and ns per byte of a send.
    busy_latency_ns, busy_ns
        Of the busiest link: ns for each piece, and ns per byte of a send.
    hops
        Sends of the longest chain, if others pass while one of them is on its way; 0 if steps follow one another.
    through_ns
        Of that chain: ns per byte of a piece for passing switches, which get a message as a whole before they send it on.
    """

    latency_ns: float
    chain_ns: float
    busy_latency_ns: float
    busy_ns: float
    hops: int = 0
    through_ns: float = 0.0
    shares_ports: bool = False

    def time_ns(self, size_bytes: float, pieces: int) -> float:
        """The time of sends of so many bytes in so many pieces."""
        piece = size_bytes / pieces
        first_ns = self.latency_ns + piece * (self.chain_ns + self.through_ns)
        if not self.hops:
            return first_ns + (pieces - 1) * (self.busy_latency_ns + piece * self.busy_ns)
        behind = (size_bytes - piece) * self.chain_ns / self.hops
        return max(
            first_ns + behind, self.latency_ns / self.hops + piece * self.through_ns / self.hops + size_bytes * self.busy_ns
        )


class Costs:
    """Costs of the forms of levels on a network."""

    def __init__(self, topology: Topology, link_model: LinkModel) -> None:
        self._topology = topology
        self.is_blocking = link_model == "blocking"
        up, down = topology.channel_link, topology.channel_down_link
        switched = down >= 0
        self._latency = topology.link_latency_ns[up] + np.where(switched, topology.link_latency_ns[down], 0.0)
        slowest = np.minimum(topology.link_bandwidth_gibps[up], np.where(switched, topology.link_bandwidth_gibps[down], np.inf))
        self._ns_per_byte = 1 / bytes_per_ns(slowest)
        fastest = np.maximum(topology.link_bandwidth_gibps[up], topology.link_bandwidth_gibps[down])
        self._through = np.where(switched, 1 / bytes_per_ns(fastest), 0.0)
        self._ways = self._latency.astype(np.int64) + 1
        self._known: dict[tuple[int, str | None, int], StageCost | None] = {}

    def of(self, plan: Plan, number: int) -> StageCost | None:
        """The cost of a level's form, one way if it scatters and gathers; None if it is too large to be worth it."""
        level, form = plan.levels[number], plan.forms[number]
        key = id(level), form.way, form.num_owners
        if key not in self._known:
            self._known[key] = self._measure(level, form, plan.owners(number))
        return self._known[key]

    def _measure(self, level: Level, form: Form, owners: Ints) -> StageCost | None:
        npus = level.groups[0]
        if form.way is None:
            sends = _doubling_sends(level.size)
        else:
            sends = _tree_sends(level.ways[form.way], owners if form.num_owners else np.arange(level.size))
        sends[:, 1:3] = npus[sends[:, 1:3]]
        if len(sends) > _MOST_RELAYED and np.any(self._topology.channel_of(sends[:, 1], sends[:, 2]) < 0):
            return None
        rows, hop = over_channels(self._topology, self._ways, sends)
        return self._cost_of(rows, hop, in_steps=self.is_blocking or form.way != SHORTEST)

    def _cost_of(self, rows: Ints, hop: Ints, *, in_steps: bool) -> StageCost:
        topology = self._topology
        channel = rows[:, 4]
        slot = np.unique(rows[:, 3] * (hop.max() + 1) + hop, return_inverse=True)[1].astype(np.int64)
        down = topology.channel_down_link[channel]
        twice = np.concatenate((np.arange(len(rows)), np.flatnonzero(down >= 0)))
        link = np.concatenate((topology.channel_link[channel], down[down >= 0]))
        shape = int(slot.max()) + 1, topology.num_links
        units = np.zeros(shape)
        np.add.at(units, (slot[twice], link), self._ns_per_byte[channel[twice]])
        messages = np.zeros(shape)
        once = np.unique(slot * topology.num_channels + channel, return_index=True)[1]
        is_first = np.zeros(len(rows), np.bool_)
        is_first[once] = True
        np.add.at(messages, (slot[twice], link), np.where(is_first, self._latency[channel], 0.0)[twice])
        busy = float(units.sum(axis=0).max())
        if self.is_blocking:
            latency = float(messages.max(axis=1).sum())
            return StageCost(latency, float(units.max(axis=1).sum()), float(messages.sum(axis=0).max()), busy)
        if in_steps:
            slowest = np.zeros(shape[0])
            np.maximum.at(slowest, slot, self._latency[channel])
            return StageCost(float(slowest.sum()), float(units.max(axis=1).sum()), 0.0, busy)
        latency, chain, through, hops = self._depth(rows, slot)
        source, link = np.unique(np.stack((rows[:, 1], topology.channel_link[channel])), axis=1)
        shares_ports = len(source) == len(np.unique(link)) == len(np.unique(source))
        return StageCost(latency, chain, 0.0, busy, int(hops), through, shares_ports)

    def _depth(self, rows: Ints, slot: Ints) -> list[float]:
        """The largest latency, times per byte of links and of passing switches, and number of hops of a way of a value."""
        values, value = np.unique(rows[:, 0], return_inverse=True)
        reached = np.zeros((4, len(values), self._topology.num_npus))
        channel = rows[:, 4]
        of_hop = np.stack((self._latency[channel], self._ns_per_byte[channel], self._through[channel], np.ones(len(channel))))
        for at in range(int(slot.max()) + 1):
            now = np.flatnonzero(slot == at)
            reached[:, value[now], rows[now, 2]] = reached[:, value[now], rows[now, 1]] + of_hop[:, now]
        farthest: list[float] = reached.max(axis=(1, 2)).tolist()
        return farthest


def _tree_sends(trees: Spreads, owners: Ints) -> Ints:
    tree = trees[owners % len(trees), owners]
    columns = np.broadcast_arrays(owners[:, None], tree[:, 0], tree[:, 1], tree[:, 2])
    return np.stack([column.ravel() for column in columns], axis=1).astype(np.int64)


def _doubling_sends(size: int) -> Ints:
    bits = size.bit_length() - 1
    power = 1 << bits
    past = np.arange(size - power)
    place = np.arange(power)
    tables = [(past + power, past)] if len(past) else []
    tables += [(place, place ^ (1 << bit)) for bit in range(bits)]
    tables += [(past, past + power)] if len(past) else []
    rows = [np.stack((step * size + src, src, dst, np.full(len(src), step)), axis=1) for step, (src, dst) in enumerate(tables)]
    return np.concatenate(rows).astype(np.int64)


def list_plans(levels: tuple[Level, ...], least_bytes: int, size_bytes: int) -> Iterator[Plan]:
    """Plans of levels: every mix of forms, both orders and some pieces, whose chunks have at least so many bytes."""
    most = max(1, size_bytes // least_bytes)
    numbers = tuple(range(len(levels)))
    seen = set()
    for forms in product(*(_forms(level, most) for level in levels)):
        for order in (numbers, numbers[::-1]):
            # The order matters to those that scatter.
            key = forms, tuple(number for number in order if forms[number].num_owners > 1)
            if key in seen:
                continue
            seen.add(key)
            plans = (Plan(levels, forms, order, pieces) for pieces in _PIECES)
            yield from (plan for plan in plans if plan.num_chunks <= most)


def _forms(level: Level, most_owners: int) -> list[Form]:
    if level.size == 2:
        return [Form(None), Form(SHORTEST, 2)] if most_owners > 1 else [Form(None)]
    forms = [Form(None), Form(SHORTEST), Form(DOUBLING), Form(SHORTEST, 1)]
    owners = min(level.size, most_owners)
    if owners > 1:
        forms += [Form(SHORTEST, owners), Form(DOUBLING, owners)]
    return forms


def num_rows(plan: Plan, num_npus: int) -> tuple[int, int]:
    """About how many sends and values a plan has."""
    held = num_npus * plan.num_chunks
    values, rows = held, 0
    for number in plan.scattered:
        size = plan.levels[number].size
        rows += 2 * (held // size) * (size - 1)
        values += held
        held //= size
    for number in plan.exchanged:
        size = plan.levels[number].size
        steps = size.bit_length()
        rows += held * (steps if plan.forms[number].way is None else size - 1)
        values += held * (steps if plan.forms[number].way is None else 1)
    return rows, values


def estimate_ns(plan: Plan, size_bytes: int, costs: Costs) -> float | None:
    """The estimated time of a plan, None if it cannot be told."""
    cost = [costs.of(plan, number) for number in range(len(plan.levels))]
    if any(stage is None for stage in cost):
        return None
    chain_ns, more, here = 0.0, [0.0] * len(plan.levels), float(size_bytes)
    for number in (*plan.scattered, *plan.exchanged):
        stage, form = cost[number], plan.forms[number]
        assert stage is not None
        here /= form.num_shares
        times = 2 if form.num_owners else 1
        first = stage.time_ns(here / plan.pieces, 1)
        chain_ns += times * first
        behind = stage.time_ns(here, plan.pieces) - first
        if stage.hops and times == 2 and not stage.shares_ports:
            # Sums of the first pieces go while the last contributions come.
            busy = stage.latency_ns / stage.hops + 2 * here * stage.busy_ns - 2 * first
            behind = max(behind, min(2 * behind, busy))
            times = 1
        more[number] += times * behind
    return chain_ns + max(more)
