"""Reader of MSCCL++ execution plans (JSON). A malformed file raises a `ConfigError` that names the place.

Source: `ExecutionPlan::Impl` in microsoft/mscclpp, src/core/executor/execution_plan.cc (1f5f065).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import parse_json_object
from astra_tacos.support.formats.numbers import is_whole
from astra_tacos.support.formats.values import describe
from astra_tacos.support.input_file import read_bounded, refuse_foreign
from astra_tacos.verifier.layout import BUFFERS
from astra_tacos.verifier.program_form import MAX_LOCATIONS

MAX_FILE_BYTES = 1 << 28
"""Of a plan."""
PACKET_OPS = ("ppkt", "rppkt", "respkt", "repkt", "recpkt", "recspkt", "cpkt", "upkt", "gstorepkt")
RELAXED_OPS = ("rlxsignal", "rlxwait")
PORT_OPS = ("pws", "pwsf", "flush")
"""Operations that only port channels have; others may use a port channel, too."""
_SYNC_OPS = ("signal", "wait", "sem_acquire", "sem_release", "nop", "barrier")
_DATA_OPS = ("put", "get", "copy", "re", "res", "rre", "rres", "glres", "gstore")
_OPS = (*_SYNC_OPS, *_DATA_OPS, *PACKET_OPS, *RELAXED_OPS, *PORT_OPS, "pipeline")
_COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
_CHANNELS = ("memory", "port", "switch")


@dataclass(frozen=True, slots=True)
class Slice:
    """Chunks of a buffer that an operation reads or writes.

    Parameters
    ----------
    ranks
        Whose buffer it is: one rank's, or those of all ranks that a switch channel joins.
    buffer
        `i`, `o` or `s`.
    is_remote, is_switch
        Whether it is reached through a remote buffer, or through a switch channel.
    """

    ranks: tuple[int, ...]
    buffer: str
    index: int
    size: int
    is_remote: bool = False
    is_switch: bool = False


@dataclass(frozen=True, slots=True)
class PlanOp:
    """An operation of a thread block.

    Parameters
    ----------
    channel_type
        `memory`, `port`, `switch`, or empty.
    channels
        Channels of the rank, by their numbers in `PlanGpu.channels`.
    part, num_parts
        The thread block's place in its group, and the size of the group.
    adds_by
        How it adds values up: `sum`, `min` or `max`; empty if the file does not say.
    """

    name: str
    sources: tuple[Slice, ...] = ()
    targets: tuple[Slice, ...] = ()
    channel_type: str = ""
    channels: tuple[int, ...] = ()
    semaphores: tuple[int, ...] = ()
    barrier: int = -1
    num_blocks: int = 0
    part: int = 0
    num_parts: int = 1
    adds_by: str = ""


@dataclass(frozen=True, slots=True)
class PlanGpu:
    """A rank of a plan."""

    chunks: tuple[int, int, int]
    blocks: tuple[tuple[PlanOp, ...], ...]
    channels: tuple[tuple[str, int], ...]
    semaphores: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlanFile:
    """An MSCCL++ execution plan.

    Parameters
    ----------
    coll, collective
        Name of the collective in the file, and in this package (None if the file's name does not tell enough).
    protocol, in_place
        `Simple` or `LL`, and whether input and output are one buffer.
    """

    path: Path
    name: str
    coll: str
    collective: str | None
    protocol: str
    in_place: bool
    gpus: tuple[PlanGpu, ...]
    least_bytes: int
    most_bytes: int

    @property
    def num_npus(self) -> int:
        """Number of ranks."""
        return len(self.gpus)


def read_mscclpp_plan(path: Path) -> PlanFile:
    """Read an execution plan.

    Raises
    ------
    ConfigError
        If the file cannot be read, is not JSON, or an entry is missing, unknown or out of bounds.
    """
    content = read_bounded(path, MAX_FILE_BYTES, "an MSCCL++ plan")
    refuse_foreign(path, content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8, expected an MSCCL++ plan") from None
    top = _Entry(parse_json_object(text, path), str(path))
    gpus = top.entries("gpus")
    if not gpus:
        raise ConfigError(f"{path}: gpus: found none, expected 1 or more")
    for rank, gpu in enumerate(gpus):
        if gpu.whole("id") != rank:
            raise ConfigError(f"{gpu.where}: id is {gpu.whole('id')}, expected {rank}: ranks in order")
    coll = top.text("collective")
    return PlanFile(
        path,
        top.text("name"),
        coll,
        _COLLECTIVES.get(coll),
        top.choice("protocol", ("Simple", "LL")),
        top.flag("inplace"),
        tuple(_read_gpu(gpu, len(gpus)) for gpu in gpus),
        top.whole("min_message_size", 0),
        top.whole("max_message_size", 0),
    )


def _read_gpu(gpu: _Entry, num_ranks: int) -> PlanGpu:
    chunks = tuple(gpu.whole(f"{name}_chunks", most=MAX_LOCATIONS) for name in ("input", "output", "scratch"))
    channels: list[tuple[str, int]] = []
    groups: list[tuple[str, tuple[int, ...]]] = []
    numbers: dict[str, list[int]] = {"memory": [], "port": []}
    for channel in gpu.entries("channels"):
        kind = channel.choice("channel_type", _CHANNELS)
        if kind == "switch":
            buffer = channel.choice("buffer_type", BUFFERS)
            for group in channel.entries("rank_groups"):
                groups.append((buffer, group.wholes("ranks", num_ranks)))
        else:
            for peer in channel.wholes("connected_to", num_ranks):
                numbers[kind].append(len(channels))
                channels.append((kind, peer))
    remote = [
        (
            entry.whole("rank", most=num_ranks - 1),
            entry.choice("type", BUFFERS),
            entry.choices("access_channel_types", _CHANNELS),
        )
        for entry in gpu.entries("remote_buffers", may_be_absent=True)
    ]
    blocks = gpu.entries("threadblocks")
    for number, block in enumerate(blocks):
        if block.whole("id") != number:
            raise ConfigError(f"{block.where}: id is {block.whole('id')}, expected {number}: thread blocks in order")
    semaphores = tuple(entry.whole("init_value") for entry in gpu.entries("semaphores", may_be_absent=True))
    read = tuple(_Block(block, gpu.whole("id"), numbers, groups, remote, len(semaphores)).ops() for block in blocks)
    return PlanGpu((chunks[0], chunks[1], chunks[2]), read, tuple(channels), semaphores)


class _Block:
    """A thread block with its own numbers of channels and remote buffers."""

    def __init__(
        self,
        block: _Entry,
        rank: int,
        numbers: dict[str, list[int]],
        groups: list[tuple[str, tuple[int, ...]]],
        remote: list[tuple[int, str, tuple[str, ...]]],
        num_semaphores: int,
    ) -> None:
        self.block, self.rank, self.groups, self.num_semaphores = block, rank, groups, num_semaphores
        self.channels: dict[str, list[int]] = {kind: [] for kind in _CHANNELS}
        self.remote: dict[str, list[tuple[int, str]]] = {kind: [] for kind in _CHANNELS}
        for entry in block.entries("channels", may_be_absent=True):
            kind = entry.choice("channel_type", _CHANNELS)
            most = len(groups) if kind == "switch" else len(numbers[kind])
            for number in entry.wholes("channel_ids", most):
                self.channels[kind].append(number if kind == "switch" else numbers[kind][number])
        for entry in block.entries("remote_buffer_refs", may_be_absent=True):
            kind = entry.choice("access_channel_type", _CHANNELS)
            for number in entry.wholes("remote_buffer_ids", len(remote)):
                if kind not in remote[number][2]:
                    raise ConfigError(f"{entry.where}: remote buffer {number} is not for {kind} channels")
                self.remote[kind].append(remote[number][:2])

    def ops(self) -> tuple[PlanOp, ...]:
        return tuple(self._op(op) for op in self.block.entries("ops"))

    def _op(self, op: _Entry) -> PlanOp:
        name = op.choice("name", _OPS)
        if name == "pipeline":
            return PlanOp(name)
        kind = op.choice("channel_type", (*_CHANNELS, "none")) if "channel_type" in op.value else ""
        channels: tuple[int, ...] = ()
        if "channel_ids" in op.value and kind in ("memory", "port"):
            channels_of_kind = self.channels[kind]
            channels = tuple(channels_of_kind[number] for number in op.wholes("channel_ids", len(channels_of_kind)))
        group = op.entry("tbg_info") if "tbg_info" in op.value else None
        part, parts = (0, 1) if group is None else (group.whole("tb_id"), group.whole("tbg_size", least=1, most=1 << 10))
        if part >= parts:
            raise ConfigError(f"{op.where}: tb_id is {part}, expected less than tbg_size, {parts}")
        is_acquire = name in ("sem_acquire", "sem_release")
        return PlanOp(
            name,
            tuple(self._slice(entry, kind) for entry in op.entries("src_buff", may_be_absent=True)),
            tuple(self._slice(entry, kind) for entry in op.entries("dst_buff", may_be_absent=True)),
            kind,
            channels,
            op.wholes("semaphore_ids", self.num_semaphores) if is_acquire else (),
            op.whole("barrier_id", most=1 << 16) if name == "barrier" else -1,
            op.whole("num_threadblocks", least=1, most=1 << 16) if name == "barrier" else 0,
            part,
            parts,
            op.choice("reduce_op", ("sum", "min", "max")) if "reduce_op" in op.value else "",
        )

    def _slice(self, entry: _Entry, kind: str) -> Slice:
        index, size = entry.whole("index", most=MAX_LOCATIONS), entry.whole("size", least=1, most=MAX_LOCATIONS)
        if "switch_channel_id" in entry.value:
            switch_channels = self.channels["switch"]
            number = (
                switch_channels[entry.whole("switch_channel_id", most=len(switch_channels) - 1)]
                if switch_channels
                else entry.refuse("no switch channel")
            )
            buffer, ranks = self.groups[number]
            return Slice(ranks, buffer, index, size, is_remote=True, is_switch=True)
        if "buffer_id" in entry.value:
            known = self.remote.get(kind, [])
            if not known:
                entry.refuse(f"thread block has no remote buffer for {kind or 'no'} channels")
            rank, buffer = known[entry.whole("buffer_id", most=len(known) - 1)]
            return Slice((rank,), buffer, index, size, is_remote=True)
        return Slice((self.rank,), entry.choice("type", BUFFERS), index, size)


class _Entry:
    """An object of the file, with its place in words."""

    def __init__(self, value: dict[str, Any], where: str) -> None:
        self.value, self.where = value, where

    def refuse(self, problem: str) -> Any:
        raise ConfigError(f"{self.where}: {problem}")

    def _get(self, key: str, fits: Callable[[Any], bool], expected: str) -> Any:
        """The value of a key, which has to be there and to fit."""
        if key not in self.value:
            self.refuse(f"{key} is missing")
        value = self.value[key]
        if not fits(value):
            self.refuse(f"{key} is {describe(value)}, expected {expected}")
        return value

    def text(self, key: str) -> str:
        return str(self._get(key, lambda value: isinstance(value, str), "a text"))

    def flag(self, key: str) -> bool:
        return bool(self._get(key, lambda value: isinstance(value, bool), "true or false"))

    def choice(self, key: str, choices: Iterable[str]) -> str:
        known = tuple(choices)
        return str(self._get(key, lambda value: value in known, f"one of {', '.join(known)}"))

    def choices(self, key: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        return self._all(key, lambda entry: entry in choices, f"a list of {', '.join(choices)}")

    def whole(self, key: str, default: int | None = None, *, least: int = 0, most: int = (1 << 64) - 1) -> int:
        if default is not None and key not in self.value:
            return default
        return int(self._get(key, lambda value: is_whole(value, least, most), f"a whole number, {least} to {most}"))

    def wholes(self, key: str, limit: int) -> tuple[int, ...]:
        return self._all(key, lambda entry: is_whole(entry, 0, limit - 1), f"a list of numbers below {limit}")

    def _all(self, key: str, fits: Callable[[Any], bool], expected: str) -> tuple[Any, ...]:
        """The values of a list, all of which have to fit."""
        return tuple(self._get(key, lambda value: isinstance(value, list) and all(map(fits, value)), expected))

    def entry(self, key: str) -> _Entry:
        return _Entry(self._get(key, _is_object, "an object"), f"{self.where}: {key}")

    def entries(self, key: str, *, may_be_absent: bool = False) -> list[_Entry]:
        if may_be_absent and key not in self.value:
            return []
        objects = self._all(key, _is_object, "a list of objects")
        return [_Entry(entry, f"{self.where}: {key}[{number}]") for number, entry in enumerate(objects)]


def _is_object(value: object) -> bool:
    return isinstance(value, dict)
