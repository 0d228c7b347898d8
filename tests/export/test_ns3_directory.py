"""Run directories for ASTRA-sim's ns-3 backend."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from helpers.command import read_json, run
from helpers.networks import topology
from helpers.schedules import schedule

from astra_tacos.collective import make_collective
from astra_tacos.export.exporter import export_schedule
from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ReducingDevice
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.network.fabric.ns3_topology import read_ns3_topology
from astra_tacos.network.ns3 import DEFAULT_NS3, read_ns3_config
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.storage import load_schedule
from astra_tacos.solver.packets import packet_level
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import ConfigError

MIXED = (("Ring", 2, 93.13225746154785, 500.0), ("Switch", 3, 23.283064365386963, 250.0))
STAND_IN = """#!/bin/sh
for argument; do
  echo "$argument"
  case $argument in
    --comm-group-configuration=*) ;;
    --workload-configuration=*) test -f "${argument#*=}.0.et" ;;
    *) test -f "${argument#*=}" ;;
  esac || exit 3
done
"""


def test_has_what_ns3_reads(tmp_path):
    made = schedule(topology(*MIXED))
    folder = export_schedule(made, tmp_path / "a", "ns3-directory").path
    assert (folder / "ns3_topology.txt").read_text().splitlines() == [
        "8 2 9",
        "6 7",
        *("0 1 800000000000bps 500ns 0", "2 3 800000000000bps 500ns 0", "4 5 800000000000bps 500ns 0"),
        *(f"{npu} {6 + npu % 2} 200000000000bps 250ns 0" for npu in (0, 2, 4, 1, 3, 5)),
    ]
    written = read_ns3_config(folder / "ns3_config.txt")
    assert replace(written, source=DEFAULT_NS3.source) == DEFAULT_NS3
    text = (folder / "ns3_config.txt").read_text()
    assert "KMAX_MAP 2 200000000000 2400 800000000000 3200\n" in text
    assert "KMIN_MAP 2 200000000000 600 800000000000 800\n" in text
    assert read_json(folder / "logical.json") == {"logical-dims": ["2", "3"]}
    assert read_trace(folder / "collective/all_reduce").num_ranks == 6


FABRICS: dict[str, dict[str, float]] = {
    "leaf-spine": {"leaves": 2, "npus": 3, "spines": 2, "oversubscription": 2.0},
    "fat-tree": {},
    "rails": {"nodes": 2, "npus": 4},
    "dragonfly": {},
    "hxmesh": {},
    "dgx-a100": {"nodes": 2, "npus": 4},
    "dgx-h100": {"nodes": 2, "npus": 4},
}


@pytest.mark.parametrize("kind", FABRICS)
def test_a_fabric_is_written_and_read_back(kind, tmp_path):
    """By our reader, and line by line as the format is defined: counts, ids of switches, then a line for each link."""
    network = make_fabric(kind, **FABRICS[kind])
    graph = build_topology(network, may_forward=True)
    what = make_collective("all-gather", graph.num_npus, 1 << 12, 1, members=graph.endpoints)
    made = synthesize(graph, what, synthesizer="ring")
    folder = export_schedule(made, tmp_path / "run", "ns3-directory").path
    again = build_topology(read_ns3_topology(folder / "ns3_topology.txt"), may_forward=True)
    assert (again.num_endpoints, again.num_devices) == (graph.num_endpoints, graph.num_devices)
    columns = ("link_src", "link_dst", "link_latency_ns", "link_bandwidth_gibps")
    tables = []
    for each in (graph, again):
        order = np.lexsort((each.link_dst, each.link_src))
        tables.append([getattr(each, name)[order] for name in columns])
    for ours, theirs in zip(*tables, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    words = [line.split() for line in (folder / "ns3_topology.txt").read_text().splitlines()]
    nodes, switches, links = map(int, words[0])
    assert words[1] == [str(node) for node in range(nodes - switches, nodes)]
    assert len(words) == 2 + links == 2 + graph.num_links // 2
    assert all(len(row) == 5 and row[2].endswith("bps") and row[3].endswith("ns") and row[4] == "0" for row in words[2:])
    trace = read_trace(folder / "collective/all_gather")
    assert trace.num_ranks == graph.num_endpoints
    replayed = replay_trace(trace, network, "packet")
    level = packet_level(made, network)
    assert level.coarse == 1
    assert replayed.collective_time_ns == level.time_ns


@pytest.mark.parametrize("options", ["", "--link-model pipelined", "--backend packet"])
def test_what_is_synthesized_on_a_fabric_is_written_for_both_judges(options, tmp_path):
    """Its stand-in run has no choice of the order of sends, so none is chosen for the packet level."""
    assert run("network dgx-h100 --nodes 2 --npus 2 --output net", cwd=tmp_path).returncode == 0
    asked = "--network net/network.yml --collective all-gather --size 64KiB --synthesizer direct --output out --json"
    done = run(f"synthesize {asked} --effort thorough {options}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(json.loads(done.stdout)["packets_ns"]) == ("packet" in options)
    assert run("export out --format ns3-directory --output ns3", cwd=tmp_path).returncode == 0
    assert (tmp_path / "ns3/run_ns3.sh").exists()


@pytest.mark.parametrize("order", [("serial", None), ("window", 2)])
def test_every_export_keeps_the_link_order_that_was_saved(tmp_path, order):
    """That of the run directory, whatever the format; an option overrides it."""
    made = replace(schedule(topology("ring8")), link_order=None)
    link_order, in_flight = order
    run_directory = export_schedule(made, tmp_path / "run", "run-directory", link_order=link_order, in_flight=in_flight).path
    wanted = [path.read_bytes() for path in sorted((run_directory / "collective").iterdir())]
    saved = load_schedule(run_directory / "schedule.npz")
    assert (saved.link_order, saved.in_flight) == order
    for name in ("ns3-directory", "run-directory", "chakra"):
        folder = export_schedule(saved, tmp_path / name, name).path
        found = [path.read_bytes() for path in sorted(folder.glob("collective/*" if name != "chakra" else "*"))]
        assert found == wanted
        other = export_schedule(saved, tmp_path / f"other_{name}", name, link_order="none").path
        assert [path.read_bytes() for path in sorted(other.glob("**/all_reduce.*.et"))][: len(wanted)] != wanted
    export_schedule(saved, tmp_path / "again.npz", "npz")
    assert load_schedule(tmp_path / "again.npz").in_flight == in_flight


def test_devices_that_add_are_refused(tmp_path):
    network = make_fabric("leaf-spine", leaves=2, npus=2)
    graph = build_topology(network, may_forward=True)
    graph = replace(graph, reducing=tuple(ReducingDevice(device) for device in range(graph.num_endpoints, graph.num_npus)))
    what = make_collective("all-reduce", graph.num_npus, 1 << 12, 1, members=graph.endpoints)
    made = synthesize(graph, what, synthesizer="in-network")
    with pytest.raises(ConfigError, match=r"found devices that add \(reducing\)"):
        export_schedule(made, tmp_path / "run", "ns3-directory")


def test_the_script_starts_ns3_from_anywhere(tmp_path):
    exported = export_schedule(schedule(topology("ring8")), tmp_path / "run", "ns3-directory")
    (tmp_path / "ns3").write_text(STAND_IN)
    (tmp_path / "ns3").chmod(0o755)
    environment = os.environ | {"ASTRA_SIM_BIN": "./ns3"}
    command = [str(exported.path / "run_ns3.sh"), "--logging-configuration=system.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "--logging-configuration=system.json"
    assert str(exported.path / "run_ns3.sh") in exported.command
