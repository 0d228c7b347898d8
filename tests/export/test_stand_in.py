"""Stand-in runs: what stock ASTRA-sim takes for a schedule on any graph, by the embedded replay, which equals it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.command import read_json, run
from helpers.examples import examples
from helpers.fabrics import PARALLEL, TWO_LEVELS, both_ways, fabric, fabrics
from helpers.networks import SWITCH, graph, topology
from helpers.schedules import schedule as make
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.export.exporter import export_schedule
from astra_tacos.export.stand_in import stand_in_of
from astra_tacos.network.network_config import read_network
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.algorithms.column_generation import column_generation

UNEQUAL = graph((0, 1, 50.0, 20.0), (1, 2, 5.0, 20.0), (2, 0, 12.5, 20.0), (1, 0, 7.0, 20.0), (0, 2, 3.0, 20.0))


def on(topology, name, chunks=2, model="pipelined"):
    collective = make_collective(name, topology.num_npus, 300_001, chunks, members=topology.endpoints)
    return column_generation(Problem(topology, collective, compute_timing(topology, collective, model, 20.0)), 0)


def replayed_ns(of):
    stand_in = stand_in_of(of)
    return replay_trace(stand_in.trace(), stand_in.network.to_config(), stand_in.network.backend).collective_time_ns


@examples(10)
@given(
    fabrics(5, latency_ns=500.0, may_be_parallel=False),
    st.sampled_from(sorted(COLLECTIVES)),
    st.integers(1, 4),
    st.sampled_from(("pipelined", "blocking")),
)
def test_equal_latencies_take_the_predicted_time(network, name, chunks, model):
    of = on(network, name, chunks, model)
    assert stand_in_of(of).error_ns == 0
    assert replayed_ns(of) == of.collective_time_ns


@pytest.mark.parametrize("name", ["all-gather", "all-reduce"])
def test_graphs_of_unequal_links_take_the_predicted_time(name):
    of = make(UNEQUAL, name, 300_001, 2, synthesizer="routed", link_model="pipelined")
    assert replayed_ns(of) == of.collective_time_ns


@pytest.mark.parametrize("name", ["all-gather", "all-reduce", "all-to-all"])
def test_other_latencies_are_off_by_no_more_than_is_said(name):
    of = on(TWO_LEVELS, name)
    stand_in = stand_in_of(of)
    assert stand_in.error_ns == 200 and not stand_in.network.is_exact
    assert abs(replayed_ns(of) - of.collective_time_ns) <= 200 * of.num_sends


def test_files_are_those_ranks_and_say_who_they_are(tmp_path):
    of = on(TWO_LEVELS, "broadcast")
    written = export_schedule(of, tmp_path / "run", "stand-in")
    ranks = read_json(written.path / "rank_map.json")["ranks"]
    assert [(each["rank"], each["device"], each["kind"]) for each in ranks] == [
        (n, n, "npu" if n < 4 else "switch") for n in range(7)
    ]
    network = read_network(written.path / "network.yml")
    assert network.num_npus == 7
    traces = read_trace(written.path / "collective/broadcast")
    assert replay_trace(traces, network, "congestion-aware").collective_time_ns == replayed_ns(of)


@pytest.mark.parametrize(("latency", "says"), [(500, "exact: ASTRA-sim takes"), (99, "not exact: a hop may be up to 401 ns off")])
def test_the_answer_says_exact_only_where_it_is(tmp_path, latency, says):
    rows = "".join(f"{a},{b},50,{ns}\n{b},{a},50,{ns}\n" for a, b, ns in ((0, 1, 500), (1, 2, 500), (2, 0, latency)))
    (tmp_path / "links.csv").write_text("src,dst,bandwidth,latency\n" + rows)
    (tmp_path / "n.yml").write_text("npus_count: [ 3 ]\nastra_tacos: { links: links.csv }\n")
    run("synthesize --network n.yml --collective all-gather --size 64KiB --synthesizer direct --output out", cwd=tmp_path)
    told = run("export out --format stand-in --output run", cwd=tmp_path).stdout
    assert says in told and told.count("exact") == 1


def test_idle_devices_are_no_ranks():
    network = fabric(3, *both_ways(*((npu, switch, 50.0 if switch == 3 else 1.0, 9.0) for npu in (0, 1) for switch in (2, 3, 4))))
    of = on(network, "broadcast", 1)
    assert stand_in_of(of).device.tolist() == [0, 1, 3]
    assert np.array_equal(stand_in_of(of).schedule.start_ns, of.start_ns)
    assert replayed_ns(of) == of.collective_time_ns


def test_what_has_none_is_refused(tmp_path):
    for of, reason in (
        (on(PARALLEL, "all-gather", 8), "parallel links"),
        (make(topology(*SWITCH), "all-reduce", 4096, 1, synthesizer="dimension-wise"), "one by one"),
    ):
        with pytest.raises(ConfigError, match=reason):
            export_schedule(of, tmp_path / "x", "stand-in")


def test_synthesize_writes_it_beside_the_schedule(tmp_path):
    rows = "".join(f"{src},{dst},{speed},500\n" for npu in range(3) for src, dst, speed in ((npu, 3, 50), (3, npu, 25)))
    (tmp_path / "links.csv").write_text("src,dst,bandwidth,latency\n" + rows)
    (tmp_path / "f.yml").write_text("npus_count: [ 3 ]\nastra_tacos: { links: links.csv, switches: 1 }\n")
    command = "synthesize --network f.yml --collective all-gather --size 64KiB --output out"
    told = run(f"{command} --max-sends 200", cwd=tmp_path).stdout
    assert "  times          exact: ASTRA-sim takes the predicted time" in told
    done = run(f"{command} --max-sends 200 --json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["astra_sim_exact"] and result["verified"] and result["num_npus"] == 3 and result["num_forwarding"] == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"schedule.npz", "result.json", "stand_in"}
    assert "all-gather on 3 NPUs" in run("verify out", cwd=tmp_path).stdout
    assert run(f"{command} --max-sends 200", cwd=tmp_path).returncode == 0  # replaces what it wrote
    told = run("inspect f.yml --verbose", cwd=tmp_path).stdout
    assert "switch: 1" in told and "3 to 3" in told
    for other in ("compare", "plan"):
        refused = run(f"{other} --network f.yml --size 1MiB", cwd=tmp_path)
        assert refused.returncode == 2


@pytest.mark.parametrize("name", ["all-gather", "all-reduce", "all-to-all"])
def test_switches_of_dimensions_take_the_predicted_time(name):
    """On its own Switch, ASTRA-sim orders chunks that reach a port at one instant in its own way."""
    of = make(topology(*SWITCH), name, 300_001, 2, synthesizer="direct", link_model="pipelined")
    assert stand_in_of(of).network.is_exact
    assert replayed_ns(of) == of.collective_time_ns
