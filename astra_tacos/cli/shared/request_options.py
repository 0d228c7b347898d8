"""The options of a command that are fields of a request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import click

from astra_tacos.cli.shared.command import FieldOption
from astra_tacos.cli.shared.options import PATH, Command, Decorator, OneOf, Parsed, WordOr
from astra_tacos.support.options import Choice, File, Flag, Number, Option, Text, Whole, options_of, why_useless


def request_options(
    request: type, parameter: str, *, without: Collection[str] = (), defaults: object = None, is_whole: bool = False
) -> Decorator:
    """The options of a request's fields, given to a command as `parameter`: what makes the request, given its other fields.

    Parameters
    ----------
    request
        A dataclass with fields made by `option`.
    without
        Fields that the command has no option for.
    defaults
        A request whose values are the defaults of the command; None for those of the class.
    is_whole
        Whether no other fields are needed: the command gets the request itself.
    """
    usual = {field.name: getattr(defaults, field.name, field.default) for field in fields(request)}
    options = {name: option for name, option in options_of(request).items() if name not in without}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_request(*arguments: Any, **given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            refuse_useless(request, SimpleNamespace(**usual | values))
            make: Callable[..., Any] = functools.partial(request, **values)
            command(*arguments, **{parameter: make() if is_whole else make}, **given)

        decorated: Command = with_request
        for name, option in reversed(options.items()):
            decorated = click.option(*_names(name, option), name, cls=FieldOption, **_settings(option, usual[name]))(decorated)
        return decorated

    return decorate


def refuse_useless(request: type, *values: Any) -> None:
    """Refuse an option of the command line that counts in none of several sets of values of a request."""
    context, options = click.get_current_context(), options_of(request)

    def spell(name: str) -> str:
        return f"--{_flag(name, options[name])}"

    for name in options:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            reason = why_useless(request, name, values, spell)
            if reason is not None:
                raise click.UsageError(f"{spell(name)}: {reason}.")


def _flag(name: str, option: Option) -> str:
    return option.name or name.replace("_", "-")


def _names(name: str, option: Option) -> tuple[str, ...]:
    """The option's names on the command line, the usual one first."""
    flag = f"--{_flag(name, option)}"
    if isinstance(option.kind, Flag) and option.kind.has_opposite:
        flag += f"/--no-{_flag(name, option)}"
    return (flag, f"--{option.also}") if option.also else (flag,)


def _settings(option: Option, default: object) -> dict[str, Any]:
    """What click takes of an option of a request."""
    kind = option.kind
    settings: dict[str, Any] = {"help": option.help, "group": option.group, "show_default": option.shows_default}
    settings["default"] = None if default is MISSING else default
    if isinstance(kind, Flag):
        return settings if kind.has_opposite else settings | {"is_flag": True}
    if isinstance(kind, Text) and kind.alone is not None:
        settings |= {"is_flag": False, "flag_value": kind.alone}
    return settings | {"metavar": option.metavar, "type": _type(kind)}


def _type(kind: Whole | Number | Choice | Text | File) -> click.ParamType:  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    if isinstance(kind, Choice):
        return OneOf(list(kind.choices))
    if isinstance(kind, Whole):
        numbers = click.IntRange(kind.least, kind.most)
        if kind.read is not None:
            return Parsed("number", kind.read)
        return WordOr(kind.word, numbers) if kind.word else numbers
    if isinstance(kind, File):
        return PATH
    return click.FLOAT if isinstance(kind, Number) else click.STRING
