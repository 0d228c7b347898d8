"""The key `reducing` of network files."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.examples import rows

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig, read_network, write_network
from astra_tacos.network.reducing import ReducingDevice
from astra_tacos.support.errors import ConfigError

LINKS = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,3,50,5\n3,1,50,5\n2,3,50,5\n3,2,50,5\n"
NODES = "id,kind,name\n0,npu,\n1,npu,\n2,nic,\n3,switch,s\n"


def read(directory: Path, reducing: str, others: str = "switches: 2") -> NetworkConfig:
    (directory / "links.csv").write_text(LINKS)
    (directory / "nodes.csv").write_text(NODES)
    (directory / "n.yml").write_text(f"astra_tacos: {{ links: links.csv, {others}, reducing: {reducing} }}\n")
    return read_network(directory / "n.yml")


def star(directory: Path, reducing: str) -> NetworkConfig:
    lists = "topology: [ Switch, Ring ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 5, 5 ]\n"
    (directory / "s.yml").write_text(f"{lists}astra_tacos: {{ reducing: {reducing} }}\n")
    return read_network(directory / "s.yml")


def test_forms(tmp_path: Path) -> None:
    assert read(tmp_path, "all").reducing == (ReducingDevice(2), ReducingDevice(3))
    assert read(tmp_path, "all", "nodes: nodes.csv").reducing == (ReducingDevice(3),)
    assert read(tmp_path, "[ 3 ]").reducing == (ReducingDevice(3),)
    limits = "{ devices: all, window: 256KiB, ports: 32, reduction_ns: 40 }"
    assert read(tmp_path, limits).reducing == tuple(ReducingDevice(d, 256 << 10, 32, 40) for d in (2, 3))
    mixed = read(tmp_path, "[ { devices: [ 3 ], window: 4096 }, { devices: [ 2 ] } ]").reducing
    assert mixed == (ReducingDevice(2), ReducingDevice(3, 4096))


def test_switches_of_dimensions_become_devices(tmp_path: Path) -> None:
    network = star(tmp_path, "all")
    assert network.num_npus == 8 and network.num_others == 2
    topology = build_topology(network, may_forward=True)
    assert topology.num_endpoints == 8 and [each.device for each in topology.reducing] == [8, 9]
    assert topology.holds.all() and not topology.has_switches and topology.num_links == 2 * 8 + 4 * 2
    with pytest.raises(ConfigError, match="2 devices after the 8 NPUs add or forward"):
        build_topology(network)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for network in (read(tmp_path, "{ devices: [ 3 ], window: 1KiB, ports: 4, reduction_ns: 7 }"), star(tmp_path, "[ 9 ]")):
        write_network(network, tmp_path / "again.yml")
        assert read_network(tmp_path / "again.yml").reducing == network.reducing


@pytest.mark.parametrize(
    ("reducing", "message"),
    rows(
        r"""
    [ 1 ] | names 1, expected devices after the NPUs, 2 to 3
    [ 4 ] | names 4, expected devices
    [ x ] | names 'x', expected devices
    [ 2, 2 ] | names device 2 again
    [] | expected all or a list of ids
    5 | is 5, expected all or a list
    { window: 1KiB } | expected devices and none or more of window, ports, reduction_ns
    { devices: all, slots: 4 } | expected devices and none or more
    { devices: all, window: many } | window is 'many', expected a size
    { devices: all, window: 0 } | window is 0, expected a size
    { devices: all, ports: 1 } | ports is 1, expected a whole number of ports, 2
    { devices: all, reduction_ns: .nan } | reduction_ns is nan, expected a whole number of ns
    [ { devices: [ 2 ] }, 3 ] | reducing\[1\] is 3, expected all or a list
    """
    ),
)
def test_bad_values(reducing: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        read(tmp_path, reducing)
    assert "\n" not in str(error.value)


def test_a_network_without_switches_has_none_that_add(tmp_path: Path) -> None:
    text = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 5 ]\nastra_tacos: { reducing: all }\n"
    (tmp_path / "r.yml").write_text(text)
    with pytest.raises(ConfigError, match="names no device, expected switches"):
        read_network(tmp_path / "r.yml")
