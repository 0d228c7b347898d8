"""The endpoint: arithmetic of the ACE paper, and what partitions do to runs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.command import read_json
from helpers.command import run as command
from helpers.generated import small_model, write_network
from helpers.plans import generated_run, options_of

from astra_tacos import (
    ConfigError,
    Device,
    Npu,
    Parallelism,
    Partition,
    Step,
    divide_endpoint,
    read_run,
    replay_run,
)
from astra_tacos.planner.endpoint.npu import (
    Mode,
    Traffic,
    hierarchical_sent_bytes,
    needed_memory_gbps,
    network_gbps,
    ring_reads_per_sent_byte,
    traffic_of,
)
from astra_tacos.planner.run_files import planned_inputs


@pytest.mark.parametrize(("ranks", "without", "with_last"), [(4, 1.33, 1.67), (8, 1.43, 1.57), (16, 1.47, 1.53)])
def test_a_ring_reads_one_and_a_half_bytes_for_each_it_sends(ranks, without, with_last):
    assert ring_reads_per_sent_byte(ranks) == pytest.approx(without, abs=0.005)
    assert ring_reads_per_sent_byte(ranks, with_last_addition=True) == pytest.approx(with_last, abs=0.005)


@pytest.mark.parametrize(("sizes", "sent"), [((4, 2, 2), 2.0), ((4, 4, 2), 2.125), ((4, 4, 4), 2.25), ((4, 8, 4), 2.3125)])
def test_what_a_hierarchical_all_reduce_sends(sizes, sent):
    assert hierarchical_sent_bytes(sizes[0], sizes[1:]) == pytest.approx(sent)


def test_ace_needs_three_and_a_half_times_less_memory_bandwidth():
    """2 x 100 GB/s in the package, 4 x 25 between packages: 450 GB/s by the host, 133 with ACE; the paper takes 128."""
    links = 2 * 100.0 + 4 * 25.0
    by_host = needed_memory_gbps(links, 1.5)
    by_ace = needed_memory_gbps(links, 1 / hierarchical_sent_bytes(4, (4, 4)))
    assert (by_host, round(by_ace)) == (450.0, 133)
    assert by_host / 128 == pytest.approx(3.5, abs=0.02)
    npu = Npu()
    assert npu.core_gbps == pytest.approx(79.7, abs=0.05)
    assert network_gbps(npu, Mode.HOST, Partition(6, 450.0), links, 1.5) == links  # CommOpt
    assert network_gbps(npu, Mode.HOST, Partition(2, 128.0), links, 1.5) == pytest.approx(128 / 1.5)  # CompOpt
    assert network_gbps(npu, Mode.IDEAL, Partition(), links, 1.5) == links


def made(folder, *, durations=False):
    network = write_network(folder / "n.yml", ("Ring", 4), bandwidth=50)
    step = Step(small_model(hidden=512, ffn=2048), Parallelism(dp=4), batch=8, steps=2)
    return generated_run(folder, step, network, Device(20.0, 900.0, writes_durations=durations))


def test_counts_are_those_of_the_run(tmp_path):
    """Rings of four: each rank sends 2 x 3/4 of a buffer, and adds 3/4 of it."""
    inputs = made(tmp_path)
    run = read_run(inputs)
    traffic = traffic_of(run, replay_run(run))
    assert traffic.sent == pytest.approx(1.5 * traffic.buffers, rel=1e-3)
    assert traffic.added == pytest.approx(0.75 * traffic.buffers, rel=1e-3)
    assert traffic.read_per_sent_byte(Mode.HOST) == pytest.approx(1.5, rel=1e-3)
    assert traffic.read_per_sent_byte(Mode.ACE) == pytest.approx(1 / 1.5, rel=1e-3)
    assert Traffic(0, 0, 0).read_per_sent_byte(Mode.HOST) == 0


@pytest.mark.parametrize("durations", [False, True])
def test_the_written_run_takes_what_was_found(durations, tmp_path):
    inputs = made(tmp_path, durations=durations)
    before = replay_run(read_run(inputs))
    for mode in Mode:
        output = tmp_path / f"out_{mode}"
        result = divide_endpoint(inputs, output, mode, Npu(memory_gbps=900.0))
        after = replay_run(read_run(planned_inputs(output, inputs)))
        assert after.end_ns == result.written.end_ns
        assert result.written.end_ns == min(one.end_ns for one in result.tried if one.mode == mode)
        assert before.end_ns == result.tried[-1].end_ns <= result.written.end_ns
        assert before.end_ns <= result.in_turn_ns <= 2 * before.end_ns
        if mode == Mode.IDEAL:
            assert np.array_equal(after.node_finish_ns, before.node_finish_ns)


def test_what_leaves_nothing_is_refused(tmp_path):
    inputs = made(tmp_path)
    for mode, cores, gbps, message in (
        ("host", 80, 10.0, "cores for communication: found 80"),
        ("host", 1, 900.0, "found 900 GB/s"),
        ("ace", 4, 10.0, "found 4, expected 0: an engine takes none"),
        ("ideal", 0, 10.0, "found 0 cores, 10 GB/s, expected none"),
        ("host", 0, 10.0, "no cores or no memory"),
    ):
        with pytest.raises(ConfigError, match=message):
            divide_endpoint(inputs, tmp_path / "out", mode, partition=Partition(cores, gbps))
    assert not (tmp_path / "out").exists()


def test_the_command_writes_and_prints(tmp_path):
    inputs = made(tmp_path)
    files = options_of(inputs)
    done = command("plan", *files, "--output", "out", "--endpoint", "ace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "reads per byte sent" in done.stdout
    assert read_json(tmp_path / "out" / "plan.json")["endpoint"]["written"]["endpoint"] == "ace"
    refused = command("plan", "--endpoint", "host", *files, "--output", "x", "--comm-cores", "4", cwd=tmp_path)
    assert refused.returncode == 2
