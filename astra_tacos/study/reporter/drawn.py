"""What figures are drawn of: networks, schedules and recordings, read from a path."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.path_kind import Kind, identify, is_schedule, refuse_lockstep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astra_tacos.network.topology import Topology
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule

_REPLAY_FILE = "replay.npz"
_KINDS = (Kind.NETWORK, Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC)


def recording_file(path: Path) -> Path | None:
    """The recorded replay that a path is, or has in it."""
    return next((file for file in (path / _REPLAY_FILE, path) if file.name == _REPLAY_FILE and file.is_file()), None)


def identify_drawn(path: Path, expected: str) -> tuple[Kind, Path]:
    """Kind of a path that may be a network or a schedule."""
    from astra_tacos.run.directory import holds_run

    if recording_file(path) is not None:
        raise ConfigError(f"{path}: found a recorded replay, expected {expected}")
    if path.is_dir() and not is_schedule(path):
        refuse_lockstep(path)
        if holds_run(path):
            command = f"astra-tacos replay {shlex.quote(str(path))} --output DIR"
            raise ConfigError(f"{path}: found a run, expected {expected}: `{command}` writes what a figure shows")
        raise ConfigError(f"{path}: a directory without schedule.npz, expected {expected}")
    if not path.exists():
        raise ConfigError(f"{path}: no such file or directory, expected {expected}")
    kind, target = identify(path)
    if kind not in _KINDS:
        raise ConfigError(f"{path}: found {_article(kind)}, expected {expected}")
    return kind, target


def _article(kind: Kind) -> str:
    return f"{'an' if kind is Kind.MSCCL_XML else 'a'} {kind}"


def load_schedule(kind: Kind, target: Path) -> Schedule:
    """A schedule, with its rows checked."""
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.symmetric_schedule import load_rows

    schedule = load_rows(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
    check_rows(schedule)
    return schedule


def read_drawn(path: Path) -> tuple[Topology, NDArray[Any] | None]:
    """A network and, if it is that of a schedule, the share of the time that each of its links is busy."""
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import NetworkConfig, read_network

    kind, target = identify_drawn(path, "a network (.yml), a schedule (.npz) or the directory of synthesize")
    if kind is Kind.NETWORK:
        return build_topology(read_network(target), may_forward=True), None
    if kind is Kind.SYMMETRIC:
        from astra_tacos.bounds.symmetric import link_busy_ns

        symmetric = load_symmetric(target)
        network = build_topology(NetworkConfig(symmetric.task.name, symmetric.task.dimensions))
        return network, link_busy_ns(symmetric, network) / max(symmetric.collective_time_ns, 1)
    schedule = load_schedule(kind, target)
    return schedule.topology, schedule.link_busy_ns / max(schedule.collective_time_ns, 1)


def read_symmetric(path: Path) -> SymmetricSchedule:
    """The symmetric schedule that a path is, or has in it."""
    expected = "a symmetric schedule, as 'synthesize' writes with a --max-sends of less than the number of sends"
    kind, target = identify_drawn(path, expected)
    if kind is not Kind.SYMMETRIC:
        raise ConfigError(f"{path}: found {_article(kind)}, expected {expected}")
    return load_symmetric(target)


def load_symmetric(path: Path) -> SymmetricSchedule:
    """A symmetric schedule whose rows speak for all NPUs."""
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    schedule = load_symmetric_schedule(path)
    check_symmetric(schedule)
    return schedule
