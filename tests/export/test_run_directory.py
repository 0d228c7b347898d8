"""Run directories: everything ASTRA-sim needs is there, and nothing is left behind when something goes wrong."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import replace

import pytest
import yaml
from helpers.command import read_json
from helpers.networks import ALL, graph, topology
from helpers.schedules import schedule

from astra_tacos.export.astra_sim_network import astra_sim_network
from astra_tacos.export.run_directory import write_run_directory
from astra_tacos.network.network_config import LinkSpec, read_network
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter"])
def test_layout(tmp_path, collective):
    of = schedule(topology("torus"), collective)
    run = write_run_directory(of, tmp_path / "run", {"answer": 42})
    name = collective.replace("-", "_")
    assert {path.name for path in run.path.iterdir()} == {
        "collective",
        "workload",
        f"{name}.xml",
        "system.json",
        "network.yml",
        "remote_memory.json",
        "run_astra_sim.sh",
        "schedule.npz",
        "result.json",
    }
    assert len(list((run.path / "collective").glob(f"{name}.*.et"))) == 12
    workload = read_trace(run.path / "workload" / name)
    assert workload.kind.tolist() == [NodeType.COMM_COLL] * 12
    assert set(workload.size_bytes.tolist()) == {1 << 20}
    system = read_json(run.path / "system.json")
    assert system[f"{collective}-implementation-custom"] == [f"collective/{name}"]
    assert system["preferred-dataset-splits"] == 1
    result = read_json(run.path / "result.json")
    assert (result["answer"], result["predicted_ns"], result["num_npus"]) == (42, of.collective_time_ns, 12)
    assert read_network(run.path / "network.yml").num_npus == 12
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_what_astra_sim_lacks_runs_as_an_all_reduce(tmp_path, collective):
    of = schedule(topology("torus"), collective, chunks=4, root=7)
    run = write_run_directory(of, tmp_path / "run")
    assert not list(run.path.glob("*.xml"))
    system = read_json(run.path / "system.json")
    assert system["all-reduce-implementation-custom"] == [f"collective/{collective}"]
    workload = read_trace(run.path / "workload" / collective, workload=True)
    assert set(workload.workload.comm_type.tolist()) == {CommType.ALL_REDUCE}
    assert run.is_exact
    assert [note.split(":")[0] for note in run.notes[-2:]] == [f"ASTRA-sim has no custom {collective}", "no MSCCL XML"]
    result = read_json(run.path / "result.json")
    assert (result["collective"], result["root"], result["chunks_per_npu"]) == (collective, 7, 4)
    assert result["bus_bandwidth_gbps"] == result["algorithm_bandwidth_gbps"]


def test_the_script_starts_astra_sim_from_anywhere(tmp_path):
    """A stand-in for ASTRA-sim prints where it was started and with what."""
    run = write_run_directory(schedule(topology("ring8")), tmp_path / "run")
    script = run.path / "run_astra_sim.sh"
    assert script.stat().st_mode & stat.S_IXUSR
    fake = tmp_path / "bin/fake"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "in $(pwd)"\nfor a in "$@"; do echo "$a"; done\n')
    fake.chmod(0o755)
    for binary in (str(fake), "bin/fake"):
        done = subprocess.run([script, "--more"], cwd=tmp_path, env={"ASTRA_SIM_BIN": binary}, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        assert lines[0] == f"in {run.path}"
        assert lines[-1] == "--more"
        for option in lines[1:-1]:
            name, value = option.removeprefix("--").split("=")
            assert name.endswith(("configuration", "folder"))
            assert value == "log" or (run.path / value).exists() or (run.path / f"{value}.0.et").exists()


def test_network_files():
    def of(*arguments, **options):
        return astra_sim_network(topology(*arguments, **options), "blocking")

    torus = astra_sim_network(topology("torus"), "pipelined")
    assert (torus.backend, torus.is_exact) == (CONGESTION_AWARE, True)
    assert torus.note.startswith("network.yml is FullyConnected 12, an exact stand-in")
    assert yaml.safe_load(torus.to_yaml()) == {
        "topology": ["FullyConnected"],
        "npus_count": [12],
        "bandwidth": [50.0],
        "latency": [500.0],
    }
    ring = astra_sim_network(topology("ring8"), "pipelined")
    assert [d.block for d in ring.dimensions] == ["Ring"]
    pair = astra_sim_network(topology("pair"), "pipelined")
    assert [d.block for d in pair.dimensions] == ["FullyConnected"]  # ASTRA-sim aborts on a ring of two
    mesh = of(*ALL["mesh"])
    assert (mesh.backend, mesh.is_exact, [d.block for d in mesh.dimensions]) == (CONGESTION_UNAWARE, True, ["Ring", "Ring"])
    assert not of(*ALL["mixed"]).is_exact
    assert "earlier than predicted, never later" in of(*ALL["mixed"]).note
    overridden = of(*ALL["torus"], link_overrides=(LinkSpec(0, 1, 5.0, None),))
    assert not overridden.is_exact
    uniform = graph((0, 1, 50.0, 5.0), (1, 2, 50.0, 5.0), (2, 0, 50.0, 5.0))
    for model in ("blocking", "pipelined"):
        stand_in = astra_sim_network(uniform, model)
        assert (stand_in.is_exact, stand_in.dimensions[0].block) == (True, "FullyConnected")
    unequal = astra_sim_network(graph((0, 1, 50.0, 5.0), (1, 0, 25.0, 5.0)), "blocking")
    assert (unequal.is_exact, unequal.dimensions[0].bandwidth_gibps) == (False, 25.0)


def test_only_its_own_directories_are_replaced(tmp_path, monkeypatch):
    of = schedule(topology("ring8"))
    write_run_directory(of, tmp_path / "run", {"run": 1})
    write_run_directory(of, tmp_path / "run", {"run": 2})
    assert read_json(tmp_path / "run/result.json")["run"] == 2
    (tmp_path / "run/log").mkdir()  # ASTRA-sim's own
    (tmp_path / "link").symlink_to(tmp_path / "run")
    write_run_directory(of, tmp_path / "link", {"run": 3})
    assert (tmp_path / "link").is_symlink()
    assert read_json(tmp_path / "run/result.json")["run"] == 3
    (tmp_path / "empty").mkdir()
    write_run_directory(of, tmp_path / "empty")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    named_alike = tmp_path / "alike"
    named_alike.mkdir()
    (named_alike / "result.json").write_text("{}")
    (tmp_path / "run/thesis.tex").write_text("precious")
    for path in (mine, named_alike, tmp_path / "run", tmp_path / "file"):
        with pytest.raises(ConfigError, match="choose another output"):
            write_run_directory(of, path)
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ConfigError, match="is the current directory"):
        write_run_directory(of, ".")
    assert (mine / "thesis.tex").read_text() == "precious"
    assert (named_alike / "result.json").read_text() == "{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alike", "empty", "file", "link", "mine", "run"]


def test_a_link_order_that_is_not_the_models_is_noted(tmp_path):
    of = schedule(topology("ring8"), link_model="blocking")
    assert write_run_directory(of, tmp_path / "a").is_exact
    other = write_run_directory(replace(of, link_order="tokens"), tmp_path / "b")
    assert not other.is_exact
    assert "cycles will differ" in other.notes[0]


def test_failed_links_are_told_where_the_network_file_cannot_have_them(tmp_path):
    whole = topology("Ring 4, Ring 3 25 700")
    failed = topology("Ring 4, Ring 3 25 700", failed_links=((0, 1), (1, 0)))
    notes = [" ".join(write_run_directory(schedule(of), tmp_path / str(of.num_links)).notes) for of in (whole, failed)]
    assert ["2 links failed" in text for text in notes] == [False, True]
