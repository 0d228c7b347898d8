"""Exporters: schedules as files that other programs read.

Converter: other people's programs (MSCCL XML), once proven, as schedules of a network.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_tacos.export.exporter import Exporter


_MODULES = {
    "run-directory": "run_directory",
    "chakra": "chakra",
    "msccl-xml": "msccl_xml",
    "stand-in": "stand_in",
    "mscclpp": "mscclpp",
    "ns3-directory": "ns3_directory",
    "chrome-trace": "chrome_trace",
    "csv": "send_rows",
    "npz": "saved_schedule",
}
"""By format, the module of this folder whose `EXPORTER` writes it."""


class _Exporters(MutableMapping[str, "Exporter[Any]"]):
    """The formats; one of this folder is imported when it is asked for, so that their names cost nothing."""

    def __init__(self) -> None:
        self._registered: dict[str, Exporter[Any]] = {}

    def __getitem__(self, name: str) -> Exporter[Any]:
        if name in self._registered:
            return self._registered[name]
        exporter: Exporter[Any] = importlib.import_module(f"{__name__}.{_MODULES[name]}").EXPORTER
        return exporter

    def __setitem__(self, name: str, exporter: Exporter[Any]) -> None:
        self._registered[name] = exporter

    def __delitem__(self, name: str) -> None:
        del self._registered[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, *self._registered))

    def __len__(self) -> int:
        return len(_MODULES) + len(self._registered)

    def __contains__(self, name: object) -> bool:
        return name in _MODULES or name in self._registered


EXPORTERS: MutableMapping[str, Exporter[Any]] = _Exporters()
"""Formats that a schedule can be exported to, by name.

Examples
--------
>>> from astra_tacos import EXPORTERS
>>> "msccl-xml" in EXPORTERS
True
"""
