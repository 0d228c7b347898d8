"""Kineto traces: what ran on the GPUs of one rank and when, and the host's calls that launched it.

Format: Chrome trace events (`ph` X: name, `cat`, `ts` and `dur` in us, `args`). Events of GPUs and the runtime calls that
launched them have one `correlation` number. Newer versions of PyTorch give NCCL kernels the arguments of their collective.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from astra_tacos.run.system import INT32_MAX
from astra_tacos.run.trace.reader import MAX_RANKS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import is_number
from astra_tacos.workload.importer.documents import Document
from astra_tacos.workload.importer.host_trace import (
    DEFAULT_GROUP,
    MAX_BYTES,
    Communication,
    communication_of,
    rank_list,
    tensor_bytes,
    whole_number,
)
from astra_tacos.workload.repairer.node import sound_text

_ON_GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
_ON_HOST = frozenset(("cpu_op", "user_annotation", "python_function"))
_RUNTIME = frozenset(("cuda_runtime", "cuda_driver", "hip_runtime"))
_SYNCHRONISES = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize")
_WAITS = "StreamWaitEvent"
_MOST_US = 1 << 53
"""Times beyond this are damage; Unix time is far below it."""
_LIBRARIES = ("nccl", "rccl")


@dataclass(frozen=True, slots=True, eq=False)
class GpuOperation:
    """Something that ran on a stream of a GPU.

    Parameters
    ----------
    begin_us, end_us
        When it ran. These are Unix time in some traces, where a float is off by up to 0.125 us.
    launch_us
        When the host launched it; its begin where the trace has no launch.
    communication
        What it communicates; None for computation and copies.
    """

    name: str
    stream: int
    begin_us: float
    end_us: float
    duration_us: float
    launch_us: float
    communication: Communication | None


@dataclass(frozen=True, slots=True, eq=False)
class HostCall:
    """A call of the runtime that orders the host or streams.

    Parameters
    ----------
    blocks_host
        Whether the host waits in it for GPUs; otherwise a stream waits for an event.
    """

    begin_us: float
    end_us: float
    blocks_host: bool


@dataclass(frozen=True, slots=True, eq=False)
class KinetoTrace:
    """What a run takes from the Kineto trace of one rank.

    Parameters
    ----------
    rank, world_size
        Of the job, None if the trace does not say.
    """

    name: str
    rank: int | None
    world_size: int | None
    operations: tuple[GpuOperation, ...]
    calls: tuple[HostCall, ...]
    groups: dict[str, list[int]]
    begin_us: float


def is_kineto_trace(document: Document) -> bool:
    """Whether a document is a Kineto trace."""
    return isinstance(document.content.get("traceEvents"), list)


def read_kineto_trace(document: Document) -> KinetoTrace:
    """Read a Kineto trace.

    Raises
    ------
    ConfigError
        If it has no GPU events: a trace of the host alone has no durations of kernels.
    """
    on_gpu, runtime, annotated = [], [], []
    begin_us = math.inf
    for span in filter(None, map(_span, document.content["traceEvents"])):
        if span.category in _ON_GPU:
            on_gpu.append(span)
        elif span.category in _RUNTIME:
            runtime.append(span)
        elif span.category in _ON_HOST:
            if span.name.startswith(_LIBRARIES) or (span.name == "record_param_comms" and "Collective name" in span.args):
                annotated.append(span)
        else:
            continue
        if span.begin_us < begin_us:
            begin_us = span.begin_us
    launches = {span.correlation: span for span in runtime}
    annotations: dict[tuple[str, str], list[_Span]] = {}
    for span in sorted(annotated, key=lambda span: span.begin_us):
        annotations.setdefault(span.thread, []).append(span)
    groups: dict[str, list[int]] = {}
    operations = []
    for span in on_gpu:
        launch = launches.get(span.correlation)
        launch_us = min(launch.begin_us, span.begin_us) if launch else span.begin_us
        is_known = _is_of_a_library(span.name)
        around = _around(launch, annotations.get(launch.thread, [])) if is_known and launch else None
        call = _communication(span, around, groups) if is_known else None
        operations.append(GpuOperation(span.name, span.stream, span.begin_us, span.end_us, span.duration_us, launch_us, call))
    if not operations:
        raise ConfigError(f"{document.name}: no events of GPUs, expected a Kineto trace with kernels")
    operations.sort(key=lambda operation: (operation.launch_us, operation.begin_us, operation.stream))
    calls = (
        HostCall(span.begin_us, span.end_us, span.name.endswith(_SYNCHRONISES))
        for span in runtime
        if span.name.endswith((*_SYNCHRONISES, _WAITS))
    )
    info = document.content.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    return KinetoTrace(
        name=document.name,
        rank=whole_number(info.get("rank"), MAX_RANKS),
        world_size=whole_number(info.get("world_size"), MAX_RANKS),
        operations=tuple(operations),
        calls=tuple(sorted(calls, key=lambda call: call.end_us)),
        groups=groups | _listed_groups(info),
        begin_us=begin_us,
    )


class _Span(NamedTuple):
    """An event that has a name, a begin and a duration."""

    category: str
    name: str
    begin_us: float
    end_us: float
    duration_us: float
    event: dict[str, Any]

    @property
    def args(self) -> dict[str, Any]:
        args = self.event.get("args")
        return args if isinstance(args, dict) else {}

    @property
    def thread(self) -> tuple[str, str]:
        return str(self.event.get("pid")), str(self.event.get("tid"))

    @property
    def stream(self) -> int:
        return whole_number(self.args.get("stream", self.event.get("tid")), MAX_BYTES) or 0

    @property
    def correlation(self) -> int | None:
        return whole_number(self.args.get("correlation"), MAX_BYTES)


def _span(event: Any) -> _Span | None:
    """The span that an event of a document is; None for others."""
    if not isinstance(event, dict) or event.get("ph") != "X":
        return None
    name, begin, duration = sound_text(event.get("name")), event.get("ts"), event.get("dur", 0)
    if not name or not is_number(begin, -_MOST_US, _MOST_US) or not is_number(duration, 0, _MOST_US):
        return None
    begin_us = float(begin)
    return _Span(str(event.get("cat")), name, begin_us, begin_us + duration, float(duration), event)


def _around(launch: _Span, annotated: list[_Span]) -> _Span | None:
    """The innermost of some annotations of the launch's thread, by begin, in which the launch was made."""
    at = launch.begin_us
    for place in range(bisect.bisect_right(annotated, at, key=lambda span: span.begin_us) - 1, -1, -1):
        if at <= annotated[place].end_us:
            return annotated[place]
        if at - annotated[place].begin_us > 1e6:  # no call of a library takes a second on the host
            break
    return None


@functools.lru_cache(1 << 12)
def _is_of_a_library(name: str) -> bool:
    """Whether a kernel's name is that of one of a communication library; a trace has few names."""
    lowered = name.lower()
    return any(library in lowered for library in _LIBRARIES)


def _communication(span: _Span, around: _Span | None, groups: dict[str, list[int]]) -> Communication | None:
    """What a library's kernel communicates: by its own arguments, by the annotation around its launch, or by its name."""
    for source in filter(None, (span, around)):
        args = source.args
        if name := sound_text(args.get("Collective name")):
            size = tensor_bytes(args.get("In msg nelems"), args.get("dtype"))
            peer = whole_number(args.get("Dst Rank" if name.startswith("send") else "Src Rank"), INT32_MAX)
            communication = communication_of(name, size, _group(args, groups), peer)
            if communication is not None:
                return communication
    if around is not None:
        communication = communication_of(around.name, _tensor_size(around.args), DEFAULT_GROUP)
        if communication is not None:
            return communication
    return communication_of(span.name, None, DEFAULT_GROUP)


def _tensor_size(args: dict[str, Any]) -> int | None:
    """Bytes of the first tensor in `Input Dims` and `Input type`."""
    dims, kinds = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(dims, list) and isinstance(kinds, list) and dims and kinds and isinstance(dims[0], list)):
        return None
    if any(whole_number(extent, MAX_BYTES) is None for extent in dims[0]):
        return None
    return tensor_bytes(math.prod(dims[0]), kinds[0])


def _group(args: dict[str, Any], groups: dict[str, list[int]]) -> str:
    name, ranks = sound_text(args.get("Process Group Name")), rank_list(args.get("Process Group Ranks"))
    if name and ranks:
        groups[name] = ranks
    return name or DEFAULT_GROUP


def _listed_groups(info: dict[str, Any]) -> dict[str, list[int]]:
    configured = info.get("pg_config")
    if not isinstance(configured, list):
        return {}
    groups = {}
    for entry in configured:
        ranks = rank_list(entry.get("ranks")) if isinstance(entry, dict) else []
        if ranks:
            groups[sound_text(str(entry.get("pg_name", "")))] = ranks
    return groups
