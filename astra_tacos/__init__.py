"""Collective algorithms for ASTRA-sim, synthesized for the network at hand.

The names below are the public API. They load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_tacos.collective.all_gather import all_gather as all_gather
    from astra_tacos.collective.all_reduce import all_reduce as all_reduce
    from astra_tacos.collective.broadcast import broadcast as broadcast
    from astra_tacos.collective.collective import Collective as Collective
    from astra_tacos.collective.reduce import reduce as reduce
    from astra_tacos.collective.reduce_scatter import reduce_scatter as reduce_scatter
    from astra_tacos.config.network import NetworkConfig as NetworkConfig
    from astra_tacos.config.network import read_network as read_network
    from astra_tacos.errors import AstraTacosError as AstraTacosError
    from astra_tacos.export.chakra import export_chakra as export_chakra
    from astra_tacos.export.msccl_xml import export_msccl_xml as export_msccl_xml
    from astra_tacos.export.run_directory import write_run_directory as write_run_directory
    from astra_tacos.replayer.schedule_replay import replay_schedule as replay  # noqa: F401
    from astra_tacos.schedule.schedule import Schedule as Schedule
    from astra_tacos.schedule.storage import load_schedule as load_schedule
    from astra_tacos.schedule.storage import save_schedule as save_schedule
    from astra_tacos.synthesizer.search.search import synthesize as synthesize
    from astra_tacos.topology.composition import build_topology as build_topology
    from astra_tacos.topology.topology import Topology as Topology
    from astra_tacos.verifier.schedule_oracle import verify as verify

_HOMES = {
    "AstraTacosError": "errors",
    "Collective": "collective.collective",
    "NetworkConfig": "config.network",
    "Schedule": "schedule.schedule",
    "Topology": "topology.topology",
    "all_gather": "collective.all_gather",
    "all_reduce": "collective.all_reduce",
    "broadcast": "collective.broadcast",
    "build_topology": "topology.composition",
    "export_chakra": "export.chakra",
    "export_msccl_xml": "export.msccl_xml",
    "load_schedule": "schedule.storage",
    "read_network": "config.network",
    "reduce": "collective.reduce",
    "reduce_scatter": "collective.reduce_scatter",
    "replay": "replayer.schedule_replay:replay_schedule",
    "save_schedule": "schedule.storage",
    "synthesize": "synthesizer.search.search",
    "verify": "verifier.schedule_oracle",
    "write_run_directory": "export.run_directory",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, _, original = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), original or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
