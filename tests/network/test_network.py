"""Reading network files: what is good is read, what is bad gets one line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import refused, rows
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice, ReducingDevice
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig, read_network, write_network
from astra_tacos.support.errors import ConfigError

GOOD = """
topology: [ Ring, Switch ]
npus_count: [ 4, 2 ]  # comment
bandwidth: [ 50.0, 1e2 ]
latency: [ 500, 0 ]
boost: whatever ASTRA-sim ignores, so do we
"""


def write(tmp_path, text):
    path = tmp_path / "net.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_dimensions(tmp_path):
    network = read_network(write(tmp_path, GOOD))
    assert network.name == "net"
    assert network.dimensions == (Dimension("Ring", 4, 50.0, 500.0), Dimension("Switch", 2, 100.0, 0.0))
    assert network.num_npus == 8


def test_extension(tmp_path):
    text = GOOD + (
        "astra_tacos:\n  topology: [Mesh, Ring]\n  failed_links: [[0, 1]]\n"
        "  link_overrides:\n  - {src: 1, dst: 2, bandwidth: 7}\n  - {src: 2, dst: 1, latency: 9}\n"
    )
    network = read_network(write(tmp_path, text))
    assert [dimension.block for dimension in network.dimensions] == ["Mesh", "Ring"]
    assert network.failed_links == ((0, 1),)
    assert network.link_overrides == (LinkSpec(1, 2, 7.0, None), LinkSpec(2, 1, None, 9.0))


def test_link_table(tmp_path):
    (tmp_path / "links.csv").write_text("# three NPUs\nlatency, bandwidth, src, dst\n10,50,0,1\n20,25,1,2\n\n30,12.5,2,0\n")
    network = read_network(write(tmp_path, "astra_tacos: {links: links.csv}"))
    assert network.num_npus == 3
    assert network.links[1] == LinkSpec(1, 2, 25.0, 20.0)


REPLACED = """
    50.0 -> 190:20:30 | bandwidth[0] is '190:20:30', expected a number
    50.0 -> 1.0e-320 | bandwidth[0] is 1e-320, expected a number of GB/s, 1e-09 to 1e+12
    500 -> 1e300 | latency[0] is 1e+300, expected a number of ns, 0 to 1e+30
    50.0 -> !!python/name:os.system | tags ('tag:yaml.org,2002:python/name:os.system') are not accepted
    bandwidth -> bw | bandwidth is missing
    [ Ring, Switch ] -> [] | topology is an empty list
    Switch -> Torus | topology[1] is 'Torus', expected Ring or FullyConnected or Switch
    Ring -> Mesh | belong in astra_tacos.topology
    [ 4, 2 ] -> [ 4 ] | npus_count has 1 entry, topology has 2
    [ 4, 2 ] -> [ 4, 1 ] | npus_count[1] is 1, expected a whole number above 1
    [ 4, 2 ] -> [ 2000, 1001 ] | 2,002,000 NPUs, expected at most 2,000,000
    50.0 -> 0 | bandwidth[0] is 0, expected a number of GB/s, 1e-09 to 1e+12
"""
"""What stands in a good file, what stands there instead, and what is said."""
EXTENSIONS = """
    3 | astra_tacos is 3, expected a mapping
    {topologie: []} | astra_tacos has the key 'topologie'
    {topology: [Mesh, Cube]} | astra_tacos.topology[1] is 'Cube'
    {topology: [Mesh]} | npus_count has 2 entries, astra_tacos.topology has 1
    {topology: [Mesh, Mesh], links: l.csv} | both links and topology
    {failed_links: 3} | failed_links is 3
    {failed_links: [[0, x]]} | failed_links[0][1] is 'x', expected a device id
    {failed_links: [[0, 1], [0, 1]]} | failed_links[1] is [0, 1] again
    {link_overrides: [{src: 0, dst: 1, latency: 1}, {src: 0, dst: 1, latency: 2}]} | link_overrides[1] is for 0 -> 1 again
    {failed_links: [[0, 2]]} | failed_links names 0 -> 2, expected a link
    {failed_links: [[0, 4]]} | whose ports are [0, 8] and [8, 4]
    {link_overrides: [{src: 0, dst: 1, speed: 3}]} | link_overrides[0]
    {link_overrides: [{src: 0, dst: 1, latency: -3}]} | latency is -3
"""
BAD = [
    *rows(
        """
     | file is empty
    topology: [ Ring | net.yml:2:1: not valid YAML
    - Ring | expected a YAML mapping
    astra_tacos: {links: 3} | links is 3, expected the path of a CSV
    astra_tacos: {links: none.csv} | none.csv: cannot be read
    """
    ),
    *((GOOD.replace(*change.split(" -> ")), expected) for change, expected in rows(REPLACED)),
    *((f"{GOOD}astra_tacos: {extension}", expected) for extension, expected in rows(EXTENSIONS)),
    ("topology:\n\t- Ring", "not valid YAML"),
    ("topology: [ Ring ]\u2028", "expected lines that end in a newline"),
    ("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\ntopology: *c", "aliases"),
    (b"topology: [ Ring\xff ]", "not UTF-8"),
    (GOOD + "latency: [1, 2]", "key 'latency' is given twice"),
    (GOOD.replace("[ 4, 2 ]", f"[ {'9' * 401}, 2 ]"), ":3:15: not valid YAML: found '9999"),
    (GOOD + "Astra-Tacos: {failed_links: []}", "has the key 'Astra-Tacos', expected astra_tacos"),
]


@pytest.mark.parametrize("text, expected", BAD)
def test_bad_input_gets_one_line(tmp_path, text, expected):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        build_topology(read_network(path))
    message = str(caught.value)
    assert "\n" not in message
    assert expected in message
    assert message.startswith(str(tmp_path))


@pytest.mark.parametrize(
    "table, expected",
    [
        ("src,dst,bandwidth,latency\n0,1,1_0,5", "csv:2: bandwidth is '1_0', expected a number"),
        ("", "file is empty"),
        ("src,dst,bandwidth\n0,1,50", "csv:1: header is"),
        ("src,dst,bandwidth,latency\n0,1,50", "csv:2: 3 fields, expected 4"),
        ("src,dst,bandwidth,latency\n0,-1,50,5", "csv:2: dst is '-1', expected a device id"),
        ("src,dst,bandwidth,latency\n0,0,50,5", "from device 0 to itself"),
        ("src,dst,bandwidth,latency\n0,1,50,5\n0,1,50,5", "csv:3: link 0 -> 1 was given in line 2"),
        ("src,dst,bandwidth,latency\n", "no links"),
        ("src,dst,bandwidth,latency\n0,1,50,5", "NPU 1 cannot reach NPU 0"),
    ],
)
def test_bad_link_table(tmp_path, table, expected):
    (tmp_path / "l.csv").write_text(table)
    with refused(expected):
        build_topology(read_network(write(tmp_path, "astra_tacos: {links: l.csv}")))


def test_missing_file_and_directory(tmp_path):
    for path in (tmp_path / "none.yml", tmp_path):
        with refused("cannot be read"):
            read_network(path)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_network_or_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.yml"
    path.write_bytes(data)
    try:
        read_network(path)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_files_that_ship_with_astra_sim(astra_sim_inputs):
    files = sorted((astra_sim_inputs / "network").glob("*.yml"))
    assert len(files) >= 10
    for path in files:
        if path.name == "dgx_v100_8gpu.yml":
            with refused(r"bandwidth\[0\] is 'tbd'"):
                read_network(path)
        else:
            topology = build_topology(read_network(path))
            assert topology.num_npus == read_network(path).num_npus


A_SWITCHED_BOX = "src,dst,bandwidth,latency\n" + "".join(f"{npu},8,300,500\n8,{npu},300,500\n" for npu in range(8))
"""Eight NPUs around a switch, which has the next id, as other tools list their graphs."""


@pytest.mark.parametrize("npus_count", ["[ 8 ]", "[ 4, 2 ]", "[ 10 ]"])
def test_ids_of_a_link_table_past_npus_count_are_refused(tmp_path, npus_count):
    (tmp_path / "box.csv").write_text(A_SWITCHED_BOX)
    path = write(tmp_path, f"npus_count: {npus_count}\nastra_tacos: {{links: box.csv}}")
    with refused(r"net\.yml:2:22: astra_tacos\.links has NPUs 0 to 8, npus_count gives"):
        read_network(path)
    assert read_network(write(tmp_path, "npus_count: [ 9 ]\nastra_tacos: {links: box.csv}")).num_npus == 9
    assert read_network(write(tmp_path, "astra_tacos: {links: box.csv}")).num_npus == 9


@pytest.mark.parametrize(
    "block, size, message",
    [
        ("Hypercub", 8, "1:26: astra_tacos.topology[0] is 'Hypercub', expected Ring or "),
        ("[Ring]", 8, "1:26: astra_tacos.topology[0] is ['Ring'], expected Ring or "),
        ("Hypercube", 12, "2:14: npus_count[0] is 12, expected a power of two for a Hypercube"),
        ("TwistedTorus", 12, "2:14: npus_count[0] is 12, expected k**2 with k above 2, or 2 * k**2 with k above 1 ("),
    ],
)
def test_unknown_blocks_and_sizes_are_refused_when_a_file_is_read(tmp_path, block, size, message):
    path = tmp_path / "n.yml"
    path.write_text(f"astra_tacos: {{topology: [{block}]}}\nnpus_count: [{size}]\nbandwidth: [50.0]\nlatency: [500.0]\n")
    with pytest.raises(ConfigError) as refused:
        read_network(path)
    assert str(refused.value).startswith(f"{path}:{message}")


_STOCK = (Dimension("Ring", 4, 0.1 + 0.2, 500.0), Dimension("Switch", 2, 50.0, 1e-3))
_NETWORKS = (
    NetworkConfig("", _STOCK),
    NetworkConfig("", _STOCK, error=0.0625),
    NetworkConfig("", (Dimension("Mesh", 3, 50.0, 0.0), *_STOCK)),
    NetworkConfig(
        "", _STOCK, failed_links=((0, 1), (1, 0)), link_overrides=(LinkSpec(1, 2, 12.5, None), LinkSpec(2, 1, None, 7.0))
    ),
    NetworkConfig("", (Dimension("Mesh", 3, 50.0, 0.0), *_STOCK), failed_links=((0, 1),)),
    NetworkConfig("", (), (LinkSpec(0, 1, 1 / 3, 500.0), LinkSpec(1, 0, 5e11, 0.0)), ((0, 1),), (LinkSpec(1, 0, 2.5, 1.5),)),
)


@pytest.mark.parametrize("network", _NETWORKS)
def test_a_network_is_read_back_as_it_was(network, tmp_path):
    path = tmp_path / "network.yml"
    write_network(network, path)
    assert read_network(path) == replace(network, source=str(path))


@pytest.mark.parametrize("error", ["0", "-0.1", "six", "[ 0.1 ]"])
def test_an_error_is_a_share(error, tmp_path):
    path = tmp_path / "network.yml"
    write_network(NetworkConfig("", _STOCK), path)
    path.write_text(f"astra_tacos: {{ error: {error} }}\n{path.read_text()}")
    with refused(r"astra_tacos\.error is .*, expected a share like 0\.06"):
        read_network(path)


LINKS = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,2,50,5\n2,1,50,5\n1,2,25,5\n"
NODES = "id,kind,name\n0,npu,\n1,npu,\n2,nic,mlx5_0\n"


def read(directory, extension, links=LINKS, nodes=NODES):
    (directory / "links.csv").write_text(links)
    (directory / "nodes.csv").write_text(nodes)
    (directory / "n.yml").write_text(f"astra_tacos: {{ links: links.csv, {extension} }}\n")
    return read_network(directory / "n.yml")


def test_kinds_and_names(tmp_path):
    network = read(tmp_path, "nodes: nodes.csv")
    assert network.num_npus == 2 and network.forwarding == (ForwardingDevice("nic", "mlx5_0"),)
    topology = build_topology(network, may_forward=True)
    assert topology.describe_link(4) == "1 -> nic 2 (mlx5_0)"
    assert read(tmp_path, "switches: 1").forwarding == (ForwardingDevice(),)
    assert read(tmp_path, "switches: 1, nodes: nodes.csv").forwarding == network.forwarding


@pytest.mark.parametrize(
    "extension, message",
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
def test_bad_extension(extension, message, tmp_path):
    with refused(message):
        build_topology(read(tmp_path, extension), may_forward=True)


@pytest.mark.parametrize(
    "nodes, message",
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
def test_bad_node_table(nodes, message, tmp_path):
    with refused(message):
        read(tmp_path, "nodes: nodes.csv", nodes=nodes)


def test_disconnected_npus_are_named(tmp_path):
    links = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,2,50,5\n"
    with refused("NPU 0 cannot reach NPU 1"):
        build_topology(read(tmp_path, "switches: 1", links), may_forward=True)


FOUR_LINKS = "src,dst,bandwidth,latency\n0,2,50,5\n2,0,50,5\n1,3,50,5\n3,1,50,5\n2,3,50,5\n3,2,50,5\n"
FOUR_NODES = "id,kind,name\n0,npu,\n1,npu,\n2,nic,\n3,switch,s\n"


def read_reducing(directory, reducing, others="switches: 2"):
    (directory / "links.csv").write_text(FOUR_LINKS)
    (directory / "nodes.csv").write_text(FOUR_NODES)
    (directory / "n.yml").write_text(f"astra_tacos: {{ links: links.csv, {others}, reducing: {reducing} }}\n")
    return read_network(directory / "n.yml")


def star(directory, reducing):
    lists = "topology: [ Switch, Ring ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 5, 5 ]\n"
    (directory / "s.yml").write_text(f"{lists}astra_tacos: {{ reducing: {reducing} }}\n")
    return read_network(directory / "s.yml")


def test_forms(tmp_path):
    assert read_reducing(tmp_path, "all").reducing == (ReducingDevice(2), ReducingDevice(3))
    assert read_reducing(tmp_path, "all", "nodes: nodes.csv").reducing == (ReducingDevice(3),)
    assert read_reducing(tmp_path, "[ 3 ]").reducing == (ReducingDevice(3),)
    limits = "{ devices: all, window: 256KiB, ports: 32, reduction_ns: 40 }"
    assert read_reducing(tmp_path, limits).reducing == tuple(ReducingDevice(d, 256 << 10, 32, 40) for d in (2, 3))
    mixed = read_reducing(tmp_path, "[ { devices: [ 3 ], window: 4096 }, { devices: [ 2 ] } ]").reducing
    assert mixed == (ReducingDevice(2), ReducingDevice(3, 4096))


def test_switches_of_dimensions_become_devices(tmp_path):
    network = star(tmp_path, "all")
    assert network.num_npus == 8 and network.num_others == 2
    topology = build_topology(network, may_forward=True)
    assert topology.num_endpoints == 8 and [each.device for each in topology.reducing] == [8, 9]
    assert topology.holds.all() and not topology.has_switches and topology.num_links == 2 * 8 + 4 * 2
    with refused("2 devices after the 8 NPUs add or forward"):
        build_topology(network)


def test_what_is_written_is_read(tmp_path):
    for network in (
        read_reducing(tmp_path, "{ devices: [ 3 ], window: 1KiB, ports: 4, reduction_ns: 7 }"),
        star(tmp_path, "[ 9 ]"),
    ):
        write_network(network, tmp_path / "again.yml")
        assert read_network(tmp_path / "again.yml").reducing == network.reducing


@pytest.mark.parametrize(
    "reducing, message",
    rows(
        r"""
    [ 1 ] | n.yml:1:59: astra_tacos.reducing[0] is 1, expected devices after the NPUs, 2 to 3
    [ 4 ] | reducing[0] is 4, expected devices
    [ x ] | reducing[0] is 'x', expected devices
    [ 2, 2 ] | names device 2 again
    [] | expected all or a list of ids
    5 | is 5, expected all or a list
    { window: 1KiB } | reducing.devices is missing, expected all or a list
    { devices: all, slots: 4 } | has the key 'slots', expected devices, window, ports, reduction_ns
    { devices: all, window: many } | window is 'many', expected a size
    { devices: all, window: 0 } | window is 0, expected a size
    { devices: all, ports: 1 } | ports is 1, expected a whole number of ports, 2
    { devices: all, reduction_ns: .nan } | reduction_ns is '.nan', expected a whole number of ns
    [ { devices: [ 2 ] }, 3 ] | reducing\[1\] is 3, expected all or a list
    """
    ),
)
def test_bad_values(reducing, message, tmp_path):
    with refused(message):
        read_reducing(tmp_path, reducing)


def test_a_network_without_switches_has_none_that_add(tmp_path):
    text = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 5 ]\nastra_tacos: { reducing: all }\n"
    (tmp_path / "r.yml").write_text(text)
    with refused("names no device, expected switches"):
        read_network(tmp_path / "r.yml")
