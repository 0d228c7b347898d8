"""Run directories: traces, workload, configurations, and the shell script that starts ASTRA-sim on them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import COLLECTIVES, UNEQUAL
from astra_tacos.collective.collective import Collective
from astra_tacos.export.astra_sim_network import AstraSimNetwork, astra_sim_network
from astra_tacos.export.chakra import (
    COMM_TYPES,
    export_chakra,
    export_workload,
    keeps_timing,
    note_on_link_order,
    order_of_traces,
)
from astra_tacos.export.chakra import EXPORTER as CHAKRA
from astra_tacos.export.exporter import Exported, Exporter, one_of, yes_or_no
from astra_tacos.export.msccl_xml import export_msccl_xml, why_no_msccl_xml
from astra_tacos.network.network_config import NetworkConfig, count_links_of
from astra_tacos.replayer.astra_sim import LOGGING
from astra_tacos.replayer.packet_network import CONFIG_FILE, LOGICAL_FILE
from astra_tacos.run.backend import (
    BACKENDS,
    CONGESTION_AWARE,
    CONGESTION_UNAWARE,
    PACKET,
    Backend,
    Binary,
    binaries_for,
    choose_backend,
)
from astra_tacos.run.system import NO_MEMORY
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.storage import save_schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import ASTRA_SIM_LOG, write_json

SCRIPT = "run_astra_sim.sh"
NS3_SCRIPT = "run_ns3.sh"
LOG = ASTRA_SIM_LOG
_GROUPS = "comm_group.json"
_ONE_DIMENSION = "only support 1-dim topology"
"""What stock ASTRA-sim's program with queues says of several dimensions, and the program of its branch does not."""
_MEMORY = "--remote-memory-configuration=remote_memory.json"
MOST_SENDS_OF_XML = 20_000
"""No runtime takes programs a tenth of this size; the file would have some 230 bytes a send."""


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
    network: NetworkConfig,
    verb: str,
    note: str | None = None,
    *,
    prints: Mapping[Binary, int] | None = None,
    has_groups: bool = False,
) -> None:
    """Write a script that runs `system.json`, `network.yml` and `remote_memory.json` beside it, wherever it is called from.

    It takes each program of ASTRA-sim that can run the network file, names them, and refuses those that cannot.

    Parameters
    ----------
    network
        What `network.yml` says.
    verb, note
        What it does with the directory, and what there is to know, for its comments.
    prints
        What each program prints for the directory in ns, as far as that is known.
    has_groups
        Whether there is a `comm_group.json`, too.

    Raises
    ------
    ConfigError
        If the workload's name has control characters.
    """
    binaries = binaries_for(network)
    comments = [f"{verb} this directory on ASTRA-sim, with any of these programs:", *_named(binaries, prints or {})]
    comments += [_one_line(note)] if note else []
    options = ["--network-configuration=network.yml", _MEMORY]
    options += [f"--comm-group-configuration={_GROUPS}"] if has_groups else []
    options = [*options, f"--logging-folder={LOG}", "--logging-configuration=/dev/stdin"]
    path = directory / SCRIPT
    refusals = _refusals(network, binaries)
    _write_script(path, workload, comments, "a program that this script names", options, refusals, LOGGING)


_REFUSE = 'refuse() { echo "$0: $ASTRA_SIM_BIN cannot run this directory: $1" >&2; exit 2; }'


def _named(binaries: Sequence[Binary], prints: Mapping[Binary, int]) -> list[str]:
    """A line for each program: its name, where it is from, what it prints."""
    lines = []
    for binary in binaries:
        source = binary.label + (f" of {binary.backend.branch_source}" if binary.branch else "")
        printed = f" prints {prints[binary]:,} ns" if binary in prints else ""
        queues = "messages queue" if binary.backend.models_congestion else "messages do not queue"
        lines.append(f"  {binary.backend.binary} ({source}; {queues}){printed}")
    return lines or ["  none: no version of ASTRA-sim has this network"]


def _refusals(network: NetworkConfig, binaries: Sequence[Binary]) -> str:
    """Shell commands that end the script for programs that cannot run the network."""
    runs = {binary.backend for binary in binaries if binary.branch is None}
    cases = []
    for backend in BACKENDS.values():
        if backend in runs or any(binary.backend == backend for binary in binaries):
            continue
        reason = _one_line("; ".join(backend.refusals(network)) or "it has no such network")
        cases.append(f"  *{backend.binary.rpartition('_')[2]}*) refuse {shlex.quote(reason)} ;;\n")
    cases.append(f'  AstraSimNetwork*) [ -x {NS3_SCRIPT} ] && exec ./{NS3_SCRIPT} "$@"\n')
    cases.append("    refuse 'the files of its ns-3 backend are not here: expected a directory made with --backend packet' ;;\n")
    lines = f"""{_REFUSE}
if [ -d "$ASTRA_SIM_BIN" ] || ! command -v "$ASTRA_SIM_BIN" > /dev/null; then refuse 'there is no such program'; fi
case ${{ASTRA_SIM_BIN##*/}} in
{"".join(cases)}esac
"""
    count = len(network.dimensions)
    if count > 1:  # the branch and stock ASTRA-sim have programs of one name
        stock = shlex.quote(f"stock ASTRA-sim has queues in one dimension, network.yml has {count}: take another program")
        lines += f"""if grep -q '{_ONE_DIMENSION}' "$(command -v "$ASTRA_SIM_BIN")"; then refuse {stock}; fi
"""
    return lines


def write_ns3_script(path: Path, workload: str, groups: str | None = None) -> None:
    """Write a script that runs the files for ASTRA-sim's ns-3 backend beside it, wherever it is called from.

    Parameters
    ----------
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
    refusal = "case ${ASTRA_SIM_BIN##*/} in *Analytical*) refuse 'it is no program of the ns-3 backend' ;; esac\n"
    groups_option = f"--comm-group-configuration={groups or 'empty'}"
    _write_script(path, workload, comments, program, [*options, groups_option], f"{_REFUSE}\n{refusal}")


def _write_script(
    path: Path, workload: str, comments: Sequence[str], program: str, options: Sequence[str], refusals: str = "", stdin: str = ""
) -> None:
    """Write a script that starts a program in its own directory.

    Parameters
    ----------
    comments
        Lines of comment, without control characters.
    """
    check_script_name(workload)
    remarks = "\n".join(f"# {comment}" for comment in comments)
    arguments = " \\\n  ".join(options)
    given = f" <<'END'\n{stdin}END" if stdin else ""
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
{refusals}exec "$ASTRA_SIM_BIN" \\
  --workload-configuration={shlex.quote(workload)} \\
  --system-configuration=system.json \\
  {arguments} "$@"{given}
""",
        encoding="utf-8",
        errors="surrogateescape",
    )
    path.chmod(path.stat().st_mode | 0o111)


def _one_line(text: str) -> str:
    """A comment's text: control characters, of which a line break would end the comment, are question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


RESULT_FILE = "result.json"
RANK_MAP = "rank_map.json"
STAND_IN = "stand_in"
"""Where the run of a schedule on a graph with devices that only forward is: ASTRA-sim has no such network."""
_SCHEDULE = "schedule.npz"
FOLDERS = ("collective", "workload")
_CONFIGURATIONS = ("system.json", "network.yml", "remote_memory.json")
_XML = {f"{name.replace('-', '_')}.xml" for name in COLLECTIVES}
_OWN = {RESULT_FILE, SCRIPT, _SCHEDULE, LOG, *FOLDERS, *_CONFIGURATIONS}


@dataclass(frozen=True, slots=True)
class RunDirectory(Exported):
    """A run directory that was written.

    Parameters
    ----------
    path, notes
        Where, and what a reader of ASTRA-sim's cycles, or of the XML, should know.
    network
        The network of ASTRA-sim that the files are for.
    is_exact
        Whether ASTRA-sim takes the predicted time on it.
    result
        What `result.json` says.
    script
        The script that runs it, from the directory; "" if there is none.
    exactness
        Of a stand-in run, whether ASTRA-sim takes the predicted time, in words; "" of others.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, synthesize, write_run_directory
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> directory = write_run_directory(schedule, "run")
    >>> (directory.path / directory.script).is_file()
    True
    """

    network: AstraSimNetwork = field(kw_only=True)
    is_exact: bool = field(kw_only=True)
    result: dict[str, Any] = field(kw_only=True)
    script: str = field(kw_only=True, default=SCRIPT)
    exactness: str = field(kw_only=True, default="")

    @property
    def figures(self) -> dict[str, Any]:
        """The backend of ASTRA-sim to run, whether it takes the predicted time, and what has to be built in (None: nothing)."""
        network_figures = {"astra_sim_backend": self.network.backend.name, "astra_sim_exact": self.is_exact}
        return network_figures | {"astra_sim_needs": self.network.needs}

    @property
    def command(self) -> str:
        """How to start ASTRA-sim on it, "" if it cannot run it."""
        return start_command(self.path / self.script, self.network.to_config(), self.network.backend) if self.script else ""


def start_command(script: Path, network: NetworkConfig, clock: Backend) -> str:
    """How to start ASTRA-sim by a script of a directory: with the stock program of the clock, or if there is none, another one.

    Parameters
    ----------
    network
        What its `network.yml` says.
    """
    binaries = binaries_for(network)
    chosen = min(binaries, key=lambda binary: (binary.branch is not None, binary.backend != clock), default=None)
    return f"ASTRA_SIM_BIN=.../{chosen.backend.binary} {shlex.quote(str(script))}" if chosen else ""


def _is_own(names: set[str]) -> bool:
    foreign = any(name not in _OWN and name not in _XML for name in names)
    is_run = not foreign and (not names or {RESULT_FILE, SCRIPT, _SCHEDULE} <= names)
    if {RESULT_FILE, _SCHEDULE} <= names <= {RESULT_FILE, _SCHEDULE, STAND_IN}:  # a symmetric schedule, or a fabric's
        return True
    return is_run


def write_run_directory(
    schedule: Schedule,
    path: str | Path,
    more: dict[str, Any] | None = None,
    msccl_xml: bool | None = None,
    *,
    backend: Backend | str | None = None,
    check: bool = True,
) -> RunDirectory:
    """Write everything that ASTRA-sim needs to replay a schedule.

    `collective/<name>.<npu>.et`, `<name>.xml` (if there can be one), `workload/<name>.<npu>.et`, `system.json`, `network.yml`,
    `remote_memory.json`, `run_astra_sim.sh`, `schedule.npz` and `result.json` (its certificate, and `more`).
    Nothing is left behind on failure; a directory that this function wrote before is replaced.

    Parameters
    ----------
    schedule
        The schedule to write; its `link_order` and `in_flight` say how traces keep the order of sends on a link.
    path
        Directory to write.
    more
        Further entries of `result.json`.
    msccl_xml
        Whether to write the XML; by default if there are at most `MOST_SENDS_OF_XML` sends.
    backend
        The backend of ASTRA-sim to write it for, or its name; None for the one for which schedules are timed so.
    check
        Whether the oracle checks the schedule first; turn it off only for one that it has checked.

    Raises
    ------
    ConfigError
        If `path` exists and is something else.
    VerificationError
        If the oracle objects to the schedule.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, synthesize, write_run_directory
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> write_run_directory(schedule, "run").is_exact
    True
    """
    return EXPORTER.export(schedule, path, check=check, more=more, msccl_xml=msccl_xml, backend=backend)


def _write(
    schedule: Schedule,
    directory: Path,
    more: dict[str, Any] | None = None,
    link_order: LinkOrder | None = None,
    msccl_xml: bool | None = None,
    backend: Backend | str | None = None,
    in_flight: int | None = None,
) -> RunDirectory:
    if _needs_stand_in(schedule):
        choices = {
            "link_order": link_order or schedule.link_order,
            "backend": backend,
            "in_flight": in_flight or schedule.in_flight,
        }
        return _write_fabric(schedule, directory, more, choices)
    collective = schedule.collective
    name = collective.name.replace("-", "_")
    result = certify(schedule) | (more or {})
    chosen = choose_backend(backend)
    network = astra_sim_network(schedule.topology, schedule.timing.link_model, chosen)
    if network.backend.models_congestion and stops_queues(schedule):
        raise ConfigError(
            f"{schedule.topology.name}: messages of the schedule hold a link for less than 1 ns, at which the {network.backend} "
            f"backend of ASTRA-sim stops: expected larger messages, --link-model pipelined, or --backend {CONGESTION_UNAWARE}"
        )
    link_order, in_flight = order_of_traces(schedule, link_order, in_flight)
    keeps_link_order = keeps_timing(schedule, link_order, in_flight)
    if (link_order, in_flight) != order_of_traces(schedule):
        schedule = replace(schedule, link_order=link_order, in_flight=in_flight)
    notes: tuple[str, ...] = (network.note,) if network.note else ()
    failed = count_links_of(network.dimensions) - schedule.topology.num_links
    if network.dimensions == schedule.topology.dimensions and failed > 0:
        links = "1 link" if failed == 1 else f"{failed:,} links"
        notes += (f"network.yml cannot say that {links} failed; the traces send nothing over failed links",)
    if not keeps_link_order:
        notes += (note_on_link_order(link_order, in_flight),)
    write_inputs(directory, collective, result)
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save_schedule, schedule, directory / _SCHEDULE)  # compresses without the interpreter lock
        export_chakra(schedule, directory / "collective" / name, link_order, in_flight=in_flight)
        notes += _missing(schedule)
        if why_no_msccl_xml(schedule) is None:
            notes += _export_xml(schedule, directory / f"{name}.xml", msccl_xml)
        saving.result()
    (directory / "network.yml").write_text(network.to_yaml(), encoding="utf-8")
    prints = _known_prints(result.get("prints", ()))
    write_run_script(directory, f"workload/{name}", network.to_config(), "Replays", network.note, prints=prints)
    is_exact = network.is_exact and keeps_link_order
    return RunDirectory(directory, notes, network=network, is_exact=is_exact, result=result)


def _known_prints(prints: Sequence[dict[str, Any]]) -> dict[Binary, int]:
    """What programs print, by the entry `prints` of a result."""
    known = {(printed["backend"], printed["from"]): printed["time_ns"] for printed in prints}
    branches = [Binary(backend, branch) for backend in BACKENDS.values() for branch in (None, backend.branch)]
    times = {binary: known.get((binary.backend.name, binary.label)) for binary in branches}
    return {binary: time_ns for binary, time_ns in times.items() if time_ns is not None}


def write_inputs(directory: Path, collective: Collective, result: dict[str, Any]) -> Path:
    """Write what all run directories have besides a network and a script; returns the prefix for the collective's traces."""
    for folder in FOLDERS:
        (directory / folder).mkdir()
    name = collective.name.replace("-", "_")
    export_workload(collective, directory / "workload" / name)
    write_json(directory / "system.json", system_of(collective.name, name))
    write_json(directory / "remote_memory.json", NO_MEMORY)
    write_json(directory / RESULT_FILE, result)
    return directory / "collective" / name


def _needs_stand_in(schedule: Schedule) -> bool:
    """Whether ASTRA-sim has no run of its own for it: devices forward, or NPUs without data of their own help."""
    return bool(schedule.topology.forwarding) or schedule.collective.members is not None


def _write_fabric(schedule: Schedule, directory: Path, more: dict[str, Any] | None, choices: dict[str, Any]) -> RunDirectory:
    """Write a schedule whose run is a stand-in, and that run, if there can be one."""
    from astra_tacos.export.stand_in import EXPORTER as STAND_IN_EXPORTER
    from astra_tacos.export.stand_in import write_stand_in

    for name, choice in choices.items():
        if choice is not None and str(choice) not in (CONGESTION_AWARE.name, PACKET.name):
            raise ConfigError(
                f"{name}: found {choice}, expected none: stand-in runs (devices that forward, or helpers) have no choice"
            )
    save_schedule(schedule, directory / _SCHEDULE)
    result = certify(schedule) | (more or {})
    write_json(directory / RESULT_FILE, result)
    reason = STAND_IN_EXPORTER.why_not(schedule)
    if reason is not None:
        network = AstraSimNetwork((), CONGESTION_AWARE, False, "")
        return RunDirectory(
            directory, (f"no run of ASTRA-sim: {reason}",), network=network, is_exact=False, result=result, script=""
        )
    (directory / STAND_IN).mkdir()
    stand_in = write_stand_in(schedule, directory / STAND_IN)
    return RunDirectory(
        directory,
        stand_in.notes,
        network=stand_in.network,
        is_exact=stand_in.network.is_exact,
        result=result,
        script=f"{STAND_IN}/{SCRIPT}",
        exactness=stand_in.exactness,
    )


def _export_xml(schedule: Schedule, path: Path, wanted: bool | None) -> tuple[str, ...]:
    """Write the MSCCL XML if it is wanted or, by default, not too large; returns what there is to say."""
    if wanted or (wanted is None and schedule.num_sends <= MOST_SENDS_OF_XML):
        return export_msccl_xml(schedule, path).warnings
    if wanted is None:
        return (f"no MSCCL XML: {schedule.num_sends:,} sends are more than {MOST_SENDS_OF_XML:,} (--msccl-xml writes it anyway)",)
    return ()


def _missing(schedule: Schedule) -> tuple[str, ...]:
    """Notes on what ASTRA-sim or the MSCCL format cannot run of a schedule's collective."""
    notes: tuple[str, ...] = ()
    name = schedule.collective.name
    if name in UNEQUAL:
        notes = (f"ASTRA-sim has no {name}: the workload's nodes are {COMM_TYPES[name].name}, and run the {name}'s traces",)
    elif name != COMM_TYPES[name].name.lower().replace("_", "-"):
        notes = (f"ASTRA-sim has no custom {name}: the workload's nodes are ALL_REDUCE, and run the {name}'s traces",)
    reason = why_no_msccl_xml(schedule)
    return (*notes, f"no MSCCL XML: {reason}") if reason else notes


def system_of(collective_name: str, name: str) -> dict[str, Any]:
    """The system file of a run of one collective. ASTRA-sim resolves the prefix against its working directory, this one."""
    pattern = COMM_TYPES[collective_name].name.lower().replace("_", "-")
    return {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        f"{pattern}-implementation-custom": [f"collective/{name}"],
    }


EXPORTER = Exporter(
    name="run-directory",
    summary="everything that ASTRA-sim needs to run the collective: traces, workload, configurations and a script",
    writes="directory",
    suffix="_run",
    write=_write,
    options={
        "link-order": CHAKRA.options["link-order"],
        "in-flight": CHAKRA.options["in-flight"],
        "backend": one_of(tuple(BACKENDS), "backend of ASTRA-sim; by default the one for which schedules are timed so"),
        "msccl-xml": yes_or_no(f"whether it has an MSCCL XML; by default up to {MOST_SENDS_OF_XML:,} sends"),
    },
    is_own=_is_own,
    inside=tuple(f"{STAND_IN}/{name}" for name in (RANK_MAP, RESULT_FILE, SCRIPT, *_CONFIGURATIONS)),
)
