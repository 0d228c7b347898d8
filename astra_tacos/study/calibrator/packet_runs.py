"""The configuration of ASTRA-sim's ns-3 backend, fitted to the finish times of a few runs.

What it sets and the packet level needs are the payload of a packet, the headers that congestion control adds, and the window of a
queue pair. Runs are replayed packet by packet (`replayer.packet_network`) under many configurations; usual payloads come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.ns3 import MOST_PAYLOAD_BYTES, Ns3Config
from astra_tacos.replayer.astra_sim import finished
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import PACKET
from astra_tacos.run.run import Run
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.input_file import read_bounded

_MOST_LOG_BYTES = 1 << 28
_USUAL = (1000, 1024, 4096, 512, 2048, 1500, 1460, 9000, 8192, 256, 4000, 128)
_LADDER = tuple(round(100 * 1.25**step) for step in range(21))
"""Payloads where no usual one fits, finer ones between them later."""
_KINDS = tuple({"cc_mode": mode, "has_window": window} for mode, window in itertools.product((12, 3), (1, 0)))
"""Without headers of telemetry and with them (HPCC); with windows and without."""
_EXACT = 1e-9
_REFINED = 3
"""Configurations whose payloads are made better step by step."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRun:
    """A run, and when its ranks finished on a real ns-3 backend.

    Parameters
    ----------
    name
        What messages call it.
    run
        The run.
    finish_ns
        int64[num_ranks].
    """

    name: str
    run: Run
    finish_ns: NDArray[np.int64]

    def error(self, ns3: Ns3Config) -> float:
        """The largest relative error of a rank's finish under a configuration; infinity where the run cannot be replayed."""
        network = replace(self.run.network, ns3=ns3)
        try:
            replayed = replay_run(replace(self.run, network=network), PACKET).finish_ns
        except AstraTacosError:
            return np.inf
        return float(np.max(np.abs(replayed[: len(self.finish_ns)] / self.finish_ns - 1)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted configuration.

    Parameters
    ----------
    ns3
        The configuration.
    errors
        By run, the largest relative error of a rank's finish.
    num_tried
        Configurations that were tried.
    """

    ns3: Ns3Config
    errors: dict[str, float]
    num_tried: int

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.errors.values())


def read_finish(path: Path, num_ranks: int) -> NDArray[np.int64]:
    """Finish times of all ranks from a log of ASTRA-sim.

    Raises
    ------
    ConfigError
        If the log lacks the line of a rank, has more ranks, or a rank finished at 0.
    """
    log = read_bounded(path, _MOST_LOG_BYTES, "a log of ASTRA-sim").decode(errors="replace")
    finish_ns, _ = finished(log, num_ranks + 1)
    if finish_ns[num_ranks] >= 0:
        raise ConfigError(f"{path}: rank {num_ranks} finished, expected the log of a run of {num_ranks} ranks")
    finish_ns = finish_ns[:num_ranks]
    if (finish_ns <= 0).any():
        rank = int(np.argmin(finish_ns > 0))
        raise ConfigError(f"{path}: no time at which rank {rank} finished, expected 'sys[{rank}] finished, N cycles, ...'")
    return finish_ns


def fit_ns3(runs: Sequence[MeasuredRun], on_progress: Callable[[int, int], None] = lambda done, total: None) -> Fitted:
    """The configuration under which the embedded replay comes closest to some runs.

    Usual payloads are tried with all kinds of headers and windows, then others; the best few are made better by smaller and
    smaller steps. The first configuration that gives all times exactly is taken.

    Parameters
    ----------
    runs
        Runs, with their finish times.
    on_progress
        Called with how many configurations were tried, and about how many there are.

    Raises
    ------
    ConfigError
        If there is no run, or none can be replayed.
    """
    if not runs:
        raise ConfigError("no run, expected two or more with their logs")
    tried: dict[Ns3Config, float] = {}
    about = (len(_USUAL) + len(_LADDER)) * len(_KINDS)

    def error(ns3: Ns3Config) -> float:
        if ns3 not in tried:
            tried[ns3] = max(run.error(ns3) for run in runs)
            on_progress(min(len(tried), about - 1), about)
        return tried[ns3]

    def best() -> Ns3Config:
        return min(tried, key=lambda ns3: tried[ns3])  # the first of equals

    for payload, kind in ((payload, kind) for payloads in (_USUAL, _LADDER) for payload in payloads for kind in _KINDS):
        if error(_config(payload, kind)) < _EXACT:
            break
    if not np.isfinite(tried[best()]):
        for run in runs:  # says why
            replay_run(run.run, PACKET)
        raise ConfigError(f"{runs[0].name}: no configuration was found under which it can be replayed")
    for leader in sorted(tried, key=lambda ns3: tried[ns3])[:_REFINED]:
        if tried[best()] < _EXACT:
            break
        _refine(leader, error)
    chosen = best()
    return Fitted(chosen, {run.name: run.error(chosen) for run in runs}, len(tried))


def _refine(leader: Ns3Config, error: Callable[[Ns3Config], float]) -> None:
    """Move the payload by smaller and smaller steps, as long as that helps."""
    step = max(leader.payload_bytes // 8, 1)
    while True:
        near = [leader.payload_bytes + sign * step for sign in (-1, 1)]
        others = [replace(leader, payload_bytes=min(max(payload, 1), MOST_PAYLOAD_BYTES)) for payload in near]
        closest = min(others, key=error)
        if error(closest) < error(leader):
            leader = closest
        elif step == 1:
            return
        else:
            step = max(step // 2, 1)


def _config(payload_bytes: int, kind: dict[str, int]) -> Ns3Config:
    return Ns3Config(source="the fitted configuration", payload_bytes=payload_bytes, **kind)
