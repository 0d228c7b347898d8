"""Options of requests: a terminal user and a Python user read the same words, and useless options are refused in both."""

from __future__ import annotations

import click
import pytest

from astra_tacos.cli.main import COMMANDS, cli
from astra_tacos.cli.shared.command import FieldOption
from astra_tacos.support.options import options_of
from astra_tacos.synthesizer.search.search_options import SearchOptions

REQUESTS = (SearchOptions,)


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("request_class", REQUESTS)
def test_the_words_of_the_command_line_are_those_of_python(request_class):
    commands = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    shown = {(each.name, each.help) for command in commands for each in command.params if isinstance(each, FieldOption)}
    for name, each in options_of(request_class).items():
        assert (name, each.help) in shown
        assert words(each.help) in words(request_class.__doc__)
        assert words(request_class.__doc__).count(words(each.help)) == 1
