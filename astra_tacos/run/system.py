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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from astra_tacos.support.documents import Value, filled, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.formats.numbers import is_whole, parse_whole

INT32_MAX = (1 << 31) - 1
"""ASTRA-sim keeps ids of nodes, ranks and groups, and delays in ns, as an `int`."""
_INT64_MAX = (1 << 63) - 1024
"""The largest double that fits."""


def read_per_node(path: str | Path) -> dict[int, str]:
    """The prefix of the custom trace, as written, for each node id of the workload.

    Raises
    ------
    ConfigError
        If the file cannot be read, a key is no node id or a value no path.
    """
    path = Path(path)
    prefixes: dict[int, str] = {}
    document = read_yaml(path, as_texts=True)
    for key in document.content:
        node = parse_whole(key)
        if not is_whole(node, 0, INT32_MAX):
            raise document.unknown(key, "the id of a workload node")
        if node in prefixes:
            raise document.unknown(key, f"node {node} once")
        prefixes[node] = (document / key).decoded(Annotated[str, filled("the prefix of a trace")])
    return prefixes


COMM_KEYS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
SCHEDULING_POLICIES = ("LIFO", "FIFO", "EXPLICIT")
BASELINE, LOCAL_BW_AWARE = COLLECTIVE_OPTIMIZATIONS = ("baseline", "localBWAware")
NATIVE_ALGORITHMS = ("ring", "oneRing", "direct", "oneDirect", "halvingDoubling", "oneHalvingDoubling", "doubleBinaryTree")
IGNORED_KEYS = ("boost-mode", "intra-dimension-scheduling", "inter-dimension-scheduling")
"""Keys of ASTRA-sim 1.0 that many files still hold and that ASTRA-sim 2.0 does not read."""
PER_NODE_KEY = "per-node-custom-implementation"
PER_NODE = "per_node.yml"
"""Name of the YAML of per-node collectives in a run directory."""
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


def _one_of(names: Iterable[str]) -> Meta:
    return Meta(description=" or ".join(names))


@dataclass(frozen=True, slots=True)
class SystemConfig:
    """A system as its file describes it; keys that are absent have ASTRA-sim's defaults.

    Paths stay as they are written: ASTRA-sim opens them from its working directory.
    """

    source: str
    """The file it was read from, as error messages name it."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The file's JSON object, with keys that mean nothing: what is written of the system."""
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

    @property
    def keys(self) -> frozenset[str]:
        """Every key of the file, also those that mean nothing."""
        return frozenset(self.raw)

    def with_keys(self, keys: Mapping[str, Any]) -> SystemConfig:
        """The system whose file has these keys, too, or other values of them."""
        return replace(parse_system(Path(self.source), {**self.raw, **keys}), per_node=self.per_node)

    def without_traces(self) -> SystemConfig:
        """The system without custom collectives."""
        named = {*(f"{key}-implementation-custom" for key in COMM_KEYS), PER_NODE_KEY}
        raw = {key: value for key, value in self.raw.items() if key not in named}
        return replace(self, raw=raw, custom={}, per_node={}, per_node_source=None)

    def with_traces(self, per_node: Mapping[int, str]) -> SystemConfig:
        """The system that runs a custom trace for each of these nodes, and no other; nothing is split then."""
        system = self.without_traces()
        if not per_node:
            return system
        return replace(system.with_keys({"preferred-dataset-splits": 1, PER_NODE_KEY: PER_NODE}), per_node=dict(per_node))


def read_system(path: str | Path, directory: str | Path = Path()) -> SystemConfig:
    """Read a system JSON, and the YAML of per-node collectives that it may name.

    Parameters
    ----------
    directory
        Where ASTRA-sim is started: the path of the per-node YAML is relative to it.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    path = Path(path)
    return with_per_node(parse_system(path, read_json_object(path)), Path(directory))


def with_per_node(system: SystemConfig, directory: Path) -> SystemConfig:
    """The system with the collectives of the per-node YAML that it names, if it names one.

    Raises
    ------
    ConfigError
        If the file cannot be read; the message says if there is one beside the system file, where ASTRA-sim does not look.
    """
    if system.per_node_source is None:
        return system
    opened, beside = directory / system.per_node_source, Path(system.source).parent
    try:
        return replace(system, per_node=read_per_node(opened))
    except ConfigError as error:
        if opened.exists() or not (beside / system.per_node_source).exists():
            raise
        raise ConfigError(f"{error}; there is one in {beside} (--directory)") from None


def parse_system(path: Path, document: Mapping[str, Any]) -> SystemConfig:
    """The system that a JSON object describes, but for `per_node`, which is in a file of its own.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    system = Value(str(path), document)
    given = system.decoded(_SystemFile)
    for key in _FLAGS:
        if document.get(key) is False:
            raise (system / key).unlike(str(_FLAG.description))
    for key in ("preferred-dataset-splits", "active-chunks-per-dimension"):
        if key in system and document[key] != int(document[key]):
            raise (system / key).unlike("a whole number")
    native = {key: place.decoded(_Algorithms) for key in COMM_KEYS if _is_in(place := system / f"{key}-implementation")}
    custom = {key: place.decoded(_Custom)[0] for key in COMM_KEYS if _is_in(place := system / f"{key}-implementation-custom")}
    return SystemConfig(
        source=str(path),
        raw=document,
        scheduling_policy=given.scheduling_policy,
        preferred_dataset_splits=None if given.preferred_dataset_splits is UNSET else int(given.preferred_dataset_splits),
        active_chunks_per_dimension=int(given.active_chunks_per_dimension),
        collective_optimization=given.collective_optimization or None,
        endpoint_delay_ns=int(given.endpoint_delay),
        local_reduction_delay_ns=int(given.local_reduction_delay),
        peak_perf_tflops=given.peak_perf,
        local_mem_bw_gbps=given.local_mem_bw,
        roofline_enabled=given.roofline_enabled != 0,
        replay_only=given.replay_only != 0,
        track_local_mem=given.track_local_mem != 0,
        native=native,
        custom=custom,
        per_node_source=given.per_node_custom_implementation or None,
    )


def _is_in(place: Value) -> bool:
    return place.content is not UNSET


_FLAGS = ("roofline-enabled", "trace-enabled", "replay-only", "track-local-mem")
_FLAG = Meta(description="0 or 1 (ASTRA-sim takes false, null and text for on)")
_Flag = Annotated[bool | int | float, _FLAG]
_Number = Annotated[float, Meta(ge=0, le=1e300, description="a number, 0 or more")]
_Delay = Annotated[float, Meta(ge=0, le=INT32_MAX, description="a number of ns, 0 or more and below 2**31")]
"""ASTRA-sim keeps delays as an `int`, so a fraction is cut off there too."""
_Int32 = Annotated[float, Meta(ge=-INT32_MAX, le=INT32_MAX, description="a whole number")]
"""A whole number that fits ASTRA-sim's `int`, whatever its sign; JSON may write it as 1.0."""
_Text = Annotated[str, filled("a path")]
_Algorithm = Annotated[
    str,
    Meta(
        pattern=rf"\A(?:{'|'.join(NATIVE_ALGORITHMS)}|(?:direct|oneDirect)[1-9][0-9]{{0,4}})\Z",
        description=f"{', '.join(NATIVE_ALGORITHMS)} (direct4: a window of 4)",
    ),
]
_Algorithms = Annotated[tuple[_Algorithm, ...], Meta(min_length=1, description="a list of one algorithm per dimension")]
_Custom = Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=1, description="a list of exactly one prefix of a trace")]


class _SystemFile(Struct, frozen=True, rename="kebab"):
    """What is read but for the implementations; ASTRA-sim ignores unknown keys."""

    scheduling_policy: Annotated[Literal["LIFO", "FIFO", "EXPLICIT"], _one_of(SCHEDULING_POLICIES)] = "LIFO"
    collective_optimization: Annotated[Literal["baseline", "localBWAware"], _one_of(COLLECTIVE_OPTIMIZATIONS)] | UnsetType = UNSET
    preferred_dataset_splits: _Int32 | UnsetType = UNSET
    active_chunks_per_dimension: _Int32 = 1
    endpoint_delay: _Delay = 10
    local_reduction_delay: _Delay = 1
    L: _Number = 0
    o: _Number = 0
    g: _Number = 0
    G: _Number = 0
    model_shared_bus: _Number = 0
    peak_perf: _Number = 0.0
    local_mem_bw: _Number = 0.0
    roofline_enabled: _Flag = 0
    trace_enabled: _Flag = 0
    replay_only: _Flag = 0
    track_local_mem: _Flag = 0
    local_mem_trace_filename: _Text | UnsetType = UNSET
    per_node_custom_implementation: _Text | UnsetType = UNSET


NO_MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}
"""What the file of a run without remote memory says."""
KINDS = {
    "NO_MEMORY_EXPANSION": "none",
    "PER_NPU_MEMORY_EXPANSION": "per-npu",
    "PER_NODE_MEMORY_EXPANSION": "per-node",
    "MEMORY_POOL": "pool",
}
_WHOLE = "a whole number, 0 or more"
_Int64s = Annotated[
    Annotated[int, Meta(ge=0, le=_INT64_MAX)] | Annotated[float, Meta(ge=0, le=_INT64_MAX)], Meta(description=_WHOLE)
]
_Int32s = Annotated[float, Meta(ge=0, le=INT32_MAX, description=_WHOLE)]


class _MemoryFile(Struct, frozen=True, rename="kebab"):
    memory_type: Annotated[
        Literal["NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL"], _one_of(KINDS)
    ]
    remote_mem_latency: _Int64s = 0
    remote_mem_bw: _Int64s = 0
    num_nodes: _Int32s = 0
    num_npus_per_node: _Int32s = 0


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
    return parse_remote_memory(path, read_json_object(path))


def parse_remote_memory(path: Path, document: Mapping[str, Any]) -> RemoteMemory:
    """The remote memory that a JSON object describes; the file's path is for messages.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    given = Value(str(path), document).decoded(_MemoryFile)
    return RemoteMemory(
        source=str(path),
        kind=KINDS[given.memory_type],
        latency_ns=int(given.remote_mem_latency),  # ASTRA-sim cuts fractions off too
        bytes_per_ns=int(given.remote_mem_bw),
        num_nodes=int(given.num_nodes),
        npus_per_node=int(given.num_npus_per_node),
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
