"""Symmetric schedules on the command line, with a limit of sends that small networks reach."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from helpers.command import answer

from astra_tacos.cli.main import cli
from astra_tacos.export import run_directory
from astra_tacos.solver import many_sends
from astra_tacos.support.errors import ConfigError

NETWORK = "topology: [ Ring, {} ]\nnpus_count: [ 4, 3 ]\nbandwidth: [ 50.0, 50.0 ]\nlatency: [ 500.0, 500.0 ]\n"


def run(command):
    return CliRunner().invoke(cli, command)


def network(directory, block="Ring"):
    path = directory / "network.yml"
    path.write_text(NETWORK.format(block))
    return path


def synthesize(path, collective, more=""):
    return run(f"synthesize --network {path} --collective {collective} --size 12MiB --max-sends 100 {more}")


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_written_verified_inspected_and_replayed(tmp_path, collective):
    output = tmp_path / "out"
    for _ in range(2):  # the second run replaces what the first one wrote
        done = synthesize(network(tmp_path), collective, f"--output {output} --json")
        assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    assert result["synthesizer"] == "symmetric" and result["verified"]
    assert result["predicted_ns"] >= result["chunked_bound_ns"]
    assert {path.name for path in output.iterdir()} == {"schedule.npz", "result.json"}
    assert "no traces" in " ".join(result["notes"])
    for path in (output, output / "schedule.npz"):
        checked = answer(f"verify {path}")
        assert checked["ok"] and checked["checked"][0]["predicted_ns"] == result["predicted_ns"]
        assert answer(f"inspect {path}")["num_sends"] == result["num_sends"]
        assert answer(f"replay {path}")["collective_time_ns"] == result["predicted_ns"]
    assert "verified, for all NPUs" in synthesize(network(tmp_path), collective, "--verbose").output


def test_drawn_and_replayed_without_a_list_of_all_sends(tmp_path):
    path, output = tmp_path / "network.yml", tmp_path / "out"
    path.write_text("topology: [ Ring, Switch ]\nnpus_count: [ 80, 60 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 500.0 ]\n")
    more = f"--collective all-gather --size 1MiB --chunks-per-npu 1 --output {output}"
    result = answer(f"synthesize --network {path} {more}")
    assert result["num_sends"] > 20_000_000
    replayed = answer(f"replay {output}")
    assert (
        replayed["as_predicted"] and set(replayed["finish_ns"]) == {result["predicted_ns"]} and len(replayed["finish_ns"]) == 4800
    )
    assert len(replayed["class_busy_ns"]) == 3  # two directions of the ring, and the ports of the switch
    for figure in ("timeline", "topology"):
        drawn = run(f"report {output} --kind {figure} --output {tmp_path / f'{figure}.svg'}")
        assert drawn.exit_code == 0, drawn.output
    refused = run(f"report {output} --kind tree --output {tmp_path / 'tree.svg'}")
    assert "4,800 NPUs, expected at most 4,096 to draw" in str(refused.exception)
    listed = run(f"export {output} --format chakra --output {tmp_path / 'traces'}")
    assert "inspect, verify, replay and report" in str(listed.exception)


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-to-all"])
def test_a_tree_is_drawn_the_same_each_time(tmp_path, collective):
    output, figure = tmp_path / "out", tmp_path / "tree.svg"
    assert synthesize(network(tmp_path, "Switch"), collective, f"--output {output}").exit_code == 0
    assert run(f"report {output} --kind tree --output {figure} --chunk 1").exit_code == 0
    first = figure.read_bytes()
    assert run(f"report {output} --kind tree --output {figure} --chunk 1").exit_code == 0
    assert figure.read_bytes() == first
    assert "expected 0 to" in str(run(f"report {output} --kind tree --output {figure} --chunk 100000").exception)
    refused = run(f"report {network(tmp_path)} --kind tree --output {figure}")
    assert "found a network, expected a symmetric schedule" in str(refused.exception)


def test_exported_with_every_send(tmp_path):
    output, traces = tmp_path / "out", tmp_path / "traces"
    assert synthesize(network(tmp_path), "all-gather", f"--output {output}").exit_code == 0
    done = run(f"export {output} --format chakra --output {traces}")
    assert done.exit_code == 0, done.output
    assert len(list(traces.glob("*.et"))) == 12
    assert run(f"report {output} --output {tmp_path / 'timeline.svg'}").exit_code == 0
    page = run(f"report {output} --output {tmp_path / 'report.html'}")
    assert page.exit_code == 0, page.output


@pytest.mark.parametrize("name", ["auto", "symmetric"])
def test_few_sends_are_listed(tmp_path, name):
    path, output = network(tmp_path, "Switch"), tmp_path / "out"
    more = f"--synthesizer {name} --chunks-per-npu 1 --output {output} --json"
    done = run(f"synthesize --network {path} --collective all-gather --size 1MiB {more}")
    assert done.exit_code == 0, done.output
    assert (output / "workload").is_dir() or any(output.rglob("*.et"))


def test_other_networks_keep_their_rows(tmp_path):
    done = synthesize(network(tmp_path, "Ring"), "broadcast", "--trials 1 --json")
    assert done.exit_code == 0 and json.loads(done.output)["synthesizer"] != "symmetric"
    path = tmp_path / "mesh.yml"
    path.write_text("astra_tacos: { topology: [ Mesh ] }\nnpus_count: [ 12 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    done = synthesize(path, "all-gather", "--trials 1 --json")
    assert done.exit_code == 0 and json.loads(done.output)["synthesizer"] != "symmetric"
    refused = synthesize(path, "all-gather", "--synthesizer symmetric")
    assert refused.exit_code != 0 and "Mesh 12 has ends or corners" in str(refused.exception)


def test_a_violated_schedule_is_reported(tmp_path):
    from dataclasses import replace

    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule, save_symmetric_schedule

    output = tmp_path / "out"
    assert synthesize(network(tmp_path), "all-gather", f"--output {output}").exit_code == 0
    path = output / "schedule.npz"
    schedule = load_symmetric_schedule(path)
    save_symmetric_schedule(replace(schedule, end_ns=schedule.end_ns + 1), path)
    done = run(f"verify {path}")
    assert done.exit_code == 1 and "delay: row 0 takes" in done.output


def test_thousands_of_npus_near_the_bound(tmp_path):
    path = tmp_path / "network.yml"
    path.write_text("topology: [ Ring, Ring ]\nnpus_count: [ 100, 60 ]\nbandwidth: [ 50.0, 50.0 ]\nlatency: [ 500.0, 500.0 ]\n")
    result = answer(f"synthesize --network {path} --collective all-reduce --size 6000MiB")
    assert result["num_sends"] == 2 * result["chunks_per_npu"] * 6000 * 5999
    assert result["efficiency"] > 0.999


@pytest.mark.parametrize("synthesizer", ["auto", "tacos"])
def test_too_many_sends_to_list_are_refused(tmp_path, monkeypatch, synthesizer):
    """Where `symmetric` is not asked for, or takes no mesh."""
    path, instead = (
        network(tmp_path),
        ", or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all",
    )
    if synthesizer == "auto":
        path.write_text(path.read_text() + "astra_tacos:\n  topology: [ Ring, Mesh ]\n")
        instead = ""
    more = f"--synthesizer {synthesizer} --trials 1 --output {tmp_path / 'out'}"
    asked = f"synthesize --network {path} --collective all-gather --size 1MiB {more}"
    monkeypatch.setattr(many_sends, "MOST_SENDS", 131)
    done = run(asked)
    text = f"{path}: 12 NPUs, for which all-gather has more than 131 sends, too many to list: use at most 11 NPUs{instead}"
    assert isinstance(done.exception, ConfigError) and str(done.exception) == text and not (tmp_path / "out").exists()
    monkeypatch.setattr(many_sends, "MOST_SENDS", 132)
    assert run(asked).exit_code == 0


@pytest.mark.parametrize(
    "command",
    ["verify", "inspect", "replay", "report", "report -o x.svg", "report --kind topology -o x.svg", "export --format msccl-xml"],
)
def test_lockstep_schedules_of_version_2_are_refused(tmp_path, command):
    for name in ("schedule.json", "chunk.npy", "result.json"):
        (tmp_path / name).touch()
    done = run(f"{command} {tmp_path}")
    text = f"{tmp_path}: a lockstep schedule of version 2, which is no longer read: make another one by `synthesize`"
    assert isinstance(done.exception, ConfigError) and str(done.exception) == text


def test_the_msccl_xml_is_optional(tmp_path, monkeypatch):
    path = network(tmp_path)
    asked = f"synthesize --network {path} --collective all-gather --size 1MiB --trials 1"
    assert run(f"{asked} --output {tmp_path / 'with'}").exit_code == 0
    assert run(f"{asked} --output {tmp_path / 'without'} --no-msccl-xml").exit_code == 0
    assert [path.name for path in (tmp_path / "with").glob("*.xml")] == ["all_gather.xml"]
    assert not [*(tmp_path / "without").glob("*.xml")]
    monkeypatch.setattr(run_directory, "MOST_SENDS_OF_XML", 10)
    skipped = run(f"{asked} --output {tmp_path / 'skipped'} --json")
    assert "no MSCCL XML" in " ".join(json.loads(skipped.output)["notes"])
    assert not [*(tmp_path / "skipped").glob("*.xml")]
    assert run(f"{asked} --output {tmp_path / 'anyway'} --msccl-xml").exit_code == 0
    assert [*(tmp_path / "anyway").glob("*.xml")]


@pytest.mark.parametrize("synthesizer", ["ring", "direct", "hierarchical", "routed"])
def test_named_algorithms_with_too_many_sends_are_refused_before_the_work(synthesizer, tmp_path, monkeypatch):
    """Also where links differ, or switches are between the NPUs: each chunk is a send to each NPU."""

    def build(*arguments, **options):
        raise AssertionError("the topology was built")

    monkeypatch.setattr("astra_tacos.solver.solve.build_topology", build)
    path = network(tmp_path)
    path.write_text("topology: [ Switch, Ring ]\nnpus_count: [ 50, 100 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 500, 500 ]\n")
    done = run(f"synthesize --network {path} --collective all-reduce --size 64MiB --synthesizer {synthesizer}")
    text = f"{path}: 5,000 NPUs, for which all-reduce has more than 20,000,000 sends, too many to list: use at most 3,162 NPUs"
    assert isinstance(done.exception, ConfigError) and str(done.exception).startswith(text)
