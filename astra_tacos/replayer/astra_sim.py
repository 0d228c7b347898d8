"""Runs of a real ASTRA-sim: the user's binary, started as ASTRA-sim's documentation says, and the times in its log."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.replayer.packet_network import CONFIG_FILE, LOGICAL_FILE, write_ns3_files
from astra_tacos.run.backend import BACKENDS, Backend, stock_backend
from astra_tacos.run.run import RunInputs
from astra_tacos.run.system import NO_MEMORY
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import write_json
from astra_tacos.support.temporaries import scratch_directory

BINARY_VARIABLE = "ASTRA_SIM_BIN"
LOGGING = """[[sink]]
name = "none"
type = "null_sink_mt"

[[logger]]
name = "workload"
sinks = ["none"]
level = "info"
"""
"""A logging configuration with which ASTRA-sim prints the line of a rank at once.

Without one a second thread prints, and an abort at the end (lint: G10) loses what that thread has not printed.
"""
_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (-?\d+) cycles")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TROUBLE = re.compile(r"critical|error|assert|terminate|what\(\)|\[\w*E\w*\]", re.IGNORECASE)
_LAST_WORDS = 300


@dataclass(frozen=True, slots=True, eq=False)
class AstraSimResult:
    """The result of an ASTRA-sim run, as read from its log.

    Parameters
    ----------
    finish_ns, exposed_comm_ns
        int64[num_ranks], end and exposed communication of each rank; -1 for ranks without a `finished` line.
    exit_status
        Exit status of the process. ASTRA-sim may exit with 0 after a stall and with another status after a complete run;
        `finish_ns` is what counts.
    last_words
        The last line of the log that looks like an error message, "" if there is none.
    """

    binary: Path
    finish_ns: Ints
    exposed_comm_ns: Ints
    exit_status: int
    last_words: str

    @property
    def stalled(self) -> list[int]:
        """Ranks without a `finished` line."""
        return [int(rank) for rank in np.flatnonzero(self.finish_ns < 0)]


def find_binary(binary: str | Path | None, network: NetworkConfig, backend: Backend | None = None) -> Path:
    """The binary to run: the given one, else `$ASTRA_SIM_BIN`, else the program of a backend on PATH.

    Parameters
    ----------
    binary, network
        The given one, None for none, and the network that it is for.
    backend
        The backend whose program is wanted; None for the one that stock ASTRA-sim has for the network.

    Raises
    ------
    ConfigError
        If it does not exist or is not executable.
    """
    name = (backend or stock_backend(network)).binary
    given = binary or os.environ.get(BINARY_VARIABLE)
    program = shutil.which(str(given or name))
    if program is None:
        problem = f"{given}: no such program" if given else f"{name}: not on PATH"
        raise ConfigError(f"{problem}, expected ASTRA-sim's binary (--astra-sim-bin FILE or ${BINARY_VARIABLE})")
    return Path(program).absolute()


def backend_of(binary: Path, network: NetworkConfig) -> Backend:
    """The network model of a binary, guessed from its name; that of stock ASTRA-sim where the name does not tell."""
    name = _letters(binary.name)
    return next((backend for backend in BACKENDS.values() if _letters(backend.name) in name), stock_backend(network))


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


def run_astra_sim(
    binary: Path,
    num_ranks: int,
    inputs: RunInputs,
    in_ns3: NetworkConfig | None = None,
    timeout_s: float | None = None,
) -> AstraSimResult:
    """Run ASTRA-sim and read its log.

    Parameters
    ----------
    in_ns3
        For a program with ns-3 the network of the run, whose files are written; None for one of an analytical backend.
    timeout_s
        Seconds after which it is stopped, None for never.

    Raises
    ------
    ConfigError
        If ns-3 cannot have the network, or the program cannot be started, prints nothing, or takes longer than `timeout_s`.
    """
    with scratch_directory() as scratch:
        memory, groups = inputs.remote_memory or scratch / "remote_memory.json", inputs.groups
        if inputs.remote_memory is None:
            write_json(memory, NO_MEMORY)
        options: dict[str, Path | str] = {
            "workload-configuration": inputs.workload.absolute(),
            "system-configuration": inputs.system.absolute(),
            "remote-memory-configuration": memory.absolute(),
        }
        if in_ns3 is not None:
            write_ns3_files(
                PacketLinks(in_ns3.source, build_topology(in_ns3, may_forward=True), in_ns3.ns3), scratch, absolute=True
            )
            options["network-configuration"] = scratch / CONFIG_FILE
            options["logical-topology-configuration"] = scratch / LOGICAL_FILE
            options["comm-group-configuration"] = "empty" if groups is None else groups.absolute()
        else:
            options["network-configuration"] = inputs.network.absolute()
            options["logging-folder"] = (scratch / "log").absolute()
            logging = scratch / "logging.toml"
            logging.write_text(LOGGING, encoding="utf-8")
            options["logging-configuration"] = logging.absolute()
            if groups is not None:
                options["comm-group-configuration"] = groups.absolute()
        command = [str(binary), *(f"--{name}={value}" for name, value in options.items())]
        try:
            done = subprocess.run(
                command, cwd=inputs.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{binary}: still running after {timeout_s:g} s, expected an end") from None
        except OSError as error:
            raise ConfigError(f"{binary}: cannot be run ({error.strerror or error})") from None
    text = _COLOUR.sub("", done.stdout.decode(errors="replace"))
    if not text.strip():
        raise ConfigError(f"{binary}: printed nothing, expected the lines of ASTRA-sim: is that program ASTRA-sim?")
    finish_ns, exposed_comm_ns = finished(text, num_ranks)
    trouble = [line.strip() for line in text.splitlines() if _TROUBLE.search(line)]
    last_words = trouble[-1][:_LAST_WORDS] if trouble else ""
    return AstraSimResult(binary, finish_ns, exposed_comm_ns, done.returncode, last_words)


def finished(log: str, num_ranks: int) -> tuple[Ints, Ints]:
    """int64[num_ranks] each, when ranks finished by ASTRA-sim's log, and their exposed communication; -1 without such a line."""
    finish_ns, exposed_comm_ns = np.full((2, num_ranks), -1, np.int64)
    for rank, finish, exposed in _FINISHED.findall(_COLOUR.sub("", log)):
        # The first line of a rank counts: a rank whose statistics fail may report again.
        if int(rank) < num_ranks and finish_ns[int(rank)] < 0:
            finish_ns[int(rank)], exposed_comm_ns[int(rank)] = int(finish), int(exposed)
    return finish_ns, exposed_comm_ns
