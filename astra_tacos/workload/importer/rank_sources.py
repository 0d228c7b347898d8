"""Which documents are traces of which rank."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.documents import Document
from astra_tacos.workload.importer.host_trace import HostTrace, is_host_trace, read_host_trace
from astra_tacos.workload.importer.kineto import KinetoTrace, is_kineto_trace, read_kineto_trace

_NUMBER_AFTER_WORD = re.compile(r"(?:rank|worker|gpu|node|eg|et|trace|kineto|host|dev(?:ice)?)[-_. ]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+)")
_Trace = TypeVar("_Trace", HostTrace, KinetoTrace)


@dataclass(frozen=True, slots=True, eq=False)
class RankSource:
    """The traces of one rank: that of the host, that of its GPU, or both."""

    host: HostTrace | None
    device: KinetoTrace | None

    @property
    def world_size(self) -> int | None:
        """Number of ranks of the job, as far as the traces say it."""
        sizes = [trace.world_size for trace in (self.host, self.device) if trace is not None and trace.world_size]
        return max(sizes, default=None)

    @property
    def groups(self) -> dict[str, list[int]]:
        """Ranks of each group that the traces define."""
        return {**(self.host.groups if self.host else {}), **(self.device.groups if self.device else {})}

    @property
    def names(self) -> str:
        """The documents."""
        return " with ".join(trace.name for trace in (self.host, self.device) if trace is not None)


def find_ranks(documents: Iterable[Document]) -> list[RankSource]:
    """The traces of each rank, in order of rank.

    A Kineto trace says its rank; otherwise the number in a file's name counts: `rank3.json`, `dlrm_eg_3.json`. A single trace is
    that of rank 0.

    Raises
    ------
    ConfigError
        If a document is no trace of PyTorch, two are of one rank, or a rank is missing between others.
    """
    hosts: list[HostTrace] = []
    devices: list[KinetoTrace] = []
    for document in documents:
        if is_host_trace(document):
            hosts.append(read_host_trace(document))
        elif is_kineto_trace(document):
            devices.append(read_kineto_trace(document))
        else:
            raise ConfigError(
                f"{document.name}: neither nodes with a schema nor traceEvents, expected a trace of PyTorch or Kineto"
            )
    host_of, device_of = _by_rank(hosts), _by_rank(devices)
    ranks = sorted(host_of.keys() | device_of.keys())
    if not ranks:
        raise ConfigError("no traces, expected PyTorch execution traces or Kineto traces")
    if ranks != list(range(len(ranks))):
        missing = next(rank for rank in range(len(ranks) + 1) if rank not in ranks)
        last = (host_of.get(ranks[-1]) or device_of[ranks[-1]]).name
        raise ConfigError(f"{last}: a trace of rank {ranks[-1]}, but there is none of rank {missing}, expected all")
    if device_of and len(device_of) < len(ranks):
        lacking = next(rank for rank in ranks if rank not in device_of)
        raise ConfigError(
            f"{host_of[lacking].name}: a host trace without a Kineto trace, although other ranks have one: expected all or none"
        )
    return [RankSource(host_of.get(rank), device_of.get(rank)) for rank in ranks]


def _by_rank(traces: list[_Trace]) -> dict[int, _Trace]:
    found: dict[int, _Trace] = {}
    for trace in traces:
        given = trace.rank if isinstance(trace, KinetoTrace) else None
        rank = 0 if len(traces) == 1 else given if given is not None else _rank_of_name(trace.name)
        if rank in found:
            raise ConfigError(f"{trace.name}: a second trace of rank {rank}, expected one (ranks are numbers in files' names)")
        found[rank] = trace
    return found


def _rank_of_name(name: str) -> int:
    base = name.rpartition("/")[2].rpartition(": ")[2]
    match = _NUMBER_AFTER_WORD.search(base) or _NUMBER.search(base)
    if match is None:
        raise ConfigError(f"{name}: no rank in the file's name, expected one, like rank3.json, where there are several files")
    return int(match[1])
