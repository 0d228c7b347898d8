"""`astra-tacos plot`: figures for papers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.console import echo
from astra_tacos.cli.inputs import Kind, identify, refuse_lockstep
from astra_tacos.report.figure.figure_style import FORMATS, WIDTHS, check_figure
from astra_tacos.report.figure.sweep_choice import KINDS
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astra_tacos.network.topology import Topology
    from astra_tacos.report.sweep_columns import SweepColumns
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule

_REPLAY_FILE = "replay.npz"
_SCHEDULE_KINDS = (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC)
_CONDITION = "size_bytes >= 65536 and collective == 'all-reduce'"
_path = click.Path(path_type=Path)


class Figure(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A file to write a figure to, checked before anything is read."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path of a figure in a supported format; see `click.ParamType`."""
        path = Path(str(value))
        check_figure(path)
        return path


def _figure_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "-o", "--output", type=Figure(), required=True, metavar="FILE", help=f"File to write: {', '.join(FORMATS)}."
        ),
        click.option(
            "--width",
            type=click.Choice(WIDTHS),
            default="double",
            show_default=True,
            help="Width of the figure in columns of a paper.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def plot() -> None:
    """Draw a network, a schedule, a comparison or a sweep as a figure for a paper: SVG, PDF or PNG.

    The same input gives the same bytes. Large inputs are aggregated, and the figure says how.
    """


@plot.command(short_help="Draw devices and links of a network or a schedule.")
@click.argument("path", type=_path)
@_figure_options
def topology(path: Path, output: Path, width: str) -> None:
    """Draw the devices and links of PATH, a network or a schedule.

    Links of a network (.yml) are coloured by their bandwidth, those of a schedule (.npz, or the directory of `synthesize`) by the
    share of time that they are busy.
    """
    from astra_tacos.report.figure.topology_plot import save_topology

    network, busy = _read_network(path)
    save_topology(network, output, width, busy)
    echo(f"written: {output}")


@plot.command(short_help="Draw links over time, or ranks before and after a plan.")
@click.argument("path", type=_path)
@click.option("--chunk", type=int, metavar="N", help="Highlight the sends of this chunk.")
@_figure_options
def timeline(path: Path, chunk: int | None, output: Path, width: str) -> None:
    """Draw the links of a schedule over time, or the ranks of a training run before and after.

    PATH is the directory of `synthesize`, `plan` or `replay`, or a schedule (.npz).
    """
    if (recording := _recording_file(path)) is not None:
        from astra_tacos.report.figure.rank_plot import save_rank_timeline
        from astra_tacos.run.recording import load_recording

        if chunk is not None:
            raise click.UsageError("--chunk is for schedules: a training run has ranks, and no chunks.")
        save_rank_timeline(load_recording(recording), output, width)
    elif (symmetric := _symmetric_file(path)) is not None and chunk is None:
        from astra_tacos.report.figure.symmetric_plot import save_symmetric_timeline

        save_symmetric_timeline(_load_symmetric(symmetric), output, width)
    else:
        from astra_tacos.report.figure.timeline_plot import save_timeline

        save_timeline(_read_schedule(path), output, width, chunk)
    echo(f"written: {output}")


@plot.command(short_help="Draw the tree of a chunk of a symmetric schedule.")
@click.argument("path", type=_path)
@click.option("--chunk", type=int, default=0, show_default=True, metavar="N", help="One of NPU 0's chunks.")
@_figure_options
def tree(path: Path, chunk: int, output: Path, width: str) -> None:
    """Draw how one of NPU 0's chunks spreads: the tree that translations move to all other NPUs, or the path of an All-to-All.

    PATH is a symmetric schedule (.npz), or the directory in which `synthesize` wrote one.
    """
    from astra_tacos.report.figure.symmetric_plot import save_tree

    symmetric = _symmetric_file(path)
    if symmetric is None:
        expected = "a symmetric schedule, as 'synthesize' writes with a --max-sends of less than the number of sends"
        raise ConfigError(f"{path}: found {_article(identify(path)[0])}, expected {expected}")
    save_tree(_load_symmetric(symmetric), output, width, chunk)
    echo(f"written: {output}")


@plot.command(short_help="Draw what scheduling policies take.")
@click.argument("path", type=_path)
@click.option("--most", type=click.IntRange(2, 60), default=12, show_default=True, help="Number of bars.")
@_figure_options
def schedule(path: Path, most: int, output: Path, width: str) -> None:
    """Draw the end of a run by scheduling policy, split into compute, exposed communication and idle time.

    PATH is an output of `plan --schedule`, or its plan.json. Bars are the run as it was, each policy
    alone with its best options, and what was written.
    """
    from astra_tacos.report.figure.policy_plot import save_policies
    from astra_tacos.report.policy_times import policy_times
    from astra_tacos.support.text_files import read_json_object

    file = path / "plan.json" if path.is_dir() else path
    plan = read_json_object(file)
    try:
        rows = policy_times(plan, str(file), most)
        note = f"judged with {plan['schedule']['collectives']} collectives, {plan['schedule']['backend']}"
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{file}: not what plan --schedule writes ({error!s:.60})") from None
    save_policies(rows, output, width, note)
    echo(f"written: {output}")


@plot.command(short_help="Draw a comparison of synthesizers again.")
@click.argument("path", type=_path)
@_figure_options
def compare(path: Path, output: Path, width: str) -> None:
    """Draw a comparison of synthesizers again: PATH is the .csv, .json or directory of `compare`."""
    from astra_tacos.report.compare_rows import read_rows
    from astra_tacos.report.figure.compare_plot import save_plot

    save_plot(read_rows(path), output, width)
    echo(f"written: {output}")


@plot.command(short_help="Draw a sweep: lines, a heat map or a Pareto front.")
@click.argument("directory", metavar="DIR", type=_path)
@click.option("--kind", type=click.Choice(KINDS), help="Kind of figure; the default depends on the axes of the sweep.")
@click.option("--x", metavar="COLUMN", help="Column along the x axis.")
@click.option("--y", metavar="COLUMN", help="Column along the y axis.")
@click.option("--value", metavar="COLUMN", help="Column that the colours of a heat map show.")
@click.option("--by", metavar="COLUMN", help="Column that distinguishes lines, or colours of points.")
@click.option("--where", metavar="EXPR", help=f"Draw only points for which this is true: {_CONDITION} (bytes).")
@_figure_options
def sweep(
    directory: Path,
    kind: str | None,
    x: str | None,
    y: str | None,
    value: str | None,
    by: str | None,
    where: str | None,
    output: Path,
    width: str,
) -> None:
    """Draw a sweep from its table: DIR is the --output of `sweep`, or sweep.parquet in it.

    lines: a column against another, by default bus bandwidth against size. heatmap: two axes and a colour. pareto: time against
    cost, and the points that no other point beats in both. Every task (collective, root, size, workload) has a panel of its own.
    Where points share a place, the best one is drawn, and the figure names the axes.
    """
    from astra_tacos.report.figure.sweep_choice import choose
    from astra_tacos.report.figure.sweep_plot import save_sweep
    from astra_tacos.study.sweep.table import read_sweep

    table = read_sweep(directory)
    note = ""
    if where is not None:
        table = _filtered(table, where)
        note = f"where {where}"
    save_sweep(table, output, choose(table, kind, x, y, value, by), width, note)
    echo(f"written: {output}")


def _filtered(table: SweepColumns, where: str) -> SweepColumns:
    """The points for which an expression over their columns holds; a point that lacks one of these is none of them."""
    from astra_tacos.report.sweep_columns import SweepColumns
    from astra_tacos.support.expression import parse_expression

    expression = parse_expression(where, "--where", f"{_CONDITION}; sizes are in bytes, and texts in quotes")
    for name in sorted(expression.names - table.columns.keys()):
        raise ConfigError(f"--where {where!r}: {_unknown(table, where, name)}")
    kept = []
    for row in range(table.num_rows):
        names = {name: table.columns[name][row] for name in expression.names}
        if not any(value is None for value in names.values()) and expression.holds(names):
            kept.append(row)
    if not kept:
        raise ConfigError(f"--where: {where!r} holds for none of {table.num_rows:,} points, expected one or more")
    return SweepColumns(table.name, table.axes, {name: [values[row] for row in kept] for name, values in table.columns.items()})


def _unknown(table: SweepColumns, where: str, name: str) -> str:
    """What is wrong with a condition in which a name is no column: most often it is a text without quotes."""
    from astra_tacos.report.figure.sweep_reduction import closest

    for column, values in table.columns.items():
        for value in sorted({value for value in values if isinstance(value, str)}):
            bare = re.search(rf"(?<![\w'\"-]){re.escape(value)}(?![\w'\"-])", where)
            if bare is not None and re.search(rf"\b{re.escape(name)}\b", value):
                return f"found the text {value} without quotes, expected {column} == {value!r}"
    return f"found {name!r}, expected a column of the sweep, such as {closest(table, name)}; texts need quotes"


def _recording_file(path: Path) -> Path | None:
    """The recorded replay that a path is, or has in it."""
    for file in (path / _REPLAY_FILE, path):
        if file.name == _REPLAY_FILE and file.is_file():
            return file
    return None


def _identify(path: Path, expected: str) -> tuple[Kind, Path]:
    """Kind of a path that may be a network or a schedule."""
    if _recording_file(path) is not None:
        raise ConfigError(f"{path}: found a recorded replay, expected {expected}")
    if path.is_dir() and not (path / "schedule.npz").is_file():
        refuse_lockstep(path)
        raise ConfigError(f"{path}: a directory without schedule.npz, expected {expected}")
    if not path.exists():
        raise ConfigError(f"{path}: no such file or directory, expected {expected}")
    kind, target = identify(path)
    if kind not in (Kind.NETWORK, *_SCHEDULE_KINDS):
        raise ConfigError(f"{path}: found {_article(kind)}, expected {expected}")
    return kind, target


def _symmetric_file(path: Path) -> Path | None:
    """The file of a symmetric schedule, None if there is something else."""
    if not path.exists() or _recording_file(path) is not None:
        return None
    if path.is_dir() and not (path / "schedule.npz").is_file():
        return None
    kind, target = identify(path)
    return target if kind is Kind.SYMMETRIC else None


def _article(kind: Kind) -> str:
    return f"{'an' if kind is Kind.MSCCL_XML else 'a'} {kind}"


def _read_schedule(path: Path) -> Schedule:
    expected = "a schedule (.npz), or the directory of synthesize, plan or replay"
    kind, target = _identify(path, expected)
    if kind is Kind.NETWORK:
        raise ConfigError(f"{path}: found a network, expected {expected}")
    return _load(kind, target)


def _load(kind: Kind, target: Path) -> Schedule:
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.symmetric_schedule import load_rows

    schedule = load_rows(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
    check_rows(schedule)
    return schedule


def _read_network(path: Path) -> tuple[Topology, NDArray[Any] | None]:
    """A network and, if it is that of a schedule, the share of the time that each of its links is busy."""
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network

    kind, target = _identify(path, "a network (.yml), a schedule (.npz) or the directory of synthesize")
    if kind is Kind.NETWORK:
        return build_topology(read_network(target), may_forward=True), None
    if kind is Kind.SYMMETRIC:
        return _symmetric_network(target)
    schedule = _load(kind, target)
    return schedule.topology, schedule.link_busy_ns / max(schedule.collective_time_ns, 1)


def _symmetric_network(path: Path) -> tuple[Topology, NDArray[Any]]:
    """The network of a symmetric schedule and the share of the time that each of its links is busy, as its class is."""
    from astra_tacos.bounds.symmetric import link_busy_ns
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import NetworkConfig

    schedule = _load_symmetric(path)
    network = build_topology(NetworkConfig(schedule.task.name, schedule.task.dimensions))
    return network, link_busy_ns(schedule, network) / max(schedule.collective_time_ns, 1)


def _load_symmetric(path: Path) -> SymmetricSchedule:
    """A symmetric schedule whose rows speak for all NPUs."""
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    schedule = load_symmetric_schedule(path)
    check_symmetric(schedule)
    return schedule
