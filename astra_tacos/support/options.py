"""Options of requests: a field says once what it takes, what it is for and what it needs, in Python and on the command line."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from astra_tacos.support.errors import ConfigError

Spell = Callable[[str], str]
"""What the user calls a field: its name in Python, its flag on the command line."""
Need = Callable[[Any, Spell], str | None]
"""Why an option does not count in a request, in words that follow its name; None if it does count."""
Request = TypeVar("Request")
_MOST = (1 << 62) - 1


class Group(Enum):
    """Titles of options that few people set, in the order in which `--help-all` shows them; `--help` does not."""

    COLLECTIVE = "The collective and its synthesis"
    SEARCH = "The search"
    SIMULATORS = "Runs and simulators"
    PARTS = "Parts of a run"
    SCHEDULES = "Schedules of communication"
    WRITTEN = "What is written"
    MODEL = "The model"
    ITERATION = "The iteration"
    COSTS = "Costs and limits"
    PROCESSES = "Processes"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number.

    Parameters
    ----------
    least, most
        The range; without `most`, up to 2**62 - 1.
    read
        What the command line makes of a text that is no plain number; None for plain numbers alone.
    word
        A text that may take the place of the number, "" for none.
    """

    least: int = 1
    most: int | None = None
    read: Callable[[str], int] | None = None
    word: str = ""

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        if self.word and value == self.word:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            return f"found {value!r}, expected a whole number"
        if not self.least <= value <= (_MOST if self.most is None else self.most):
            return f"found {value}, expected {self.least} to {'2**62 - 1' if self.most is None else f'{self.most:,}'}"
        return None


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, of 0 or more, or of more than 0; `unit` is that of messages."""

    unit: str
    may_be_zero: bool = False

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0 or (value == 0 and not self.may_be_zero):  # type: ignore[operator]
            return f"found {value!r}, expected {'0 or more' if self.may_be_zero else 'more than 0'} {self.unit}"
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of some names, or a key of a registry, which may grow."""

    names: tuple[str, ...]
    registry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[str, ...]:
        """All names."""
        return (*self.names, *self.registry)

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        *others, last = self.choices
        return None if value in self.choices else f"found {value!r}, expected {', '.join(others)} or {last}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False; the command line has an option for either where it `has_opposite`."""

    has_opposite: bool = False

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        return None if isinstance(value, bool) else f"found {value!r}, expected True or False"


@dataclass(frozen=True, slots=True)
class Text:
    """A text; where the command line's option has no value, it is `alone`."""

    alone: str | None = None

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        return None if isinstance(value, str) else f"found {value!r}, expected a string"


@dataclass(frozen=True, slots=True)
class File:
    """The path of a file."""

    def wrong(self, value: object) -> str | None:
        """What is wrong with a value, in words; None if nothing is."""
        return None if isinstance(value, str | Path) else f"found {value!r}, expected a Path"


Kind = Whole | Number | Choice | Flag | Text | File


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field of a request is for those who set it.

    Parameters
    ----------
    kind
        What it takes.
    help
        What it is for, in the words of `--help` and of the class's docstring.
    group
        The title under which `--help-all` shows it; None for an option that `--help` shows.
    name
        Of the command line's option, without dashes; "" for that of the field.
    also
        Another name of the command line's option, "" for none.
    metavar
        What stands for a value in help texts; None for what the kind says.
    in_python
        What else there is to say of a value that only Python can give.
    shows_default
        Whether `--help` shows the default, where it is a value that the help does not name.
    needs
        Whether the option counts, which only matters where it was given; None for one that always does.
    """

    kind: Kind
    help: str
    group: Group | None = None
    name: str = ""
    also: str = ""
    metavar: str | None = None
    in_python: str = ""
    shows_default: bool = True
    needs: Need | None = None


def option(default: Any, kind: Kind, help: str, **settings: Any) -> Any:
    """A field of a dataclass that is an option; `settings` are those of `Option`."""
    return field(default=default, metadata={Option: Option(kind=kind, help=help, **settings)})


def options_of(request: type) -> dict[str, Option]:
    """By field of a request, its option."""
    return {parameter.name: parameter.metadata[Option] for parameter in fields(request) if Option in parameter.metadata}


def needs_field(name: str, value: object = None) -> Need:
    """The need of another field: of that value, or of any."""

    def unmet(request: Any, spell: Spell) -> str | None:
        setting = getattr(request, name)
        is_met = setting == value if value is not None else setting is not None and setting is not False
        return None if is_met else f"needs {spell(name)}{'' if value is None else f' {value}'}"

    return unmet


def check_values(request: Any) -> None:
    """Check that each option of a request has a value as it takes them, or its default.

    Raises
    ------
    ConfigError
        If one has not.
    """
    for parameter in fields(request):
        value, of_field = getattr(request, parameter.name), parameter.metadata.get(Option)
        if of_field is None or (value is None and parameter.default is None):
            continue
        wrong = of_field.kind.wrong(value)
        if wrong is not None:
            raise ConfigError(f"{_words(parameter, of_field)}: {wrong}")


def check_needs(request: Any, *defaults: Any) -> None:
    """Check that each option of a request counts that has another value than usual.

    Parameters
    ----------
    request
        A request.
    defaults
        Requests of the same class whose values are no demands, beside the defaults of the class.

    Raises
    ------
    ConfigError
        If an option has no use.
    """
    for parameter in fields(request):
        value = getattr(request, parameter.name)
        if value != parameter.default and all(value != getattr(usual, parameter.name) for usual in defaults):
            reason = why_useless(type(request), parameter.name, [request], str)
            if reason is not None:
                raise ConfigError(f"{parameter.name}: {reason}")


def why_useless(request: type, name: str, values: Iterable[Any], spell: Spell) -> str | None:
    """Why a field of a request counts in none of several sets of values, in words that follow its name; None if it counts."""
    needs = options_of(request)[name].needs if name in options_of(request) else None
    reasons = [needs(value, spell) for value in values] if needs is not None else []
    return reasons[0] if reasons and None not in reasons else None


def without_useless(request: Request) -> Request:
    """A request whose options that do not count have the defaults of their class."""
    useless = {
        parameter.name: parameter.default
        for parameter in fields(request)  # type: ignore[arg-type]  # a dataclass
        if why_useless(type(request), parameter.name, [request], str) is not None
    }
    return replace(request, **useless) if useless else request  # type: ignore[type-var]  # a dataclass


def described(request: type[Request]) -> type[Request]:
    """A request with the help of its options as the parameters of its docstring, after those that stand there."""
    text = inspect.cleandoc(request.__doc__ or "")
    entries = {name: textwrap.indent(textwrap.fill(help_of(option), 116), "    ") for name, option in options_of(request).items()}
    parameters = "\n".join(f"{name}\n{text}" for name, text in entries.items())
    head, line, tail = text.partition("\n\nRaises\n")
    title = "\n" if "\nParameters\n---" in head else "\n\nParameters\n----------\n"
    request.__doc__ = f"{head}{title}{parameters}{line}{tail}\n"
    return request


def help_of(option: Option) -> str:
    """What Python says of an option."""
    return f"{option.help} {option.in_python}".strip()


def _words(parameter: Field[Any], of_field: Option) -> str:
    return (of_field.name or parameter.name).replace("-", " ").replace("_", " ").replace("npu", "NPU")
