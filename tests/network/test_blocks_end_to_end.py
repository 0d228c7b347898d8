"""Every building block through every part of the package: it works and what is independent agrees, or it is refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from helpers.command import run
from helpers.lint_runs import RunFiles, coll, comp
from helpers.naive_run import naive_replay_run
from helpers.networks import config, sizes_of, topology
from helpers.runs import BYTE_PER_NS, ending_runs
from helpers.schedules import check, schedule
from helpers.strange_blocks import STRANGERS
from helpers.sweep_files import sweep

from astra_tacos.cli.main import BAD_INPUT
from astra_tacos.network.blocks import ASTRA_SIM_BLOCKS, BUILDING_BLOCKS
from astra_tacos.network.network_config import read_network, write_network
from astra_tacos.pages.topology_groups import MOST_DEVICES, group
from astra_tacos.pages.topology_layout import layout
from astra_tacos.planner.group_topology import group_topology
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS
from astra_tacos.study.sweep.evaluate import evaluate
from astra_tacos.study.sweep.point import OK, Conditions
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS

every_block = pytest.mark.parametrize("name", [*BUILDING_BLOCKS, *STRANGERS])


@pytest.fixture(autouse=True)
def strangers_are_registered(monkeypatch):
    for name, block in STRANGERS.items():
        monkeypatch.setitem(BUILDING_BLOCKS, name, block)


def middling(name):
    """A size of 4 to 9, if the block has one."""
    return next((size for size in sizes_of(name, 9) if size > 3), sizes_of(name, 50)[0])


def dimensions_of(name):
    return ((name, middling(name), 50.0, 500.0), ("Switch", 2, 25.0, 700.0))


def invoke(command, cwd):
    done = run(command, cwd=cwd)
    assert not done.returncode, f"{command}: {done.stderr}"
    return done.stdout


@every_block
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
def test_synthesizers_are_legal_or_refuse(name, synthesizer):
    """On the block alone and with another dimension, as the oracle, the replay and the bounds see it."""
    for network in (topology(dimensions_of(name)[0]), topology(*dimensions_of(name))):
        for collective in ("all-reduce", "all-to-all", "broadcast"):
            root = 1 if collective == "broadcast" else None
            if collective not in SYNTHESIZERS[synthesizer].collectives:
                continue
            try:
                check(schedule(network, collective, 99_999, 2, root, synthesizer=synthesizer, link_model="pipelined"))
            except SynthesisError as refusal:
                assert f": {synthesizer}: " in str(refusal) and "expected" in str(refusal)


@every_block
@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_replay_as_the_twin_says(name, backend, tmp_path):
    dimensions = ((name, middling(name), BYTE_PER_NS, 1000.0), ("Ring", 3, 0.7, 3.0))
    for made in ending_runs(tmp_path, [dimensions], backend, 1):
        assert replay_run(made, backend).finish_ns.tolist() == naive_replay_run(made, backend).finish_ns


@every_block
@pytest.mark.parametrize("link_model", ["blocking", "pipelined"])
def test_what_is_exported_takes_the_time_that_it_says(name, link_model, tmp_path):
    """The network that stands for a block is one of ASTRA-sim's, and exact unless there is a note."""
    write_network(config(dimensions_of(name)[0]), tmp_path / "network.yml")
    options = f"--size 64KiB --chunks-per-npu 2 --synthesizer tacos --trials 1 --link-model {link_model}"
    synthesize = f"synthesize --network network.yml {options} --output run --json"
    if BUILDING_BLOCKS[name].unaware_substitute(middling(name)) is None:
        done = run(synthesize, cwd=tmp_path)
        assert done.returncode == BAD_INPUT
        assert f"{name} {middling(name)}: ASTRA-sim has no network that stands for it" in done.stderr
        return
    made = json.loads(invoke(synthesize, tmp_path))
    stand_in = read_network(tmp_path / "run" / "network.yml")
    assert {dimension.block for dimension in stand_in.dimensions} <= set(ASTRA_SIM_BLOCKS)
    assert stand_in.num_npus == middling(name)
    invoke("verify run/schedule.npz", tmp_path)
    if BUILDING_BLOCKS[name].num_switches(middling(name)):
        return  # not exact: messages meet in ports
    backend = "unaware" if link_model == "blocking" else "aware"
    arguments = "--workload run/workload/all_reduce --system run/system.json --network run/network.yml --directory run"
    replayed = json.loads(invoke(f"replay {arguments} --backend congestion-{backend} --json", tmp_path))
    assert max(replayed["finish_ns"]) == made["predicted_ns"]


@every_block
def test_a_training_run_goes_through_every_command(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    size = middling(name)
    groups = {"1": list(range(size)), "2": [0, size]}
    ranks = [
        [comp(0, us=5), coll(1, [0], size=1 << 16), coll(2, [1], size=1 << 15, group=1)][: 2 + (rank < size)]
        for rank in range(2 * size)
    ]
    RunFiles(ranks=ranks, topology=("Ring", "Ring"), npus=(size, 2), groups=groups).write(tmp_path)
    write_network(config(*dimensions_of(name)), tmp_path / "network.yml")
    files = "--workload workload/w --system system.json --network network.yml --comm-group comm_group.json"
    beyond = "ASTRA-sim does not know"
    for backend in BACKENDS:
        found = json.loads(invoke(f"lint {files} --backend {backend} --json", tmp_path))
        assert not [finding for finding in found if finding["severity"] == "error"]
        assert any(beyond in finding["message"] for finding in found) == (name not in ASTRA_SIM_BLOCKS)
        invoke(f"replay {files} --backend {backend} --output replayed-{backend}", tmp_path)
    invoke(f"report replayed-{backend} -o page.html", tmp_path)
    plan = "--output planned --synthesizer tacos --trials 1 --chunks-per-npu 2 --json"
    planned = json.loads(invoke(f"plan {files} {plan}", tmp_path))
    assert planned["after_ns"] <= planned["before_ns"]
    split = json.loads(invoke(f"optimize {files} --total-bandwidth 100 --output split.yml --json", tmp_path))
    assert sum(split["splits"]["best"]["bandwidth_gbps"]) == pytest.approx(100)
    assert [dimension.block for dimension in read_network(tmp_path / "split.yml").dimensions] == [name, "Switch"]
    invoke("inspect network.yml", tmp_path)
    invoke("report network.yml -o network.svg", tmp_path)


@every_block
def test_a_sweep_has_it(name, tmp_path):
    network = f"topology: [{name}, Ring], npus_count: [{middling(name)}, 2], bandwidth_per_npu: [100, 50], latency: [500, 700]"
    settings = yaml.safe_load(f"{{ network: {{ {network} }}, size: 64KiB, synthesizer: tacos, trials: 1, chunks_per_npu: 1 }}")
    (point,) = sweep(tmp_path, point=settings).points
    outcome = evaluate(point, Conditions())
    assert (outcome.status, outcome.error) == (OK, None)
    assert point.inputs["topology"] == f"{name} {middling(name)} x Ring 2"
    assert point.inputs["num_links"] == topology((name, middling(name), 1.0, 0.0), "Ring 2 1 0").num_links


@every_block
def test_groups_see_links_of_their_own(name):
    """Every part of a regular network: as many channels as the links between the members make, or routes instead."""
    network = config(*dimensions_of(name))
    whole = topology(*dimensions_of(name))
    size = middling(name)
    for members in (range(size), range(2), range(0, size, 2), range(1, size), (0, size), (0, 1, size, size + 1)):
        chosen = tuple(members)
        if len(chosen) < 2:
            continue
        view = group_topology(whole, network, chosen)
        inside = np.isin(whole.channel_src, chosen) & np.isin(whole.channel_dst, chosen)
        assert view.topology.num_channels == np.count_nonzero(inside) + view.num_routed


@every_block
def test_it_can_be_drawn(name):
    """In all small sizes, and a large one of which neighbours become one."""
    for size in {*sizes_of(name, 3), middling(name), sizes_of(name, 50)[-1]}:
        for network in (topology((name, size, 50.0, 500.0)), topology((name, size, 50.0, 500.0), "Mesh 3")):
            drawn = layout(network)
            assert len(np.unique(np.round(drawn.positions, 7), axis=0)) == network.num_devices
    large = topology((name, sizes_of(name, 64)[-1], 50.0, 500.0), "Ring 16")
    grouped = group(large)
    assert grouped.topology.num_devices <= MOST_DEVICES
    drawn = layout(grouped.topology)
    assert len(np.unique(np.round(drawn.positions, 7), axis=0)) == grouped.topology.num_devices
