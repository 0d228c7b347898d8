"""LIBRA's published inputs: the results that its own code was checked to have, and every other workload and network."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.examples import some_of

from astra_tacos.study.optimizer.libra_files import (
    PHASES,
    read_communicator,
    read_cost_model,
    read_libra_network,
    read_libra_workload,
)
from astra_tacos.study.optimizer.problem import Limits, make_problem

CHECKED = {
    "GPT_3": ([338.4, 84.6, 58.2, 18.8], 722.41, 775.05, 1.073),
    "MSFT_1T": ([321.8, 93.8, 10.1, 74.3], 209.69, 260.48, 1.242),
}


@pytest.fixture(scope="session")
def libra_inputs():
    """Directory with the inputs of LIBRA's public code; they are not part of the repository."""
    folder = Path(os.environ.get("ASTRA_TACOS_INPUTS", "")) / "libra_inputs"
    if "ASTRA_TACOS_INPUTS" not in os.environ or not folder.is_dir():
        pytest.skip("NOT TESTED on LIBRA's inputs: set ASTRA_TACOS_INPUTS to a directory that has libra_inputs")
    return folder


def communicator(inputs, workload, dimensions, shape):
    if workload == "DLRM":  # comes without one
        return dict.fromkeys(PHASES, shape.sizes)
    suffix = dimensions.upper() if workload == "Turing_NLG" else dimensions
    return read_communicator(inputs / "communicator" / f"{workload}_{suffix}.yml", shape)


def problem(inputs, workload, dimensions, objective="time"):
    shape = read_libra_network(inputs / "network" / f"{dimensions}_network.yml", 500.0)
    groups = communicator(inputs, workload, dimensions, shape)
    job = read_libra_workload(inputs / "workload" / f"{workload}.txt", shape, groups)
    costs = read_cost_model(inputs / "cost_model" / f"{dimensions}_cost_model.yml")
    return make_problem(shape, job, Limits(objective=objective, cost_model=costs, total_bandwidth=500.0))


@pytest.mark.parametrize("workload", list(CHECKED))
def test_the_checked_results(libra_inputs, workload):
    split, time_ms, equal_ms, gain = CHECKED[workload]
    asked = problem(libra_inputs, workload, "4d")
    solution = asked.solve(asked.model, asked.space)
    assert solution.objective / 1e6 == pytest.approx(time_ms, rel=1e-4)
    assert solution.split == pytest.approx(split, abs=0.06)
    equal = asked.equal_shares()
    assert asked.model.time_ns(equal) / 1e6 == pytest.approx(equal_ms, rel=1e-4)
    assert asked.model.time_ns(equal) / solution.objective == pytest.approx(gain, abs=6e-4)
    assert solution.gap < 1e-8


WORKLOADS = ("GPT_3", "MSFT_1T", "Turing_NLG", "ResNet_50", "DLRM")


@pytest.mark.parametrize(("workload", "dimensions"), some_of([*itertools.product(WORKLOADS, ("3d", "4d"))], 5))
def test_every_workload_and_network(libra_inputs, workload, dimensions):
    asked = problem(libra_inputs, workload, dimensions)
    fastest = asked.solve(asked.model, asked.space)
    frugal = problem(libra_inputs, workload, dimensions, "time-cost")
    thrifty = frugal.solve(frugal.model, frugal.space)
    assert fastest.gap < 1e-8 and thrifty.gap < 2e-6
    for solution in (fastest, thrifty):
        assert asked.space.holds(solution.split) and np.isclose(solution.split.sum(), 500.0)
    assert (
        frugal.value(thrifty.split, asked.model.time_ns(thrifty.split))
        <= frugal.value(fastest.split, fastest.objective) * 1.000001
    )


def test_prices_are_those_of_the_paper(libra_inputs):
    shape = read_libra_network(libra_inputs / "network" / "4d_network.yml", 0.0)
    costs = read_cost_model(libra_inputs / "cost_model" / "4d_cost_model.yml")
    assert costs.prices(shape) == pytest.approx([2.0, 4.0, 4.0, 7.8 + 18 + 31.6], abs=2e-4)
