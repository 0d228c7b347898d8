"""Evaluation of a point; every failure becomes an outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from astra_tacos.network.blocks.ring import RING
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.study.sweep.outcome import ERROR, OK, OUT_OF_MEMORY, REFUSED, Conditions, Outcome
from astra_tacos.study.sweep.point import CollectiveTask, Point
from astra_tacos.support.errors import AstraTacosError, SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions


def evaluate(point: Point, conditions: Conditions) -> Outcome:
    """Compute a point and return its outcome; exceptions become outcomes, too.

    `Guard` enforces the limits of time and memory; this function ignores them.
    """
    begin = time.perf_counter()
    status, error, results = OK, None, {}
    log, warnings = logging.getLogger("astra_tacos"), _Warnings(logging.WARNING)
    log.addHandler(warnings)
    try:
        results = _results(point, conditions)
    except SynthesisError as refusal:
        status, error = REFUSED, _one_line(str(refusal))
    except AstraTacosError as failure:
        status, error = ERROR, _one_line(str(failure))
    except MemoryError as failure:
        status, error = OUT_OF_MEMORY, _one_line(f"memory could not be allocated {failure}")
    except Exception as failure:  # an error in this package must not end the whole sweep
        status, error = ERROR, _one_line(f"{type(failure).__name__}: {failure}")
    finally:
        log.removeHandler(warnings)
    return Outcome(status, error, results | {"seconds": time.perf_counter() - begin}, tuple(warnings.texts))


class _Warnings(logging.Handler):
    """Collects what is logged, because the process that computes a point has no terminal."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(_one_line(record.getMessage()))


def warm_up(names: Iterable[str] = SYNTHESIZERS) -> None:
    """Compile or load the kernels of some synthesizers, so that no point's time includes that."""
    network = NetworkConfig("", (Dimension(RING.name, 2, 50.0, 500.0), Dimension(SWITCH.name, 2, 50.0, 500.0)))
    for name in names:
        for collective in ("all-reduce", "all-to-all", "broadcast"):  # they use every kernel that the others use
            if collective not in SYNTHESIZERS[name].collectives:
                continue
            options = SearchOptions(name, chunks_per_npu=1, trials=1, threads=1)
            evaluate(Point(0, {}, network, CollectiveTask(collective, None, 1 << 10, options), {}), Conditions())


def _results(point: Point, conditions: Conditions) -> dict[str, Any]:
    # Points with equal keys share a row even if their networks have different names, so its texts must not contain the name.
    network = replace(point.network, source=_shape(point.network))
    if isinstance(point.task, CollectiveTask):
        from astra_tacos.study.sweep.collective_point import evaluate_collective

        return evaluate_collective(network, point.task, conditions)
    from astra_tacos.study.sweep.workload_point import evaluate_workload

    return evaluate_workload(network, point.task, conditions)


def _shape(network: NetworkConfig) -> str:
    if not network.dimensions:
        return f"graph of {network.num_npus} NPUs"
    return " x ".join(f"{dimension.block} {dimension.size}" for dimension in network.dimensions)


def _one_line(text: str) -> str:
    return " ".join(text.split())
