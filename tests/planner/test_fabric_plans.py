"""Plans on fabrics: groups see the routes of the replay, and what a plan says is what the replay of its files takes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.command import read_json, run
from helpers.examples import examples, some_of
from helpers.fabrics import TWO_LEVELS, WITH_DIRECT, fabrics
from helpers.plans import golden_inputs, lint_plan, options_of, quickly_planned
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import read_run, replay_run
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.planner.group_topology import fabric_views

SMALL = ("--layers", "2", "--hidden", "128", "--heads", "8", "--sequence", "64", "--vocab", "512", "--buckets", "2")
RUNS = {
    "one group over two nodes": ("dgx-a100 --nodes 2 --npus 4", "--dp 8"),
    "groups inside nodes and across": ("dgx-a100 --nodes 2 --npus 4", "--dp 2 --tp 4 --sequence-parallel"),
    "groups across leaves, and stages": ("leaf-spine --leaves 2 --npus 4 --oversubscription 2", "--dp 2 --tp 2 --pp 2"),
    "routes over others' NPUs": ("hxmesh --boards-x 1 --boards-y 1 --board-a 4 --board-b 2", "--dp 4 --tp 2 --order dp,tp,pp"),
}


def run_on(folder, kind, degrees):
    """A generated run on a fabric."""
    assert run("generate", "--output", "run", *degrees.split(), *SMALL, cwd=folder).returncode == 0
    assert run("network", *kind.split(), "--output", "fabric", cwd=folder).returncode == 0
    inputs = golden_inputs(folder / "run")
    groups = inputs.groups or (folder / "run" / "comm_group.json")
    return replace(inputs, groups=groups if groups.is_file() else None, network=folder / "fabric" / "network.yml")


@pytest.mark.parametrize("name", some_of([*RUNS], 2))
def test_the_replay_of_the_files_takes_what_the_plan_says(name, tmp_path):
    inputs = run_on(tmp_path, *RUNS[name])
    result, after = quickly_planned(inputs, tmp_path / "plan")
    plan = read_json(tmp_path / "plan" / "plan.json")
    outcome = replay_run(read_run(after), "congestion-aware")
    assert outcome.end_ns == plan["after_ns"] == result.time_ns
    assert result.bound.end_ns <= result.time_ns <= result.native.end_ns
    assert all(case.bound_ns is None or case.bound_ns <= (case.together_ns or 0) for case in result.cases)
    assert any("stock ASTRA-sim has no network with devices that forward" in note for note in result.notes)
    assert not (tmp_path / "plan" / "run_astra_sim.sh").exists()
    report = lint_plan(after)
    # A list of links; and where groups stay native, ASTRA-sim may free their algorithm twice.
    assert report.errors == {} and {"N03"} <= set(report.warnings) <= {"N03", "G10"}
    verified = run("verify", "plan", "--before", "run/workload/w", cwd=tmp_path)
    assert (verified.returncode, verified.stderr) == (0, "")
    if name == "one group over two nodes":  # where links between nodes are slow
        assert result.time_ns < result.native.end_ns
        assert any(case.algorithm != "native" for case in result.cases)
        again, _ = quickly_planned(inputs, tmp_path / "again")
        assert again.time_ns == result.time_ns


def test_no_script_runs_what_no_version_of_astra_sim_has(tmp_path):
    inputs = run_on(tmp_path, *RUNS["one group over two nodes"])
    done = run("plan", *options_of(inputs), "--schedule", "fuse", "--keep-collectives", "--output", "fused", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ASTRA_SIM_BIN" not in done.stdout
    assert not (tmp_path / "fused" / "run_astra_sim.sh").exists()


@examples(60)
@given(fabrics(most_npus=6), st.data())
def test_views_have_the_routes_of_the_replay_and_leave_nobody_out(network, data):
    ids = st.sets(st.sampled_from(range(network.num_endpoints)), min_size=2)
    members = tuple(sorted(data.draw(ids)))
    views = fabric_views(network, members)
    assert "shared" in views
    for view in views.values():
        assert view.num_npus == len(members)
        assert (view.link_bandwidth_gibps > 0).all()
        hops = np.full((view.num_npus,) * 2, np.inf)
        np.fill_diagonal(hops, 0)
        hops[view.channel_src, view.channel_dst] = 1
        for over in range(view.num_npus):  # Floyd and Warshall
            hops = np.minimum(hops, hops[:, [over]] + hops[[over]])
        assert np.isfinite(hops).all()
    used = {name: np.zeros(network.num_links) for name in views}
    for name in set(views) - {"crossbars"}:
        view = views[name]
        ends = [np.array(members)[column] for column in (view.link_src, view.link_dst)]
        for src, dst, bandwidth, latency in zip(*ends, view.link_bandwidth_gibps, view.link_latency_ns, strict=True):
            _, route = DeviceRoutes(network).find(np.array([src]), np.array([dst]))
            between = set(network.link_dst[route[:-1]].tolist())
            assert between.isdisjoint(members)
            assert latency == network.link_latency_ns[route].sum()
            assert bandwidth <= network.link_bandwidth_gibps[route].min()
            used[name][route] += bandwidth
        assert (used[name] <= network.link_bandwidth_gibps * (1 + 1e-9)).all()


def test_npus_of_others_only_pass_on():
    views = fabric_views(WITH_DIRECT, (0, 3))
    assert list(views) == ["shared", "apart"]  # the way is over NPU 1 or 2, so no switch joins them
    assert views["shared"].link_latency_ns.tolist() == [1450.0, 1450.0]


def test_a_crossbar_stands_for_switches_whose_ports_are_those_of_the_routes():
    view = fabric_views(TWO_LEVELS, (0, 1, 2))["crossbars"]
    assert (view.num_npus, view.num_switches, view.num_links) == (3, 1, 6)
    assert view.link_bandwidth_gibps.tolist() == [100.0] * 6


WRONG = """
plan --backend congestion-unaware --output o | beyond the congestion-unaware backend
plan --backend astra-sim --astra-sim-bin x --output o | which no ASTRA-sim has
plan --place --output o | expected dimensions
plan --only-place --output o | expected dimensions
optimize | dimensions
"""


@pytest.mark.parametrize("case", WRONG.strip().splitlines())
def test_what_fabrics_cannot_do_is_refused_in_a_line(case, tmp_path):
    arguments, message = case.split(" | ")
    inputs = run_on(tmp_path, *RUNS["one group over two nodes"])
    done = run(*arguments.split(), *options_of(inputs), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_plan_for_the_packet_level_has_the_files_of_ns3(tmp_path):
    inputs = run_on(tmp_path, "leaf-spine --leaves 2 --npus 2", "--dp 4")
    options = ("--budget", "100k", "--output", "o", "--json")
    done = run("plan", "--backend", "packet", *options_of(inputs), *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    planned = replace(inputs, workload=tmp_path / "o/workload/w", system=tmp_path / "o/system.json")
    planned = replace(
        planned, network=tmp_path / "o/network.yml", groups=tmp_path / "o/comm_group.json", directory=tmp_path / "o"
    )
    assert replay_run(read_run(planned), "packet").end_ns == json.loads(done.stdout)["after_ns"]
    assert (tmp_path / "o" / "ns3_topology.txt").read_text().startswith("8 4 8\n")
    assert (tmp_path / "o" / "run_ns3.sh").exists()


def test_devices_that_add_are_no_part_of_runs(tmp_path):
    inputs = run_on(tmp_path, "leaf-spine --leaves 2 --npus 4 --reducing", "--dp 8")
    done = run("plan", *options_of(inputs), "--output", "o", cwd=tmp_path)
    assert done.returncode == 2
    assert "runs cannot use devices that add" in done.stderr
