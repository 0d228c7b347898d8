"""The YAML of per-node collectives, which names the custom trace that each collective node of a workload runs.

Format: ASTRA-sim `system/astraccl/CollectiveImplLookup.cc` (`parse_per_node_yaml_file`): one `node id: prefix` a line.
"""

from __future__ import annotations

from pathlib import Path

from astra_tacos.support.decimal_text import parse_whole
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.yaml_text import describe, read_yaml_texts

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
    for key, value in read_yaml_texts(path).items():
        node = parse_whole(key) if isinstance(key, str) else None
        if node is None or not 0 <= node <= MAX_NODE_ID:
            raise ConfigError(f"{path}: found the key {describe(key)}, expected the id of a workload node")
        if node in prefixes:
            raise ConfigError(f"{path}: node {node} is given again as {describe(key)}, expected each once")
        if not isinstance(value, str) or not value or "\0" in value:
            raise ConfigError(f"{path}: node {node} has {describe(value)}, expected the prefix of a trace")
        prefixes[node] = value
    return prefixes
