"""Figures of what was written: finds out what there is to draw, reads it, and draws it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.study.reporter.drawn import (
    identify_drawn,
    load_schedule,
    load_symmetric,
    read_drawn,
    read_symmetric,
    recording_file,
)
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.workload.path_kind import Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[], "Figure"]
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
PAGE = ".html"
"""How the name of a page ends; all other outputs are figures."""
DEFAULTS: dict[str, Any] = {"width": "double", "most": 12}
"""Of options that have one."""
OPTIONS = ("kind", "width", *dict.fromkeys(name for names in KINDS.values() for name in names))


def find_figure(path: Path, given: dict[str, Any]) -> tuple[str, Draw]:
    """What the figure of an input shows, and what reads and draws it; `given` has the options that were given.

    Raises
    ------
    ConfigError
        If there is nothing to draw, or an option is for figures of another kind.
    """
    kind = given.get("kind") or _default_kind(path)
    if kind not in (*KINDS, _SWEEP):
        raise ConfigError(f"kind: found {quoted(kind)}, expected one of {', '.join(KINDS)}")
    for name in sorted(given.keys() - {"kind", "width"}):
        if name not in (_SWEEP_OPTIONS if kind == _SWEEP else KINDS[kind]):
            kinds = ", ".join(other for other, names in KINDS.items() if name in names)
            raise ConfigError(f"{name}: found for a figure of the kind {kind}, expected for a figure of the kind {kinds}")
    options = dict.fromkeys(OPTIONS) | DEFAULTS | given
    return kind, lambda: _draw(kind, path, options)


def _draw(kind: str, path: Path, options: dict[str, Any]) -> Figure:
    """Read an input, and draw a figure of a kind."""
    width = options["width"]
    match kind:
        case "topology":
            from astra_tacos.pages.figure.topology_plot import draw_topology

            network, busy = read_drawn(path)
            return draw_topology(network, width, busy)
        case "timeline":
            return _timeline(path, width, options["chunk"])
        case "tree":
            from astra_tacos.pages.figure.symmetric_plot import draw_tree

            return draw_tree(read_symmetric(path), width, options["chunk"] or 0)
        case "policies":
            from astra_tacos.pages.policy_times import draw_policies, read_policies

            rows, note = read_policies(path, options["most"])
            return draw_policies(rows, width, note)
        case "compare":
            from astra_tacos.pages.compare_rows import read_rows
            from astra_tacos.pages.figure.compare_plot import draw_comparison

            return draw_comparison(read_rows(path), width)
    from astra_tacos.pages.figure.sweep_plot import draw_sweep
    from astra_tacos.pages.sweep_choice import choose, filtered
    from astra_tacos.study.sweep.table import read_sweep

    table, where = read_sweep(path), options["where"]
    table = table if where is None else filtered(table, where)
    choice = choose(table, options["kind"], *(options[name] for name in _SWEEP_OPTIONS[:-1]))
    return draw_sweep(table, choice, width, "" if where is None else f"where {where}")


def _timeline(path: Path, width: str, chunk: int | None) -> Figure:
    if (recording := recording_file(path)) is not None:
        from astra_tacos.pages.figure.timeline_plot import draw_rank_timeline
        from astra_tacos.run.recording import load_recording

        if chunk is not None:
            raise ConfigError("chunk: found for a training run, which has ranks and no chunks, expected for a schedule")
        return draw_rank_timeline(load_recording(recording), width)
    expected = "a schedule (.npz), or the directory of synthesize, plan or replay"
    kind, target = identify_drawn(path, expected)
    if kind is Kind.NETWORK:
        raise ConfigError(f"{path}: found a network, expected {expected}")
    if kind is Kind.SYMMETRIC and chunk is None:
        from astra_tacos.pages.figure.symmetric_plot import draw_symmetric_timeline

        return draw_symmetric_timeline(load_symmetric(target), width)
    from astra_tacos.pages.figure.timeline_plot import draw_timeline

    return draw_timeline(load_schedule(kind, target), width, chunk)


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
