"""Link tables with devices that only forward, and tables of kinds and names."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.examples import rows

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import read_network
from astra_tacos.network.node_table import ForwardingDevice
from astra_tacos.support.errors import ConfigError

LINKS = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,2,50,5\n2,1,50,5\n1,2,25,5\n"
NODES = "id,kind,name\n0,npu,\n1,npu,\n2,nic,mlx5_0\n"


def read(directory: Path, extension: str, links: str = LINKS, nodes: str = NODES):
    (directory / "links.csv").write_text(links)
    (directory / "nodes.csv").write_text(nodes)
    (directory / "n.yml").write_text(f"astra_tacos: {{ links: links.csv, {extension} }}\n")
    return read_network(directory / "n.yml")


def test_kinds_and_names(tmp_path: Path) -> None:
    network = read(tmp_path, "nodes: nodes.csv")
    assert network.num_npus == 2 and network.forwarding == (ForwardingDevice("nic", "mlx5_0"),)
    topology = build_topology(network, may_forward=True)
    assert topology.describe_link(4) == "1 -> nic 2 (mlx5_0)"
    assert read(tmp_path, "switches: 1").forwarding == (ForwardingDevice(),)
    assert read(tmp_path, "switches: 1, nodes: nodes.csv").forwarding == network.forwarding


@pytest.mark.parametrize(
    ("extension", "message"),
    rows(
        """
    switches: 2 | switches is 2 of 3 devices, expected at least 2 NPUs
    switches: -1 | switches is -1, expected the number of devices that only forward
    switches: x | expected the number of devices that only forward
    switches: 0, nodes: nodes.csv | lists 1 that are no NPUs
    nodes: 5 | expected the path of a CSV file
    switches: 1, failed_links: [[1, 2]] | 1 -> 2, which are parallel links
    """
    ),
)
def test_bad_extension(extension: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        build_topology(read(tmp_path, extension), may_forward=True)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id,kind\n0,npu\n", "header is 'id,kind', expected id,kind,name"),
        ("", "file is empty"),
        (NODES + "3,switch,\n", "5: id is '3', expected a device of the links, 0 to 2"),
        (NODES + "2,switch,\n", "5: device 2 again"),
        ("id,kind,name\n0,npu,\n2,switch,\n", "device 1 of the links is missing"),
        (NODES.replace("nic", "card"), "4: kind is 'card'"),
        ("id,kind,name\n0,npu,\n1,switch,\n2,npu,\n", "found NPU 2 after 1 other devices"),
        ("id,kind,name\n0,npu,\n1,switch,\n2,switch,\n", "found one NPU"),
    ],
)
def test_bad_node_table(nodes: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, "nodes: nodes.csv", nodes=nodes)


def test_disconnected_npus_are_named(tmp_path: Path) -> None:
    links = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,2,50,5\n"
    with pytest.raises(ConfigError, match="NPU 0 cannot reach NPU 1"):
        build_topology(read(tmp_path, "switches: 1", links), may_forward=True)
