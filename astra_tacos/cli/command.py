"""The class of all commands: what their help shows, and options that choose another command (`compare --frontier`)."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

import click


class Command(click.Command):
    """A command, of which some options are modes: each stands for a command of its own, with options of its own."""

    def __init__(self, *arguments: Any, modes: Mapping[str, str] | None = None, **settings: Any) -> None:
        """`modes`: by option, module and function of its command in `astra_tacos.cli`, with a point between them."""
        super().__init__(*arguments, **settings)
        self.modes = modes or {}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """See `click.Command`. The context is that of the mode, if the arguments name one."""
        given = args[: args.index("--")] if "--" in args else args
        names = [name for name in self.modes if any(word.split("=")[0] == name for word in given)]
        if len(names) > 1:
            raise click.UsageError(f"Got {' and '.join(names)}, expected at most one of them.")
        try:
            if not names:
                return super().make_context(info_name, args, parent, **extra)
            mode = self._mode(names[0])
            left = args if names[0] in _option_names(mode) else [word for word in args if word != names[0]]
            return mode.make_context(f"{info_name} {names[0]}", left, parent, **extra)
        except click.NoSuchOption as error:
            commands = {f"`{info_name}`": self} | {f"`{info_name} {name}`": self._mode(name) for name in self.modes}
            owners = [name for name, command in commands.items() if error.option_name in _option_names(command)]
            if not owners:
                raise
            here = f"`{' '.join([str(info_name), *names])}`"
            raise click.UsageError(f"{error.option_name} is an option of {' and '.join(owners)}, not of {here}.") from None

    def _mode(self, name: str) -> click.Command:
        module, _, function = self.modes[name].partition(".")
        found = getattr(importlib.import_module(f"astra_tacos.cli.{module}"), function)
        assert isinstance(found, click.Command)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command`."""
        super().format_options(ctx, formatter)
        if self.modes:
            with formatter.section("Other questions, with options of their own (--help after the option)"):
                formatter.write_dl([(name, self._mode(name).get_short_help_str(100)) for name in self.modes])


def _option_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


command = functools.partial(click.command, cls=Command)
"""`click.command` for all commands of this package."""
