"""Schedules whose messages carry several chunks, and schedules with partial sums, for tests."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from helpers.fabrics import nodes_behind_routers
from helpers.naive_schedule import naive_dependencies
from helpers.networks import topology
from helpers.schedules import schedules
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends, first_rows
from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.npu_networks import network_of_pairs
from astra_tacos.synthesizer.on_fabrics import over_devices
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph


def grouped(of: Schedule, source: random.Random, percent: int = 70) -> Schedule:
    """The same sends in messages of several, drawn at random, at the times that they have then.

    Sends of a channel may leave together if each has its chunk before the first of them arrives: with that, no message waits for
    itself, and messages in the order of when they have all their chunks wait for earlier ones only.
    """
    done = of.done_ns.tolist()
    ready = [max((done[other] for other in awaited), default=0) for awaited in naive_dependencies(of)]
    open_message: dict[tuple[int, bool], list[int]] = {}
    messages: list[list[int]] = []
    for row in range(of.num_sends):
        key = int(of.channel[row]), bool(of.reduces[row])
        last = open_message.get(key)
        fits = last is not None and max(ready[other] for other in (*last, row)) < min(int(of.end_ns[other]) for other in last)
        if last is not None and fits and source.randrange(100) < percent and of.chunk[row] not in of.chunk[last]:
            last.append(row)
        else:
            open_message[key] = [row]
            messages.append(open_message[key])
    messages.sort(key=lambda rows: (max(ready[row] for row in rows), rows[0]))
    rows = np.array([row for message in messages for row in message], np.int64)
    number = np.repeat(np.arange(len(messages)), [len(message) for message in messages])
    sends = Sends(of.chunk[rows], of.channel[rows], of.reduces[rows], first_rows(number))
    return settle(of.problem, sends, of.synthesizer, of.seed)


@st.composite
def grouped_schedules(draw: st.DrawFn, most_npus: int = 10) -> Schedule:
    """Schedules on small networks whose sends are in random messages."""
    return grouped(draw(schedules(most_npus)), random.Random(draw(st.integers(0, 10_000))))


class Sums:
    """Values as they are made up, each as a chunk, an NPU (of a contribution) and parts (of a sum)."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, tuple[int, ...]]] = []

    def add(self, chunk: int, npu: int = NO_NPU, parts: tuple[int, ...] = ()) -> int:
        self.rows.append((chunk, npu, parts))
        return len(self.rows) - 1

    def table(self, total: list[int]) -> PartialSums:
        return PartialSums(
            np.array([chunk for chunk, _, _ in self.rows], np.int32),
            np.array([npu for _, npu, _ in self.rows], np.int32),
            np.cumsum([0, *(len(parts) for _, _, parts in self.rows)]),
            np.array([part for _, _, parts in self.rows for part in parts], np.int32),
            np.array(total, np.int32),
        )


Wish = tuple[int, int, int, int]
"""A send: value, source, destination, and how many hops the value has made then."""


def scheduled(
    network: Topology,
    what: Collective,
    values: PartialSums,
    wishes: list[Wish],
    link_model: str = "pipelined",
    reduce_bandwidth_gbps: float = 0.0,
    source: random.Random | None = None,
) -> Schedule:
    """A schedule of some sends of values; with a source of randomness, some of those that leave together are one message."""
    timing = compute_timing(network, what, link_model, reduce_bandwidth_gbps)  # type: ignore[arg-type]
    value, src, dst, hop = (np.array(column, np.int32) for column in zip(*wishes, strict=True))
    channel = network.channel_of(src, dst).astype(np.int32)
    assert (channel >= 0).all()
    message = np.arange(len(wishes))
    depth = np.zeros(values.num_values, np.int64)
    for number in range(values.num_values):
        parts = values.part[values.part_first[number] : values.part_first[number + 1]]
        depth[number] = 1 + depth[parts].max() if len(parts) else 0
    if source is not None:
        # What leaves together is of one depth and has come as far, so that no message waits for itself.
        joined: dict[tuple[int, int, int], int] = {}
        for row in range(len(wishes)):
            if source.randrange(3):
                message[row] = joined.setdefault((int(channel[row]), int(depth[value[row]]), int(hop[row])), row)
    rank = depth[value].astype(np.int32)
    graph = SendGraph(values.chunk[value], channel, np.zeros(len(value), np.bool_), rank, message, values, value)
    return dispatch(Problem(network, what, timing), graph, "by-hand", 0)


def one_shot(network: Topology, size: int = 1 << 20, chunks: int = 1, **options: Any) -> Schedule:
    """An All-Reduce in which every NPU sends its contributions to all others, and adds up what it gets; all NPUs are linked."""
    what = make_collective("all-reduce", network.num_npus, size, chunks)
    values, wishes, total = Sums(), [], []
    npus = range(network.num_npus)
    leaf = [[values.add(chunk, npu) for npu in npus] for chunk in range(what.num_chunks)]
    for chunk, leaves in enumerate(leaf):
        total.append(values.add(chunk, parts=tuple(leaves)))
        wishes += [(leaves[src], src, dst, 1) for src in npus for dst in npus if src != dst]
    return scheduled(network, what, values.table(total), wishes, **options)


def nested(network: Topology, what: Collective, source: random.Random, **options: Any) -> Schedule:
    """Random sums of sums, each made by one NPU or by all that want it, on a network whose NPUs are all linked."""
    values, wishes, total = Sums(), [], []
    npus = list(range(network.num_npus))
    has: dict[int, dict[int, int]] = {}  # hops to the NPUs that have a value, by value

    def bring(value: int, npu: int) -> None:
        if npu not in has[value]:
            src = source.choice(sorted(has[value]))
            has[value][npu] = has[value][src] + 1
            wishes.append((value, src, npu, has[value][npu]))

    for chunk in range(what.num_chunks):
        left = [values.add(chunk, npu) for npu in npus]
        has |= {leaf: {npu: 0} for npu, leaf in zip(npus, left, strict=True)}
        needing = npus if what.gathers else [int(what.chunk_owner[chunk])]
        while len(left) > 1:
            parts = [left.pop(source.randrange(len(left))) for _ in range(source.randint(2, len(left)))]
            whole = values.add(chunk, parts=tuple(parts))
            if left:
                makers = source.sample(npus, source.randint(1, 2))
            else:
                makers = needing if source.randrange(2) else [source.choice(npus)]
            for maker in makers:
                for part in parts:
                    bring(part, maker)
            has[whole] = dict.fromkeys(makers, 0)
            left.append(whole)
        for npu in needing:
            bring(left[0], npu)
        total.append(left[0])
    return scheduled(network, what, values.table(total), wishes, source=source, **options)


@st.composite
def summed_schedules(draw: st.DrawFn) -> Schedule:
    """Schedules with random partial sums, in random messages."""
    block = draw(st.sampled_from(("FullyConnected", "Switch")))
    shape = (block, draw(st.integers(2, 5)), draw(st.sampled_from((50.0, 333.3))), draw(st.sampled_from((1.0, 500.0))))
    network = topology(shape)
    collective = draw(st.sampled_from(("all-reduce", "reduce-scatter", "reduce")))
    root = draw(st.integers(0, network.num_npus - 1)) if collective == "reduce" else None
    what = make_collective(collective, network.num_npus, draw(st.sampled_from((1 << 16, 65_537))), draw(st.integers(1, 2)), root)
    return nested(
        network,
        what,
        random.Random(draw(st.integers(0, 100_000))),
        link_model=draw(st.sampled_from(("blocking", "pipelined"))),
        reduce_bandwidth_gbps=draw(st.sampled_from((0.0, 10.0))),
    )


@st.composite
def sums_over_devices(draw: st.DrawFn, most_npus: int = 6, most_chunks: int = 2, latency_ns: float | None = None) -> Schedule:
    """Schedules with random partial sums on small fabrics, whose trips carry values."""
    fabric, _ = draw(nodes_behind_routers(most_npus, latency_ns))
    pairs = network_of_pairs(fabric)
    name = draw(st.sampled_from(("all-reduce", "reduce-scatter", "reduce")))
    root = draw(st.integers(0, fabric.num_endpoints - 1)) if name == "reduce" else None
    size, chunks = draw(st.sampled_from((1 << 16, 65_537))), draw(st.integers(1, most_chunks))
    own, what = (
        make_collective(name, each.num_npus, size, chunks, root, range(fabric.num_endpoints)) for each in (pairs.topology, fabric)
    )
    seed, gbps = draw(st.integers(0, 100_000)), draw(st.sampled_from((0.0, 10.0)))
    made = nested(pairs.topology, own, random.Random(seed), reduce_bandwidth_gbps=gbps)
    return over_devices(Problem(fabric, what, compute_timing(fabric, what, "pipelined", gbps)), made)
