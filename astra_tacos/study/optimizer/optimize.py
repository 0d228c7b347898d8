"""`optimize`: from the files of a network and a job to the best split of bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.directory import Given, find_run
from astra_tacos.solver.first_use import ALL_SEARCHING, READING, REPLAYING, Progress, compile_ahead, silent
from astra_tacos.study.optimizer.libra_files import CostModel, read_cost_model
from astra_tacos.study.optimizer.measure import Measure, Replays, Synthesis, Timer, check_synthesis
from astra_tacos.study.optimizer.problem import TIME, Limits, ProblemFiles, make_problem
from astra_tacos.study.optimizer.result import Optimum, optimized
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.search.search_options import SearchOptions

REFINEMENTS = ("schedules", "replays")


def optimize(
    job: ProblemFiles | str | Path,
    network: str | Path | None = None,
    *,
    objective: str = TIME,
    cost_model: CostModel | str | Path | None = None,
    total_bandwidth: float | None = None,
    budget_cost: float | None = None,
    constraints: Sequence[str] = (),
    min_bandwidth: float = 0.1,
    refine: str | None = None,
    refine_steps: int = 10,
    refine_max_npus: int = 256,
    synthesizers: Sequence[str] = ("tacos", "themis"),
    chunks_per_npu: int | None = None,
    trials: int = 1,
    seed: int = 0,
    backend: Backend | str | None = None,
    progress: Progress = silent,
) -> Optimum:
    """Find the best bandwidth of each dimension of a network, for a training run and a budget.

    Parameters
    ----------
    job
        The directory of a run; or `ProblemFiles`, which may also be those of LIBRA.
    network
        The network of a run that is given by its directory; None for the network file inside.
    objective
        `time`, or `time-cost` for time x cost.
    cost_model
        Prices of bandwidth, or the path of their file; None for none.
    total_bandwidth
        Sum over all dimensions of one NPU, in 10^9 bytes/s. None for the network's own, or no limit where another one is given.
    budget_cost
        Highest cost of the network, in dollars.
    constraints
        Linear constraints on bandwidths in 10^9 bytes/s, such as `B1 + B2 <= 300`.
    min_bandwidth
        Least bandwidth of every dimension, in 10^9 bytes/s.
    refine
        `schedules` to refine the split by synthesized schedules, `replays` by replays of the whole step; None for bytes alone.
    refine_steps, refine_max_npus
        Most splits to try; groups of more NPUs are timed dimension by dimension.
    synthesizers, chunks_per_npu, trials, seed
        How schedules are made for `refine="schedules"`; the number of chunks is chosen by None.
    backend
        The network model for `refine="replays"`; None for `congestion-aware`.

    Returns
    -------
    optimum
        `optimum.best` has `bandwidth_gbps` of each dimension and `time_ns`; `optimum.write(FILE)` writes the network.

    Raises
    ------
    ConfigError
        If a file or a number is not what it should be, or the constraints allow no split.

    Examples
    --------
    >>> from astra_tacos import optimize
    >>> optimum = optimize("configs/workload/transformer_16", "configs/network/torus_4x4.yml", constraints=["B0 <= 3 * B1"])
    >>> len(optimum.best["bandwidth_gbps"]), optimum.best["time_ns"] > 0
    (2, True)
    """
    if refine is not None and refine not in REFINEMENTS:
        raise ConfigError(f"refine: found {refine!r}, expected {' or '.join(REFINEMENTS)}")
    if backend is not None and refine != "replays":
        raise ConfigError("backend: is only for refine 'replays'")
    if isinstance(job, ProblemFiles):
        if network is not None:
            raise ConfigError("network: found network and ProblemFiles, expected the network inside ProblemFiles")
        files = job
    else:
        given = Given(network=None if network is None else Path(network))
        files = ProblemFiles.of_run(find_run(Path(job), None, given))
    files.check()
    options = SearchOptions(chunks_per_npu=chunks_per_npu or "auto", trials=trials, seed=seed)
    synthesis = Synthesis(tuple(synthesizers), options, refine_max_npus)
    check_synthesis(synthesis)
    prices = cost_model if cost_model is None or isinstance(cost_model, CostModel) else read_cost_model(Path(cost_model))
    limits = Limits(objective, prices, total_bandwidth, budget_cost, constraints, min_bandwidth)
    with progress("reading"):
        shape, demands, current, run = files.read()
    problem = make_problem(shape, demands, limits, current)
    timer: Timer | None = None
    if refine == "replays":
        if run is None:
            raise ConfigError("refine: found 'replays' for LIBRA's files, which have no traces, expected a run")
        compile_ahead(*READING, *REPLAYING, progress=progress)
        timer = Replays(run, shape, None if backend is None else choose_backend(backend))
    elif refine:
        compile_ahead(*ALL_SEARCHING, progress=progress)
        timer = Measure(demands, shape, synthesis)
    return optimized(problem, timer, refine_steps, progress)
