"""A directory that ASTRA-sim can be started on as it is: traces, workload, configurations and a script."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError
from astra_tacos.export.astra_sim_network import BINARIES, AstraSimNetwork, astra_sim_network
from astra_tacos.export.chakra import LinkOrder, default_link_order, export_chakra
from astra_tacos.export.msccl_xml import export_msccl_xml, why_no_msccl_xml
from astra_tacos.export.run_script import LOG, SCRIPT, write_run_script
from astra_tacos.export.workload import COMM_TYPES, export_workload
from astra_tacos.files import check_replaceable, replaced_directory, write_json
from astra_tacos.schedule.lockstep_storage import FILES, HEADER_FILE
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import save_schedule

RESULT_FILE = "result.json"
MOST_SENDS_OF_XML = 200_000
"""No runtime takes programs a tenth of this size; the file would have some 230 bytes a send."""
_SCHEDULE = "schedule.npz"
_FOLDERS = ("collective", "workload")
_CONFIGURATIONS = ("system.json", "network.yml", "remote_memory.json")
_OWN = {RESULT_FILE, SCRIPT, _SCHEDULE, LOG, *_FOLDERS, *_CONFIGURATIONS}


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """What was written: where, how link order is kept (and whether as the timing model has it), for which network of ASTRA-sim,
    what `result.json` says, and what there is to say about the MSCCL XML and the workload."""

    path: Path
    link_order: LinkOrder
    keeps_link_order: bool
    network: AstraSimNetwork
    result: dict[str, Any]
    more_notes: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Whether ASTRA-sim takes the predicted time on it."""
        return self.network.is_exact and self.keeps_link_order

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of ASTRA-sim's cycles, or of the XML, should know."""
        notes = [self.network.note] if self.network.note else []
        if not self.keeps_link_order:
            notes.append(f"link order {self.link_order!r} is not that of the timing model: ASTRA-sim's cycles will differ")
        return (*notes, *self.more_notes)

    @property
    def command(self) -> str:
        """How to start ASTRA-sim on it."""
        return f"ASTRA_SIM_BIN=.../{BINARIES[self.network.backend]} {shlex.quote(str(self.path / SCRIPT))}"


def check_output(path: Path) -> None:
    """Check that a run directory may be written to `path`: nothing is there, or nothing but what astra_tacos writes: such a
    directory, or that of a lockstep schedule.

    Raises
    ------
    ConfigError
        If anything else is there, or it is the current directory.
    """
    check_replaceable(path, "run directory of astra_tacos", _is_own)


def _is_own(names: set[str]) -> bool:
    foreign = any(name not in _OWN and not name.endswith(".xml") for name in names)
    is_run = not foreign and (not names or {RESULT_FILE, SCRIPT, _SCHEDULE} <= names)
    return is_run or {RESULT_FILE, HEADER_FILE} <= names <= {RESULT_FILE, *FILES}


def write_run_directory(
    schedule: Schedule,
    path: str | Path,
    more: dict[str, Any] | None = None,
    link_order: LinkOrder | None = None,
    msccl_xml: bool | None = None,
) -> RunDirectory:
    """Write everything that ASTRA-sim needs to replay a schedule.

    `collective/<name>.<npu>.et`, `<name>.xml` (if there can be one), `workload/<name>.<npu>.et`, `system.json`, `network.yml`,
    `remote_memory.json`, `run_astra_sim.sh`, `schedule.npz` and `result.json` (its certificate, and `more`).
    Nothing is left behind on failure; a directory that this function wrote before is replaced.

    Parameters
    ----------
    msccl_xml
        Whether to write the XML; by default if there are at most `MOST_SENDS_OF_XML` sends.

    Raises
    ------
    ConfigError
        If `path` exists and is something else, or not all NPUs are members.
    """
    path = Path(path)
    collective = schedule.collective
    if collective.members is not None:
        raise ConfigError(
            f"{path}: found a collective of {collective.num_members} of {collective.num_npus} NPUs, but ASTRA-sim's custom "
            "collectives run on their members only: a run directory is for all NPUs"
        )
    name = collective.name.replace("-", "_")
    result = certify(schedule) | (more or {})
    network = astra_sim_network(schedule.topology, schedule.timing.link_model)
    link_order = link_order or default_link_order(schedule)
    check_output(path)
    with replaced_directory(path) as directory:
        for folder in _FOLDERS:
            (directory / folder).mkdir()
        with ThreadPoolExecutor(1) as pool:
            saving = pool.submit(save_schedule, schedule, directory / _SCHEDULE)  # compresses without the interpreter lock
            export_chakra(schedule, directory / "collective" / name, link_order)
            more_notes = _missing(collective)
            if why_no_msccl_xml(collective) is None:
                more_notes += _export_xml(schedule, directory / f"{name}.xml", msccl_xml)
            export_workload(collective, directory / "workload" / name)
            saving.result()
        write_json(directory / "system.json", _system(collective.name, name))
        (directory / "network.yml").write_text(network.to_yaml(), encoding="utf-8")
        write_json(directory / "remote_memory.json", {"memory-type": "NO_MEMORY_EXPANSION"})
        write_json(directory / RESULT_FILE, result)
        write_run_script(directory, f"workload/{name}", network.backend, "Replays", network.note)
    return RunDirectory(path, link_order, link_order == default_link_order(schedule), network, result, more_notes)


def _export_xml(schedule: Schedule, path: Path, wanted: bool | None) -> tuple[str, ...]:
    """Write the MSCCL XML if it is wanted or, by default, not too large; returns what there is to say."""
    if wanted or (wanted is None and schedule.num_sends <= MOST_SENDS_OF_XML):
        return export_msccl_xml(schedule, path).warnings
    if wanted is None:
        return (f"no MSCCL XML: {schedule.num_sends:,} sends are more than {MOST_SENDS_OF_XML:,} (--msccl-xml writes it anyway)",)
    return ()


def _missing(collective: Collective) -> tuple[str, ...]:
    """What ASTRA-sim and the MSCCL format lack."""
    notes: tuple[str, ...] = ()
    name = collective.name
    if name != COMM_TYPES[name].name.lower().replace("_", "-"):
        notes = (f"ASTRA-sim has no custom {name}: the workload's nodes are ALL_REDUCE, and run the {name}'s traces",)
    reason = why_no_msccl_xml(collective)
    return (*notes, f"no MSCCL XML: {reason}") if reason else notes


def _system(collective_name: str, name: str) -> dict[str, Any]:
    """ASTRA-sim resolves the prefix against its working directory; the script changes to this one."""
    pattern = COMM_TYPES[collective_name].name.lower().replace("_", "-")
    return {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        f"{pattern}-implementation-custom": [f"collective/{name}"],
        "local-mem-bw": 50,
    }
