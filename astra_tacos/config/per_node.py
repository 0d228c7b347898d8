"""The YAML of per-node collectives: which custom trace a workload's collective node runs.

Format: ASTRA-sim `system/astraccl/CollectiveImplLookup.cc` (`parse_per_node_yaml_file`): `node id: prefix`, one a line.
"""

from __future__ import annotations

from pathlib import Path

from astra_tacos.config.yaml_text import describe, read_yaml_mapping
from astra_tacos.errors import ConfigError

MAX_NODE_ID = (1 << 31) - 1
"""ASTRA-sim keeps these ids as an `int`."""


def read_per_node(path: str | Path) -> dict[int, str]:
    """Prefix of the custom trace, as written, by id of the workload's node.

    Raises
    ------
    ConfigError
        If the file cannot be read, a key is no node id or a value no path.
    """
    path = Path(path)
    prefixes: dict[int, str] = {}
    for key, value in read_yaml_mapping(path).items():
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key <= MAX_NODE_ID:
            raise ConfigError(f"{path}: found the key {describe(key)}, expected the id of a workload node")
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "" or "\0" in str(value):
            raise ConfigError(f"{path}: node {key} has {describe(value)}, expected the prefix of a trace")
        prefixes[key] = str(value)
    return prefixes
