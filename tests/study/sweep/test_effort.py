"""Guesses of time: more work takes longer, budgets cap it, and measured points correct it."""

from __future__ import annotations

import pytest
from helpers.sweep_files import CONFIGS, sweep
from helpers.sweeps import collective_point, nothing_left_behind

from astra_tacos.study.sweep.estimate import estimate, guess_seconds
from astra_tacos.study.sweep.point import Conditions
from astra_tacos.study.sweep.sweep_file import read_sweep_file


def test_points_that_are_done_correct_the_guess(tmp_path):
    points = sweep(
        tmp_path,
        """
        point: {network: *TORUS}
        axes:
        - list: [{synthesizer: tacos}, {synthesizer: ring}, {synthesizer: auto}]
        - grid: {chunks_per_npu: [1, 4, auto]}""",
    ).points
    alone = guess_seconds(points, {})
    assert alone > 0
    all_done = {point.key: 3.0 for point in points}
    assert guess_seconds(points, all_done) == pytest.approx(27.0)
    guesses = [guess_seconds([point], {}) for point in points]
    one = guess_seconds(points, {points[2].key: 10 * guesses[2]})
    assert one == pytest.approx(10 * alone) == pytest.approx(10 * sum(guesses))


def test_kinds_are_corrected_by_themselves(tmp_path):
    run = CONFIGS / "workload" / "transformer_16"
    files = f"{{workload: {run}/workload/w, system: {run}/system.json, comm_group: {run}/comm_group.json}}"
    text = f"{{point: {{network: *TORUS, size: ...}}, axes: [{{list: [{{size: 1MiB}}, {files}]}}]}}"
    points = sweep(tmp_path, text).points
    assert [point.kind for point in points] == ["collective", "workload"]
    first, second = (guess_seconds([point], {}) for point in points)
    assert guess_seconds(points, {points[0].key: 5.0}) == pytest.approx(5.0 + second)
    assert guess_seconds(points, {points[1].key: 5.0}) == pytest.approx(first + 5.0)


def test_more_work_takes_longer_and_a_budget_caps_it(tmp_path):
    points = sweep(tmp_path, "{point: {network: *TORUS, synthesizer: tacos}, axes: {chunks_per_npu: [1, 8, 64]}}").points
    times = [guess_seconds([point], {}) for point in points]
    assert times == sorted(times) and times[0] < times[2]
    (capped,) = sweep(tmp_path, "point: {network: *TORUS, synthesizer: routed, trials: 500, budget: 2}").points
    (free,) = sweep(tmp_path, "point: {network: *TORUS, synthesizer: routed, trials: 500}").points
    assert guess_seconds([capped], {}) < 4 < guess_seconds([free], {})


def test_what_cannot_run_takes_next_to_nothing(tmp_path):
    refused = sweep(tmp_path, "point: {synthesizer: themis, collective: broadcast}").points
    assert guess_seconds(refused, {}) < 0.1
    wrong = sweep(tmp_path, "point: {collective: broadcast, root: 9}").points
    assert wrong[0].error and guess_seconds(wrong, {}) == 0
    small = sweep(tmp_path, "point: {size: 3, chunks_per_npu: 7}").points
    assert guess_seconds(small, {}) < 0.1


def test_shipped_sweeps_take_seconds():
    for path in sorted((CONFIGS / "sweep").iterdir()):
        assert 0 < guess_seconds(read_sweep_file(path).points, {}) < 120


def test_an_estimate_knows_how_long_a_process_takes_to_start():
    with nothing_left_behind():
        points = [collective_point(seed=seed) for seed in range(2)]
        found = estimate({point.key: point for point in points}, Conditions())
    assert found.start_up_s > 0 and found.seconds > 0
    assert (found.num_sampled, found.is_least) == (2, False)
    assert estimate({}, Conditions()).start_up_s == 0  # nothing is started for nothing
