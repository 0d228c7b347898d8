"""Replay of whole runs: equal to ASTRA-sim's recorded runs and to a naive twin; explains stalls, refuses what stops ASTRA-sim."""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.damage import refusal
from helpers.examples import examples
from helpers.lint_runs import RunFiles, coll, comp, drop, node, one_step_exchange, recv, send
from helpers.naive_run import NaiveCrash, naive_replay_run
from helpers.runs import (
    BYTE_PER_NS,
    DEFAULT_TASTES,
    EVERY_BLOCK,
    ONE_DIMENSION,
    SEVERAL_DIMENSIONS,
    Tastes,
    load_run,
    make_run,
    random_run,
    stage_inputs,
    write_run,
)
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.replayer import run_replay
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError

AWARE, UNAWARE = BACKENDS
ALL_GATHER = CommType.ALL_GATHER

# ---- Recorded runs of ASTRA-sim ----


@pytest.mark.golden_cases("*")
def test_equals_astra_sim(golden, golden_case):
    expected = json.loads((golden / golden_case / "expected.json").read_text())
    outcome = replay_run(load_run(golden / golden_case), expected["backend"].replace("_", "-"))
    assert outcome.finish_ns.tolist() == expected["finish_ns"]
    if "exposed_comm_ns" in expected:
        assert outcome.exposed_comm_ns.tolist() == expected["exposed_comm_ns"]
    assert all(reason.startswith("native ") for reason in outcome.approximate)
    assert bool(outcome.approximate) is ("native" in golden_case)


def test_equals_astra_sim_on_its_own_inputs(astra_sim_inputs, tmp_path):
    files = (
        astra_sim_inputs / "workload/all_reduce_8npus_1MB/all_reduce",
        astra_sim_inputs / "system/custom_collective.json",
        astra_sim_inputs / "network/Ring_8npus.yml",
    )
    collectives = tmp_path / "examples/system/custom_collectives"
    with pytest.raises(ConfigError, match=r"custom_ring_allreduce_8npus_1MB/custom_allreduce\.0\.et: no such file"):
        read_run(RunInputs(*files, directory=tmp_path))
    collectives.mkdir(parents=True)
    (collectives / "custom_ring_allreduce_8npus_1MB").symlink_to(astra_sim_inputs / "custom_ring_allreduce_8npus_1MB")
    outcome = replay_run(read_run(RunInputs(*files, directory=tmp_path)), AWARE)
    assert outcome.finish_ns.tolist() == [90174] * 8
    assert outcome.exposed_comm_ns.tolist() == [90174] * 8


STAGE_FINISH_NS = {
    ("Switch", AWARE): [5352147] * 8 + [3588486] * 8,
    ("Switch", UNAWARE): [2838363] * 8 + [1894996] * 8,
    ("Ring", AWARE): [
        *(7316313, 7393938, 7237188, 7314813, 7482436, 7323686, 7324186, 7324686),
        *(5193248, 5193748, 5194248, 5194748, 5186628, 5187128, 5187628, 5188128),
    ],
    ("Ring", UNAWARE): [2902363] * 8 + [1953996, 1953996, 1952996, 1952996] * 2,
}


@pytest.mark.parametrize(("block", "backend"), STAGE_FINISH_NS)
def test_a_training_step_with_native_collectives(astra_sim_inputs, tmp_path, block, backend):
    """A dense transformer by the STAGE generator: data, tensor and pipeline parallel, with a roofline. Times are ASTRA-sim's."""
    run = read_run(stage_inputs(astra_sim_inputs, tmp_path, block, "LIFO"))
    outcome = replay_run(run, backend)
    assert outcome.finish_ns.tolist() == STAGE_FINISH_NS[block, backend]
    assert outcome.compute_ns.tolist() == [168076] * 8 + [169384] * 8
    assert outcome.approximate
    assert all("native" in reason for reason in outcome.approximate)


# ---- Against the twin ----


def read_back(seed, dimensions, num_operations, folder, tastes=DEFAULT_TASTES):
    return random_run(random.Random(seed), dimensions, num_operations, tastes).write(Path(folder))


def assert_equals_twin(run, outcome, twin):
    assert outcome.finish_ns.tolist() == twin.finish_ns
    assert outcome.compute_ns.tolist() == twin.compute_ns
    assert outcome.exposed_comm_ns.tolist() == twin.exposed_comm_ns
    assert outcome.sent_bytes.tolist() == twin.sent_bytes
    assert outcome.node_issue_ns.tolist() == twin.node_issue_ns
    assert outcome.node_finish_ns.tolist() == twin.node_finish_ns
    ran = {row: outcome.collective_names[number] for row, number in enumerate(outcome.collective.tolist()) if number >= 0}
    assert ran == twin.ran
    named = {row: run.prefixes[number] for row, number in enumerate(run.implementation.tolist()) if number >= 0}
    assert outcome.replaced.tolist() == [row for row in sorted(ran) if ran[row] != named.get(row)]
    used = sorted(row for row in zip(outcome.link_bytes.tolist(), outcome.link_busy_ns.tolist(), strict=True) if row[0])
    uses = list(twin.carried.values())
    assert used == sorted((sum(b for _, _, b in link), sum(end - start for start, end, _ in link)) for link in uses)
    assert outcome.transmissions is not None
    assert transmissions_by_link(outcome) == sorted(uses)


def transmissions_by_link(outcome):
    """(start, end, bytes) of every link that was used, after a look at what must hold of them."""
    found = outcome.transmissions
    assert found is not None
    assert np.all(np.diff(found.start_ns) >= 0)
    by_link: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for link, *use in zip(
        found.link.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), found.size_bytes.tolist(), strict=True
    ):
        by_link[link].append((use[0], use[1], use[2]))
    for link, uses in by_link.items():
        assert all(before[1] <= after[0] for before, after in pairwise(uses))
        assert sum(end - start for start, end, _ in uses) == outcome.link_busy_ns[link]
        assert sum(size for _, _, size in uses) == outcome.link_bytes[link]
    return sorted(by_link.values())


def check_against_twin(run, backend):
    try:
        outcome = replay_run(run, BACKENDS[backend], record_transmissions=True)
    except ConfigError as refusal:
        if "in ascending order" not in str(refusal):  # which is refused whether a rank comes to that message or not
            with pytest.raises(NaiveCrash):
                naive_replay_run(run, backend)
    except ReplayError as stall:
        twin = naive_replay_run(run, backend)
        assert twin.stalled
        stuck = [rank for rank, end in enumerate(twin.finish_ns) if end < 0]
        assert f": deadlock: rank {stuck[0]}, node " in str(stall)
        assert "\n" not in str(stall)
    else:
        assert_equals_twin(run, outcome, naive_replay_run(run, backend))


@examples(20)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(ONE_DIMENSION + SEVERAL_DIMENSIONS + EVERY_BLOCK),
    st.integers(1, 14),
    st.sampled_from(list(BACKENDS)),
)
def test_equals_the_twin(seed, dimensions, num_operations, backend):
    with tempfile.TemporaryDirectory() as folder:
        check_against_twin(read_back(seed, dimensions, num_operations, folder), backend)


NO_STALLS = Tastes(lost=0, ordered=1, same_tag=0, invalid=0, empty=0, instant=0, unsorted_group=0, roofline=0, memory=3, cpu=0.3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dimensions", [*ONE_DIMENSION[3:7], SEVERAL_DIMENSIONS[1]])
def test_equals_the_twin_in_long_runs(tmp_path, dimensions, backend):
    """Crowded: only the order of events at one instant tells who queues first."""
    run = read_back(2, dimensions, 150, str(tmp_path), NO_STALLS)
    twin = naive_replay_run(run, backend)
    assert not twin.stalled
    assert_equals_twin(run, replay_run(run, BACKENDS[backend], record_transmissions=True), twin)


def test_goes_on_where_it_paused(tmp_path, monkeypatch):
    run = read_back(2, ONE_DIMENSION[4], 60, str(tmp_path), NO_STALLS)
    whole = replay_run(run, AWARE)
    monkeypatch.setattr(run_replay, "_EVENTS_A_TURN", 1)
    calls: list[tuple[int, int]] = []
    parts = replay_run(run, AWARE, progress=lambda done, ranks: calls.append((done, ranks)))
    assert parts.node_finish_ns.tolist() == whole.node_finish_ns.tolist()
    assert parts.link_busy_ns.tolist() == whole.link_busy_ns.tolist()
    assert len(calls) > 100
    assert calls == sorted(calls)
    assert calls[-1] == (5, 5)
    assert whole.transmissions is None


def test_results_are_read_only(tmp_path):
    outcome = replay_run(make_run(tmp_path, "comp 0 | comp 0"), AWARE, record_transmissions=True)
    found = outcome.transmissions
    assert found is not None
    columns = [getattr(outcome, name) for name in ("finish_ns", "compute_ns", "node_finish_ns", "link_bytes", "collective")]
    assert not any(array.flags.writeable for array in [*columns, found.link, found.start_ns])


# ---- By hand ----

X = {"collective/x": one_step_exchange(2, size=64)}
XY = {**X, "collective/y": one_step_exchange(2, size=32, tag=10)}
RUNS_X = {"all-reduce-implementation-custom": ["collective/x"], "all-gather-implementation-custom": ["collective/x"]}
RUNS_XY = {**RUNS_X, "all-gather-implementation-custom": ["collective/y"]}


def of_x(ranks, **files):
    """A run whose collectives are played by `collective/x`."""
    return {"ranks": ranks, "collectives": X, "system": RUNS_X, **files}


ROOFLINE = {"roofline-enabled": 1, "peak-perf": 0.001, "local-mem-bw": 1}
"""At most an operation a nanosecond, and a byte a nanosecond."""


def test_transmissions_by_hand(tmp_path):
    # A ring's tie goes upwards: 100 bytes cross 0 -> 1 -> 2, and 50 bytes queue behind them.
    ranks = "send 0 2 size=100; send 1 1 [0] size=50 | recv 0 0 size=50 | recv 0 0 size=100 | comp 0"
    run = make_run(tmp_path, ranks, ("Ring", 4, BYTE_PER_NS, 10.0))
    outcome = replay_run(run, AWARE, record_transmissions=True)
    assert outcome.finish_ns.tolist() == [280, 280, 220, 1000]
    assert outcome.exposed_comm_ns.tolist() == [280, 280, 220, 0]
    assert outcome.end_ns == 1000
    found = outcome.transmissions
    assert found is not None
    ends = [(int(outcome.link_src[link]), int(outcome.link_dst[link])) for link in found.link.tolist()]
    assert ends == [(0, 1), (1, 2), (0, 1)]
    assert (found.src.tolist(), found.dst.tolist()) == ([0, 0, 0], [2, 2, 1])
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([0, 110, 220], [100, 210, 270])
    assert outcome.link_bytes.sum() == 250
    outcome = replay_run(run, UNAWARE, record_transmissions=True)
    assert outcome.finish_ns.tolist() == [180, 180, 120, 1000]
    assert outcome.transmissions is not None
    assert outcome.transmissions.link.size == outcome.link_bytes.size == 0


def test_what_a_rank_waits_for_until_one_instant_is_one_event(tmp_path):
    """Finish times are ASTRA-sim's.

    At 2000, rank 1's broadcast ends, rank 2's receive, and rank 1's second COMP, in the order in which they began. But the two
    of rank 1 share an event, so that its message comes first to rank 3.
    """
    ranks = """send 0 2 size=1000 |
        coll 0 comm_type=BROADCAST us=2; comp 1; comp 2 [1]; send 3 3 [2] size=500 |
        recv 0 0 size=1000; send 1 3 [0] size=500 |
        recv 0 1 size=500; recv 1 2 size=500"""
    outcome = replay_run(make_run(tmp_path, ranks, ("Switch", 4, BYTE_PER_NS, 0.0)), AWARE)
    assert outcome.finish_ns.tolist() == [2000, 3000, 3500, 3500]


@pytest.mark.parametrize(("before", "active_chunks", "finish_ns"), [("coll", 1, 7010), ("coll", 2, 9020), ("broadcast", 1, 9020)])
def test_a_collective_that_follows_another_begins_late(tmp_path, before, active_chunks, finish_ns):
    """Finish times are ASTRA-sim's.

    Where one collective at a time is active, the next begins when the last has gone, after other nodes that its end set free:
    rank 0's own receive is before the collective's, and gets the first of two equal messages.
    """
    first = coll(0, us=1) if before == "coll" else coll(0, comm_type=CommType.BROADCAST, us=1)
    ranks = [
        [first, coll(1, [0], ALL_GATHER), recv(2, 1, [0], size=1000), comp(3, [2], us=5)],
        [first, coll(1, [0], ALL_GATHER), comp(2, [1], us=1), send(3, 0, [2], size=1000)],
    ]
    traces = {"collective/x": "comp 0 us=1 | comp 0 us=1", "collective/y": "recv 0 1 size=1000 | send 0 0 size=1000"}
    system = {**RUNS_XY, "active-chunks-per-dimension": active_chunks}
    outcome = replay_run(make_run(tmp_path, ranks, collectives=traces, system=system), AWARE)
    assert outcome.finish_ns.tolist() == [finish_ns, 4020]


def test_replay_only_times_everything(tmp_path):
    nodes = [comp(0, us=2), coll(1, us=3), recv(2, 1), recv(3, 1), node(4, NodeType.MEM_LOAD, us=5), comp(5, is_cpu_op=True)]
    run = make_run(tmp_path, [nodes, [send(0, 0, us=4)]], system={"replay-only": 1, **RUNS_X}, collectives=X)
    outcome = replay_run(run, AWARE)
    assert outcome.node_finish_ns.tolist() == [2000, 3000, 1, 1, 8000, 1000, 4000]
    # Receives and sends count as compute: more than a rank's whole time is "computed", as in ASTRA-sim.
    assert outcome.compute_ns.tolist() == [10002, 4000]
    assert outcome.sent_bytes.tolist() == [0, 0]


def test_a_group_remembers_its_first_trace(tmp_path):
    """`CommunicatorGroup::get_collective_plan`: per group and pattern; the unnamed group of all ranks remembers nothing."""
    rank = "coll 0 group=1; coll 1 [0] group=1; coll 2 [1] ALL_GATHER group=1; coll 3 [2] group=2; coll 4 [3]; coll 5 [4]"
    traces = {f"collective/{name}": one_step_exchange(2, size) for name, size in (("x", 64), ("y", 32), ("z", 16))}
    per_node = {1: "collective/y", 2: "collective/z", 3: "collective/y", 5: "collective/z"}
    run = make_run(
        tmp_path, f"{rank} | {rank}", collectives=traces, system=RUNS_X, groups="{'1': [0, 1], '2': [0, 1]}", per_node=per_node
    )
    outcome = replay_run(run, AWARE)
    names = [outcome.collective_names[number].removeprefix("collective/") for number in outcome.collective.tolist()]
    assert names == ["x", "x", "z", "y", "x", "z"] * 2
    assert outcome.replaced.tolist() == [1, 7]


def test_positions_of_a_group_are_those_of_its_sorted_ranks(tmp_path):
    """`CommunicatorGroup.cc` finds a rank's position among sorted ranks, but a position's rank among those as written."""
    # Written 2, 0, 1: rank 0 is position 0 and sends to position 2, rank 1; rank 1 is position 1; rank 2 only computes.
    trace = [[send(0, 2, size=40)], [recv(0, 1 - 1, size=40)], [comp(0, us=0)]]
    trace[1] = [comp(0, us=1)]
    ranks = "coll 0 group=1 | coll 0 group=1; recv 1 0 size=40 | coll 0 group=1"
    run = make_run(tmp_path, ranks, collectives={"collective/x": trace}, system=RUNS_X, groups="'1': [2, 0, 1]")
    outcome = replay_run(run, AWARE)
    assert outcome.finish_ns.tolist() == [50, 1000, 1]
    assert outcome.node_finish_ns.tolist() == [50, 1000, 50, 1]


def test_an_all_gather_of_no_bytes_never_ends(tmp_path):
    """`Sys::generate_collective` divides 0 by 0 to tell how many chunks must end; other patterns are given a byte a rank."""
    ranks = "coll 0 size=0 | coll 0 size=0"
    assert replay_run(make_run(tmp_path, ranks, collectives=X, system=RUNS_X), AWARE).finish_ns.tolist() == [1074] * 2
    ranks = "coll 0 comm_type=ALL_GATHER size=0 | coll 0 comm_type=ALL_GATHER size=0"
    with pytest.raises(AstraTacosError, match=r"w\.0\.et node 0: deadlock: ALL_GATHER of 0 bytes"):
        replay_run(make_run(tmp_path, ranks, collectives=X, system=RUNS_X), AWARE)


def test_a_custom_collective_never_ends_in_several_chunks(tmp_path):
    """`Sys::generate_collective` makes one stream of a custom collective, and waits for the end of one per chunk."""
    ranks = "comp 0; coll 1 [0] | comp 0; coll 1 [0]"
    run = make_run(tmp_path, ranks, collectives=X, system={**RUNS_X, "preferred-dataset-splits": 2})
    with pytest.raises(ReplayError, match=r"deadlock: preferred-dataset-splits is 2: .*collective/x\) never finish; set it to 1"):
        replay_run(run, AWARE)


@pytest.mark.parametrize(
    ("late_us", "active", "splits", "optimization", "finish_ns"),
    [
        (50, 1, 2, "localBWAware", None),
        (0, 1, 2, "localBWAware", [27531] * 8),
        (50, 2, 2, "localBWAware", [65535, 60153, 68476, 63094, 67255, 61873, 70196, 64814]),
        (50, 1, 2, "baseline", [82412, 77030, 87794, 82412, 87794, 82412, 93176, 87794]),
        (50, 1, 1, "localBWAware", [78963, 68698, 84345, 74080, 81904, 71639, 87286, 77021]),
    ],
)
def test_chunks_wait_for_one_another_in_three_dimensions(tmp_path, late_us, active, splits, optimization, finish_ns):
    """Finish times are ASTRA-sim's, which stalls in the first case (lint's S19)."""
    ranks = [[comp(0, us=late_us * (rank == 6)), coll(1, [0], size=1 << 20)] for rank in range(8)]
    system = {
        "collective-optimization": optimization,
        "preferred-dataset-splits": splits,
        "active-chunks-per-dimension": active,
        "all-reduce-implementation": ["ring"] * 3,
    }
    run = make_run(tmp_path, ranks, *[("Ring", 2, 50.0, 500.0)] * 3, system=system)
    if finish_ns is None:
        with pytest.raises(ReplayError, match=r"deadlock: rank 0, node 1 .* of native all-reduce"):
            replay_run(run, UNAWARE)
    else:
        assert replay_run(run, UNAWARE).finish_ns.tolist() == finish_ns


# ---- Stalls ----

STUCK = [
    (
        {"ranks": "recv 7 1 size=64 tag=3 | send 4 0 size=32 tag=3"},
        "rank 0, node 7 waits for a message from rank 1 (64 bytes, tag 3) that no node sends (rank 1, node 4 sends 32 bytes, "
        "tag 3)",
    ),
    (
        {"ranks": "recv 1 1 | recv 1 2; send 2 0 [1] | recv 1 0; send 2 1 [1]"},
        "rank 0, node 1 waits for the message of rank 1, node 2, which waits for rank 1, node 1, which waits for the message of"
        " rank 2, node 2, which waits for rank 2, node 1, which waits for a message from rank 0 (4096 bytes, tag 0) that no "
        "node sends; 2 more ranks never finish",
    ),
    (
        {
            "ranks": "coll 1; coll 2 [1] ALL_GATHER | coll 1 comm_type=ALL_GATHER; coll 2 [1]",
            "collectives": XY,
            "system": RUNS_XY,
        },
        "rank 0, node 1 is at node 1 of collective/x, which waits for the message of rank 1, node 0 of collective/x, begun "
        "by rank 1, node 2, which waits for rank 1, node 1, which is at node 1 of collective/y, which waits for the message"
        " of rank 0, node 0 of collective/y, begun by rank 0, node 2, which waits for rank 0, node 1: a cycle; 1 more rank "
        "never finishes",
    ),
    (
        of_x("coll 1; send 2 1 | recv 1 0; coll 2 [1]"),
        "rank 0, node 1 is at node 1 of collective/x, which waits for the message of rank 1, node 0 of collective/x, begun "
        "by rank 1, node 2, which waits for rank 1, node 1, which waits for the message of rank 0, node 2, which waits for its "
        "slot, which is held by rank 0, node 1: a cycle; 1 more rank never finishes",
    ),
    (
        {"ranks": "INVALID 0; comp 1 [0] | comp 0"},
        "rank 0, node 1 never starts: a node that ends at once (INVALID, or COMP without bytes) made it ready, and no other "
        "event happens on its rank",
    ),
    (
        of_x("coll 1; coll 2 [1] | coll 1"),
        "rank 0, node 2 is at node 1 of collective/x, which waits for a message from rank 1 (64 bytes, tag 1)",
    ),
    (
        {
            "ranks": "coll 1 | coll 1",
            "collectives": {"collective/x": "send 0 1 size=64 tag=1 | recv 3 0 size=32 tag=1"},
            "system": RUNS_X,
        },
        "rank 1, node 1 is at node 3 of collective/x, which waits for a message from rank 0 (32 bytes, tag 1) that no node "
        "sends (rank 0, node 0 of collective/x sends 64 bytes, tag 1)",
    ),
    (
        {
            "ranks": "comp 0 | coll 1 group=1 | comp 0 | coll 1 group=1",
            "collectives": {"collective/x": "comp 2; recv 4 1 [2] size=64 tag=1 | comp 0"},
            "system": RUNS_X,
            "groups": {"1": [1, 3]},
        },
        "rank 1, node 1 is at node 4 of collective/x, which waits for a message from rank 3 (64 bytes, tag 1) that no node sends",
    ),
    (
        {
            "ranks": "coll 1 | coll 1",
            "collectives": {"collective/x": "recv 1 1; send 0 1 [1] | recv 0 0; send 1 0 [0]"},
            "system": RUNS_X,
        },
        "rank 0, node 1 is at node 1 of collective/x, which waits for the message of rank 1, node 1 of collective/x, which "
        "waits for rank 1, node 0 of collective/x, which waits for the message of rank 0, node 0 of collective/x, which waits "
        "for rank 0, node 1 of collective/x: a cycle; 1 more rank never finishes",
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("files", "message"), STUCK, ids=range(len(STUCK)))
def test_a_stall_is_explained(tmp_path, files, message, backend):
    run = make_run(tmp_path, **files)
    assert naive_replay_run(run, backend).stalled
    assert refusal(replay_run, run, backend, error=ReplayError).startswith(f"{tmp_path / 'workload' / 'w'}: deadlock: {message}")


# ---- Refusals ----


def pool(**memory):
    given = {"memory-type": "MEMORY_POOL", "remote-mem-latency": 1, "remote-mem-bw": 1, **memory}
    return {"remote_memory": given, "ranks": "MEM_LOAD 4 is_cpu_op=False tensor_size=100 | comp 0"}


def of_collective(nodes):
    """A run whose ranks play a collective in which position 0 has these nodes."""
    return {"ranks": "coll 1 | coll 1", "collectives": {"collective/x": f"{nodes} | comp 0"}, "system": RUNS_X}


def with_group(name, **files):
    return {
        "ranks": f"coll 1 pg_name={name!r} | coll 1 pg_name={name!r}",
        "collectives": X,
        "system": RUNS_X,
        "groups": {"1": [0, 1]},
        **files,
    }


def alone(made, **files):
    return of_x(f"{made} | comp 0", **files)


ROOFLINE_MISSING = {"roofline-enabled": 1, "peak-perf": 1}
REFUSED = [
    (alone("METADATA 3"), "workload/w.0.et node 3: METADATA; leave it out (lint: A12)"),
    (
        alone("comp 3 us=1<<51"),
        "w.0.et node 3: takes 2,251,799,813,685,248 us, more than ASTRA-sim's clock counts",
    ),
    (
        alone("comp 3 tensor_size=1", system=ROOFLINE),
        "w.0.et node 3: COMP without num_ops (or of -1); add num_ops (lint: A01)",
    ),
    (
        {"ranks": "comp 3 num_ops=1 | comp 3 num_ops=1", "system": ROOFLINE},
        "w.0.et node 3: COMP without tensor_size (or of -1); add tensor_size (lint: A01)",
    ),
    (
        {"ranks": "comp 3 num_ops=1 tensor_size=1 | comp 3 num_ops=1 tensor_size=1", "system": ROOFLINE_MISSING},
        "system.json: roofline-enabled, but local-mem-bw is 0 or absent; set both (lint: S12)",
    ),
    (
        {"ranks": "comp 3 num_ops=1<<62 tensor_size=1 | comp 3 num_ops=1<<62 tensor_size=1", "system": ROOFLINE},
        "rank 0, node 3: COMP that takes too long, expected less than 2**60 ns",
    ),
    (alone("send 3 1 is_cpu_op=True"), "node 3: COMM_SEND with is_cpu_op; set is_cpu_op to False (lint: A11)"),
    (
        alone("send 3 1 comm_src=1"),
        "w.0.et node 3: comm_src is 1, in the file of rank 0; write the rank of the file (lint: A10)",
    ),
    (
        alone("coll 3 -comm_type"),
        "w.0.et node 3: COMM_COLL without comm_type (or of -1); add comm_type (lint: A01)",
    ),
    (alone("coll 3 comm_type=REDUCE"), "w.0.et node 3: REDUCE is not supported; give it a supported comm_type"),
    (
        alone("coll 3 -comm_size"),
        "w.0.et node 3: ALL_REDUCE without comm_size (or of -1); add comm_size (lint: A01)",
    ),
    (
        alone("MEM_LOAD 4 is_cpu_op=False tensor_size=1"),
        "w.0.et node 4: there is no remote memory (--remote-memory): the first of 1 loads and stores ends ASTRA-sim",
    ),
    (
        pool() | {"ranks": "MEM_LOAD 4 is_cpu_op=False | comp 0"},
        "w.0.et node 4: MEM_LOAD without tensor_size (or of -1); add tensor_size (lint: A01)",
    ),
    (
        pool(**{"remote-mem-bw": 0}),
        "remote_memory.json: remote-mem-bw is 0 or missing, expected 1 or more",
    ),
    (
        pool(**{"memory-type": "PER_NODE_MEMORY_EXPANSION"}),
        "remote_memory.json: num-nodes is 0 and num-npus-per-node 0, for 2 NPUs: ASTRA-sim crashes",
    ),
    (with_group("2"), "w.0.et node 1: uses group 2, which does not exist; add it to "),
    (with_group("tensor"), "w.0.et node 1: pg_name is 'tensor', no group's number; write a number"),
    (with_group("1", groups=None), "node 1: uses group 1, which does not exist; give a file of groups (--comm-group)"),
    (
        with_group("1", groups="'1': [1]"),
        "w.0.et node 1: uses group 1, whose ranks are 1; use a group that holds the rank (lint: G06)",
    ),
    (with_group("1", groups="'1': [0, 1, 7]"), "group 1 holds rank 7, the network has 2 NPUs; take it out"),
    (
        alone("coll 1", collectives={"collective/x": "comp 0"}),
        "x.1.et: no such file, but the group of all ranks has 2 ranks: none for position 1; use a trace for so",
    ),
    (
        with_group("1", collectives={"collective/x": "comp 0"}),
        "x.1.et: no such file, but group 1 has 2 ranks: none for position 1; use a trace for so many ranks",
    ),
    (
        of_collective("INVALID 5"),
        "collective/x.0.et node 5: INVALID in a custom collective never ends; use COMM_SEND, COMM_RECV and COMP",
    ),
    (of_collective("recv 5 0"), "x.0.et node 5: receives from position 0: itself; leave it out (lint: A09)"),
    (
        alone("coll 1", system="all-reduce-implementation: null"),
        'w.0.et node 1: no implementation of ALL_REDUCE, which 1 nodes run; add "all-reduce-implementation" to ',
    ),
    (
        alone("coll 1", system="preferred-dataset-splits: null"),
        "system.json: preferred-dataset-splits is absent: the first collective ends ASTRA-sim; set it to 1 (lint: S01)",
    ),
    ({"ranks": "comp 0", "npus": [2]}, "traces of 1 ranks, but "),
]
BEYOND_READING = [
    (
        alone("comp 3 [9]"),
        "w.0.et node 3: deadlock: depends on a node that does not exist; ids count within a rank's file",
    ),
    (
        alone("comp 3 [3]"),
        "w.0.et node 3: deadlock: waits for itself (3 -> 3): no node can start; break the cycle (lint: D02)",
    ),
    (
        of_collective("comp 3 [9]"),
        "collective/x.0.et node 3: deadlock: depends on a node that does not exist",
    ),
]


@pytest.mark.parametrize(("files", "message"), REFUSED + BEYOND_READING, ids=range(len(REFUSED + BEYOND_READING)))
def test_what_stops_astra_sim_is_refused(tmp_path, files, message):
    dimensions = () if {"npus", "bandwidth"} & set(files) else (("FullyConnected", files["ranks"].count("|") + 1, 50.0, 10.0),)
    error = ConfigError if (files, message) in REFUSED else ReplayError
    assert message in refusal(lambda: replay_run(load_files(tmp_path, files, dimensions), AWARE), error=error)


def test_traces_that_astra_sim_never_opens_make_no_difference(tmp_path):
    """Of ranks past the network, and of positions past its NPUs, whatever is in them."""
    files = of_x("coll 1 | coll 1")
    plain = replay_run(load_files(tmp_path / "plain", files, (("FullyConnected", 2, 50.0, 10.0),)), AWARE)
    run = write_run(tmp_path / "more", RunFiles(**files), (("FullyConnected", 2, 50.0, 10.0),))
    for stray in ("workload/w.2.et", "workload/w.7.et", "collective/x.2.et", "collective/x.9.et"):
        (tmp_path / "more" / stray).write_bytes(b"no trace")
    assert replay_run(load_run(run), AWARE).finish_ns.tolist() == plain.finish_ns.tolist()


def load_files(folder, files, dimensions):
    return load_run(write_run(folder, RunFiles(**files), dimensions or None))


def typed(made, name, value):
    """The node, with another value of an attribute; None is an attribute without any."""
    attribute = drop(made, name).attr.add(name=name)
    if value is not None:
        setattr(
            attribute,
            "string_val" if isinstance(value, str) else "double_val" if isinstance(value, float) else "int64_val",
            value,
        )
    return made


MADE = {
    "COMP": lambda: comp(3, num_ops=1, tensor_size=1),
    "COMM_SEND": lambda: send(3, 1),
    "COMM_RECV": lambda: recv(3, 1),
    "COMM_COLL": lambda: coll(3),
}
INTEGERS = {
    "COMP": ("is_cpu_op", "num_ops", "tensor_size"),
    "COMM_SEND": ("is_cpu_op", "comm_size", "comm_dst", "comm_tag", "comm_src"),
    "COMM_RECV": ("is_cpu_op", "comm_size", "comm_src", "comm_tag", "comm_dst"),
    "COMM_COLL": ("is_cpu_op", "comm_type", "comm_size", "comm_priority"),
}
UNREADABLE = [(kind, name, value) for kind, names in INTEGERS.items() for name in names for value in (None, 0.0, "1")]
UNREADABLE += [("COMM_COLL", "pg_name", value) for value in (None, 0.0, 1)]
UNREADABLE += [("COMM_COLL", "involved_dim", value) for value in (None, 0.0, "1", 1)]


@pytest.mark.parametrize(("kind", "name", "value"), UNREADABLE)
def test_values_that_astra_sim_cannot_read_are_refused(tmp_path, kind, name, value):
    """`feeder_v3/et_feeder_node.h` takes integers for integers, strings for strings, and throws for others."""
    made = typed(MADE[kind](), name, value)
    run = make_run(tmp_path, [[made], [comp(0, is_cpu_op=True)]], collectives=X, system={**RUNS_X, **ROOFLINE})
    with pytest.raises(ConfigError, match=rf"w\.0\.et node 3: {name} has "):
        replay_run(run, AWARE)
