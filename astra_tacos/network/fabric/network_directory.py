"""The directory of a network: network.yml and its tables, replaced only where nobody has edited them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig, write_network
from astra_tacos.support.files import check_replaceable, replaced_directory

_NETWORK = "network.yml"
_OWN = {_NETWORK, "links.csv", "nodes.csv", "hosts.csv"}
_MARK = "# Written by astra-tacos network, "
"""Begins the first line of network.yml; the digest of all that was written follows, by which it is known as unchanged."""


def write_network_directory(network: NetworkConfig, output: Path, tables: dict[str, str]) -> dict[str, Any]:
    """Write a network and tables beside it; returns its counts and file."""
    check_replaceable(
        output, "network directory of astra_tacos, unchanged since", lambda names: not names or _is_unchanged(output, names)
    )
    topology = build_topology(network, may_forward=True)
    with replaced_directory(output) as directory:
        file = directory / _NETWORK
        write_network(network, file)
        for name, text in tables.items():
            (directory / name).write_text(text, encoding="utf-8")
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{_MARK}{_digest(directory, text.encode())}\n{text}", encoding="utf-8")
    shape = {"npus": topology.num_endpoints, "forwarding": len(topology.forwarding), "links": topology.num_links}
    return {**shape, "network": str(output / _NETWORK)}


def _digest(directory: Path, network: bytes) -> str:
    """The digest of a network's text, and of the tables in its directory."""
    digest = hashlib.sha256(network)
    for table in sorted(_OWN - {_NETWORK}):
        if (directory / table).is_file():
            digest.update(f"\n{table}\n".encode() + (directory / table).read_bytes())
    return digest.hexdigest()


def _is_unchanged(directory: Path, names: set[str]) -> bool:
    """Whether a directory has what was written here, and nothing else: people write and edit such files by hand, too."""
    if not names <= _OWN or not all((directory / name).is_file() for name in (_NETWORK, *names)):
        return False
    first, _, rest = (directory / _NETWORK).read_bytes().partition(b"\n")
    return first == f"{_MARK}{_digest(directory, rest)}".encode()
