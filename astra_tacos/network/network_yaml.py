"""Writing of networks as the YAML that `read_network` and ASTRA-sim read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.node_table import COLUMNS, ForwardingDevice, node_table_lines
from astra_tacos.network.reducing import reducing_text

LINK_TABLE = "links.csv"
NODE_TABLE = "nodes.csv"


def network_yaml(dimensions: Sequence[Dimension], extension: Sequence[str] = ()) -> str:
    """The text of a network file: ASTRA-sim's four lists, and lines for the key `astra_tacos`.

    Blocks that ASTRA-sim lacks make `topology` go under that key, too.
    """
    blocks = f"topology: [ {', '.join(dimension.block for dimension in dimensions)} ]\n"
    if dimensions and not all(dimension.building_block.is_in_astra_sim for dimension in dimensions):
        extension, blocks = [blocks, *extension], ""
    lists = (
        blocks
        + f"npus_count: [ {', '.join(str(dimension.size) for dimension in dimensions)} ]\n"
        + f"bandwidth: [ {', '.join(repr(d.bandwidth_gibps) for d in dimensions)} ]  # GB/s of a link, 2^30 bytes/s\n"
        + f"latency: [ {', '.join(repr(d.latency_ns) for d in dimensions)} ]  # ns\n"
    )
    return (f"astra_tacos:\n  {'  '.join(extension)}" if extension else "") + (lists if dimensions else "")


def write_network(network: NetworkConfig, path: Path) -> None:
    """Write a network to `path`, and links and kinds of devices that are explicit lists to `links.csv`, `nodes.csv` beside it."""
    extension = []
    if network.links:
        extension.append(f"links: {LINK_TABLE}\n")
        path.with_name(LINK_TABLE).write_text("".join(_table(network.links)), encoding="utf-8")
    if network.forwarding:
        extension.append(f"switches: {len(network.forwarding)}\n")
    if any(device != ForwardingDevice() for device in network.forwarding):
        extension.append(f"nodes: {NODE_TABLE}\n")
        lines = node_table_lines(network.num_npus, network.forwarding)
        path.with_name(NODE_TABLE).write_text("".join(lines), encoding="utf-8")
    if network.failed_links:
        extension.append(f"failed_links: [ {', '.join(f'[{src}, {dst}]' for src, dst in network.failed_links)} ]\n")
    if network.link_overrides:
        extension.append(f"link_overrides: [ {', '.join(map(_override, network.link_overrides))} ]\n")
    if network.reducing:
        extension.append(f"reducing: {reducing_text(network.reducing)}\n")
    path.write_text(network_yaml(network.dimensions, extension), encoding="utf-8")


def _override(link: LinkSpec) -> str:
    fields = {"src": link.src, "dst": link.dst, "bandwidth": link.bandwidth_gibps, "latency": link.latency_ns}
    return f"{{{', '.join(f'{name}: {value!r}' for name, value in fields.items() if value is not None)}}}"


def _table(links: Iterable[LinkSpec]) -> Iterable[str]:
    yield ",".join(COLUMNS) + "\n"
    for link in links:
        yield f"{link.src},{link.dst},{link.bandwidth_gibps!r},{link.latency_ns!r}\n"
