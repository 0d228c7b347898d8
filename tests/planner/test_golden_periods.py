"""Steady-state periods of small training loops, solved by hand: every policy reproduces its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.generated import write_network
from helpers.plans import generated_run, timed_layer

from astra_tacos import (
    Device,
    LayeredModel,
    LayeredStep,
    Parallelism,
    PlanRequest,
    RunInputs,
    read_run,
    replay_run,
)
from astra_tacos.planner.retime.schedule_run import schedule_run
from astra_tacos.planner.run_files import planned_inputs

UNIT_US = 1000
UNIT_BYTES = 4_000_000
GIBPS = UNIT_BYTES / (UNIT_US * 1e-6) / (1 << 30)
"""An All-Reduce of two ranks sends as many bytes as it has: a unit of bytes takes a unit of time."""

POLICIES = ("fuse:cap=900MB", "fifo", "priority", "split:partition=4000000,priority", "decouple")
EXAMPLES = [
    ((1, 1, 1), (2, 2, 2), (1, 2, 6), (18, 14, 13, 12, 12)),
    ((2, 1, 1), (4, 2, 2), (1, 1, 8), (22, 16, 15, 13, 14.5)),
    ((1,) * 8, (2,) * 8, (3,) * 8, (48, 34, 29, 27, 30.5)),
    ((1, 1, 1), (2, 2, 2), (6, 2, 1), (18, 15, 15, 15, 15)),
]


def training_loop(
    folder: Path, forward: tuple[int, ...], backward: tuple[int, ...], size: tuple[int, ...], steps: int
) -> RunInputs:
    """A loop whose layers take these times, with All-Reduces that take these."""
    folder.mkdir(parents=True)
    network = write_network(folder / "n.yml", ("FullyConnected", 2), bandwidth=GIBPS, latency=0.0)
    layers = tuple(
        timed_layer(own * UNIT_BYTES // 4, ahead * UNIT_US, back * UNIT_US / 2, back * UNIT_US / 2)
        for ahead, back, own in zip(forward, backward, size, strict=True)
    )
    step = LayeredStep(LayeredModel("loop", layers), Parallelism(dp=2), steps=steps)
    return generated_run(folder, step, network, Device(1e6, 1e9, writes_durations=True))


@pytest.mark.parametrize(("forward", "backward", "size", "periods"), EXAMPLES)
def test_every_policy_has_its_period(
    forward: tuple[int, ...], backward: tuple[int, ...], size: tuple[int, ...], periods: tuple[float, ...], tmp_path: Path
) -> None:
    found = []
    for place, policy in enumerate(POLICIES):
        ends = []
        for steps in (3, 4):
            folder = tmp_path / f"{place}_{steps}"
            inputs = training_loop(folder, forward, backward, size, steps)
            (folder / "new").mkdir()
            result = schedule_run(PlanRequest(inputs, schedule=policy), folder / "new")
            ends.append(result.after_ns)
            if result.is_as_is:  # what is slower than the run as it is, if only by the latency of pieces, is not written
                ends[-1] = next(one.end_ns for one in result.tried if one.end_ns)
            else:
                assert replay_run(read_run(planned_inputs(folder / "new", inputs))).end_ns == result.after_ns
        found.append((ends[1] - ends[0]) / (UNIT_US * 1000))
    assert found == pytest.approx(periods, abs=0.001)
