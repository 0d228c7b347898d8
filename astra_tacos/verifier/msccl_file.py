"""Reader of MSCCL XML into columns, one row per step. A malformed file raises a `ConfigError` that names the place."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.xml_files import read_xml
from astra_tacos.verifier.layout import BUFFERS
from astra_tacos.verifier.program_form import MAX_LOCATIONS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


_log = logging.getLogger(__name__)

STEP_TYPES = ("s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop")
MAX_FILE_BYTES = 1 << 30
"""Of an MSCCL XML."""
_MAX_NUMBER = (1 << 31) - 1
"""Runtimes read numbers as `int`."""
_MAX_BYTES = (1 << 63) - 1
"""Runtimes read sizes as `int64_t`."""
_COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
_UNTOLD = {
    "custom": "the file does not say what a custom collective has to compute",
    "alltoallv": "the file does not say how large the parts of an alltoallv are",
    "send": "the file does not say between which NPUs a send is",
    "recv": "the file does not say between which NPUs a recv is",
}
"""Names of collectives that do not tell enough to check the result, and the reason."""
_ONLY_ORIGINAL = ("reduce_scatter", "custom")
_ONLY_SUCCESSORS = ("reducescatter", "gather", "scatter", "alltoallv", "send", "recv")
_STEP_NUMBERS = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
_STEP_WORDS = (("type", STEP_TYPES), ("srcbuf", BUFFERS), ("dstbuf", BUFFERS))
_SUCCESSORS_REQUIRE = ("outofplace", "minBytes", "maxBytes")
_READ = {
    "algo": {"name", "proto", "coll", "ngpus", "nchunksperloop", "nchannels", "inplace", *_SUCCESSORS_REQUIRE},
    "gpu": {"id", *(f"{buffer}_chunks" for buffer in BUFFERS)},
    "copy": {"i_off", "o_off"},
    "tb": {"id", "send", "recv", "chan"},
    "step": {*_STEP_NUMBERS, *(name for name, _ in _STEP_WORDS)},
}
"""The attributes of each element that are read."""


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A `tb` element; its steps are rows `first` to `last - 1`."""

    npu: int
    number: int
    send: int
    recv: int
    channel: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class MscclFile:
    """An MSCCL XML file. NPUs are its `gpu` elements by id; columns of steps have the names of the attributes.

    Parameters
    ----------
    coll, collective
        Name of the collective in the file, and in this package (None if the file's name does not tell enough).
    untold
        The reason why `collective` is None; empty if it is not.
    original
        Whether the file is in the dialect of the original MSCCL runtime rather than of its successors.
    absent
        Attributes of `algo` that the dialect requires but the file lacks.
    protocol
        Attribute `proto`.
    num_channels, num_chunks, num_npus
        Attributes `nchannels`, `nchunksperloop`, `ngpus`.
    placements
        Placements of buffers that the file is for: in place (True), out of place (False), both or none.
    least_bytes, most_bytes
        Attributes `minBytes` and `maxBytes` (0: no limit), None if absent.
    buffer_chunks
        int64[num_npus, 3], `i_chunks`, `o_chunks`, `s_chunks`.
    copies
        int64[num_copies, 3], `copy` elements of TACCL and TE-CCL: GPU, `i_off`, `o_off`.
    blocks
        Thread blocks, sorted by NPU, then in the order of the file.
    s, srcoff, dstoff, cnt, depid, deps, hasdep
        int64[num_steps], attributes of the steps.
    kind, srcbuf, dstbuf
        int64[num_steps], index in `STEP_TYPES` and in `BUFFERS`.
    """

    path: Path
    coll: str
    collective: str | None
    untold: str
    original: bool
    absent: tuple[str, ...]
    protocol: str | None
    num_channels: int
    num_chunks: int
    num_npus: int
    placements: tuple[bool, ...]
    least_bytes: int | None
    most_bytes: int | None
    buffer_chunks: Ints
    copies: Ints
    blocks: tuple[ThreadBlock, ...]
    s: Ints
    srcoff: Ints
    dstoff: Ints
    cnt: Ints
    depid: Ints
    deps: Ints
    hasdep: Ints
    kind: Ints
    srcbuf: Ints
    dstbuf: Ints

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return len(self.s)

    @property
    def block_of(self) -> Ints:
        """int64[num_steps], index of each step's thread block."""
        return np.repeat(np.arange(len(self.blocks)), [block.last - block.first for block in self.blocks])

    @property
    def step_npu(self) -> Ints:
        """int64[num_steps], NPU of each step."""
        return np.array([block.npu for block in self.blocks], np.int64)[self.block_of]

    def describe(self, row: int) -> str:
        """A step in words, like `gpu 3, tb 1, step 2`; steps count from 0 in the order of the file."""
        block = self.blocks[bisect_right(self.blocks, row, key=lambda block: block.first) - 1]
        return f"gpu {block.npu}, tb {block.number}, step {row - block.first}"


class _Numbers(dict[str, int]):
    """Cache from texts to integers, as files repeat few distinct numbers many times."""

    def __missing__(self, text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_MAX_NUMBER))):
            raise ValueError
        self[text] = value = int(text)
        if not -1 <= value <= _MAX_NUMBER:
            raise ValueError
        return value


def read_msccl_xml(path: Path) -> MscclFile:
    """Read an MSCCL XML file. A warning counts the attributes that are not read.

    Raises
    ------
    ConfigError
        If the file cannot be read, is not XML or has entities, or if an element or attribute is missing, unknown or out of
        bounds.
    """
    root = read_xml(path, MAX_FILE_BYTES, "an MSCCL XML", "algo")
    numbers = _Numbers()
    coll = root.get("coll")
    names = (*_COLLECTIVES, *_UNTOLD)
    if coll is None or coll not in names:
        shown = "missing" if coll is None else repr(coll[:40])
        raise ConfigError(f"{path}: algo: coll is {shown}, expected one of {', '.join(names)}")
    num_npus, num_chunks, num_channels = (
        _number(root, name, numbers, str(path), least=1) for name in ("ngpus", "nchunksperloop", "nchannels")
    )
    if num_npus * num_chunks > MAX_LOCATIONS:
        raise ConfigError(f"{path}: algo: {num_npus} GPUs with {num_chunks} chunks, expected at most {MAX_LOCATIONS} in all")
    in_place = bool(_number(root, "inplace", numbers, str(path), least=0))
    also = bool(_number(root, "outofplace", numbers, str(path), least=0)) if "outofplace" in root.attrib else not in_place
    # The original runtime never reads outofplace, and need not have minBytes and maxBytes; its successors require all three.
    # Each dialect has collectives that the other lacks.
    missing = tuple(name for name in _SUCCESSORS_REQUIRE if name not in root.attrib)
    original = coll in _ONLY_ORIGINAL or ("outofplace" in missing and coll not in _ONLY_SUCCESSORS)
    absent = tuple(name for name in ("name", "proto") if name not in root.attrib) + (() if original else missing)
    chunks, copies, blocks, columns = _read_gpus(root, num_npus, numbers, path)
    unread = Counter(
        f"{name} of <{element.tag}>"
        for element in root.iter()
        for name in element.attrib.keys() - _READ.get(str(element.tag), set())
    )
    if unread:
        _log.warning("%s: not read: %s", path, ", ".join(f"{count:,} {attribute}" for attribute, count in sorted(unread.items())))
    return MscclFile(
        path,
        coll,
        _COLLECTIVES.get(coll),
        _UNTOLD.get(coll, ""),
        original,
        absent,
        root.get("proto"),
        num_channels,
        num_chunks,
        num_npus,
        tuple(place for place, wanted in ((True, in_place), (False, also)) if wanted),
        _bytes(root, "minBytes", path),
        _bytes(root, "maxBytes", path),
        chunks,
        copies,
        blocks,
        *columns,
    )


def _bytes(root: Element, name: str, path: Path) -> int | None:
    text = root.get(name)
    if text is None:
        return None
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_BYTES))
    if not digits or int(text) > _MAX_BYTES:
        raise ConfigError(f"{path}: algo: {name} is {text[:40]!r}, expected an integer, 0 to {_MAX_BYTES}")
    return int(text)


def _read_gpus(
    root: Element, num_npus: int, numbers: _Numbers, path: Path
) -> tuple[Ints, Ints, tuple[ThreadBlock, ...], list[Ints]]:
    """Columns `buffer_chunks` and `copies`, thread blocks, and columns of steps."""
    gpus: dict[int, Element] = {}
    for gpu in _children(root, "gpu", str(path)):
        npu = _number(gpu, "id", numbers, f"{path}: gpu", least=0)
        if npu in gpus or npu >= num_npus:
            raise ConfigError(f"{path}: found gpu id {npu}, expected each of 0 to {num_npus - 1} once")
        gpus[npu] = gpu
    if len(gpus) != num_npus:
        raise ConfigError(f"{path}: found {len(gpus)} gpu elements, ngpus is {num_npus}")
    rows: list[tuple[int, ...]] = []
    blocks: list[ThreadBlock] = []
    copies: list[tuple[int, int, int]] = []
    chunks = np.empty((num_npus, 3), np.int64)
    for npu in range(num_npus):
        where = f"{path}: gpu {npu}"
        chunks[npu] = [_number(gpus[npu], f"{buffer}_chunks", numbers, where, least=0) for buffer in BUFFERS]
        if chunks[npu].max() > MAX_LOCATIONS // num_npus:
            raise ConfigError(f"{where}: {chunks[npu].max()} chunks in a buffer, expected at most {MAX_LOCATIONS // num_npus}")
        for tb in _children(gpus[npu], "tb", where, also="copy"):
            if tb.tag == "copy":
                source, target = (_number(tb, name, numbers, where, least=0) for name in ("i_off", "o_off"))
                copies.append((npu, source, target))
                continue
            ids = [_number(tb, name, numbers, f"{where}, tb", least=-1) for name in ("id", "send", "recv", "chan")]
            begin = len(rows)
            for step in _children(tb, "step", f"{where}, tb {ids[0]}"):
                rows.append(_read_step(step, numbers) or _explain_step(step, f"{where}, tb {ids[0]}, step {len(rows) - begin}"))
            blocks.append(ThreadBlock(npu, ids[0], ids[1], ids[2], ids[3], begin, len(rows)))
    table = np.array(rows, np.int64).reshape(len(rows), len(_STEP_NUMBERS) + len(_STEP_WORDS))
    return chunks, np.array(copies, np.int64).reshape(-1, 3), tuple(blocks), list(table.T.copy())


def _children(element: Element, tag: str, where: str, also: str | None = None) -> list[Element]:
    children = list(element)
    for child in children:
        if child.tag not in (tag, also):
            expected = repr(tag) + (f" or {also!r}" if also else "")
            raise ConfigError(f"{where}: found element {str(child.tag)[:40]!r}, expected {expected}")
    return children


def _read_step(step: Element, numbers: _Numbers) -> tuple[int, ...] | None:
    """Columns of a step; None if it is malformed."""
    attributes = step.attrib
    try:
        values = [numbers[attributes[name]] for name in _STEP_NUMBERS]
        return (*values, *(choices.index(attributes[name]) for name, choices in _STEP_WORDS))
    except (KeyError, ValueError):
        return None


def _explain_step(step: Element, where: str) -> tuple[int, ...]:
    """Raise the error of a malformed step."""
    for name in _STEP_NUMBERS:
        _number(step, name, _Numbers(), where, least=-1)
    for name, choices in _STEP_WORDS:
        if (value := step.get(name)) not in choices:
            raise ConfigError(f"{where}: {name} is {value!r:.40}, expected one of {', '.join(choices)}")
    raise ConfigError(f"{where}: cannot be read")


def _number(element: Element, name: str, numbers: _Numbers, where: str, least: int) -> int:
    text = element.get(name)
    try:
        value = numbers["" if text is None else text]
    except ValueError:
        value = least - 1
    if value < least:
        shown = "missing" if text is None else repr(text[:40])
        raise ConfigError(f"{where}: {element.tag}: {name} is {shown}, expected an integer, {least} to {_MAX_NUMBER}") from None
    return value
