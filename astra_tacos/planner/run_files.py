"""The files of a planned run except its workload: traces, groups, system, network and a script that starts ASTRA-sim."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from astra_tacos.export.chakra import export_chakra
from astra_tacos.export.run_directory import LOG, NS3_SCRIPT, SCRIPT, check_script_name, write_ns3_script, write_run_script
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig, configured, read_network, topology_file_of
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.planner.assignment import tag_ranges
from astra_tacos.replayer.astra_sim import find_binary, run_astra_sim
from astra_tacos.replayer.packet_network import FILES as NS3_FILES
from astra_tacos.replayer.packet_network import WRITTEN as NS3_WRITTEN
from astra_tacos.replayer.packet_network import write_ns3_files
from astra_tacos.run.backend import PACKET
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.recording import REPLAY_FILE
from astra_tacos.run.run import GROUPS, MEMORY, NETWORK, SYSTEM, WORKLOAD, RunInputs, write_groups
from astra_tacos.run.system import COMM_KEYS, PER_NODE_KEY
from astra_tacos.run.trace.reader import read_trace, trace_files
from astra_tacos.run.trace.trace import Trace, idle_trace
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.clock import Printed
from astra_tacos.solver.first_use import Progress
from astra_tacos.support.documents import filled, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_outside, check_replaceable, write_json
from astra_tacos.support.input_file import forget_inputs
from astra_tacos.support.text_files import read_json_object

PLAN_FILE = "plan.json"
PLACE_FILE = "place.json"
PER_NODE, COLLECTIVE = "per_node.yml", "collective"
_OWN = {PLAN_FILE, PLACE_FILE, REPLAY_FILE, SCRIPT, GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, WORKLOAD, COLLECTIVE, LOG}
_OWN |= {NS3_SCRIPT, *NS3_FILES, *NS3_WRITTEN}


def move_up(chosen: Path, folder: Path, scratch: str) -> None:
    """Make the files of one candidate the result, and delete those of all: the folders whose names begin with `scratch`."""
    for entry in chosen.iterdir():
        entry.rename(folder / entry.name)
    for rest in folder.glob(f"{scratch}*"):
        shutil.rmtree(rest)


def without_folder(folder: Path, text: str) -> str:
    """A text without a folder's path before its files: the folder will be gone."""
    return text.replace(f"{folder}{os.sep}", "")


def planned_inputs(folder: Path, inputs: RunInputs) -> RunInputs:
    """The files of the planned run, given those of the original."""
    return RunInputs.in_folder(folder, inputs.workload.name, inputs.ns3)


def check_output(path: Path, inputs: RunInputs) -> None:
    """Check that a plan may be written to `path`: it does not exist, or holds only a plan.

    Raises
    ------
    ConfigError
        If anything else is there, it is the current directory, an input is inside, or the script cannot name the workload.
    """
    check_script_name(inputs.workload.name)
    check_replaceable(path, "plan of astra_tacos", _is_own, own_tables(path))
    check_outside(path, (inputs.workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory))


def _is_own(names: set[str]) -> bool:
    return names <= _OWN and (not names or PLAN_FILE in names)


def network_tables(network: Path) -> tuple[Path, ...]:
    """The tables of links and of nodes, or the topology file, that a network file names, as it names them.

    Raises
    ------
    ConfigError
        If one is not beside the network file or below, so that a copy of that file would not find it.
    """
    document = read_yaml(network)
    extension = document / "astra_tacos"
    named = [(extension / key, ".csv") for key in ("links", "nodes") if key in extension]
    if topology_file_of(document) is not None:
        named.append((document / "topology_file", ".txt"))
    tables = []
    for place, suffix in named:
        table = Path(place.decoded(Annotated[str, filled(f"a {suffix} file beside it")]))
        if table.is_absolute() or ".." in table.parts or table.suffix != suffix:
            raise place.unlike(f"a {suffix} file beside {network.name}, to be copied with it")
        tables.append(table)
    return tuple(tables)


def own_tables(folder: Path) -> tuple[str, ...]:
    """The tables that the network of an earlier product in a directory names, by their paths there."""
    try:
        return tuple(table.as_posix() for table in network_tables(folder / NETWORK))
    except ConfigError:
        return ()
    finally:
        forget_inputs(folder / NETWORK)


def copy_network(network: Path, folder: Path) -> None:
    """Copy a network file into a directory, with the tables that it names."""
    shutil.copyfile(network, folder / NETWORK)
    for table in network_tables(network):
        (folder / table).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(network.parent / table, folder / table)


def write_configurations(
    folder: Path,
    inputs: RunInputs,
    groups: Mapping[int, Sequence[int]],
    per_node: Mapping[int, str],
    network: NetworkConfig,
    keys: Mapping[str, Any],
) -> None:
    """Write all files but traces and the plan itself.

    Where devices forward there is no script: no version of ASTRA-sim has such a network.
    """
    write_system(folder, inputs.system, per_node, keys)
    copy_network(inputs.network, folder)
    if inputs.remote_memory is None:
        write_json(folder / MEMORY, {"memory-type": "NO_MEMORY_EXPANSION"})
    else:
        shutil.copyfile(inputs.remote_memory, folder / MEMORY)
    write_groups(folder, groups)
    write_planned_script(folder, inputs, network)


def write_planned_script(folder: Path, inputs: RunInputs, network: NetworkConfig, prints: Sequence[Printed] = ()) -> None:
    """Write the script that starts ASTRA-sim on a planned run, with what programs print as far as that is known."""
    if not network.forwarding:
        times = {each.binary: each.time_ns for each in prints if each.time_ns is not None}
        write_run_script(folder, f"{WORKLOAD}/{inputs.workload.name}", network, "Runs", prints=times, has_groups=True)


def write_system(folder: Path, source: Path, per_node: Mapping[int, str], keys: Mapping[str, Any]) -> None:
    """Write the system file of a planned run, and which trace each node runs.

    Parameters
    ----------
    keys
        Keys that replace those of `source`.
    """
    system = dict(read_json_object(source)) | dict(keys)
    for key in (*(f"{key}-implementation-custom" for key in COMM_KEYS), PER_NODE_KEY):
        system.pop(key, None)  # every node that has a trace is in per_node.yml
    if per_node:
        system |= {"preferred-dataset-splits": 1, PER_NODE_KEY: PER_NODE}
        lines = (f"{node}: {prefix}\n" for node, prefix in sorted(per_node.items()))
        (folder / PER_NODE).write_text("".join(lines), encoding="utf-8")
    write_json(folder / SYSTEM, system)


def write_ns3_configurations(folder: Path, inputs: RunInputs, network: NetworkConfig) -> None:
    """Write what ASTRA-sim's ns-3 backend needs besides, and a script that starts it."""
    write_ns3_files(PacketLinks(network.source, build_topology(network, may_forward=True), network.ns3), folder)
    write_ns3_script(folder / NS3_SCRIPT, f"{WORKLOAD}/{inputs.workload.name}", GROUPS)


def write_plan(folder: Path, result: dict[str, Any], rows: Sequence[str] = (), columns: tuple[str, ...] = ()) -> None:
    """Write `plan.json`: the result, and a line per collective node.

    Parameters
    ----------
    columns
        Names of the columns of `rows`.
    """
    head = json.dumps(result, indent=1)[:-2]
    lines = ",\n  ".join(rows)
    names = json.dumps(columns)
    (folder / PLAN_FILE).write_text(f'{head},\n "node_columns": {names},\n "nodes": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


def add_to_plan(folder: Path, entries: Mapping[str, Any]) -> None:
    """Replace entries of `plan.json`, or add them."""
    path = folder / PLAN_FILE
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = [json.dumps(row) for row in found.pop("nodes", [])]
    columns = tuple(found.pop("node_columns", ()))
    write_plan(folder, found | dict(entries), rows, columns)


def write_traces(
    folder: Path,
    workload: Trace,
    schedules: Mapping[str, Schedule],
    kept: Mapping[str, tuple[Path, int]],
    idle: Mapping[str, int],
) -> dict[str, str]:
    """Write custom traces, each in a range of tags of its own; returns their prefixes, by name."""
    (folder / COLLECTIVE).mkdir()
    names = sorted(schedules)
    own = [read_trace(prefix, chunks=False).tag for prefix, _ in kept.values()]
    used = np.concatenate((workload.tag, *own))
    first_tags = tag_ranges(workload.prefix, used, [schedules[name].num_messages for name in names], TAGS)
    for name, first_tag in zip(names, first_tags, strict=True):
        export_chakra(schedules[name], folder / COLLECTIVE / name, first_tag=first_tag)
    for name, (prefix, num_ranks) in kept.items():
        for rank, file in enumerate(trace_files(prefix)[:num_ranks]):
            shutil.copyfile(file, folder / COLLECTIVE / f"{name}.{rank}.et")
    for name, num_ranks in idle.items():
        for rank in range(num_ranks):
            (folder / COLLECTIVE / f"{name}.{rank}.et").write_bytes(idle_trace())
    return {name: f"{COLLECTIVE}/{name}" for name in (*names, *kept, *idle)}


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
