"""The shell script in a run directory that starts ASTRA-sim on it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from astra_tacos.replayer.ns3_files import CONFIG_FILE, LOGICAL_FILE
from astra_tacos.run.backend import Backend
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import ASTRA_SIM_LOG

SCRIPT = "run_astra_sim.sh"
NS3_SCRIPT = "run_ns3.sh"
LOG = ASTRA_SIM_LOG
_GROUPS = "comm_group.json"
_MEMORY = "--remote-memory-configuration=remote_memory.json"


def check_script_name(workload: str) -> None:
    """Check that a workload's name can be in a script: it has no control characters, which editors and terminals act upon.

    Raises
    ------
    ConfigError
        If it has some.
    """
    if not workload.isprintable():
        raise ConfigError(f"{workload!r}: found a name with control characters, expected one that a script can hold")


def write_run_script(
    directory: Path,
    workload: str,
    backend: Backend,
    verb: str,
    note: str | None = None,
    *,
    needs: str | None = None,
    has_groups: bool = False,
) -> None:
    """Write a script that runs `system.json`, `network.yml` and `remote_memory.json` beside it, wherever it is called from.

    Parameters
    ----------
    directory
        Directory of the run.
    workload
        Prefix of the workload's traces, from the directory.
    backend
        The network model that the files are for.
    verb, note
        What it does with the directory, and what there is to know, for its comments.
    needs
        What ASTRA-sim has to be built with; None for stock ASTRA-sim.
    has_groups
        Whether there is a `comm_group.json`, too.

    Raises
    ------
    ConfigError
        If the workload's name has control characters.
    """
    comments = [f"{verb} this directory on ASTRA-sim's {backend} analytical backend{f', built with {needs}' if needs else ''}."]
    comments += [_one_line(note)] if note else []
    program = f"{backend.binary}{f', built with {needs}' if needs else ''}"
    options = ["--network-configuration=network.yml", _MEMORY]
    options += [f"--comm-group-configuration={_GROUPS}"] if has_groups else []
    _write(directory / SCRIPT, workload, comments, program, [*options, f"--logging-folder={LOG}"])


def write_ns3_script(path: Path, workload: str, groups: str | None = None) -> None:
    """Write a script that runs the files for ASTRA-sim's ns-3 backend beside it, wherever it is called from.

    Parameters
    ----------
    path
        The script.
    workload
        Prefix of the workload's traces, from its directory.
    groups
        The file of communicator groups; None if there is none.

    Raises
    ------
    ConfigError
        If the workload's name has control characters.
    """
    options = [f"--network-configuration={CONFIG_FILE}", _MEMORY, f"--logical-topology-configuration={LOGICAL_FILE}"]
    comments = ["Replays this directory on ASTRA-sim's ns-3 backend."]
    program = "AstraSimNetwork, ASTRA-sim's program for ns-3"
    _write(path, workload, comments, program, [*options, f"--comm-group-configuration={groups or 'empty'}"])


def _write(path: Path, workload: str, comments: Sequence[str], program: str, options: Sequence[str]) -> None:
    """Write a script that starts a program in its own directory.

    Parameters
    ----------
    path
        The script.
    workload
        Prefix of the workload's traces, from its directory.
    comments
        Lines of comment, without control characters.
    program
        What ASTRA_SIM_BIN has to be the path of.
    options
        Options of the program after those of the workload and the system.
    """
    check_script_name(workload)
    remarks = "\n".join(f"# {comment}" for comment in comments)
    arguments = " \\\n  ".join(options)
    path.write_text(
        f"""#!/bin/sh
{remarks}
set -eu
: "${{ASTRA_SIM_BIN:?set it to the path of {program}}}"
case $ASTRA_SIM_BIN in
  /*) ;;
  */*) ASTRA_SIM_BIN=$PWD/$ASTRA_SIM_BIN ;;
esac
CDPATH='' cd -- "$(dirname -- "$0")"
exec "$ASTRA_SIM_BIN" \\
  --workload-configuration={shlex.quote(workload)} \\
  --system-configuration=system.json \\
  {arguments} "$@"
""",
        encoding="utf-8",
        errors="surrogateescape",
    )
    path.chmod(path.stat().st_mode | 0o111)


def _one_line(text: str) -> str:
    """A comment's text: control characters, of which a line break would end the comment, are question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)
