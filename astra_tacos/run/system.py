"""The system JSON of ASTRA-sim, and the files beside it: per-node collectives, and remote memory.

The JSON has the implementations of collectives, and the compute speed of an NPU.

Format: ASTRA-sim `system/Sys.cc` (`Sys::initialize_sys`) and `system/astraccl/CollectiveImplLookup.cc`. ASTRA-sim ignores unknown
keys, and so does this reader; `keys` keeps all of them, so that a check can look for misspelt ones.

The YAML of per-node collectives names the custom trace that each collective node of a workload runs.

Format: ASTRA-sim `system/astraccl/CollectiveImplLookup.cc` (`parse_per_node_yaml_file`): one `node id: prefix` a line.

The remote memory JSON has the cost of loads and stores of MEM nodes.

Format: ASTRA-sim `extern/remote_memory_backend/analytical/AnalyticalRemoteMemory.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import (
    are_texts,
    describe,
    filled_text,
    is_number,
    is_whole,
    parse_whole,
    read_json_object,
    read_yaml_mapping,
)

MAX_NODE_ID = (1 << 31) - 1
"""ASTRA-sim keeps these ids as an `int`."""


def read_per_node(path: str | Path) -> dict[int, str]:
    """The prefix of the custom trace, as written, for each node id of the workload.

    Raises
    ------
    ConfigError
        If the file cannot be read, a key is no node id or a value no path.
    """
    path = Path(path)
    prefixes: dict[int, str] = {}
    for key, value in read_yaml_mapping(path, as_texts=True).items():
        node = parse_whole(key)
        if not is_whole(node, 0, MAX_NODE_ID):
            raise ConfigError(f"{path}: found the key {describe(key)}, expected the id of a workload node")
        if node in prefixes:
            raise ConfigError(f"{path}: node {node} is given again as {describe(key)}, expected each once")
        prefixes[node] = filled_text(value, f"{path}: node {node}", "the prefix of a trace")
    return prefixes


COMM_KEYS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
SCHEDULING_POLICIES = ("LIFO", "FIFO", "EXPLICIT")
BASELINE, LOCAL_BW_AWARE = COLLECTIVE_OPTIMIZATIONS = ("baseline", "localBWAware")
NATIVE_ALGORITHMS = ("ring", "oneRing", "direct", "oneDirect", "halvingDoubling", "oneHalvingDoubling", "doubleBinaryTree")
IGNORED_KEYS = ("boost-mode", "intra-dimension-scheduling", "inter-dimension-scheduling")
"""Keys of ASTRA-sim 1.0 that many files still hold and that ASTRA-sim 2.0 does not read."""
PER_NODE_KEY = "per-node-custom-implementation"
READ_KEYS = (
    "scheduling-policy",
    "collective-optimization",
    "local-reduction-delay",
    "active-chunks-per-dimension",
    "L",
    "o",
    "g",
    "G",
    "endpoint-delay",
    "model-shared-bus",
    "preferred-dataset-splits",
    "peak-perf",
    "local-mem-bw",
    "roofline-enabled",
    "trace-enabled",
    "replay-only",
    "track-local-mem",
    "local-mem-trace-filename",
    *(f"{key}-implementation" for key in COMM_KEYS),
    *(f"{key}-implementation-custom" for key in COMM_KEYS),
    PER_NODE_KEY,
)
"""Every key that ASTRA-sim reads."""

_INT32_MAX = (1 << 31) - 1
_DIRECT = re.compile(r"(?:direct|oneDirect)(?:[1-9][0-9]{0,4})?\Z")


@dataclass(frozen=True, slots=True)
class SystemConfig:
    """A system as its file describes it; keys that are absent have ASTRA-sim's defaults.

    Paths stay as they are written: ASTRA-sim opens them from its working directory.
    """

    source: str
    """The file it was read from, as error messages name it."""
    keys: frozenset[str] = frozenset()
    """Every key of the file, also those that mean nothing."""
    scheduling_policy: str = "LIFO"
    """One of `SCHEDULING_POLICIES`. Where it is absent ASTRA-sim reads memory it never set: zero, which is LIFO, as a rule."""
    preferred_dataset_splits: int | None = None
    """Into how many chunks a native collective is split. None and 0 end ASTRA-sim by SIGFPE at the first collective."""
    active_chunks_per_dimension: int = 1
    collective_optimization: str | None = None
    """One of `COLLECTIVE_OPTIMIZATIONS`; where it is absent ASTRA-sim reads memory that it never set."""
    endpoint_delay_ns: int = 10
    local_reduction_delay_ns: int = 1
    peak_perf_tflops: float = 0.0
    local_mem_bw_gbps: float = 0.0
    """Decimal GB/s, unlike the bandwidths of a network."""
    roofline_enabled: bool = False
    replay_only: bool = False
    track_local_mem: bool = False
    native: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Algorithm per dimension, by `COMM_KEYS`: {"all-reduce": ("ring", "direct4")}."""
    custom: Mapping[str, str] = field(default_factory=dict)
    """Prefix of the trace as written, by `COMM_KEYS`."""
    per_node: Mapping[int, str] = field(default_factory=dict)
    """Prefix of the trace as written, by id of the workload's node."""
    per_node_source: str | None = None
    """The YAML that `per_node` was read from, as written."""


def read_system(path: str | Path, directory: str | Path = Path()) -> SystemConfig:
    """Read a system JSON, and the YAML of per-node collectives that it may name.

    Parameters
    ----------
    path
        The JSON.
    directory
        Where ASTRA-sim is started: the path of the per-node YAML is relative to it.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    path = Path(path)
    system = parse_system(path, read_json_object(path))
    if system.per_node_source is None:
        return system
    per_node = Path(directory) / system.per_node_source
    if not per_node.exists() and (path.parent / system.per_node_source).exists():
        found = f"{path}: {PER_NODE_KEY} is {system.per_node_source!r}, a path from where ASTRA-sim is started"
        raise ConfigError(
            f"{found}, but {Path(directory)} has none: it is in {path.parent}, expected --directory {path.parent}, or to be there"
        )
    return replace(system, per_node=read_per_node(per_node))


def parse_system(path: Path, document: Mapping[str, Any]) -> SystemConfig:
    """The system that a JSON object describes, but for `per_node`, which is in a file of its own.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    native = {key: _algorithms(path, document, name) for key in COMM_KEYS if (name := f"{key}-implementation") in document}
    custom = {key: _custom(path, document, name) for key in COMM_KEYS if (name := f"{key}-implementation-custom") in document}
    _flag(path, document, "trace-enabled")
    for key in ("L", "o", "g", "G", "model-shared-bus"):
        _number(path, document, key, 0)
    if "local-mem-trace-filename" in document:
        _text(path, "local-mem-trace-filename", document["local-mem-trace-filename"])
    return SystemConfig(
        source=str(path),
        keys=frozenset(document),
        scheduling_policy=_choice(path, document, "scheduling-policy", SCHEDULING_POLICIES) or "LIFO",
        preferred_dataset_splits=_int32(path, document, "preferred-dataset-splits", None),
        active_chunks_per_dimension=_int32(path, document, "active-chunks-per-dimension", 1) or 0,
        collective_optimization=_choice(path, document, "collective-optimization", COLLECTIVE_OPTIMIZATIONS),
        endpoint_delay_ns=_delay(path, document, "endpoint-delay", 10),
        local_reduction_delay_ns=_delay(path, document, "local-reduction-delay", 1),
        peak_perf_tflops=_number(path, document, "peak-perf", 0.0),
        local_mem_bw_gbps=_number(path, document, "local-mem-bw", 0.0),
        roofline_enabled=_flag(path, document, "roofline-enabled"),
        replay_only=_flag(path, document, "replay-only"),
        track_local_mem=_flag(path, document, "track-local-mem"),
        native=native,
        custom=custom,
        per_node_source=_text(path, PER_NODE_KEY, document[PER_NODE_KEY]) if PER_NODE_KEY in document else None,
    )


def _text(path: Path, key: str, value: object) -> str:
    return filled_text(value, f"{path}: {key}", "a path")


def _choice(path: Path, document: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str | None:
    if key not in document:
        return None
    value = document[key]
    if value not in choices:
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected {' or '.join(choices)}")
    return str(value)


def _number(path: Path, document: Mapping[str, Any], key: str, default: float) -> float:
    """A number of 0 or more."""
    value = document.get(key, default)
    if not is_number(value, 0, 1e300):
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected a number, 0 or more")
    return float(value)


def _int32(path: Path, document: Mapping[str, Any], key: str, default: int | None) -> int | None:
    """A whole number that fits ASTRA-sim's `int`, whatever its sign."""
    if key not in document:
        return default
    value = document[key]
    if not is_number(value, -_INT32_MAX, _INT32_MAX) or value != int(value):
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected a whole number")
    return int(value)


def _delay(path: Path, document: Mapping[str, Any], key: str, default: int) -> int:
    """Nanoseconds; ASTRA-sim keeps them as an `int`, so a fraction is cut off there too."""
    value = _number(path, document, key, default)
    if value > _INT32_MAX:
        raise ConfigError(f"{path}: {key} is {describe(document[key])}, expected a number of ns below 2**31")
    return int(value)


def _flag(path: Path, document: Mapping[str, Any], key: str) -> bool:
    """0 or another number. ASTRA-sim asks `value != 0`, which holds for false, null and "0" too: such a value is refused."""
    value = document.get(key, 0)
    if value is False or not isinstance(value, (bool, int, float)):
        hint = ", which ASTRA-sim takes for on" if not value or value == "0" else ""
        raise ConfigError(f"{path}: {key} is {describe(value)}{hint}, expected 0 or 1")
    return value != 0


def _strings(path: Path, document: Mapping[str, Any], key: str, expected: str) -> list[str]:
    value = document[key]
    if not are_texts(value) or not value:
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected {expected}")
    return value


def _algorithms(path: Path, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = _strings(path, document, key, "a list of one algorithm per dimension")
    for index, name in enumerate(names):
        if name not in NATIVE_ALGORITHMS and not _DIRECT.match(name):
            expected = ", ".join(NATIVE_ALGORITHMS)
            raise ConfigError(f"{path}: {key}[{index}] is {describe(name)}, expected {expected} (direct4: a window of 4)")
    return tuple(names)


def _custom(path: Path, document: Mapping[str, Any], key: str) -> str:
    expected = "a list of exactly one prefix of a trace"
    prefixes = _strings(path, document, key, expected)
    if len(prefixes) != 1:
        raise ConfigError(f"{path}: {key} has {len(prefixes)} entries, expected {expected}")
    return _text(path, f"{key}[0]", prefixes[0])


KINDS = {
    "NO_MEMORY_EXPANSION": "none",
    "PER_NPU_MEMORY_EXPANSION": "per-npu",
    "PER_NODE_MEMORY_EXPANSION": "per-node",
    "MEMORY_POOL": "pool",
}
_MEMORY_KEYS = ("memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node")
_MAX = {"remote-mem-latency": (1 << 63) - 1, "remote-mem-bw": (1 << 63) - 1}


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """Remote memory: an access of b bytes takes `latency_ns + int(b / bytes_per_ns)`.

    One access at a time in a pool and in a node's memory, any number at once in an NPU's own.
    """

    source: str
    """The file it was read from, as error messages name it."""
    kind: str
    """none, per-npu, per-node or pool."""
    latency_ns: int = 0
    bytes_per_ns: int = 0
    """ASTRA-sim keeps it as a whole number."""
    num_nodes: int = 0
    npus_per_node: int = 0
    keys: frozenset[str] = frozenset()
    """Every key of the file, also those that mean nothing."""


def read_remote_memory(path: str | Path) -> RemoteMemory:
    """Read a remote memory JSON.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    path = Path(path)
    document = read_json_object(path)
    name = _choice(path, document, "memory-type", tuple(KINDS))
    if name is None:
        raise ConfigError(f"{path}: memory-type is missing, expected {' or '.join(KINDS)}")
    numbers: dict[str, int] = {}
    for key in _MEMORY_KEYS[1:]:
        value = document.get(key, 0)
        if not is_number(value, 0, _MAX.get(key, _INT32_MAX)):
            raise ConfigError(f"{path}: {key} is {describe(value)}, expected a whole number, 0 or more")
        numbers[key] = int(value)  # ASTRA-sim cuts fractions off too
    return RemoteMemory(
        source=str(path),
        kind=KINDS[name],
        latency_ns=numbers["remote-mem-latency"],
        bytes_per_ns=numbers["remote-mem-bw"],
        num_nodes=numbers["num-nodes"],
        npus_per_node=numbers["num-npus-per-node"],
        keys=frozenset(document),
    )


def default_system(num_dimensions: int) -> dict[str, Any]:
    """A system that runs native rings, with the delays that ASTRA-sim has by default."""
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "local-reduction-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "baseline",
        **{f"{key}-implementation": ["ring"] * max(num_dimensions, 1) for key in COMM_KEYS},
    }
