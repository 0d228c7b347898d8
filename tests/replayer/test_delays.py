"""A rank that is delayed does what it does in a run with a compute node of that time before all its nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.compact_run import compact
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.support.errors import ConfigError

RANKS = 4
STEPS = st.lists(
    st.tuples(st.sampled_from(("compute", "host", "all", "next")), st.integers(1, 64), st.integers(0, 3)), min_size=1, max_size=6
)
ROOFLINE = {"roofline-enabled": 1, "peak-perf": 1, "local-mem-bw": 1}


def trace(rank, steps, delay_us=None):
    """Nodes that wait for a node some places before, or for none; with a delay, those wait for a node that comes first."""
    nodes, ids = [], []
    first = () if delay_us is None else (900,)
    for number, (kind, value, back) in enumerate(steps):
        deps = (ids[-back],) if 0 < back <= len(ids) else first
        own = 10 * number + 3
        if kind == "next":
            nodes.append(send(own + 1, (rank + 1) % RANKS, deps, size=value << 10, tag=number))
            nodes.append(recv(own, (rank - 1) % RANKS, deps, size=value << 10, tag=number))
        elif kind == "all":
            # Collectives wait for one another: their order is none of the delays' business.
            before = [10 * other + 3 for other in range(number) if steps[other][0] == "all"]
            nodes.append(coll(own, sorted({*deps, *before[-1:]}), size=value << 12))
        else:
            nodes.append(comp(own, deps, us=value, is_cpu_op=kind == "host", num_ops=value << 20, tensor_size=value << 10))
        ids.append(own)
    return nodes if delay_us is None else [comp(900, us=delay_us, num_ops=delay_us * 10**6, tensor_size=1), *nodes]


def read(folder, ranks, system):
    RunFiles(ranks, topology=("Ring",), system=system).write(folder)
    return read_run(RunInputs.in_folder(folder, "w"))


@pytest.mark.parametrize("backend", ["congestion-unaware", "congestion-aware", "packet"])
@given(steps=STEPS, delays=st.dictionaries(st.integers(0, RANKS - 1), st.integers(1, 300), min_size=1))
def test_a_delay_is_a_node_that_comes_first(backend, tmp_path_factory, steps, delays):
    folder = tmp_path_factory.mktemp("delay")
    run = read(folder / "plain", [trace(rank, steps) for rank in range(RANKS)], {})
    other = read(folder / "with", [trace(rank, steps, delays.get(rank)) for rank in range(RANKS)], {})
    delayed = run.delayed({rank: 1_000 * us for rank, us in delays.items()})
    outcome, expected = (replay_run(each, backend) for each in (delayed, other))
    for name in ("finish_ns", "compute_ns", "exposed_comm_ns", "sent_bytes", "node_issue_ns", "node_finish_ns", "link_busy_ns"):
        assert np.array_equal(getattr(outcome, name), getattr(expected, name))


def test_a_delay_in_ns_with_a_roofline(tmp_path):
    """The delay is no work that the roofline, or a slower rank, makes longer; ranks without it are as they were."""
    steps = [("compute", 5, 0), ("host", 3, 1)]
    run = read(tmp_path, [trace(rank, steps) for rank in range(RANKS)], ROOFLINE)
    before, after = (replay_run(each.slowed({1: 2.0})).finish_ns for each in (run, run.delayed({1: 1_234, 2: 7})))
    assert (after - before).tolist() == [0, 1_234, 7, 0]


def test_names_and_what_is_refused(tmp_path):
    steps = [("compute", 5, 0), ("all", 1, 1)]
    run = read(tmp_path, [trace(rank, steps) for rank in range(RANKS)], {})
    delayed = run.delayed({1: 500})
    assert delayed.names(list(range(5))) == ["n3", "n13", "n3 (delay before it)", "n3", "n13"]
    assert run.delayed({}) is run
    with pytest.raises(ConfigError, match="--delay: found rank 4, expected one below 4"):
        run.delayed({4: 1})
    with pytest.raises(ConfigError, match="ranks that are delayed, expected the ordinary run"):
        delayed.delayed({2: 1})
    with pytest.raises(ConfigError, match="start later than others"):
        compact(delayed)
    with pytest.raises(ConfigError, match="slow or delayed ranks is no run of files"):
        delayed.write(tmp_path / "out")
    with pytest.raises(ConfigError, match="classes, expected the ordinary run"):
        replace(run, classes=compact(run).classes).delayed({1: 1})
