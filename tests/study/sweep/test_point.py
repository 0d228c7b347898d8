"""Points: what their key depends on, and that a request brings them across unchanged."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import fields, replace

import pytest
from helpers import networks
from helpers.sweep_files import CONFIGS, sweep
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import LinkSpec, SearchOptions, read_network
from astra_tacos.network.devices import ForwardingDevice, ReducingDevice
from astra_tacos.study.sweep.point import CollectiveTask, Point, WorkloadTask

NETWORK = networks.config(("Ring", 4, 50.0, 500.0), ("Switch", 2, 25.0, 300.0), failed_links=((0, 1), (1, 0)))
GRAPH = read_network(CONFIGS / "network" / "dgx1_cube_mesh.yml")
FABRICS = (
    replace(GRAPH, forwarding=(ForwardingDevice(), ForwardingDevice("nic", "mlx5_0"))),
    replace(GRAPH, forwarding=(ForwardingDevice(), ForwardingDevice()), reducing=(ReducingDevice(6, 1 << 18, 4, 40),)),
    replace(NETWORK, reducing=(ReducingDevice(8), ReducingDevice(9, ports=3))),
)
TASK = CollectiveTask("all-reduce", None, 1 << 20, SearchOptions("tacos", "auto", threads=1))
RUN = WorkloadTask(
    "/a/w", "/a/s.json", "/a/g.json", None, "/a", "congestion-aware", None, SearchOptions(trials=4, threads=1), "0" * 64
)
POINT = Point(0, NETWORK, TASK, {"kind": "collective"})
OTHER = {
    "collective": "broadcast",
    "root": 1,
    "size_bytes": 1,
    "options": SearchOptions("tacos", "auto", seed=5),
    "backend": "congestion-unaware",
    "baseline": "ring",
    "placement": "tp:1x2,dp:2x2",
    "endpoint": "ace",
    "digest": "1" * 64,
}
OTHER_OPTIONS = {
    "synthesizer": "ring",
    "chunks_per_npu": 1,
    "max_sends": 1,
    "link_model": "blocking",
    "reduce_bandwidth_gbps": 1.0,
    "trials": 1,
    "seed": 1,
    "effort": "quick",
    "budget": 1,
}
PATHS = {"workload", "system", "comm_group", "remote_memory", "directory"}


@pytest.mark.parametrize("task", [TASK, RUN])
def test_whatever_is_asked_for_changes_the_key(task):
    point = replace(POINT, task=task)
    keys = {point.key}
    for field in fields(task):
        if field.name not in PATHS:
            keys.add(replace(point, task=replace(task, **{field.name: OTHER[field.name]})).key)
    assert len(keys) == 1 + len(fields(task)) - len(PATHS & {field.name for field in fields(task)})


@pytest.mark.parametrize("task", [TASK, RUN])
def test_whatever_is_asked_of_the_search_changes_the_key_but_how_fast_it_is(task):
    def key(**changes):
        return replace(POINT, task=replace(task, options=replace(task.options, **changes))).key

    keys = [key(**{name: value}) for name, value in OTHER_OPTIONS.items()]
    assert len({key(), *keys}) == 1 + len(keys)
    assert {field.name for field in fields(SearchOptions)} - OTHER_OPTIONS.keys() == {"threads", "time_limit_s"}
    assert key(threads=7) == key(time_limit_s=9.0) == key()


def test_whatever_the_network_is_changes_the_key():
    first, second = NETWORK.dimensions
    changes = ({"block": "Mesh"}, {"size": 5}, {"bandwidth_gibps": 50.000000000000007}, {"latency_ns": 501.0})
    others = [
        *(replace(NETWORK, dimensions=(replace(first, **change), second)) for change in changes),
        replace(NETWORK, dimensions=(second, first)),
        replace(NETWORK, failed_links=()),
        *(replace(NETWORK, link_overrides=(LinkSpec(1, 2, *rate),)) for rate in ((None, 7.0), (7.0, None))),
        GRAPH,
        replace(GRAPH, links=GRAPH.links[1:]),
        *FABRICS,
    ]
    assert len({point.key for point in (POINT, *(replace(POINT, network=network) for network in others))}) == len(others) + 1


def test_nothing_else_does():
    others = (
        replace(POINT, index=7, inputs={"cost": 3.0, "network": "y"}, error="no"),
        replace(POINT, network=replace(NETWORK, source="elsewhere/other.yml")),
    )
    assert {point.key for point in others} == {POINT.key}
    moved = replace(RUN, workload="/b/v", system="/b/t.json", comm_group=None, remote_memory="/b/m.json", directory="/b")
    assert replace(POINT, task=RUN).key == replace(POINT, task=moved).key


def test_the_key_follows_version_and_format(monkeypatch):
    key = POINT.key
    monkeypatch.setattr("astra_tacos.study.sweep.point.ROW_FORMAT", "astra_tacos sweep 0")
    changed = POINT.key
    monkeypatch.undo()
    monkeypatch.setattr("astra_tacos.study.sweep.point.package_version", lambda: "999")
    assert len({key, changed, POINT.key}) == 3


@given(
    st.integers(0, 1 << 40),
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.text(), st.booleans()),
    ),
    st.sampled_from([NETWORK, GRAPH, *FABRICS, replace(NETWORK, link_overrides=(LinkSpec(1, 2, 0.1, None),))]),
    st.sampled_from([TASK, RUN, replace(TASK, options=replace(TASK.options, budget=7), root=3)]),
    st.none() | st.text(),
)
def test_a_request_brings_it_across(index, axes, network, task, error):
    point = Point(index, network, task, {"network": "x", "latency_ns": [0.5, 1.0], "cost": None, **axes}, error)
    again = pickle.loads(pickle.dumps(point))
    assert again == point
    assert again.key == point.key


@pytest.fixture
def run(tmp_path):
    shutil.copytree(CONFIGS / "workload" / "transformer_16", tmp_path / "run")
    shutil.copy(CONFIGS / "network" / "hetero_3d_16npus.yml", tmp_path / "n.yml")
    return tmp_path / "run"


def key_of(run):
    text = f"""point: {{network: {run.parent}/n.yml, size: ..., workload: {run}/workload/w, system: {run}/system.json,
        comm_group: {run}/comm_group.json, remote_memory: {run}/remote_memory.json}}"""
    return sweep(run.parent, text).points[0].key


@pytest.mark.parametrize("name", ["workload/w.7.et", "system.json", "comm_group.json", "remote_memory.json"])
def test_the_key_of_a_run_follows_the_content_of_its_files(run, name):
    before = key_of(run)
    file = run / name
    content = file.read_bytes()
    file.write_bytes(content + (b"\n" if name.endswith("json") else b""))
    assert (key_of(run) == before) is not name.endswith("json")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if name.endswith("et") else content)
    assert (key_of(run) == before) is name.endswith("json")
    file.write_bytes(content)
    assert key_of(run) == before
    moved = run.rename(run.with_name("elsewhere"))
    assert key_of(moved) == before


def test_traces_that_the_system_names_count_too(run):
    system = (run / "system.json").read_text().rstrip().removesuffix("}")
    first, second = ((run / "workload" / f"w.{rank}.et").read_bytes() for rank in range(2))
    per_node = system + ', "per-node-custom-implementation": "nodes.yml"}'
    keys = [key_of(run)]
    (run / "made").mkdir()
    (run / "made" / "c.0.et").write_bytes(first)
    for table, trace, text in (
        ("", second, system + ', "all-reduce-implementation-custom": ["made/c"]}'),
        ("", b"", system + ', "all-reduce-implementation-custom": ["made/c"]}'),
        ("3: made/c\n", b"", per_node),
        ("4: made/c\n", b"", per_node),
        ("4: made/c\n", first, per_node),
    ):
        (run / "nodes.yml").write_text(table)
        (run / "made" / "c.1.et").write_bytes(trace)
        (run / "system.json").write_text(text)
        keys.append(key_of(run))
    assert len(set(keys)) == len(keys)
