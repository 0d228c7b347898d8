"""Entry point of `astra-tacos`. Exit codes: 0 good, 1 a check failed, 2 bad input, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import click

from astra_tacos.cli.shared.command import did_you_mean, write_plugins
from astra_tacos.cli.shared.console import echo, make_streams_lenient, print_warnings, shown
from astra_tacos.support import temporaries
from astra_tacos.support.errors import AstraTacosError, ReplayError, VerificationError
from astra_tacos.support.input_file import inputs_noted
from astra_tacos.support.interrupts import Interrupts, interruptible
from astra_tacos.support.plugins import place_in_plugin

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing multiplies large matrices, and its threads wait busily

CHECK_FAILED = 1
"""Exit code: what was checked is wrong."""
BAD_INPUT = 2
"""Exit code: nothing was checked."""
_LONG_NUMBER = re.compile(r"(?<![0-9.])[0-9]{61,}")
_LONGEST_ERROR = 570
"""Characters as they are shown, 600 with what stands before them. Of longer messages the middle is left out."""

SECTIONS = {
    "Make": {
        "synthesize": "Synthesize a collective algorithm for a network and write its traces.",
        "plan": "Replace the collectives of a training run by synthesized collectives, place ranks, divide NPUs.",
        "generate": "Generate a training run of up to 1,048,576 ranks: transformers, CNNs, DLRM, or layers from a file.",
        "network": "Make a network of NPUs and switches (leaf-spine, rails, ...), or read a network of ns-3, NCCL or InfraGraph.",
        "import": "Make a run from PyTorch's traces, a workload text, several runs, or a collective algorithm of another tool.",
        "export": "Turn a saved schedule into another format: traces, MSCCL XML, a run directory, a timeline, CSV.",
    },
    "Check": {
        "verify": "Check that a schedule, trace, MSCCL XML or MSCCL++ plan computes its collective.",
        "replay": "Replay a training run, schedule or trace, and print when every rank finishes.",
        "lint": "Find faults that make ASTRA-sim stall, abort or compute something else, and mend them (--fix).",
        "inspect": "Show the content of a network, trace (also of PyTorch), schedule or XML.",
        "calibrate": "Fit the constants of a machine to measured times of collectives.",
    },
    "Explore": {
        "compare": "Compare the times of synthesizers over sizes; also fewest steps, sums in switches, parameter servers.",
        "optimize": "Find the best bandwidth of each dimension for a workload and a budget.",
        "sweep": "Run a grid of networks, collectives and algorithms, on one machine or on a Dask cluster.",
        "report": "Make a page (.html) or a figure for a paper (.svg, .pdf) from the output of another command.",
    },
}
"""Each command is the function of that name in the module of that name; help shows these lines without importing them."""
COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}
_MODULES = {"import": "import_run"}
"""Modules of commands that cannot have their names, which are words of Python."""
_REMOVED = {
    "repair": "lint --fix --output DIR",
    "pareto": "compare --frontier",
    "offload": "compare --offload",
    "servers": "compare --servers",
    "place": "plan --only-place",
    "endpoint": "plan --endpoint host",
    "fabric": "network",
    "plot": "report INPUT -o x.svg",
}
"""Former commands, and what does the same."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _REMOVED:
            raise click.UsageError(f"{cmd_name} is gone: `astra-tacos {_REMOVED[cmd_name]}` does the same.")
        if cmd_name not in COMMANDS:
            hint = did_you_mean(cmd_name, COMMANDS) or "astra-tacos --help lists them"
            raise click.UsageError(f"No such command '{cmd_name}': {hint}")
        name = _MODULES.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f"astra_tacos.cli.{name}"), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))
        load_plugins(())  # of installed packages: help may come before the callback of --plugin
        write_plugins(formatter)


def load_plugins(paths: tuple[str, ...]) -> None:
    """Load what installed packages register, and the files that the user names."""
    from astra_tacos.support.plugins import load_installed_plugins, load_plugin

    load_installed_plugins()
    for path in paths:
        load_plugin(path)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="astra-tacos", prog_name="astra-tacos")
@click.option(
    "--plugin",
    multiple=True,
    metavar="FILE.py",
    expose_value=False,
    is_eager=True,
    callback=lambda _, __, paths: load_plugins(paths),
    help="Run a file that registers a synthesizer, building block, format, rule or policy; may be given several times.",
)
def cli() -> None:
    """Collective algorithms for ASTRA-sim, synthesized for the network at hand.

    \b
    astra-tacos synthesize --network N.yml --collective all-reduce --size 64MiB --output DIR
    """
    print_warnings()
    click.get_current_context().with_resource(inputs_noted())


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit. Without `arguments`, those of the process count, and a process that succeeds ends at once."""
    make_streams_lenient()
    with interruptible(ends_process=True) as interrupts:
        try:
            _run(arguments, interrupts)
        except SystemExit as end:
            if arguments is None and end.code == 0:
                _end_at_once()
            raise


def _end_at_once() -> None:
    """End the process without freeing what it has made, which takes 0.1 s, and more after a large search."""
    temporaries.remove_all()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # a stream that cannot be flushed is reported as the interpreter ends
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _run(arguments: list[str] | None, interrupts: Interrupts) -> NoReturn:
    try:
        with interrupts.raised():
            try:
                status = cli.main(arguments, prog_name="astra-tacos", standalone_mode=False)
            except click.exceptions.NoArgsIsHelpError as error:
                echo(error.format_message())
                status = 0
    except BaseException as error:
        # A library that was interrupted, as while it is loaded, raises what it likes.
        if interrupts.came or isinstance(error, (click.Abort, KeyboardInterrupt)):
            sys.exit(interrupts.exit_code)
        _answer(error)
    sys.exit(status if isinstance(status, int) else 0)


def _answer(raised: BaseException) -> NoReturn:
    """End the process as an exception asks for, with its message; one that is no answer goes on."""
    try:
        raise raised
    except click.ClickException as error:
        _fail(error.format_message(), BAD_INPUT)
    except (VerificationError, ReplayError) as error:
        _fail(str(error), CHECK_FAILED)
    except AstraTacosError as error:
        _fail(str(error), BAD_INPUT)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: keep the flush at exit quiet
            sys.exit(CHECK_FAILED)
        if error.filename is None and not _has_current_directory():
            _fail("the current directory does not exist any more: change to another one", BAD_INPUT)
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}", BAD_INPUT)
    except MemoryError:
        _fail("out of memory: use a smaller network or run, fewer chunks per NPU, or a machine with more memory", BAD_INPUT)
    except Exception as error:
        if (place := place_in_plugin(error)) is None:
            raise
        _fail(f"{place}: {type(error).__name__}: {error}, expected a plugin that does not fail", BAD_INPUT)


def _has_current_directory() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _fail(message: str, status: int) -> NoReturn:
    text = _LONG_NUMBER.sub(lambda number: f"{number[0][:20]}... ({len(number[0])} digits)", " ".join(message.split()))
    text = shown(text, sys.stderr)
    if len(text) > _LONGEST_ERROR:
        text = f"{text[: _LONGEST_ERROR * 2 // 3]} ... {text[-_LONGEST_ERROR // 3 + 5 :]}"
    with contextlib.suppress(OSError):  # where nobody can read it, the exit code still tells
        echo(f"astra-tacos: error: {text}", is_error=True)
    sys.exit(status)
