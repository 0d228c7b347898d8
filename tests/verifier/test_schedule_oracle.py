"""The oracle passes what is right and objects to everything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.messages import summed_schedules
from helpers.naive_schedule import computes_collective
from helpers.networks import ALL, topologies, topology
from helpers.schedules import changed, codes, columns, schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import PERSONALISED
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.schedule_oracle import check, verify


@examples(20)
@given(schedules(most_npus=16))
def test_synthesized_schedules_pass(of):
    assert verify(of) == ()
    assert computes_collective(of)


def mutate(of, kind, row, other):
    new = columns(of)
    if kind == "drop":
        new = {name: np.delete(column, row) for name, column in new.items()}
    elif kind == "duplicate":
        new = {name: np.insert(column, row, column[row]) for name, column in new.items()}
    elif kind == "early":
        new["start_ns"][row] -= 1
        new["end_ns"][row] -= 1
    elif kind == "fast":
        new["end_ns"][row] -= 1
    elif kind == "kind":
        new["reduces"][row] ^= True
    elif kind == "chunk out of range":
        new["chunk"][row] = of.collective.num_chunks
    elif kind == "channel out of range":
        new["channel"][row] = -1
    elif kind == "channel far out of range":
        new["channel"][row] = 10**6
    elif kind == "swap chunks":
        new["chunk"][[row, other]] = new["chunk"][[other, row]]
    elif kind == "later, elsewhere free":
        new["start_ns"][row] += 10 * of.collective_time_ns
        new["end_ns"][row] += 10 * of.collective_time_ns
    return changed(of, **new)


ALWAYS_WRONG = (
    "drop",
    "duplicate",
    "early",
    "fast",
    "kind",
    "chunk out of range",
    "channel out of range",
    "channel far out of range",
)


@pytest.mark.parametrize("kind", ALWAYS_WRONG)
@examples(20)
@given(of=schedules(), data=st.data())
def test_mutations_are_objected_to(kind, of, data):
    row = data.draw(st.integers(0, of.num_sends - 1))
    assert verify(mutate(of, kind, row, row))


@examples(20)
@given(of=schedules(), data=st.data())
def test_what_the_naive_twin_refuses_the_oracle_refuses(of, data):
    row, other = (data.draw(st.integers(0, of.num_sends - 1)) for _ in range(2))
    kind = data.draw(st.sampled_from(("drop", "kind", "swap chunks", "later, elsewhere free")))
    mutant = mutate(of, kind, row, other)
    if not computes_collective(mutant):
        assert verify(mutant)


@examples(30)
@given(of=summed_schedules(), data=st.data())
def test_values_that_do_not_exist_are_objected_to(of, data):
    name = data.draw(st.sampled_from(("part", "total", "part_first")))
    column = getattr(of.sums, name).copy()
    place, wrong = (
        data.draw(st.integers(0, len(column) - 1)),
        data.draw(st.sampled_from((-(10**6), -1, of.sums.num_values, 10**6))),
    )
    column[place] = wrong
    assert codes(verify(replace(of, sums=replace(of.sums, **{name: column})))) >= {"no-such-value"}
    short = data.draw(st.sampled_from(("npu", "total", "part")))
    assert codes(verify(replace(of, sums=replace(of.sums, **{short: getattr(of.sums, short)[:-1]})))) >= {"no-such-value"}


def test_each_violation_is_named():
    of = schedule(topology(*ALL["ring8"]), "all-gather", 1 << 20, 2, link_model="blocking")
    named = {
        "drop": {"incomplete"},
        "duplicate": {"double-booked", "redundant-send"},
        "fast": {"wrong-delay"},
        "kind": {"adds-to-nothing"},
        "chunk out of range": {"no-such-chunk", "incomplete"},
        "channel out of range": {"no-such-channel", "incomplete"},
        "channel far out of range": {"no-such-channel", "incomplete"},
    }
    last = of.num_sends - 1
    for kind, expected in named.items():
        found = verify(mutate(of, kind, last, last))
        assert codes(found) == expected, kind
        assert all("\n" not in str(violation) for violation in found)


def test_early_departure_is_seen():
    of = schedule(topology("Mesh 3"), "all-gather", 1 << 20, link_model="blocking")
    start = of.start_ns.copy()
    forwarded = int(np.argmax(of.start_ns > 0))
    start[forwarded] -= 1
    assert "chunk-absent" in codes(changed(of, start_ns=start, end_ns=of.end_ns - (start != of.start_ns)))


def test_a_switch_serves_who_comes_first():
    of = schedule(topology("Switch 5"), "all-gather", 1 << 20, 2, link_model="pipelined", seed=3)
    down = of.topology.channel_down_link[of.channel]
    rows = np.flatnonzero(down == down[0])
    end = of.end_ns.copy()
    first, second = rows[np.argsort(end[rows])[-2:]]
    end[[first, second]] = end[[second, first]]
    assert {"overtaken", "wrong-delay"} & codes(changed(of, end_ns=end))


def test_who_comes_first_is_who_reaches_the_switch_first_not_who_starts_first():
    """The message of the far NPU starts before that of the near one and comes later: served first, it makes the near one wait."""
    network = topology("Switch 3")
    up, down = network.channel_link, network.channel_down_link
    latency = network.link_latency_ns.copy()
    latency[up[np.flatnonzero(network.channel_src == 0)[0]]] += 50_000
    of = schedule(replace(network, link_latency_ns=latency), "all-gather", 1 << 20, synthesizer="direct", link_model="pipelined")
    assert not codes(verify(of))
    pairs = [[int(np.flatnonzero((of.src == npu) & (of.dst == dst))[0]) for npu in (0, 3 - dst)] for dst in (1, 2)]
    far, near = next((far, near) for far, near in pairs if of.start_ns[far] < of.start_ns[near])
    assert down[of.channel[far]] == down[of.channel[near]] and of.end_ns[near] < of.end_ns[far]
    end = of.end_ns.copy()
    end[near] = end[far] + (1 << 20)
    assert "overtaken" in codes(changed(of, end_ns=end))


def test_every_violation_is_returned_and_check_raises_the_first():
    of = schedule(topology(*ALL["torus"]), "all-reduce")
    nothing = changed(of, **{name: column[:0] for name, column in columns(of).items()})
    assert len(verify(nothing)) == of.collective.num_chunks * of.topology.num_npus
    with refused(r"144 violations, the first: incomplete", VerificationError):
        check(nothing)


PERSONALISED_KINDS = ("wrong target", "wrong owner", "drop last hop", "duplicate", "kind", "early", "stray", "sizes")


@pytest.mark.parametrize("kind", PERSONALISED_KINDS)
@pytest.mark.parametrize("collective", sorted(PERSONALISED))
@examples(10)
@given(network=topologies(10), data=st.data())
def test_mutations_of_personalised_schedules_are_objected_to(kind, collective, network, data):
    of = schedule(network, collective, 100_003, data.draw(st.integers(1, 2)))
    assert verify(of) == ()
    row = data.draw(st.integers(0, of.num_sends - 1))
    what = of.collective
    if kind in ("wrong target", "wrong owner"):
        name = "chunk_target" if kind == "wrong target" else "chunk_owner"
        ends = getattr(what, name).copy()
        chunk = data.draw(st.integers(0, what.num_chunks - 1))
        ends[chunk] = data.draw(st.integers(0, network.num_npus - 1).filter(lambda npu: npu != ends[chunk]))
        assert verify(replace(of, collective=replace(what, **{name: ends})))
        return
    if kind == "sizes":
        sizes = what.chunk_size_bytes.copy()
        sizes[0] += 1
        assert "size-sum" in codes(replace(of, collective=replace(what, chunk_size_bytes=sizes)))
        return
    if kind == "drop last hop":
        last = np.flatnonzero(of.dst == what.chunk_target[of.chunk])
        assert "incomplete" in codes(mutate(of, "drop", int(last[row % len(last)]), 0))
        return
    if kind == "stray":  # a chunk leaves from where it never was
        new = columns(of)
        elsewhere = np.flatnonzero(network.channel_src != of.src[row])
        new["channel"][row] = elsewhere[data.draw(st.integers(0, len(elsewhere) - 1))]
        assert verify(changed(of, **new))
        return
    assert verify(mutate(of, kind, row, row))


def test_relays_may_keep_what_they_passed_on_but_not_send_what_they_lack():
    of = schedule(topology("Mesh 3"), "scatter", 3000)  # 0 -> 1, 0 -> 1 -> 2
    assert sorted(zip(of.src.tolist(), of.dst.tolist(), strict=True)) == [(0, 1), (0, 1), (1, 2)]
    onward = int(np.flatnonzero(of.src == 1)[0])
    relayed = int(np.flatnonzero((of.chunk == of.chunk[onward]) & (of.src == 0))[0])
    assert "chunk-absent" in codes(mutate(of, "drop", relayed, relayed))
    assert codes(mutate(of, "drop", onward, onward)) == {"incomplete"}
