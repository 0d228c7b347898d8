"""One NPU's trace of a symmetric schedule stands for all, takes the predicted time, and is proven by the oracle of programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from helpers.networks import config, topology

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import backend_of_model
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricTask
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric
from astra_tacos.verifier.program import verify_trace

BLOCKS = ("Ring", "FullyConnected", "Switch")


def random_schedule(seed, most=48):
    random = Random(seed)
    dimensions, total = [], 1
    for _ in range(random.randint(1, 3)):
        size = random.choice([size for size in (2, 3, 4, 5, 8) if total * size <= most] or [1])
        if size > 1:
            total *= size
            dimensions.append(
                (random.choice(BLOCKS), size, random.choice((10.0, 25.0, 50.0)), random.choice((1.0, 100.0, 500.0)))
            )
    network = config(*dimensions)
    size_bytes = total * (1 << random.choice((9, 13, 17)))
    rate = random.choice((0.0, 0.0, 100.0))
    name, model = random.choice(SYMMETRIC_COLLECTIVES), random.choice(("blocking", "pipelined"))
    task = SymmetricTask(network.name, network.dimensions, name, size_bytes, 1, model, rate)
    return network, best_symmetric(task, 50_000)


@pytest.mark.parametrize("seed", range(40))
def test_traces_of_all_npus_follow_from_one_and_take_the_predicted_time(seed):
    network, schedule = random_schedule(seed)
    whole = SymmetricTraces(schedule, 7).trace("collective/x").expand()
    outcome = replay_trace(whole, network, backend_of_model(schedule.task.link_model))
    assert set(outcome.finish_ns.tolist()) <= set(range(schedule.collective_time_ns + 1))
    assert outcome.finish_ns.max() == schedule.collective_time_ns


@pytest.mark.parametrize("seed", range(30))
def test_traces_that_are_written_compute_the_collective(seed, tmp_path):
    network, schedule = random_schedule(seed, 16)
    task = schedule.task
    traces = SymmetricTraces(schedule)
    traces.write(tmp_path / "x", range(task.num_npus))
    read, own = read_trace(tmp_path / "x"), traces.trace("x").expand()
    for name in ("rank_first", "node_id", "kind", "duration_us", "size_bytes", "peer", "tag", "dep_first", "dep"):
        assert np.array_equal(getattr(read, name), getattr(own, name)), name
    shape = ((each.block, each.size, each.bandwidth_gibps, each.latency_ns) for each in network.dimensions)
    verdict = verify_trace(read, task.collective, topology(*shape))
    assert not verdict.violations and verdict.unchecked is None
