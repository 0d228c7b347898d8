"""What an export format is, and the one way in which a schedule becomes a file or a directory of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from astra_tacos.export import EXPORTERS
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support import argument_types
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_replaceable, check_writable, replaced_directory, replaced_file
from astra_tacos.support.quoted import quoted
from astra_tacos.verifier.schedule_oracle import check as check_with_oracle


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export.

    Parameters
    ----------
    path
        The file or directory.
    notes
        What its reader should know, a line each.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, export_schedule, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> exported = export_schedule(schedule, "ring.csv", "csv")
    >>> exported.path.is_file(), exported.notes
    (True, ())
    """

    path: Path
    notes: tuple[str, ...] = ()

    @property
    def figures(self) -> dict[str, Any]:
        """Further figures, ready for JSON."""
        return {}

    @property
    def command(self) -> str:
        """The shell command to continue with, "" if there is none."""
        return ""

    @property
    def exactness(self) -> str:
        """Whether ASTRA-sim takes the predicted time for it, "" where that is no question."""
        return ""


Result = TypeVar("Result", bound=Exported)


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that a format leaves to its user.

    Parameters
    ----------
    help
        What it decides, and what holds if it is not given.
    read
        Its value from text; `ValueError` or `ConfigError` if the text is none.
    """

    help: str
    read: Callable[[str], Any]
    values: str
    example: str


def one_of(values: tuple[str, ...], help: str) -> Option:
    """An option that takes one of several words."""
    return Option(help, lambda text: values[values.index(text)], ", ".join(values), values[-1])


def yes_or_no(help: str) -> Option:
    """An option that is on or off."""
    words = ("no", "yes")
    return Option(help, lambda text: bool(words.index(text)), "yes, no", "no")


def whole_number(help: str) -> Option:
    """An option that takes a whole number, 0 or more."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise ValueError
        return int(text)

    return Option(help, read, "a whole number, 0 or more", "17")


def takes_all(schedule: Schedule) -> str | None:
    """The `refusal` of a format that can express every schedule: none."""
    return None


def _nothing_but(names: set[str]) -> bool:
    return not names


@dataclass(frozen=True, slots=True)
class Exporter(Generic[Result]):
    """A format that schedules are exported to.

    Parameters
    ----------
    name
        Its key in `EXPORTERS`.
    summary
        What is written, for whom, in a line.
    writes
        Whether that is a file or a directory.
    suffix
        What a path ends in that the user did not choose: `.xml`, or `_run` for a directory.
    write
        Takes a schedule that is legal and that `why_not` has no objection to, a path, and values of `options` by name, which are
        checked against the annotations of its parameters. It writes
        the file at exactly that path, whose name ends in `suffix`, or its files into that directory, which exists and is empty;
        both are temporary and get their place when all has gone well. The same arguments give the same bytes.
    why_not
        What of a schedule the format cannot express, in words that go on from "but"; None if it can express it.
    options
        What the user may choose, by name.
    is_own
        Whether a directory that has entries of these names may be replaced, as it holds what this format writes, or nothing.
    inside
        What it may have in folders, besides traces and ASTRA-sim's log.

    Examples
    --------
    >>> from astra_tacos import EXPORTERS
    >>> EXPORTERS["csv"].suffix, EXPORTERS["csv"].writes
    ('.csv', 'file')
    """

    name: str
    summary: str
    writes: Literal["file", "directory"]
    suffix: str
    write: Callable[..., Result]
    why_not: Callable[[Schedule], str | None] = takes_all
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    is_own: Callable[[set[str]], bool] = _nothing_but
    inside: tuple[str, ...] = ()

    def export(self, schedule: Schedule, path: str | Path, *, check: bool = True, **options: Any) -> Result:
        """Write a schedule to `path`, which gets all of it or stays as it was.

        Parameters
        ----------
        schedule
            The schedule to write.
        path
            File or directory to write.
        check
            Whether the oracle checks the schedule first; turn it off only for one that it has checked.
        options
            As `options` lists them, and what else `write` takes.

        Raises
        ------
        ConfigError
            If this is no schedule, an option has no such value, the format cannot express the schedule, or `path` cannot be
            written or holds something else.
        VerificationError
            If the oracle objects.
        """
        path = Path(path)
        if not isinstance(schedule, Schedule):
            raise ConfigError(f"{self.name}: found {type(schedule).__name__}, expected a Schedule")
        options = {name: argument_types.plain(value) for name, value in options.items()}
        types = argument_types.type_hints(self.write)
        for name, value in options.items():
            argument_types.check(f"{self.name}: {name}", value, types.get(name, Any))
        self.check_output(path)
        reason = self.why_not(schedule)
        if reason is not None:
            raise ConfigError(f"{self.name}: found a schedule of {schedule.collective.name}, but {reason}")
        if check:
            check_with_oracle(schedule)
        with replaced_file(path, self.suffix) if self.writes == "file" else replaced_directory(path) as temporary:
            result = self.write(schedule, temporary, **options)
            if not isinstance(result, Exported):
                raise ConfigError(f"{self.name}: write returned {type(result).__name__}, expected Exported")
        return replace(result, path=path)

    def check_output(self, path: Path) -> None:
        """Check, before any work, that the format may be written to `path`: it does not exist, or may be replaced.

        Raises
        ------
        ConfigError
            If anything else is there, or the place cannot be written to.
        """
        if self.writes == "file":
            check_writable(path)
        else:
            kind = f"{self.name.removesuffix('-directory')} directory of astra_tacos"
            check_replaceable(path, kind, self.is_own, self.inside)

    def read_option(self, text: str) -> tuple[str, Any]:
        """Name and value of an option written as `NAME=VALUE`; the name as `export` takes it.

        Raises
        ------
        ConfigError
            If there is none of that name, or it has no such value.
        """
        name, _, value = text.partition("=")
        if name not in self.options:
            expected = ", ".join(self.options) or "none"
            raise ConfigError(f"options of {self.name}: found {quoted(name)}, expected {expected}")
        option = self.options[name]
        try:
            return name.replace("-", "_"), option.read(value)
        except (ConfigError, ValueError):
            raise ConfigError(f"{name} of {self.name}: found {quoted(value)}, expected {option.values}") from None


def export_schedule(schedule: Schedule, path: str | Path, format: str, *, check: bool = True, **options: Any) -> Exported:
    """Write a schedule in one of the formats of `EXPORTERS`; `path` gets all of it or stays as it was.

    Parameters
    ----------
    schedule
        The schedule to write.
    path
        A file or a directory, as the format writes it.
    format
        Key of `EXPORTERS`.
    check
        Whether the oracle checks the schedule first; turn it off only for one that it has checked.
    options
        What the format leaves open: keys of its `options`, with `_` for `-`.

    Raises
    ------
    ConfigError
        If there is no such format or option, the format cannot express the schedule, or `path` cannot be written.
    VerificationError
        If the oracle objects.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, export_schedule, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> export_schedule(schedule, "ring.xml", "msccl-xml").path.name
    'ring.xml'
    """
    if format not in EXPORTERS:
        raise ConfigError(f"format: found {format!r}, expected {', '.join(EXPORTERS)}")
    exporter = EXPORTERS[format]
    unknown = [name for name in options if name.replace("_", "-") not in exporter.options]
    if unknown:
        expected = ", ".join(name.replace("-", "_") for name in exporter.options) or "none"
        raise ConfigError(f"options of {format}: found {unknown[0]!r}, expected {expected}")
    written: Exported = exporter.export(schedule, path, check=check, **options)
    return written
