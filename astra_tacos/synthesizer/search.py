"""Best of several seeds, tried in parallel."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from astra_tacos.bounds import lower_bound
from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, choose_link_model, compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.topology.topology import Topology

MAX_TRIALS = 32
_SENDS_OF_ALL_TRIALS = 2_000_000


def synthesize(
    topology: Topology,
    collective: Collective,
    *,
    synthesizer: str = "tacos",
    link_model: LinkModel | Literal["auto"] = "auto",
    reduce_bandwidth_gbps: float = 0.0,
    trials: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Schedule:
    """The fastest schedule that `trials` seeds, from `seed` on, lead to; the first one of those that are equally fast.

    The search ends early when a schedule reaches the lower bound. The result does not depend on `threads`.

    Parameters
    ----------
    link_model
        `auto` takes what stock ASTRA-sim can replay exactly, see `choose_link_model`.
    reduce_bandwidth_gbps
        Decimal GB/s of a reduction, 0 for ASTRA-sim's 1 ns.
    trials
        By default as many as make two million sends together, 1 to 32.
    on_progress
        Called with the number of trials done and their total.

    Raises
    ------
    ConfigError
        If an option is out of range, or topology and collective differ in their number of NPUs.
    SynthesisError
        If chunks are too small or too large for the links.
    """
    if synthesizer not in SYNTHESIZERS:
        raise ConfigError(f"synthesizer: found {synthesizer!r}, expected {' or '.join(SYNTHESIZERS)}")
    if link_model not in (*LINK_MODELS, "auto"):
        raise ConfigError(f"link model: found {link_model!r}, expected {', '.join(LINK_MODELS)} or auto")
    if trials is not None and trials < 1:
        raise ConfigError(f"trials: found {trials}, expected at least 1")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: found {threads}, expected at least 1")
    if not 0 <= seed < 1 << 62:
        raise ConfigError(f"seed: found {seed}, expected 0 to 2**62 - 1")
    if collective.num_npus != topology.num_npus:
        raise ConfigError(f"{collective.name} has {collective.num_npus} NPUs, {topology.name} has {topology.num_npus}")
    model = choose_link_model(topology, collective)[0] if link_model == "auto" else link_model
    timing = compute_timing(topology, collective, model, reduce_bandwidth_gbps)
    entry = SYNTHESIZERS[synthesizer]
    refusal = entry.why_not(topology, collective)
    if refusal is not None:
        raise SynthesisError(f"{synthesizer} on {topology.name}: {refusal}")
    make = entry.make
    total = (trials or default_trials(collective)) if entry.is_random else 1
    goal = lower_bound(topology, collective, timing).time_ns

    best: Schedule | None = None
    workers = min(threads or os.cpu_count() or 1, total)
    for done, schedule in enumerate(_in_order(make, topology, collective, timing, range(seed, seed + total), workers), 1):
        if best is None or schedule.collective_time_ns < best.collective_time_ns:
            best = schedule
        reached = best.collective_time_ns <= goal
        if on_progress is not None:
            on_progress(total if reached else done, total)
        if reached:
            break
    assert best is not None  # total >= 1
    return best


def default_trials(collective: Collective) -> int:
    """As many trials as make two million sends together, 1 to `MAX_TRIALS`."""
    return max(1, min(MAX_TRIALS, _SENDS_OF_ALL_TRIALS // collective.least_sends))


def _in_order(make, topology, collective, timing, seeds: range, workers: int) -> Iterator[Schedule]:  # type: ignore[no-untyped-def]
    """Schedules of the seeds in order, a few seeds ahead in other threads: kernels release the interpreter lock."""
    if workers == 1:
        yield from (make(topology, collective, timing, seed) for seed in seeds)
        return
    waiting: deque[Future[Schedule]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for seed in seeds:
                waiting.append(pool.submit(make, topology, collective, timing, seed))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
