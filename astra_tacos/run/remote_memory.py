"""The remote memory JSON of ASTRA-sim: the cost of loads and stores of MEM nodes.

Format: ASTRA-sim `extern/remote_memory_backend/analytical/AnalyticalRemoteMemory.cc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, read_json_object

KINDS = {
    "NO_MEMORY_EXPANSION": "none",
    "PER_NPU_MEMORY_EXPANSION": "per-npu",
    "PER_NODE_MEMORY_EXPANSION": "per-node",
    "MEMORY_POOL": "pool",
}
READ_KEYS = ("memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node")
_MAX = {"remote-mem-latency": (1 << 63) - 1, "remote-mem-bw": (1 << 63) - 1}
_INT32_MAX = (1 << 31) - 1


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
    if "memory-type" not in document:
        raise ConfigError(f"{path}: memory-type is missing, expected {' or '.join(KINDS)}")
    name = document["memory-type"]
    if not isinstance(name, str) or name not in KINDS:
        raise ConfigError(f"{path}: memory-type is {describe(name)}, expected {' or '.join(KINDS)}")
    numbers: dict[str, int] = {}
    for key in READ_KEYS[1:]:
        value = document.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX.get(key, _INT32_MAX):
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
