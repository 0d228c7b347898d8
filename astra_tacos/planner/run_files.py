"""The files of a planned run except its workload: traces, groups, system, network and a script that starts ASTRA-sim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from astra_tacos.export.run_directory import LOG, NS3_SCRIPT, SCRIPT, check_script_name, write_ns3_script, write_run_script
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import configured, read_network
from astra_tacos.network.network_files import NETWORK, own_tables
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.replayer.astra_sim import find_binary, run_astra_sim
from astra_tacos.replayer.packet_network import FILES as NS3_FILES
from astra_tacos.replayer.packet_network import WRITTEN as NS3_WRITTEN
from astra_tacos.replayer.packet_network import write_ns3_files
from astra_tacos.run.backend import PACKET
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.recording import REPLAY_FILE
from astra_tacos.run.run import CLASSES, GROUPS, MEMORY, RANKS, SYSTEM, WORKLOAD, Run, RunInputs
from astra_tacos.run.system import PER_NODE
from astra_tacos.solver.clock import Printed
from astra_tacos.solver.first_use import Progress
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_outside, check_replaceable, output_place

PLAN_FILE = "plan.json"
PLACE_FILE = "place.json"
COLLECTIVE = "collective"
ORDINARY = "ordinary"
"""The ordinary run beside a compact one."""
_OWN = {PLAN_FILE, PLACE_FILE, REPLAY_FILE, SCRIPT, GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, WORKLOAD, COLLECTIVE, LOG}
_OWN |= {NS3_SCRIPT, *NS3_FILES, *NS3_WRITTEN}
_OWN |= {RANKS, CLASSES.split("/")[0], ORDINARY}
_IN_ORDINARY = tuple(f"{ORDINARY}/{name}" for name in (GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, SCRIPT))


def planned_inputs(folder: Path, inputs: RunInputs) -> RunInputs:
    """The files of the planned run, given those of the original."""
    return RunInputs.in_folder(folder, inputs.workload.name, inputs.ns3)


def check_output(path: Path, inputs: RunInputs | CompactInputs) -> None:
    """Check that a plan may be written to `path`: it does not exist, or holds only a plan.

    Raises
    ------
    ConfigError
        If anything else is there, it is the current directory, an input is inside, or the script cannot name the workload.
    """
    check_replaceable(path, "plan of astra_tacos", _is_own, (*own_tables(path), *_IN_ORDINARY))
    if isinstance(inputs, CompactInputs):
        if output_place(path) == inputs.folder.resolve():
            raise ConfigError(f"{path}: is the run itself, expected another directory")
        return
    check_script_name(inputs.workload.name)
    check_outside(path, (inputs.workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory))


def _is_own(names: set[str]) -> bool:
    return names <= _OWN and (not names or PLAN_FILE in names)


def write_script(folder: Path, run: Run, prints: Sequence[Printed] = ()) -> None:
    """Write the script that starts ASTRA-sim on a run, with what programs print as far as that is known.

    Where devices forward there is none: no version of ASTRA-sim has such a network.
    """
    if not run.network.forwarding:
        times = {printed.binary: printed.time_ns for printed in prints if printed.time_ns is not None}
        write_run_script(folder, _workload(run), run.network, "Runs", prints=times, has_groups=True)


def write_ns3_configurations(folder: Path, run: Run) -> None:
    """Write what ASTRA-sim's ns-3 backend needs besides, and a script that starts it."""
    write_ns3_files(PacketLinks(run.network.source, build_topology(run.network, may_forward=True), run.network.ns3), folder)
    write_ns3_script(folder / NS3_SCRIPT, _workload(run), GROUPS)


def _workload(run: Run) -> str:
    return f"{WORKLOAD}/{Path(run.workload.prefix).name}"


NodeTable = tuple[tuple[str, ...], list[str]]
"""Names of columns, and a row of them for each collective node, as JSON."""
NO_NODES: NodeTable = ((), [])


def write_plan(folder: Path, result: dict[str, Any], nodes: NodeTable | None = NO_NODES) -> None:
    """Write `plan.json`: the result, and a line for each collective node.

    Parameters
    ----------
    nodes
        A line for each node; None for a plan that does not list them.
    """
    text = json.dumps(result, indent=1)
    if nodes is not None:
        columns, rows = nodes
        lines = ",\n  ".join(rows)
        text = f'{text[:-2]},\n "node_columns": {json.dumps(columns)},\n "nodes": [\n  {lines}\n ]\n}}'
    (folder / PLAN_FILE).write_text(f"{text}\n", encoding="utf-8")


def find_program(inputs: RunInputs, binary: Path | None, in_ns3: bool) -> Path:
    """The binary of ASTRA-sim for a run, of that with ns-3 if `in_ns3`; None for the one that the environment names."""
    network = read_network(inputs.network)
    if network.forwarding:
        raise ConfigError(
            f"{inputs.network}: has devices that forward, which no ASTRA-sim has; expected the embedded replay alone"
        )
    return find_binary(binary, network, PACKET if in_ns3 else None)


def measure_plan(
    inputs: RunInputs, output: Path, program: Path, baseline: str | None, in_ns3: bool, progress: Progress
) -> dict[str, Any]:
    """Cycles of a real ASTRA-sim, before (unless that is another run than the files say) and after.

    Parameters
    ----------
    program, in_ns3
        The binary, and whether it is one with ns-3.
    baseline
        The native algorithm of the run before; None for those of its system file.
    """
    network = configured(read_network(inputs.network), inputs.ns3)
    runs = {"after": planned_inputs(output, inputs)} | ({} if baseline else {"before": inputs})
    measured: dict[str, Any] = {"binary": str(program)}
    for when, run in runs.items():
        with progress(f"running ASTRA-sim ({when})"):
            seen = run_astra_sim(program, network.num_npus, run, network if in_ns3 else None)
        measured[when] = None if seen.stalled else int(seen.finish_ns.max())
    return measured
