"""Dispatch against a slow twin and the oracle, on random trees."""

from __future__ import annotations

import numpy as np
from helpers.examples import examples, refused
from helpers.networks import MIXED, RING8, topologies, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.parts.dispatch import dispatch, link_occupancy
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.verifier.schedule_oracle import verify


def random_plan(network, collective, random):
    """Trees grown at random: out of each chunk's owner, towards it, or both."""
    rows = []
    for chunk, owner in enumerate(collective.chunk_owner.tolist()):
        for reduces in (True, False):
            if not (collective.reduces if reduces else collective.gathers):
                continue
            near, far = (network.channel_dst, network.channel_src) if reduces else (network.channel_src, network.channel_dst)
            reached = np.zeros(network.num_npus, bool)
            reached[owner] = True
            while not reached.all():
                channel = random.choice(np.flatnonzero(reached[near] & ~reached[far]))
                reached[far[channel]] = True
                rows.append((chunk, channel, reduces, random.integers(0, 5)))
    random.shuffle(rows)
    columns = list(zip(*rows, strict=True))
    return SendGraph(
        *(np.array(column, kind) for column, kind in zip(columns, (np.int32, np.int32, bool, np.int32), strict=True))
    )


def naive_order(network, collective, timing, plan):
    """Rows by start: at every instant, all rows that could start, the most urgent first."""
    up_busy, down_busy, _ = link_occupancy(timing, network.channel_link, network.channel_down_link)
    free = dict.fromkeys(range(network.num_links), 0)
    landed: dict[int, int] = {}
    order: list[int] = []
    instants = {0}
    rows = range(len(plan.chunk))
    src, dst = network.channel_src[plan.channel], network.channel_dst[plan.channel]

    def into(npu, chunk, reduces):
        return [row for row in rows if dst[row] == npu and plan.chunk[row] == chunk and plan.reduces[row] == reduces]

    waits = []
    for row in rows:
        copies = into(src[row], plan.chunk[row], False)
        waits.append(copies if copies and not plan.reduces[row] else into(src[row], plan.chunk[row], True))
    urgency = sorted(rows, key=lambda row: (plan.rank[row], plan.chunk[row], plan.channel[row]))
    while instants:
        now = min(instants)
        instants.remove(now)
        for row in urgency:
            size = collective.chunk_class[plan.chunk[row]]
            channel = plan.channel[row]
            links = [link for link in (network.channel_link[channel], network.channel_down_link[channel]) if link >= 0]
            busy = [up_busy[channel, size], down_busy[channel, size]]
            if row in landed or any(free[link] > now for link in links) or any(landed.get(w, 1 << 62) > now for w in waits[row]):
                continue
            for link, ns in zip(links, busy, strict=False):
                free[link] = now + ns
                instants.add(now + ns)
            landed[row] = now + timing.channel_delay_ns[channel, size] + (timing.reduction_ns[size] if plan.reduces[row] else 0)
            instants.add(landed[row])
            order.append(row)
    return order


@examples(20)
@given(network=topologies(10), seed=st.integers(0, 1 << 30), data=st.data())
def test_as_the_naive_twin(network, seed, data):
    name = data.draw(st.sampled_from(["all-gather", "reduce-scatter", "all-reduce"]))
    collective = COLLECTIVES[name](network.num_npus, 123_457, data.draw(st.integers(1, 2)))
    timing = compute_timing(network, collective, data.draw(st.sampled_from(LINK_MODELS)), data.draw(st.sampled_from((0.0, 1.0))))
    plan = random_plan(network, collective, np.random.default_rng(seed))
    found = dispatch(Problem(network, collective, timing), plan)
    assert verify(found) == ()
    order = naive_order(network, collective, timing, plan)
    expected = settle(Problem(network, collective, timing), Sends(plan.chunk[order], plan.channel[order], plan.reduces[order]))
    assert found.collective_time_ns == expected.collective_time_ns
    for column in ("chunk", "channel", "start_ns", "end_ns"):
        assert np.array_equal(getattr(found, column), getattr(expected, column)), column


def test_order_of_a_plan_does_not_matter():
    network = topology(*MIXED)
    collective = COLLECTIVES["all-reduce"](network.num_npus, 1 << 20, 2)
    timing = compute_timing(network, collective, "blocking")
    plan = random_plan(network, collective, np.random.default_rng(1))
    shuffled = np.random.default_rng(2).permutation(len(plan.chunk))
    other = SendGraph(plan.chunk[shuffled], plan.channel[shuffled], plan.reduces[shuffled], plan.rank[shuffled])
    first, second = (dispatch(Problem(network, collective, timing), of) for of in (plan, other))
    assert np.array_equal(first.channel, second.channel)
    assert np.array_equal(first.start_ns, second.start_ns)


def test_a_cycle_is_refused():
    network = topology(*RING8)
    collective = COLLECTIVES["all-gather"](8, 1 << 20, 1)
    timing = compute_timing(network, collective, "blocking")
    channel = network.channel_of(np.array([1, 2, 3]), np.array([2, 3, 2]))
    plan = SendGraph(np.zeros(3, np.int32), channel.astype(np.int32), np.zeros(3, bool), np.zeros(3, np.int32))
    with refused("2 sends wait for one another", SynthesisError):
        dispatch(Problem(network, collective, timing), plan, "cycle")
