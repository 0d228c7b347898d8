"""Run directories for ASTRA-sim's ns-3 backend: all its files, and a script that starts it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.bounds.certificate import certify
from astra_tacos.export.chakra import EXPORTER as CHAKRA
from astra_tacos.export.chakra import export_chakra
from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.export.run_directory import FOLDERS, NS3_SCRIPT, RESULT_FILE, write_inputs, write_ns3_script
from astra_tacos.network.ns3 import DEFAULT_NS3
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.replayer.packet_network import FILES, WRITTEN, write_ns3_files
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.support.errors import ConfigError

_SCRIPT = NS3_SCRIPT
_OWN = {RESULT_FILE, _SCRIPT, "system.json", "remote_memory.json", *FILES, *WRITTEN, *FOLDERS, "log"}


@dataclass(frozen=True, slots=True)
class Ns3Directory(Exported):
    """A run directory for the ns-3 backend that was written."""

    @property
    def command(self) -> str:
        """How to start ASTRA-sim on it."""
        return f"ASTRA_SIM_BIN=.../AstraSimNetwork {shlex.quote(str(self.path / _SCRIPT))}"


def _why_not(schedule: Schedule) -> str | None:
    try:
        _links(schedule)
        sent = between_npus(schedule)
    except ConfigError as error:
        return f"ns-3 cannot have its network: {error}"
    return CHAKRA.why_not(sent)


def _links(schedule: Schedule) -> PacketLinks:
    return PacketLinks(schedule.topology.name, schedule.topology, DEFAULT_NS3)


def _write(
    schedule: Schedule, directory: Path, link_order: LinkOrder | None = None, in_flight: int | None = None
) -> Ns3Directory:
    sent = between_npus(schedule)
    prefix = write_inputs(directory, sent.collective, certify(schedule))
    export_chakra(sent, prefix, link_order, in_flight=in_flight)
    write_ns3_files(_links(schedule), directory)
    write_ns3_script(directory / _SCRIPT, f"workload/{prefix.name}")
    return Ns3Directory(directory)


EXPORTER = Exporter(
    name="ns3-directory",
    summary="everything that ASTRA-sim's ns-3 backend needs to run the collective: traces, links, configurations and a script",
    writes="directory",
    suffix="_ns3",
    write=_write,
    why_not=_why_not,
    options={
        "link-order": CHAKRA.options["link-order"],
        "in-flight": CHAKRA.options["in-flight"],
    },
    is_own=lambda names: not names or (names <= _OWN and {RESULT_FILE, _SCRIPT} <= names),
)
