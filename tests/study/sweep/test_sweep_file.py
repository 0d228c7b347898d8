"""Sweep files: what points they make, and that all that is wrong is told with file, key, value and expectation."""

from __future__ import annotations

import json

import pytest
import yaml
from helpers.sweep_files import CONFIGS, RING, sweep, write_sweep

from astra_tacos import ConfigError, SearchOptions, build_topology
from astra_tacos.cli.main import main
from astra_tacos.study.sweep.point import INPUT_COLUMNS, CollectiveTask, WorkloadTask
from astra_tacos.study.sweep.sweep_file import read_sweep_file

COST = CONFIGS / "cost" / "three_tiers.yml"
RUN = CONFIGS / "workload" / "transformer_16"
WORKLOAD = f"""network: {CONFIGS}/network/hetero_3d_16npus.yml
size: ...
workload: {RUN}/workload/w
system: {RUN}/system.json
comm_group: {RUN}/comm_group.json
"""


def of_run(folder, text):
    """A sweep that plans a run; a text that begins with a space is more of `point`."""
    return sweep(folder, "point:\n " + WORKLOAD.replace("\n", "\n ") + text)


def test_a_sweep_without_axes_is_one_point(tmp_path):
    found = sweep(tmp_path)
    (point,) = found.points
    assert (found.name, found.axes, found.num_combinations, found.left_out) == ("s", (), 1, {})
    assert point.task == CollectiveTask("all-reduce", None, 1 << 20, SearchOptions("auto", "auto", threads=1))
    assert list(point.inputs) == list(INPUT_COLUMNS)
    assert point.error is None and point.index == 0


def test_every_key_arrives(tmp_path):
    text = """{collective: broadcast, root: 2, size: 3KiB, chunks_per_npu: 3, max_sends: 99, synthesizer: routed,
        trials: 5, seed: 6, effort: quick, budget: '1e1', link_model: blocking, reduce_bandwidth: 8, backend: congestion-aware}"""
    (point,) = sweep(tmp_path, "name: all of them\npoint: " + text).points
    options = SearchOptions("routed", 3, 99, "blocking", 8.0, 5, 6, "quick", 10_000_000, threads=1)
    assert point.task == CollectiveTask("broadcast", 2, 3072, options, "congestion-aware")
    assert {name: value for name, value in point.inputs.items() if value is not None} == yaml.safe_load(
        """{kind: collective, network: Ring 4, topology: Ring 4, num_npus: 4, num_links: 8, link_bandwidth_gibps: [50.0],
        latency_ns: [500.0], bandwidth_per_npu_gbps: [107.3741824], total_bandwidth_gbps: 107.3741824, failed_links: 0,
        collective: broadcast, root: 2, size_bytes: 3072, synthesizer: routed, chunks_per_npu: 3, trials: 5, seed: 6,
        effort: quick, budget_sends: 10000000, link_model: blocking, reduce_bandwidth_gbps: 8.0, backend: congestion-aware}"""
    )


def test_the_command_names_a_backend_for_files_that_name_none(tmp_path):
    plain = sweep(tmp_path).path
    (point,) = read_sweep_file(plain, "congestion-aware").points
    (default,) = read_sweep_file(plain).points
    for each in (point, default):
        assert (each.task.backend, each.inputs["backend"]) == ("congestion-aware", "congestion-aware")
    (other,) = read_sweep_file(plain, "congestion-unaware").points
    assert default.key == point.key != other.key
    own = sweep(tmp_path, "point: {backend: congestion-unaware}").path
    with pytest.raises(ConfigError, match="has a backend, and so has the command"):
        read_sweep_file(own, "congestion-aware")


def test_a_split_of_600(tmp_path):
    found = sweep(
        tmp_path,
        f"""
        point: {{network: *THREE}}
        axes: {{b0: &each {{from: 100, to: 500, step: 100}}, b1: *each}}
        define: {{b2: 600 - b0 - b1, share: b2 / 600}}
        where: [b2 > 0, total_bandwidth == 600, "bandwidth[2] == b2", cost <= 1e6, "npus_count[1] * num_npus == 256"]
        cost_model: {COST}""",
    )
    splits = [(100 * x, 100 * y, 600 - 100 * x - 100 * y) for x in range(1, 6) for y in range(1, 6) if x + y < 6]
    prices = [64 * (4 * b0 + 4 * b1 + (7.8 + 18 + 31.6) * b2) for b0, b1, b2 in splits]
    affordable = [(split, price) for split, price in zip(splits, prices, strict=True) if price <= 1e6]
    assert 0 < len(affordable) < len(splits)
    assert [point.inputs["bandwidth_per_npu_gbps"] for point in found.points] == [list(split) for split, _ in affordable]
    assert [point.inputs["cost"] for point in found.points] == pytest.approx([price for _, price in affordable], rel=1e-12)
    assert found.num_combinations == 25
    assert found.left_out == {
        "b2 > 0": 15,
        "total_bandwidth == 600": 0,
        "bandwidth[2] == b2": 0,
        "cost <= 1e6": 10 - len(affordable),
        "npus_count[1] * num_npus == 256": 0,
    }
    for index, point in enumerate(found.points):
        assert point.index == index
        assert point.inputs["share"] == point.inputs["b2"] / 600
        dimension = point.network.dimensions[1]  # three links of an NPU share what it has there
        assert dimension.bandwidth_gibps * 3 * 2**30 / 1e9 == pytest.approx(point.inputs["b1"], rel=1e-12)


def test_costs_are_those_of_optimize(tmp_path, capsys):
    network = CONFIGS / "network" / "hetero_3d_16npus.yml"
    (point,) = sweep(tmp_path, f"{{point: {{network: {network}}}, cost_model: {COST}}}").points
    arguments = ["optimize", "--network", network, "--workload", RUN / "workload" / "w", "--system", RUN / "system.json"]
    arguments += ["--comm-group", RUN / "comm_group.json", "--cost-model", COST, "--json"]
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert any(point.inputs["cost"] == pytest.approx(split["cost"], rel=1e-9) for split in splits.values())


def test_sizes_of_dimensions_may_be_computed(tmp_path):
    text = """
        point: {network: {name: "= 'torus of ' + maker", topology: [Ring, Mesh], npus_count: "= [rows, 64 / rows]",
                          bandwidth: [= 25 * 2, 50.0], latency: [500, 1000.0]}}
        axes: {rows: [2, 8], maker: [x]}"""
    found = sweep(tmp_path, text)
    assert [point.inputs["topology"] for point in found.points] == ["Ring 2 x Mesh 32", "Ring 8 x Mesh 8"]
    assert [point.inputs["num_links"] for point in found.points] == [build_topology(p.network).num_links for p in found.points]
    assert {point.inputs["network"] for point in found.points} == {"torus of x"}


def test_networks_as_an_axis(tmp_path):
    (tmp_path / "a").mkdir()
    for folder in (tmp_path, tmp_path / "a"):
        (folder / "n.yml").write_text(json.dumps(RING))
    (tmp_path / "l.csv").write_text("src,dst,bandwidth,latency\n0,1,50,500\n1,0,50,500\n")
    (tmp_path / "graph.yml").write_text(json.dumps(RING | {"npus_count": [2], "astra_tacos": {"links": "l.csv"}}))
    networks = "[n.yml, a/n.yml, graph.yml, {<<: *TORUS, name: small, npus_count: [= n, 3]}]"
    found = sweep(tmp_path, f"{{point: {{network: ...}}, axes: {{network: {networks}, n: [3, 4]}}}}")
    assert [point.inputs["network"] for point in found.points[::2]] == ["n", "a/n.yml", "graph", "small"]
    assert [point.inputs["num_npus"] for point in found.points] == [4, 4, 4, 4, 2, 2, 9, 12]
    graph = found.points[4]
    assert graph.network.links and graph.inputs["topology"] == "graph of 2 links"
    assert graph.inputs["total_bandwidth_gbps"] is None and graph.inputs["latency_ns"] is None
    assert found.axes == ("network", "n")


def test_failed_links(tmp_path):
    point = "point: {network: *TORUS, failed_links: {fraction: = f, seed: = draw}}"
    found = sweep(tmp_path, point + "\naxes: {f: [0, 0.1, 0.3, 0.9], draw: [1, 2]}")
    for point in found.points:
        inputs = point.inputs
        assert (inputs["failed_fraction"], inputs["failed_seed"]) == (inputs["f"], inputs["draw"])
        if inputs["f"] == 0.9:
            assert "expected at most 17: with more the network falls apart" in point.error
            assert inputs["num_links"] == 64 and inputs["failed_links"] == 0
            continue
        assert point.error is None
        assert inputs["failed_links"] == 2 * round(32 * inputs["f"])
        assert inputs["num_links"] == build_topology(point.network).num_links == 64 - inputs["failed_links"]
    keys = [point.key for point in found.points[:6]]
    assert keys[0] == keys[1] and len(set(keys)) == 5  # without failures the seed does not matter


def test_a_network_that_cannot_be_built_is_an_error_of_its_points(tmp_path):
    (tmp_path / "n.yml").write_text(json.dumps(RING | {"astra_tacos": {"failed_links": [[0, 1], [2, 1]]}}))
    large = "{topology: [FullyConnected], npus_count: [= n], bandwidth: [1], latency: [0], name: large}"
    found = sweep(tmp_path, f"{{point: {{network: ...}}, axes: {{network: [n.yml, {large}], n: [8, 20000]}}}}")
    errors = [point.error for point in found.points]
    assert errors[0] == errors[1] and "n.yml: NPU 0 cannot reach NPU 1, expected a connected network" in errors[0]
    assert errors[2] is None
    assert "399,980,000 channels, expected at most 20,000,000" in errors[3]


def test_roots(tmp_path):
    axes = "axes: [{list: [{collective: broadcast}, {collective: gather, root: 9}, {collective: all-reduce}]}]"
    found = sweep(tmp_path, axes)
    assert [point.task.root for point in found.points] == [0, 9, None]
    assert [point.error for point in found.points] == [None, "gather: found root 9, expected an NPU, 0 to 3", None]


def test_a_run_to_plan(tmp_path):
    found = of_run(tmp_path, "\naxes: {baseline: [null, ring], trials: [null, 2]}")
    tasks = [point.task for point in found.points]
    assert all(isinstance(task, WorkloadTask) for task in tasks)
    assert [(task.baseline, task.options.trials) for task in tasks] == [(None, 4), (None, 2), ("ring", 4), ("ring", 2)]
    assert {task.directory for task in tasks} == {str(RUN)}
    assert {point.inputs["workload"] for point in found.points} == {str(RUN / "workload" / "w")}
    assert found.points[0].kind == "workload" and found.points[0].inputs["size_bytes"] is None


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("endpoint", ["host", "ace:memory=1200,peak=312", "ideal", None, "host:cores=64,comm-cores=6,comm-memory=450"]),
        ("placement", [None, "best", "tp:1x2,dp:2x2"]),
    ],
)
def test_endpoints_and_placements_of_a_run(tmp_path, key, asked):
    found = of_run(tmp_path, f"\naxes: {{{key}: {json.dumps(asked)}}}")
    assert [getattr(point.task, key) for point in found.points] == asked
    assert [point.inputs[key] for point in found.points] == asked


def test_a_run_of_another_number_of_ranks_is_an_error(tmp_path):
    (point,) = of_run(tmp_path, "network: *RING").points
    assert point.error.endswith("w: traces of 16 ranks, expected 4, as many as NPUs")


def test_an_axis_without_a_column_gets_its_own(tmp_path):
    text = 'axes: {max_sends: [10, 20], size: "1KiB,4KiB"}\nwhere: size // 1024 * max_sends <= 40'
    found = sweep(tmp_path, text)
    assert found.axes == ("max_sends", "size_bytes")
    assert [point.inputs["max_sends"] for point in found.points] == [10, 10, 20]
    assert list(found.points[0].inputs) == [*INPUT_COLUMNS, "max_sends"]


WRONG = """
point: {nodes: 3} | : point has the key 'nodes', expected network, failed_links, collective, root, size,
point: {network: ...} | : point.network is missing, expected the path of a network YAML, a template, or an axis
point: {network: no.yml} | : point.network: no.yml: cannot be read (No such file or directory)
point: {network: {<<: *RING, nodes: 1}} | : point.network has the key 'nodes', expected name, topology, npus_count,
point: {network: {topology: [Ring]}} | : point.network has neither of bandwidth and bandwidth_per_npu, expected one
point: {network: {<<: *RING, npus_count: [1]}} | : point.network.npus_count[0] is 1, expected a whole number above 1
point: {size: ...} | : point.size is missing, expected a value there or an axis
point: {size: 64MB/s} | : point.size: found '64MB/s', expected bytes such as 4096, 64MiB or 1GB
point: {size: 0} | : point.size: found '0', expected a size above 0 and at most 8192 TiB
point: {size: 1000000TiB} | : point.size: found '1000000TiB', expected a size above 0 and at most 8192 TiB
point: {collective: allreduce} | : point.collective is 'allreduce', expected all-reduce, all-gather,
point: {root: 1} | : root is 1 and collective all-reduce, expected broadcast, gather, reduce, scatter, as only these
point: {chunks_per_npu: 0} | : point.chunks_per_npu is 0, expected a whole number from 1 on, or auto
point: {seed: -1} | : point.seed is -1, expected a whole number from 0 on
point: {budget: 0} | : point.budget is 0, expected sends examined such as 20M, seconds such as 10s
point: {reduce_bandwidth: -1} | : point.reduce_bandwidth is -1, expected a number of GB/s, 0 or more
point: {failed_links: {seed: 3}} | : point.failed_links.fraction is missing, expected a number of 0 to below 1
point: {workload: w} | : point.size: size is for collectives, but there is a workload, expected some of synthesizer,
point: {baseline: ring} | : point.baseline: baseline is for a workload, but there is none, expected some of collective,
axis: {} | has the key 'axis', expected name, point, axes, define, where, cost_model
point: {network: {<<: *RING, bandwidth: [b0]}}; axes: {b0: [1]} |
  : point.network.bandwidth[0]: found the text 'b0', expected a number or an expression, which begins with =: '= b0'
axes: {seed: [= n], n: [1]} | : axes.seed[0] is '= n', expected a plain value: expressions go under point or define
axes: {seed: [1, x]} | : axes.seed[1] is 'x', expected a whole number from 0 on
axes: {network: [*RING]} | : axes.network[0].name is missing, expected a plain name: rows identify the networks of an axis by it
axes: {network: [{<<: *RING, name: a}, {<<: *TORUS, name: a}]} |
  : axes.network[1].name is 'a', as that of another network, expected another name
axes: {n: [1]} | : axes.n: nothing uses n, expected a key of point, or an expression with it
point: {seed: = n + m}; axes: {n: [1]} | : point.seed 'n + m': found the name m, expected n
point: {seed: = n - 5}; axes: {n: [7, 3]} | : point.seed is -2, expected a whole number from 0 on (at n = 3)
point: {seed: = 1 / n}; axes: {n: [0]} | : point.seed '1 / n': found a division by 0, expected another divisor (at n = 0)
point: {network: *THREE}; axes: [{zip: {b0: [100, 400], b1: [300, 300]}}] |
  : point.network.bandwidth_per_npu[2] is -100, expected a number of GB/s, 1e-09 to
define: [x] | : define is ['x'], expected a mapping of names to expressions
define: {size: "1"} | : define.size: size is a key of point, expected another name
define: {n: "1"}; axes: {n: [1]} | : axes.n is called so, expected another name
define: {a: b, b: c + 1, c: b} | : define.b: b needs c needs b, expected no cycle
define: {a: "[1]"} | : define.a '[1]' is a list, expected a single value
where: [true] | : where[0] is True, expected an expression such as 'b0 >= 20'
where: [1 + 1] | : where[0] '1 + 1' is 2, expected true or false
where: [cost < 3] | : where[0] 'cost < 3': found cost, expected a cost_model with cost
where: [x < 3] | : where[0] 'x < 3': found the name x, expected total_bandwidth, num_npus, num_links, bandwidth, npus_count
where: [num_npus > 4, 1 < 2] | : where leaves none of 1 points (num_npus > 4 refuses 1), expected some
cost_model: "a\\0b" | : cost_model is 'a\\x00b', expected the path of a cost model
cost_model: COST | three_tiers.yml: CostDimension has 3 entries,
point: {network: GRAPH}; cost_model: COST | lists links one by one, expected dimensions
point: {network: GRAPH}; where: "bandwidth[0] > 1" | found the name bandwidth, which has no value here
point: {chunks_per_npu: = b}; axes: {b: [1, true]} | chunks_per_npu is True
point: {chunks_per_npu: = b}; axes: {b: [true, 1]} | chunks_per_npu is True
point: {seed: = n}; axes: [{grid: {n: [1]}}, {list: [{seed: 3}, {trials: 2}]}]; where: seed > 0 |
  found the name seed, which has no value here, expected n, trials (at n = 1, trials = 2)
RUN directory: d | : point.directory: DIR/d: no such directory, expected the directory in which
RUN workload: w | : point.workload: DIR/w.0.et: no such file, expected a trace per rank: PREFIX.0.et, PREFIX.1.et, ...
RUN endpoint: 7 | : point.endpoint is 7, expected host, ace or ideal
RUN endpoint: gpu | : point.endpoint: endpoint: found 'gpu', expected host, ace or ideal
RUN endpoint: "ace:cores=4,cores=5" | found 'cores=5', expected cores, core-bandwidth
RUN endpoint: "host:comm-cores=4" | found comm-cores, expected comm-cores and comm-memory for host
RUN endpoint: "host:cores=4,comm-cores=4,comm-memory=3" | cores for communication: found 4, expected 0 to 3
RUN placement: "" | : point.placement is '', expected axes and their parts
RUN placement: tp | : point.placement is 'tp', expected axes and their parts
RUN placement: "tp:0x2" | : point.placement is 'tp:0x2', expected axes and their parts
RUN placement: 3 | : point.placement is 3, expected axes and their parts
RUN placement: worst | : point.placement is 'worst', expected axes and their parts
"""
"""What is wrong in keys of a file, or in more keys of the point of a RUN, and what is said of it."""


@pytest.mark.parametrize("case", WRONG.strip().replace("\n  ", " ").splitlines())
def test_what_is_wrong_is_told_with_key_and_value(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    text, message = case.split(" | ")
    text = text.replace("; ", "\n").replace("COST", str(COST)).replace("GRAPH", str(CONFIGS / "network" / "dgx1_cube_mesh.yml"))
    if text.startswith("RUN "):
        text = "point:\n " + WORKLOAD.replace("\n", "\n ") + text.removeprefix("RUN ")
    write_sweep(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_sweep_file("s.yml")
    found = str(caught.value)
    assert message.replace("DIR", str(tmp_path)) in found and "\n" not in found
    assert found.startswith("s.yml") or message[0] != ":"


def test_a_key_that_an_entry_of_a_list_has_is_that_of_point_in_others(tmp_path):
    text = "{point: {seed: 5}, axes: [{grid: {n: [1]}}, {list: [{seed: 3}, {trials: 2}]}], where: seed > 0, define: {m: n}}"
    assert len(sweep(tmp_path, text).points) == 2


LINES = """point:
  network:
    topology: [ Ring ]
    npus_count: [ "= n" ]
    bandwidth: [ 50 ]
    latency: [ 500 ]
  size: 1MiB
axes:
- grid: { n: [ 4, 8 ] }
- zip: { seed: [ 1, 2 ], trials: [ 1, 2 ] }
"""


@pytest.mark.parametrize(
    "there, instead, message",
    [
        ("- zip", "- zap", "s.yml:10:3: axes[1] is a mapping of zap"),
        ("[ 1, 2 ], t", "[ 1, x ], t", "s.yml:10:21: axes[1].zip.seed[1] is 'x'"),
        ("= n", "= m", "s.yml:4:19: point.network.npus_count[0] 'm': found the name m"),
        ("[ 4, 8 ]", "[ 4, 1 ]", "s.yml:4:19: point.network.npus_count[0] is 1, expected a whole number above 1 (at n = 1"),
        ("  size", "  site", "s.yml:7:3: point has the key 'site'"),
        ("axes", "axis", "s.yml:8:1 has the key 'axis'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, monkeypatch, there, instead, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yml").write_text(LINES.replace(there, instead))
    with pytest.raises(ConfigError) as caught:
        read_sweep_file("s.yml")
    assert str(caught.value).startswith(message)
