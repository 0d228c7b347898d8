"""The files of a network: its YAML and the tables that it names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

from astra_tacos.network.network_config import topology_file_of
from astra_tacos.support.documents import filled, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import forget_inputs

NETWORK = "network.yml"
"""Name of the file in a run directory."""


def network_tables(network: Path) -> tuple[Path, ...]:
    """The tables of links and of nodes, or the topology file, that a network file names, as it names them.

    Raises
    ------
    ConfigError
        If one is not beside the network file or below, so that a copy of that file would not find it.
    """
    document = read_yaml(network)
    extension = document / "astra_tacos"
    named = [(extension / key, ".csv") for key in ("links", "nodes") if key in extension]
    if topology_file_of(document) is not None:
        named.append((document / "topology_file", ".txt"))
    tables = []
    for place, suffix in named:
        table = Path(place.decoded(Annotated[str, filled(f"a {suffix} file beside it")]))
        if table.is_absolute() or ".." in table.parts or table.suffix != suffix:
            raise place.unlike(f"a {suffix} file beside {network.name}, to be copied with it")
        tables.append(table)
    return tuple(tables)


def own_tables(folder: Path) -> tuple[str, ...]:
    """The tables that the network of an earlier product in a directory names, by their paths there."""
    try:
        return tuple(table.as_posix() for table in network_tables(folder / NETWORK))
    except ConfigError:
        return ()
    finally:
        forget_inputs(folder / NETWORK)


def copy_network(network: Path, folder: Path) -> None:
    """Copy a network file into a directory, with the tables that it names."""
    shutil.copyfile(network, folder / NETWORK)
    for table in network_tables(network):
        (folder / table).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(network.parent / table, folder / table)
