"""`astra-tacos plot`: figures for papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.inputs import Kind, identify
from astra_tacos.errors import ConfigError
from astra_tacos.report.figure_style import FORMATS, WIDTHS, check_figure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.topology.topology import Topology

_REPLAY_FILE = "replay.npz"
_SCHEDULE_KINDS = (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.LOCKSTEP)
_path = click.Path(path_type=Path)


class Figure(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A file to write a figure to, checked before anything is read."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(value))
        check_figure(path)
        return path


def _figure_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "-o", "--output", type=Figure(), required=True, metavar="FILE", help=f"Where to: a name in {', '.join(FORMATS)}."
        ),
        click.option(
            "--width", type=click.Choice(WIDTHS), default="double", show_default=True, help="Columns of the paper that it spans."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def plot() -> None:
    """Draw a network, a schedule, a comparison or a sweep as a figure for a paper: SVG, PDF or PNG.

    The same input gives the same bytes. Large inputs are put together, and the figure says how.
    """


@plot.command()
@click.argument("path", type=_path)
@_figure_options
def topology(path: Path, output: Path, width: str) -> None:
    """Draw the devices and links of PATH, a network or a schedule.

    Links of a network (.yml) are coloured by their bandwidth, those of a schedule (.npz, or the directory of `synthesize`) by how
    busy it keeps them.
    """
    from astra_tacos.report.topology_plot import save_topology

    network, busy = _read_network(path)
    save_topology(network, output, width, busy)
    click.echo(f"written: {output}")


@plot.command()
@click.argument("path", type=_path)
@click.option("--chunk", type=int, metavar="N", help="Let the sends of this chunk stand out.")
@_figure_options
def timeline(path: Path, chunk: int | None, output: Path, width: str) -> None:
    """Draw what links do over time in a schedule, or what ranks do in a training run before and after.

    PATH is the directory of `synthesize`, `plan` or `replay`, or a schedule (.npz).
    """
    if (recording := _recording_file(path)) is not None:
        from astra_tacos.report.rank_plot import save_rank_timeline
        from astra_tacos.run.recording import load_recording

        if chunk is not None:
            raise click.UsageError("--chunk is for schedules: a training run has ranks, and no chunks.")
        save_rank_timeline(load_recording(recording), output, width)
    else:
        from astra_tacos.report.timeline_plot import save_timeline

        save_timeline(_read_schedule(path), output, width, chunk)
    click.echo(f"written: {output}")


@plot.command()
@click.argument("path", type=_path)
@_figure_options
def compare(path: Path, output: Path, width: str) -> None:
    """Draw a comparison of synthesizers again: PATH is what `compare` wrote, as .csv, .json or directory."""
    from astra_tacos.report.compare_plot import save_plot
    from astra_tacos.report.compare_rows import read_rows

    save_plot(read_rows(path), output, width)
    click.echo(f"written: {output}")


def _recording_file(path: Path) -> Path | None:
    """The recorded replay that a path is, or has in it."""
    for file in (path / _REPLAY_FILE, path):
        if file.name == _REPLAY_FILE and file.is_file():
            return file
    return None


def _identify(path: Path, expected: str) -> tuple[Kind, Path]:
    """Kind of a path that may be a network or a schedule."""
    if path.is_dir() and not any((path / name).is_file() for name in ("schedule.npz", "schedule.json")):
        raise ConfigError(f"{path}: a directory without schedule.npz or {_REPLAY_FILE}, expected {expected}")
    if not path.exists():
        raise ConfigError(f"{path}: no such file or directory, expected {expected}")
    kind, target = identify(path)
    if kind not in (Kind.NETWORK, *_SCHEDULE_KINDS):
        raise ConfigError(f"{path}: found {_article(kind)}, expected {expected}")
    return kind, target


def _article(kind: Kind) -> str:
    return f"{'an' if kind is Kind.MSCCL_XML else 'a'} {kind}"


def _read_schedule(path: Path) -> Schedule | LockstepSchedule:
    expected = "a schedule (.npz), or the directory of synthesize, plan or replay"
    kind, target = _identify(path, expected)
    if kind is Kind.NETWORK:
        raise ConfigError(f"{path}: found a network, expected {expected}")
    return _load(kind, target)


def _load(kind: Kind, target: Path) -> Schedule | LockstepSchedule:
    from astra_tacos.schedule.lockstep_storage import load_lockstep_schedule
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.storage import load_schedule

    if kind is Kind.LOCKSTEP:
        return load_lockstep_schedule(target)
    schedule = load_schedule(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
    check_rows(schedule)
    return schedule


def _read_network(path: Path) -> tuple[Topology, NDArray[Any] | None]:
    """A network and, if it is that of a schedule, the share of the time that each of its links is busy."""
    from astra_tacos.config.network import read_network
    from astra_tacos.topology.composition import build_topology

    kind, target = _identify(path, "a network (.yml), a schedule (.npz) or the directory of synthesize")
    if kind is Kind.NETWORK:
        return build_topology(read_network(target)), None
    schedule = _load(kind, target)
    return schedule.topology, schedule.link_busy_ns / max(schedule.collective_time_ns, 1)
