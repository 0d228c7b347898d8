"""Figures of `astra-tacos report`: finds out what there is to draw, reads it, and draws it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.inputs import Kind
from astra_tacos.cli.report_inputs import (
    identify_drawn,
    load_schedule,
    load_symmetric,
    read_drawn,
    read_symmetric,
    recording_file,
)
from astra_tacos.support.errors import ConfigError

_SWEEP_OPTIONS = ("x", "y", "value", "by", "where")
KINDS = {
    "topology": (),
    "timeline": ("chunk",),
    "tree": ("chunk",),
    "policies": ("most",),
    "compare": (),
    "lines": _SWEEP_OPTIONS,
    "heatmap": _SWEEP_OPTIONS,
    "pareto": _SWEEP_OPTIONS,
}
"""What a figure can show, and the options of each."""
_SWEEP = "sweep"
_TABLE_FILE = "sweep.parquet"


def draw(path: Path, output: Path, options: dict[str, Any], given: set[str]) -> str:
    """Write the figure of an input, and return what it shows.

    Parameters
    ----------
    path
        The input.
    output
        File to write.
    options
        Values of the options of figures.
    given
        Names of those that the user gave.
    """
    kind = options["kind"] or _default_kind(path)
    for name in sorted(given & {name for names in KINDS.values() for name in names}):
        if name not in (_SWEEP_OPTIONS if kind == _SWEEP else KINDS[kind]):
            raise click.UsageError(f"--{name} is not for figures of the kind {kind}.")
    width, chunk = options["width"], options["chunk"]
    if kind == "topology":
        from astra_tacos.report.figure.topology_plot import save_topology

        network, busy = read_drawn(path)
        save_topology(network, output, width, busy)
    elif kind == "timeline":
        _draw_timeline(path, output, width, chunk)
    elif kind == "tree":
        from astra_tacos.report.figure.symmetric_plot import save_tree

        save_tree(read_symmetric(path), output, width, chunk or 0)
    elif kind == "policies":
        from astra_tacos.report.figure.policy_plot import save_policies
        from astra_tacos.report.policy_times import read_policies

        rows, note = read_policies(path, options["most"])
        save_policies(rows, output, width, note)
    elif kind == "compare":
        from astra_tacos.report.compare_rows import read_rows
        from astra_tacos.report.figure.compare_plot import save_plot

        save_plot(read_rows(path), output, width)
    else:
        from astra_tacos.report.figure.sweep_plot import save_sweep
        from astra_tacos.report.sweep_choice import choose, filtered
        from astra_tacos.study.sweep.table import read_sweep

        table, where = read_sweep(path), options["where"]
        table = table if where is None else filtered(table, where)
        choice = choose(table, options["kind"], *(options[name] for name in _SWEEP_OPTIONS[:-1]))
        save_sweep(table, output, choice, width, "" if where is None else f"where {where}")
    return kind


def _default_kind(path: Path) -> str:
    """What a figure of an input shows if the user does not say."""
    if path.name == _TABLE_FILE or (path / _TABLE_FILE).is_file():
        return _SWEEP
    if recording_file(path) is not None:
        return "timeline"
    if path.name == "plan.json":
        return "policies"
    if path.suffix in (".csv", ".json") or any((path / name).is_file() for name in ("compare.csv", "compare.json")):
        return "compare"
    kind, _ = identify_drawn(path, "a network (.yml), or what synthesize, plan, replay, compare or sweep wrote")
    return "topology" if kind is Kind.NETWORK else "timeline"


def _draw_timeline(path: Path, output: Path, width: str, chunk: int | None) -> None:
    if (recording := recording_file(path)) is not None:
        from astra_tacos.report.figure.rank_plot import save_rank_timeline
        from astra_tacos.run.recording import load_recording

        if chunk is not None:
            raise click.UsageError("--chunk is for schedules: a training run has ranks, and no chunks.")
        save_rank_timeline(load_recording(recording), output, width)
        return
    expected = "a schedule (.npz), or the directory of synthesize, plan or replay"
    kind, target = identify_drawn(path, expected)
    if kind is Kind.NETWORK:
        raise ConfigError(f"{path}: found a network, expected {expected}")
    if kind is Kind.SYMMETRIC and chunk is None:
        from astra_tacos.report.figure.symmetric_plot import save_symmetric_timeline

        save_symmetric_timeline(load_symmetric(target), output, width)
    else:
        from astra_tacos.report.figure.timeline_plot import save_timeline

        save_timeline(load_schedule(kind, target), output, width, chunk)
