"""Options that several commands share, and the types of their values: sizes, numbers, names of synthesizers."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import did_you_mean, typed_command
from astra_tacos.run.backend import ASTRA_SIM, BACKENDS, MODELS, NS3, Backend, is_packet_level
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import output_place
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import format_size, parse_size, parse_sizes, parse_time
from astra_tacos.workload.path_kind import is_schedule, is_trace_prefix, refuse_lockstep

if TYPE_CHECKING:
    from astra_tacos.network.network_config import NetworkConfig
    from astra_tacos.run.directory import CompactInputs, Given
    from astra_tacos.run.run import RunInputs
    from astra_tacos.workload.repairer.reading import RepairInputs


Command = Callable[..., None]
Decorator = Callable[[Command], Command]
PATH = click.Path(path_type=Path)
_MOST = 100_000
"""Numbers in a list."""
_LEAST_MEMORY = 256 << 20
"""Bytes that Python and kernels take."""


class OutputPath(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A file or directory to write: refused before any work if there can be none."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; see `click.ParamType`."""
        path = Path(str(value))
        output_place(path)
        return path


OUTPUT = OutputPath()


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """What a function makes of a text; a value that is no text, such as a default, stays as it is."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType`."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ConfigError as error:
            return self.fail(str(error), param, ctx)


class OneOf(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """One of some names; of another one, the error names the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """See `click.Choice`."""
        return f"{did_you_mean(str(value), map(str, self.choices))}{super().get_invalid_choice_message(value, ctx)}"


class WordOr(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A word, or a whole number of a range."""

    def __init__(self, word: str, numbers: click.IntRange) -> None:
        self.name = f"{word}|N"
        self._word = word
        self._numbers = numbers

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The word or the number; see `click.ParamType`."""
        return self._word if value == self._word else self._numbers.convert(value, param, ctx)  # type: ignore[arg-type]


def _memory(text: str) -> int:
    size = parse_size(text)
    if size < _LEAST_MEMORY:
        least = f"{format_size(_LEAST_MEMORY)} or more: Python and kernels take most of that"
        raise ConfigError(f"{format_size(size)} is too little, expected {least}.")
    return size


def _counts(text: str) -> tuple[int, ...]:
    counts: set[int] = set()
    for part in text.split(","):
        ends = [end.strip() for end in part.split(":")]
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
            raise ConfigError(f"found {quoted(text)}, expected numbers such as 1,2,8 or 0:4")
        first, last = int(ends[0]), int(ends[-1])
        if last < first or last - first >= _MOST:
            raise ConfigError(f"found {part.strip()!r}, expected up to {_MOST:,} numbers from the lower to the higher")
        if not counts.isdisjoint(numbers := range(first, last + 1)):
            raise ConfigError(f"found {part.strip()!r} after the same number, expected each number once")
        counts |= set(numbers)
    return tuple(sorted(counts))


def _slow(text: str) -> tuple[int, float]:
    rank, _, times = text.partition(":")
    try:
        number, factor = int(rank), float(times)
    except ValueError:
        number, factor = -1, 0.0
    if number < 0 or not 0 < factor <= _MOST:
        raise ConfigError(f"found {quoted(text)}, expected a rank and a factor up to {_MOST:,}, like 5:1.1")
    return number, factor


def _delay(text: str) -> tuple[int, int]:
    rank, _, time = text.partition(":")
    number = int(rank) if rank.isascii() and rank.isdigit() and len(rank) <= 9 else -1
    if number < 0:
        raise ConfigError(f"found {quoted(text)}, expected a rank and a time, like 5:10us")
    return number, parse_time(time)


def _names(text: str) -> tuple[str, ...]:
    from astra_tacos.synthesizer import AUTO, SYNTHESIZERS

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in (AUTO, *SYNTHESIZERS):
            hint = did_you_mean(name, (AUTO, *SYNTHESIZERS))
            raise ConfigError(f"{hint}found {name!r}, expected names out of {', '.join((AUTO, *SYNTHESIZERS))}")
    return names


def _instance(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and 0 < int(part) < 1000 for part in parts):
        raise ConfigError(f"found {text!r}, expected chunks, steps and rounds, like 6,3,7")
    return tuple(map(int, parts))


SIZE = Parsed("size", parse_size)
"""A size in bytes: `64MiB`, `1GB`, `4096`."""
MEMORY = Parsed("size", _memory)
"""A size that leaves room beside Python and kernels."""
SIZES = Parsed("sizes", parse_sizes)
"""`64KiB,1MiB`, or `64KiB:1GiB` for every size from the first on, four times larger each, up to the second."""
COUNTS = Parsed("numbers", _counts)
"""`1,2,8`, or `0:4` for all from the first up to, and with, the last; several with commas between them, each once."""
SLOW = Parsed("RANK:FACTOR", _slow)
"""`5:1.1`: a rank, and how many times as long its compute takes."""
DELAY = Parsed("RANK:TIME", _delay)
"""`5:10us`: a rank, and the ns by which it starts later."""
NAMES = Parsed("names", _names)
"""Names of synthesizers with commas between them, `auto` among them, without repetitions."""
INSTANCE = Parsed("C,S,R", _instance)
"""`6,3,7`: chunks, steps and rounds."""


def _network(parameter: str) -> Callable[..., Any]:
    return click.option("--network", parameter, type=PATH, metavar="FILE", help="Network YAML, as ASTRA-sim reads it.")


network_option = _network("network_path")
ns3_option = click.option(
    "--ns3-config",
    type=PATH,
    metavar="FILE",
    help="Configuration of ASTRA-sim's ns-3 backend for --backend packet; by default the file in ASTRA-sim's repository.",
)


def check_ns3(ns3_path: Path | None, backend: Backend | None, in_ns3: bool | None = None) -> None:
    """Refuse --ns3-config where it does not count: on an analytical network model.

    Parameters
    ----------
    ns3_path, backend
        The file and the network model, None for none.
    in_ns3
        Whether a program with ns-3 runs instead of a model; None for commands that start none.
    """
    if ns3_path is not None and not in_ns3 and not is_packet_level(backend):
        raise click.UsageError(f"--ns3-config needs --backend packet{'' if in_ns3 is None else f' or {NS3}'}.")


def read_with_ns3(path: Path, ns3_path: Path | None, backend: Backend | None) -> NetworkConfig:
    """The network of a file with the configuration that --ns3-config names, which counts on the packet level only."""
    from astra_tacos.network.network_config import configured, read_network

    network = read_network(path)
    check_ns3(ns3_path, backend)
    return configured(network, ns3_path)


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Print all details and notes.")
checks_option = click.option(
    "--verify/--no-verify", "with_checks", default=True, help="Check each schedule by the oracle and the replay."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def output_option(text: str, metavar: str = "DIR", parameter: str = "output", **settings: Any) -> Decorator:
    """--output and -o."""
    return click.option("--output", "-o", parameter, type=OUTPUT, metavar=metavar, help=text, **settings)


_DEFAULT_BACKEND = "by default congestion-aware, in which messages queue on links."
_PACKET = " packet models ASTRA-sim's ns-3 backend, packet by packet."
_OF_SCHEDULES = (
    "Network model of all times, which schedules are made for; by default congestion-aware, in which messages queue on links. "
    "For several dimensions, only a branch of ASTRA-sim has this model."
)


_BINARY = click.option(
    "--astra-sim-bin",
    type=PATH,
    metavar="FILE",
    help=f"The binary for --backend {ASTRA_SIM} or {NS3}; by default $ASTRA_SIM_BIN, or ASTRA-sim's own name for it on PATH.",
)


def backend_option(
    also_program: str | None = None, *, of_schedules: bool = False, packets: bool = False, default: str = _DEFAULT_BACKEND
) -> Decorator:
    """--backend, given to the command as `backend`, None where it names no network model.

    Parameters
    ----------
    also_program
        What a binary of ASTRA-sim is good for, where it may be asked for, too; the command then gets `in_astra_sim`, `in_ns3`
        where it is one with ns-3, and `astra_sim_bin`, its file, or None.
    default
        Which one is the default, in words.
    """
    models = MODELS if packets else BACKENDS
    names = [*models, *([ASTRA_SIM, NS3] if also_program else [])]
    text = _OF_SCHEDULES if of_schedules else f"Network model of ASTRA-sim, embedded: {default}"
    text += _PACKET * packets
    if also_program:
        text += f" {ASTRA_SIM} {also_program} {NS3} uses a binary of ASTRA-sim that was built with ns-3."

    def decorate(command: Command) -> Command:
        @click.option("--backend", type=click.Choice(names), help=text)
        @functools.wraps(command)
        def with_backend(*arguments: Any, backend: str | None, **others: Any) -> None:
            in_program = backend in (ASTRA_SIM, NS3)
            more = {"in_astra_sim": in_program, "in_ns3": backend == NS3} if also_program else {}
            if others.get("astra_sim_bin") is not None and not in_program:
                raise click.UsageError(f"--astra-sim-bin needs --backend {ASTRA_SIM} or {NS3}.")
            command(*arguments, backend=models.get(backend or ""), **more, **others)

        return _BINARY(with_backend) if also_program else with_backend

    return decorate


workload_option = click.option(
    "--workload", type=PATH, metavar="PREFIX", help="Prefix of the workload's traces: PREFIX.0.et, ..."
)
directory_argument = click.argument("path", type=PATH, metavar="DIR", required=False)
_DIRECTORY = click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Directory in which ASTRA-sim is started: paths in the system JSON start there. By default that of the run, or with "
    "--workload the current one.",
)


def run_options(required: bool, *, takes_compact: bool = False) -> Decorator:
    """A run, given to the command as `inputs`: a directory, files that count before those inside it, or all files.

    Where it is not `required`, `path` may be something else than a run: the command gets it and `network_path`, and `inputs` is
    None if it is. A compact run is refused unless the command `takes_compact`.
    """

    def gathered(path: Path | None, **files: Path | None) -> RunInputs | CompactInputs | None:
        from astra_tacos.run.directory import CompactInputs, Given
        from astra_tacos.run.run import RunInputs

        given = Given(**files)
        others = [name for name in files if name != "network" and files[name] is not None]
        path, given = as_directory(path, given)
        if path is not None and (required or is_run_directory(path)):
            inputs = find_given(path, given)
            if isinstance(inputs, CompactInputs) and not takes_compact:
                command = f"astra-tacos export {shlex.quote(str(path))} --format run --network {shlex.quote(str(inputs.network))}"
                raise click.UsageError(f"{path} is a compact run, expected an ordinary one: `{command} --output DIR` writes it.")
            return inputs
        if path is not None and others:
            option = {"groups": "comm-group"}.get(others[0], others[0].replace("_", "-"))
            raise click.UsageError(f"Got --{option} and {path}, which is no run, expected one of them.")
        if not required and not others:
            return None
        if required and not others and given.network is None:
            raise click.UsageError("Missing DIR, the directory of a run, or --workload, --system and --network.")
        for name in ("workload", "system", "network"):
            if getattr(given, name) is None:
                raise click.UsageError(f"Missing option '--{name}'.")
        assert given.workload and given.system and given.network
        start = given.directory or Path()
        return RunInputs(given.workload, given.system, given.network, given.groups, given.remote_memory, start)

    options = {
        "path": directory_argument if required else click.argument("path", type=PATH, required=False),
        "workload": workload_option,
        "system": click.option("--system", type=PATH, metavar="FILE", help="System JSON."),
        "groups": click.option("--comm-group", "groups", type=PATH, metavar="FILE", help="Communicator group JSON."),
        "remote_memory": click.option("--remote-memory", type=PATH, metavar="FILE", help="Remote memory JSON."),
        "directory": _DIRECTORY,
        "network": _network("network"),
    }
    return _as_inputs(options, gathered, keeps={} if required else {"path": "path", "network": "network_path"})


def as_directory(path: Path | None, given: Given) -> tuple[Path | None, Given]:
    """The directory of a run that a user names, also as --workload, and what else is given."""
    if path is None and given.workload is not None and given.workload.is_dir() and not is_trace_prefix(given.workload):
        return given.workload, replace(given, workload=None)
    return path, given


def is_run_directory(path: Path) -> bool:
    """Whether a path is to be read as the directory of a run: no schedule, and no prefix of traces."""
    return path.is_dir() and not is_schedule(path) and not is_trace_prefix(path)


def find_given(path: Path, given: Given) -> RunInputs | CompactInputs:
    """`find_run` for the command that the user typed."""
    from astra_tacos.run.directory import find_run

    refuse_lockstep(path)
    return find_run(path, typed_command(), given)


def optional_files(where: str = "") -> Decorator:
    """The same of a run that may lack all of them but the workload, which is no option here; `where` says where that may be."""
    texts = {
        "system": ("system", "System JSON", "one that runs native rings"),
        "network": ("network", "Network YAML", "every NPU is connected with every other one"),
        "groups": ("comm-group", "Communicator group JSON", "as the traces say"),
        "remote_memory": ("remote-memory", "Remote memory JSON", "none"),
    }
    options = {
        name: click.option(f"--{option}", name, type=PATH, metavar="FILE", help=f"{meaning}; {where}by default {default}.")
        for name, (option, meaning, default) in texts.items()
    }

    def gathered(directory: Path | None, **files: Any) -> RepairInputs:
        from astra_tacos.workload.repairer.reading import RepairInputs

        return RepairInputs(**files, directory=directory or Path())

    return _as_inputs(options | {"directory": _DIRECTORY}, gathered)


def _as_inputs(
    options: dict[str, Callable[..., Any]],
    gathered: Callable[..., RunInputs | CompactInputs | RepairInputs | None],
    *,
    keeps: Mapping[str, str] = MappingProxyType({}),
) -> Decorator:
    """Options of files, by name, given to the command as one object, `inputs`; those of `keeps` also under own names."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_inputs(*arguments: Any, **given: Any) -> None:
            files = {name: given.pop(name) for name in options}
            more = {parameter: files[name] for name, parameter in keeps.items()}
            command(*arguments, inputs=gathered(**files), **more, **given)

        decorated: Command = with_inputs
        for option in reversed(options.values()):
            decorated = option(decorated)
        return decorated

    return decorate
