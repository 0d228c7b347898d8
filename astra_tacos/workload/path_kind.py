"""What a path holds, by its name and its first bytes, for commands and functions that take several kinds of files."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import BEGIN, read_begin, refuse_fabric, refuse_foreign

_EXPECTED = (
    "the directory of a run or a schedule, a schedule (.npz), MSCCL XML (.xml), MSCCL++ plan (.json), network (.yml), "
    "PyTorch trace (.json, .json.gz, .tar.gz) or trace prefix (PREFIX.0.et, ...)"
)
_TRACE_FILE = re.compile(r"(.+)\.\d+\.et")


class Kind(StrEnum):
    """What a path given to a command holds."""

    RUN_DIRECTORY = "run directory"
    RUN = "run"
    PLANNED_RUN = "planned run"
    COMPACT_RUN = "compact run"
    SCHEDULE = "schedule"
    SYMMETRIC = "symmetric schedule"
    MSCCL_XML = "MSCCL XML"
    MSCCLPP_PLAN = "MSCCL++ plan"
    NETWORK = "network"
    TRACE = "trace"
    PYTORCH = "JSON file or archive"


def identify(path: Path) -> tuple[Kind, Path]:
    """Kind of a path, and what to read: for a trace the prefix of its files, for a run directory itself, else the file.

    Raises
    ------
    ConfigError
        If it is none of those kinds; what is known as another tool's is named.
    """
    from astra_tacos.run.directory import holds_run, is_compact
    from astra_tacos.schedule.symmetric_schedule import holds_symmetric

    if is_schedule(path):
        schedule = path / "schedule.npz"
        return (Kind.SYMMETRIC, schedule) if holds_symmetric(schedule) else (Kind.RUN_DIRECTORY, path)
    if is_compact(path):
        return Kind.COMPACT_RUN, path
    if (path / "plan.json").is_file():
        return Kind.PLANNED_RUN, path
    if holds_run(path):
        return Kind.RUN, path
    refuse_lockstep(path)
    by_suffix = {
        ".json": Kind.PYTORCH,
        ".gz": Kind.PYTORCH,
        ".tar": Kind.PYTORCH,
        ".tgz": Kind.PYTORCH,
        ".npz": Kind.SCHEDULE,
        ".xml": Kind.MSCCL_XML,
        ".yml": Kind.NETWORK,
        ".yaml": Kind.NETWORK,
    }
    if path.suffix in (".json", ".xml", ".txt"):
        begin = read_begin(path, BEGIN)
        refuse_foreign(path, begin, workloads=True)
        refuse_fabric(path, begin)
    if path.is_file() and path.suffix in by_suffix:
        if path.suffix == ".npz" and holds_symmetric(path):
            return Kind.SYMMETRIC, path
        if path.suffix == ".json" and holds_plan(path):
            return Kind.MSCCLPP_PLAN, path
        return by_suffix[path.suffix], path
    if not path.name:
        raise ConfigError(f"{path}: not recognised, expected {_EXPECTED}")
    match = _TRACE_FILE.fullmatch(path.name)
    if match and path.is_file():
        return Kind.TRACE, path.with_name(match[1])
    if is_trace_prefix(path):
        return Kind.TRACE, path
    if not path.exists():
        raise ConfigError(f"{path}: no such file or trace prefix, expected {_EXPECTED}")
    refuse_foreign(path, read_begin(path, BEGIN), workloads=True)
    raise ConfigError(f"{path}: not recognised, expected {_EXPECTED}")


def is_schedule(path: Path) -> bool:
    """Whether a directory has a schedule, as `synthesize` writes it."""
    return (path / "schedule.npz").is_file()


def is_trace_prefix(path: Path) -> bool:
    """Whether a path is the prefix of traces."""
    return bool(path.name) and path.with_name(f"{path.name}.0.et").is_file()


def refuse_lockstep(path: Path) -> None:
    """Refuse what earlier versions wrote of more than 50 million sends."""
    if all((path / name).is_file() for name in ("schedule.json", "chunk.npy")):
        raise ConfigError(f"{path}: a lockstep schedule of version 2, which is no longer read: make another one by `synthesize`")


def holds_plan(path: Path) -> bool:
    """Whether a JSON file begins as an MSCCL++ execution plan does."""
    begin = read_begin(path, BEGIN)
    return all(key in begin for key in (b'"collective"', b'"protocol"', b'"inplace"'))


def is_program(path: Path) -> bool:
    """Whether a path is a program of one collective: an MSCCL XML, an MSCCL++ plan, or the prefix of its Chakra traces."""
    if path.suffix in (".xml", ".json"):
        return path.suffix == ".xml" or holds_plan(path)
    return is_trace_prefix(path)
