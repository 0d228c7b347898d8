"""Files of other tools that people take for inputs, known by how they begin, and what to do with each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from astra_tacos.support.errors import ConfigError

BEGIN = 1 << 12
"""Bytes that tell."""
INFRAGRAPH_KEYS = frozenset({"infrastructure", "instances", "devices"})
"""Keys of which an InfraGraph has one or more at its top, and a network none."""
_HWLOC = re.compile(rb"<!DOCTYPE\s+topology\b|<topology\b[^>]*>\s*(?:<\w[^>]*/>\s*)*<object\b")
_JSON_NETWORK = re.compile(rb'"(?:topologies-per-dim|dimensions-count|topology-name|units-count)"\s*:')
_SYSTEM = re.compile(
    rb"\s*(?:scheduling-policy|endpoint-delay|active-chunks-per-dimension|preferred-dataset-splits|boost-mode|"
    rb"(?:all-reduce|all-gather|reduce-scatter|all-to-all)-implementation|collective-optimization|intra-dimension-scheduling|"
    rb"inter-dimension-scheduling)\s*:\s*\S+[ \t]*\r?\n\s*[a-z-]+\s*:"
)
_WORKLOAD = re.compile(rb"\s*(?:DATA|MODEL|MICRO|HYBRID_[A-Z_]+)\b[^\n]*\n\s*[0-9]+\s*\n")
_NS3 = re.compile(rb"\s*[0-9]+[ \t]+[0-9]+[ \t]+[0-9]+(?:[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+\w+)?[ \t]*\r?\n\s*[0-9]")
_JSON_TRACE = re.compile(
    rb'\{\s*(?:"version"\s*:\s*"[^"]*"\s*,?\s*)?(?:"attr"\s*:\s*\[\s*\{\s*"name"\s*:|\}\s*\{\s*"(?:id|name|type)"\s*:)'
)
"""A `GlobalMetadata` of Chakra in protobuf's JSON form, with attributes, or with a node after it."""
_READ = "make a network of it with `astra-tacos fabric read FILE --output DIR`"

_Format = tuple[Callable[[bytes], object], str, str]
"""Whether content begins so, what it is, and what is expected."""


def _is_old_plan(begin: bytes) -> bool:
    return begin.startswith(b"{") and b'"gpus"' in begin and (b'"inputChunks"' in begin or b'"outputChunks"' in begin)


_CHAKRA_JSON: _Format = (
    _JSON_TRACE.match,
    "a Chakra trace as JSON, which chakra_jsonizer writes to be looked at",
    "the binary file (.et) that it was made of",
)
_REFUSED: tuple[_Format, ...] = (
    (
        _HWLOC.search,
        "hwloc's XML of a machine, which has no links between GPUs",
        "a topology of NCCL or RCCL (set NCCL_TOPO_DUMP_FILE), for `astra-tacos fabric read`",
    ),
    (
        lambda begin: begin.startswith(b"{") and _JSON_NETWORK.search(begin),
        "a network file of ASTRA-sim 1.0 (JSON)",
        "a YAML with topology, npus_count, bandwidth and latency, as ASTRA-sim 2 reads it",
    ),
    (_SYSTEM.match, "a system file of ASTRA-sim 1.0 (lines of text)", "JSON, as ASTRA-sim 2 reads it"),
    (
        _is_old_plan,
        "an MSCCL++ plan of an older version (keys as inputChunks)",
        "one of a current MSCCL++ (keys as input_chunks): make it again with that",
    ),
    _CHAKRA_JSON,
)
_WORKLOADS: _Format = (
    _WORKLOAD.match,
    "a workload of ASTRA-sim 1.0 or SimAI (text)",
    "Chakra traces: `astra-tacos import` converts SimAI's, Chakra's converter those of ASTRA-sim 1.0",
)


def refuse_foreign(path: Path, content: bytes, *, workloads: bool = False) -> None:
    """Refuse what is a file of another tool by its name.

    Parameters
    ----------
    path
        The file.
    content
        Its content, or the first `BEGIN` bytes of it.
    workloads
        Whether a workload in the text of ASTRA-sim 1.0 is foreign here, too.

    Raises
    ------
    ConfigError
        If it is, with what it is and what to do.
    """
    _refuse(path, content, (*_REFUSED, *([_WORKLOADS] if workloads else [])))


def refuse_json_trace(path: Path, content: bytes) -> None:
    """Refuse a Chakra trace as JSON, where one as binary is expected.

    Raises
    ------
    ConfigError
        If it is one.
    """
    _refuse(path, content, (_CHAKRA_JSON,))


def _refuse(path: Path, content: bytes, formats: Iterable[_Format]) -> None:
    begin = content[:BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip()
    for is_this, what, expected in formats:
        if is_this(begin):
            raise ConfigError(f"{path}: is {what}, expected {expected}")


def refuse_fabric(path: Path, content: bytes) -> None:
    """Refuse what `fabric read` reads, where a network or a program of a collective is expected.

    Raises
    ------
    ConfigError
        If it is a topology of NCCL (.xml) or ns-3 (.txt).
    """
    begin = content[:BEGIN]
    if path.suffix == ".xml" and re.search(rb"<system[\s>]", begin):
        raise ConfigError(f"{path}: is a topology of NCCL: {_READ}")
    if path.suffix == ".txt" and _NS3.match(begin):
        raise ConfigError(f"{path}: is a topology of ns-3: {_READ}")


def refuse_infragraph(path: Path, keys: Collection[object]) -> None:
    """Refuse the keys at the top of an InfraGraph, where a network is expected.

    Raises
    ------
    ConfigError
        If there is one of them, and none of a network's.
    """
    if INFRAGRAPH_KEYS.intersection(keys) and not {"topology", "astra_tacos"}.intersection(keys):
        raise ConfigError(f"{path}: is an InfraGraph: {_READ}")
