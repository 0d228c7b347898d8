"""Reading of a broken run into a `Draft`, from the files that there are; what is missing gets defaults, which are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.network.blocks.building_block import COMPLETE
from astra_tacos.network.network_config import NetworkConfig, read_network
from astra_tacos.network.network_files import network_tables
from astra_tacos.rules.inputs import is_compressed, rank_files
from astra_tacos.run.backend import Backend, choose_backend, stock_backend
from astra_tacos.run.system import (
    COMM_KEYS,
    NO_MEMORY,
    PER_NODE_KEY,
    default_system,
    parse_system,
    read_per_node,
    read_remote_memory,
)
from astra_tacos.run.trace.node_bytes import read_messages, read_metadata
from astra_tacos.run.trace.reader import MAX_RANKS, load_file, trace_files
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.temporaries import scratch_directory
from astra_tacos.workload.repairer.draft import Draft
from astra_tacos.workload.repairer.node import DraftNode
from astra_tacos.workload.repairer.rank_nodes import RankNodes

DEFAULT_BANDWIDTH_GIBPS = 50
"""Of each link of a network that is assumed, in GiB/s."""
DEFAULT_LATENCY_NS = 500
"""Of each link of a network that is assumed."""


@dataclass(frozen=True, slots=True)
class RepairInputs:
    """The files of a broken run.

    Parameters
    ----------
    workload
        Prefix of its traces; of an imported run, which has none, "w" gives their name.
    system, network, groups, remote_memory
        Files, None where there is none.
    """

    workload: Path = Path("w")
    system: Path | None = None
    network: Path | None = None
    groups: Path | None = None
    remote_memory: Path | None = None
    directory: Path = Path()


def network_text(num_npus: int, bandwidth_gibps: float = DEFAULT_BANDWIDTH_GIBPS, latency_ns: float = DEFAULT_LATENCY_NS) -> str:
    """The text of a network that connects every NPU with every other one."""
    values = {"topology": COMPLETE, "npus_count": num_npus, "bandwidth": bandwidth_gibps, "latency": latency_ns}
    return "".join(f"{key}: [ {value} ]\n" for key, value in values.items())


def read_draft(inputs: RepairInputs, backend: Backend | str | None, num_ranks: int | None, *, first_rank: int = 0) -> Draft:
    """Read a run.

    Parameters
    ----------
    backend
        The network model, or its name; None for that of the network.
    num_ranks
        How many ranks the run is to have; None for as many as there are traces.
    first_rank
        The rank that the nodes of the first trace are to have.

    Raises
    ------
    ConfigError
        If a file is given that cannot be read, or there is no trace.
    """
    most = read_network(inputs.network).num_npus if inputs.network is not None else MAX_RANKS
    metadata, ranks, compressed = [], [], []
    for rank, path in enumerate(trace_files(inputs.workload, most)):
        try:
            file = load_file(path)
            head, nodes = read_metadata(file), RankNodes.of_file(first_rank + rank, file)
        except ConfigError:  # no trace, or one with faults that only messages can show
            head, node_messages = read_messages(path)
            nodes = RankNodes(first_rank + rank, map(DraftNode, node_messages))
        metadata.append(head)
        ranks.append(nodes)
        if is_compressed(path):
            compressed.append(rank)
    draft = draft_of(inputs.workload.name, str(inputs.workload), ranks, {}, inputs, backend, num_ranks or len(ranks))
    draft.metadata += metadata
    draft.compressed += compressed
    draft.surplus += (rank for rank in rank_files(inputs.workload) if rank >= most)
    return draft


def draft_of(
    name: str,
    source: str,
    ranks: list[RankNodes],
    groups: dict[str, list[Any]],
    inputs: RepairInputs,
    backend: Backend | str | None,
    num_ranks: int,
) -> Draft:
    """A draft of some nodes, which may come from elsewhere than traces of ASTRA-sim, and of the files of `inputs`.

    Parameters
    ----------
    groups
        Communicator groups by name; those of a file are added, and count where both have one.
    backend
        The network model, or its name; None for that of the network.

    Raises
    ------
    ConfigError
        If a file is given that cannot be read.
    """
    defaults: list[str] = []
    text, network, tables = _network(inputs, source, num_ranks, defaults)
    system = _system(inputs, len(network.dimensions), defaults)
    custom, per_node = _custom(inputs, system)
    groups, memory = groups | _groups(inputs, defaults), _memory(inputs, defaults)
    return Draft(
        name,
        ranks,
        groups,
        system,
        text,
        network,
        tables,
        memory,
        custom,
        per_node,
        stock_backend(network) if backend is None else choose_backend(backend),
        defaults,
    )


def network_of(text: str) -> NetworkConfig:
    """The network that a text describes."""
    with scratch_directory() as folder:
        (folder / "network.yml").write_text(text, encoding="utf-8")
        return read_network(folder / "network.yml")


def _network(
    inputs: RepairInputs, source: str, num_npus: int, defaults: list[str]
) -> tuple[str, NetworkConfig, tuple[tuple[Path, Path], ...]]:
    if inputs.network is not None:
        network = read_network(inputs.network)
        tables = tuple((table, inputs.network.parent / table) for table in network_tables(inputs.network))
        return read_text(inputs.network), network, tables
    if num_npus < 2:
        raise ConfigError(
            f"{source}: traces of 1 rank, expected 2 or more, as ASTRA-sim has no network of 1 NPU "
            "(--ranks N replicates the rank, as data parallelism would)"
        )
    if num_npus > MAX_RANKS:
        raise ConfigError(f"{source}: {num_npus:,} ranks, expected at most {MAX_RANKS:,}: --ranks says how many")
    text = network_text(num_npus)
    defaults.append(
        f"network.yml: {num_npus:,} NPUs, each connected with every other one at {DEFAULT_BANDWIDTH_GIBPS} GB/s (2^30 B/s) "
        f"and {DEFAULT_LATENCY_NS} ns"
    )
    return text, network_of(text), ()


def _system(inputs: RepairInputs, num_dimensions: int, defaults: list[str]) -> dict[str, Any]:
    if inputs.system is None:
        defaults.append("system.json: native rings, one chunk per collective")
        return default_system(num_dimensions)
    system = read_json_object(inputs.system)
    parse_system(inputs.system, system)
    return system


def _memory(inputs: RepairInputs, defaults: list[str]) -> dict[str, Any]:
    if inputs.remote_memory is None:
        defaults.append("remote_memory.json: none")
        return dict(NO_MEMORY)
    read_remote_memory(inputs.remote_memory)
    return read_json_object(inputs.remote_memory)


def _groups(inputs: RepairInputs, defaults: list[str]) -> dict[str, list[Any]]:
    if inputs.groups is None:
        defaults.append("comm_group.json: groups as the traces name them")
        return {}
    groups: dict[str, list[Any]] = {}
    for name, ranks in read_json_object(inputs.groups).items():
        if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks):
            raise ConfigError(f"{inputs.groups}: group {name!r} is not a list of ranks, expected a list of ranks")
        groups[name] = list(ranks)
    return groups


def _custom(inputs: RepairInputs, system: dict[str, Any]) -> tuple[dict[str, tuple[Path, ...]], dict[int, str]]:
    """Files of the custom collectives that the system names, and the prefixes by node id."""
    per_node: dict[int, str] = {}
    if PER_NODE_KEY in system:
        per_node = read_per_node(_beside(inputs, str(system[PER_NODE_KEY]), ""))
    prefixes = [str(system[key][0]) for pattern in COMM_KEYS if system.get(key := f"{pattern}-implementation-custom")]
    custom = {}
    for prefix in dict.fromkeys((*prefixes, *per_node.values())):
        place = _beside(inputs, prefix, ".0.et")
        count = len(trace_files(place, 1))
        while Path(f"{place}.{count}.et").is_file():
            count += 1
        custom[prefix] = tuple(Path(f"{place}.{position}.et") for position in range(count))
    return custom, per_node


def _beside(inputs: RepairInputs, path: str, suffix: str) -> Path:
    """Where a path of the system's files leads: from the directory ASTRA-sim is started in, else from the system file's."""
    places: list[Path] = [inputs.directory / path, *((inputs.system.parent / path,) if inputs.system else ())]
    return next((place for place in places if Path(f"{place}{suffix}").is_file()), places[0])
