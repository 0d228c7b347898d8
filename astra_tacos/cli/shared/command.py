"""The class of all commands: short and full help (--help, --help-all), and modes (`compare --frontier`)."""

from __future__ import annotations

import difflib
import functools
import importlib
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import click

from astra_tacos.cli.shared.console import echo
from astra_tacos.support.options import Group
from astra_tacos.support.plugins import added_parts

_RARE = {
    Group.COLLECTIVE: "--matrix --helpers --sketch --candidate",
    Group.SEARCH: "--trials --seed --verify --refine-steps --refine-max-npus",
    Group.SIMULATORS: "--remote-memory --directory --ns3-config --astra-sim-bin --cache --no-cache",
    Group.PARTS: "--ranks --without --explain",
    Group.WRITTEN: "--link-order --in-flight --msccl-xml --plot-width --chrome-trace",
    Group.COSTS: "--cost-model --budget-cost --constraint --min-bandwidth --latency --libra-network --communicator",
    Group.PROCESSES: "--workers --timeout --memory --retry-failed",
}
"""Options of commands alone that few people set, in all commands that have them; fields of requests say their groups."""
_TYPED = "astra_tacos.typed"
_MOST_SHOWN = 11
"""Of a command with no more options, `--help` shows all."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean all-reduce? ` for a name that is near one of some others, else ""."""
    near = difflib.get_close_matches(name.lower(), names, 1)
    return f"did you mean {near[0]}? " if near else ""


class FieldOption(click.Option):
    """An option that is a field of a request, and under which title full help shows it."""

    def __init__(self, *names: Any, group: Group | None = None, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


class Command(click.Command):
    """A command, of which some options are modes: each stands for a command of its own, with options of its own."""

    def __init__(
        self,
        *arguments: Any,
        modes: Mapping[str, str] | None = None,
        removed: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """`modes`: by option, module and function of its command in `astra_tacos.cli`, with a point between them.

        `removed`: by option that is gone, the command that does the same.
        """
        super().__init__(*arguments, **settings)
        self.modes = modes or {}
        self.removed = removed or {}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """See `click.Command`. The context is that of a mode, if the arguments name one; it knows what was typed."""
        typed = shlex.join(["astra-tacos", str(info_name), *args])
        context = self._context(info_name, args, parent, **extra)
        context.meta[_TYPED] = typed
        return context

    def _context(self, info_name: str | None, args: list[str], parent: click.Context | None, **extra: Any) -> click.Context:
        given = args[: args.index("--")] if "--" in args else args
        names = [name for name in self.modes if any(word.split("=")[0] == name for word in given)]
        if len(names) > 1:
            raise click.UsageError(f"Got {' and '.join(names)}, expected at most one of them.")
        try:
            if not names:
                return super().make_context(info_name, args, parent, **extra)
            mode = self._mode(names[0])
            asks = any(word in ("-h", "--help", _HELP_ALL.opts[0]) for word in given)
            left = [word for word in args if word != names[0]] if asks or names[0] not in _option_names(mode) else args
            return mode.make_context(f"{info_name} {names[0]}", left, parent, **extra)
        except click.NoSuchOption as error:
            if error.option_name in self.removed:
                instead = self.removed[error.option_name]
                raise click.UsageError(f"{error.option_name} is gone: `{instead}` does the same.") from None
            if parent is not None and error.option_name in _option_names(parent.command):
                raise click.UsageError(
                    f"{error.option_name} stands before the command: `astra-tacos {error.option_name} ... {info_name}`."
                ) from None
            commands = {f"`{info_name}`": self} | {f"`{info_name} {name}`": self._mode(name) for name in self.modes}
            owners = [name for name, command in commands.items() if error.option_name in _option_names(command)]
            if not owners:
                raise
            here = f"`{' '.join([str(info_name), *names])}`"
            raise click.UsageError(f"{error.option_name} is an option of {' and '.join(owners)}, not of {here}.") from None

    def _mode(self, name: str) -> click.Command:
        module, _, function = self.modes[name].partition(".")
        mode = getattr(importlib.import_module(f"astra_tacos.cli.{module}"), function)
        assert isinstance(mode, click.Command)
        return mode

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """See `click.Command`: also --help-all."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command`: the options that people set, then the others by what they are for, then the modes."""
        groups: dict[Group | None, list[tuple[str, str]]] = {group: [] for group in (None, *Group)}
        of_names = {name: group for group, names in _RARE.items() for name in names.split()}
        is_short = len(self.params) <= _MOST_SHOWN
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.group if isinstance(parameter, FieldOption) else of_names.get(parameter.opts[0])
                groups[None if is_short else group].append(record)
        modes = [(name, self._mode(name).get_short_help_str(100)) for name in self.modes]
        sections = [("Options", groups.pop(None))]
        sections += [(str(group.value), rows) for group, rows in groups.items() if group and _HELP_ALL.name in ctx.meta]
        for title, rows in (*sections, ("Other questions (each has its own options and --help)", modes)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        write_plugins(formatter)


def write_plugins(formatter: click.HelpFormatter) -> None:
    """Write what plugins registered, if they did, as a part of help."""
    if rows := [(f"{part.kind} {part.name}", part.summary) for part in added_parts()]:
        with formatter.section("Added by plugins"):
            formatter.write_dl(rows)


def _print_all(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        ctx.meta[str(parameter.name)] = True
        echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_print_all, help="Show all options and exit."
)


def typed_command() -> str:
    """The words of the command that runs, as the user typed them."""
    return str(click.get_current_context().meta[_TYPED])


def _option_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


command = functools.partial(click.command, cls=Command)
"""`click.command` for all commands of this package."""
