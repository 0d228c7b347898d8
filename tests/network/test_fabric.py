"""Fabrics: kinds have the devices that their definitions say; files of other tools are read, or refused in one line."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from helpers.command import answer, run
from helpers.examples import refused, rows
from helpers.peers import peers

from astra_tacos.bounds.cut import bisection_gibps
from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.draft import GIB_PER_GB
from astra_tacos.network.fabric.files import read_fabric
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.network.fabric.ns3_topology import ns3_topology_text, read_ns3_topology
from astra_tacos.network.network_config import read_network, write_network
from astra_tacos.network.packet_links import hops_between_npus
from astra_tacos.support.errors import ConfigError


def built(kind, **values):
    return build_topology(make_fabric(kind, **values), may_forward=True)


def links_of(network):
    return Counter((link.src, link.dst, round(link.bandwidth_gibps or 0, 6), link.latency_ns) for link in network.links)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_and_read_back(kind, tmp_path):
    done = run("network", kind, "--output", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shape = json.loads(done.stdout)
    made, again = make_fabric(kind), read_network(tmp_path / "out" / "network.yml")
    assert links_of(made) == links_of(again) and made.forwarding == again.forwarding
    assert (shape["npus"], shape["forwarding"], shape["links"]) == (again.num_npus, len(again.forwarding), len(again.links))
    assert run("network", kind, "--output", "out", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("changed", ["network.yml", "links.csv", "nodes.csv"])
def test_what_people_wrote_or_changed_is_not_replaced(changed, tmp_path):
    assert run("network rails --output out", cwd=tmp_path).returncode == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / changed).write_bytes(made[changed] + b"\n")
    done = run("network rails --output out", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "out: exists and is not a network directory" in done.stderr
    assert (tmp_path / "out" / changed).read_bytes() == made[changed] + b"\n"
    (tmp_path / "hand").mkdir()
    (tmp_path / "hand" / "network.yml").write_bytes(made["network.yml"].partition(b"\n")[2])
    (tmp_path / "hand" / "links.csv").write_bytes(made["links.csv"])
    assert run("network rails --output hand", cwd=tmp_path).returncode == 2
    assert len(list((tmp_path / "hand").iterdir())) == 2


def test_numbers_of_devices_and_links():
    """HammingMesh: counts of the paper's figures; the others by hand."""
    for boards, npus, links in ((2, 16, 96), (4, 64, 384)):
        mesh = built("hxmesh", boards_x=boards, boards_y=boards)
        assert (mesh.num_endpoints, mesh.num_links) == (npus, links)
        assert set(np.bincount(mesh.link_src)[:npus].tolist()) == {4}
    tree = built("leaf-spine", leaves=4, npus=8, spines=2, oversubscription=2.0, bandwidth=100.0)
    assert (tree.num_endpoints, len(tree.forwarding), tree.num_links) == (32, 6, 2 * (32 + 8))
    assert bisection_gibps(tree) == pytest.approx(2 * 400 * GIB_PER_GB, rel=1e-3)
    assert hops_between_npus(tree) == 4
    assert hops_between_npus(built("fat-tree")) == 6
    assert built("nvl72").num_links == 2 * 72 * 18
    assert np.bincount(built("dragonfly", groups=9, routers=2, npus=1).link_src).max() == 1 + 1 + 4
    rails = built("rails", nodes=3, npus=4)
    assert (rails.num_endpoints, len(rails.forwarding), hops_between_npus(rails)) == (12, 7, 4)


@pytest.mark.parametrize("nodes", [1, 2])
def test_mi250_is_the_graph_that_forestcoll_is_evaluated_on(nodes):
    found, missing = peers(f"forestcoll/mi250x{nodes}.csv")
    if not found:
        pytest.skip(missing)
    rows = [row.split(",") for row in found[0].read_text().split()[1:]]
    theirs = Counter((int(src), int(dst), round(float(speed), 6), float(latency)) for src, dst, speed, latency in rows)
    assert links_of(make_fabric("mi250", nodes=nodes)) == theirs


def test_devices_that_add_are_not_lost_on_the_way_to_ns3(tmp_path):
    assert run("network leaf-spine --reducing --output f", cwd=tmp_path).returncode == 0
    done = run("network write f/network.yml --output t.txt", cwd=tmp_path)
    assert done.returncode == 2 and "found devices that add" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "t.txt").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("mi250", "--nodes", "5000"), "found 80,000 NPUs, expected at most 65,536"),
        (("leaf-spine", "--leaves", "0"), "leaves is 0, expected a whole number of 1 to 65,536"),
        (("read", "x.xml", "--cpu-bandwidth", "inf"), "--cpu-bandwidth: found inf, expected a number above 0 and below 1e+12"),
        (("hxmesh", "--latency", "-1"), "latency is -1.0, expected a number of 0 or more"),
        (("leaf-spine", "--leaves", "1", "--npus", "1"), "found 1 NPUs, expected at least 2"),
        (("read", "x.csv"), "found the suffix '.csv'"),
    ],
)
def test_bad_numbers_are_refused(arguments, message, tmp_path):
    done = run("network", *arguments, "--output", "out", cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_read_or_refused_in_one_line():
    found, missing = peers("ns3_topology/*.txt", "nccl_topo/*.xml", "infragraph/*.yaml")
    if not found:
        pytest.skip(missing)
    shapes = {}
    for path in found:
        try:
            shapes[path.name] = build_topology(read_fabric(path, 500.0, 32.0)[1], may_forward=True)
        except ConfigError as error:
            assert str(path) in str(error) and "expected" in str(error) and "\n" not in str(error)
    npus = {name: (shape.num_endpoints, len(shape.forwarding)) for name, shape in shapes.items()}
    assert npus["128nodes_FatTree_L16_S8.txt"] == (128, 24)
    assert npus["8nodes_Torus_2x2x2.txt"] == (8, 8)
    assert npus["simai_DCN_SingleToR_32g_8gps_400Gbps_H100.txt"] == (32, 13)
    assert npus["simai_SpectrumX_32g_8gps_400Gbps_H100.txt"] == (32, 76)
    dgx = shapes["dgx_a100_nccl_topo.xml"]
    nvlink = dgx.link_bandwidth_gibps[dgx.link_src < 8]
    assert dgx.num_endpoints == 8
    assert np.count_nonzero(np.isclose(nvlink, 50.0 * GIB_PER_GB)) == 8 * 6  # 2 links of 25 GB/s to each of 6 NVSwitches
    six = shapes["rccl_topo_8p6l.xml"]  # 6 XGMI links of 24 GB/s from each GPU
    between = (six.link_src < 8) & (six.link_dst < 8)
    reached = np.bincount(six.link_src[between], six.link_bandwidth_gibps[between])
    assert reached.tolist() == pytest.approx([6 * 24.0 * GIB_PER_GB] * 8)


def machine(*gpus, inside=""):
    """NCCL's file of GPUs at bus ids 0, 1, ... below one CPU."""
    pci = '<pci busid="{}" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">{}</pci>'
    devices = "".join(pci.format(at, gpu) for at, gpu in enumerate(gpus))
    return f'<system version="1"><cpu numaid="0">{devices}{inside}</cpu></system>'


@pytest.mark.parametrize(
    "attributes, link, gbps",
    [
        ('gcn="908"', "xgmi", 24.0),
        ('gcn="910"', "xgmi", 36.0),
        ('gcn="gfx90a:sramecc+:xnack-"', "xgmi", 36.0),
        ('gcn="gfx942"', "xgmi", 48.0),
        ('sm="90"', "nvlink", 25.0),
    ],
)
@pytest.mark.parametrize("named_by", [(0, 1), (0,), (1,)])
def test_links_between_gpus_are_read_once_whichever_gpu_names_them(attributes, link, gbps, named_by, tmp_path):
    inside = [f'<{link} target="{1 - gpu}" count="2" tclass="0x030200"/>' if gpu in named_by else "" for gpu in range(2)]
    gpus = [f"<gpu {attributes}>{each}</gpu>" for each in inside]
    links = read_text(tmp_path, "t.xml", machine(*gpus)).links
    between = {(each.src, each.dst): each.bandwidth_gibps for each in links if max(each.src, each.dst) < 2}
    assert between == {(0, 1): pytest.approx(2 * gbps * GIB_PER_GB), (1, 0): pytest.approx(2 * gbps * GIB_PER_GB)}
    assert len(links) == 6


def read_text(folder, name, text):
    (folder / name).write_text(text)
    return read_fabric(folder / name, 100.0, 32.0)[1]


def test_gpus_that_are_linked_to_their_cpu(tmp_path):
    """NVLink-C2C, whose file says MB/s, and NVLink of POWER9."""
    gpus = (
        '<gpu sm="90"><c2c bw="44672" count="10"/></gpu>',
        '<gpu sm="70"><nvlink target="x" count="3" tclass="0x068001"/></gpu>',
    )
    network = read_text(tmp_path, "t.xml", machine(*gpus))
    assert [device.kind for device in network.forwarding] == ["cpu"]
    found = sorted(round((each.bandwidth_gibps or 0) / GIB_PER_GB, 3) for each in network.links if each.dst == 2)
    assert found == [31.508, 31.508, 75.0, 446.72]


def test_what_is_not_read_of_a_machine_is_counted(tmp_path):
    lost = '<xgmi target="9" count="1"/><nvlink target="8" count="1" tclass="0x030200"/>'
    gpu = f'<gpu sm="80" gcn="942">{lost}<ualink target="1" count="4"/></gpu>'
    (tmp_path / "t.xml").write_text(machine(gpu, gpu, inside='<cxl target="0"/>'))
    done = run("network read t.xml --output out", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    for note in (
        "2 <ualink> in <gpu>",
        "1 <cxl> in <cpu>",
        "2 <xgmi> to a device that the file does not have",
        "2 <nvlink> to a device",
    ):
        assert note in done.stderr


@pytest.mark.parametrize(
    "gpu, message",
    rows(
        """
    <gpu gcn="1200"><xgmi target="1" count="1"/></gpu> | GPU 0 has gcn '1200', expected one of known XGMI links: 906, 908
    <gpu gcn="908"><xgmi target="1" count="0"/></gpu> | an xgmi has no target or no count
    <gpu gcn="908"><xgmi target="1" count="2"/></gpu> | GPUs 0 and 1 name links of unlike counts
    <gpu gcn="908"><c2c count="2"/></gpu> | <c2c> has bw ''
    """
    ),
)
def test_bad_links_of_gpus(gpu, message, tmp_path):
    with refused(message):
        read_text(tmp_path, "t.xml", machine(gpu, '<gpu gcn="908"><xgmi target="0" count="1"/></gpu>'))


@pytest.mark.parametrize("kind", ["leaf-spine", "rails", "dragonfly", "dgx-h100"])
def test_ns3_files_are_read_back(kind, tmp_path):
    made = make_fabric(kind)
    write_network(made, tmp_path / "network.yml")
    assert run("network write network.yml -o ns3.txt", cwd=tmp_path).returncode == 0
    again = read_ns3_topology(tmp_path / "ns3.txt")
    assert links_of(again) == links_of(made)
    assert ns3_topology_text(again) == (tmp_path / "ns3.txt").read_text()


@pytest.mark.parametrize("kind", ["leaf-spine", "rails", "dragonfly", "dgx-h100"])
def test_a_network_file_names_an_ns3_topology(kind, tmp_path):
    """It is the graph of that file; failed links and overrides are those of any graph."""
    made = make_fabric(kind)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "t.txt").write_text(ns3_topology_text(made))
    first = made.links[0]
    failed = f"astra_tacos: {{ failed_links: [ [{first.src}, {first.dst}] ] }}\n"
    (tmp_path / "n.yml").write_text(f"topology: [ Custom ]\ntopology_file: below/t.txt\nbandwidth: [ 1.0 ]\n{failed}")
    network = read_network(tmp_path / "n.yml")
    assert network.source == str(tmp_path / "n.yml") and network.failed_links == ((first.src, first.dst),)
    again = read_ns3_topology(tmp_path / "below" / "t.txt")
    assert (links_of(network), network.forwarding) == (links_of(again), again.forwarding)


@pytest.mark.parametrize(
    "text, message",
    [
        ("topology: [ Custom ]\n", "n.yml: topology_file is nothing, expected the path of an ns-3 topology"),
        ("topology: [ Ring ]\ntopology_file: t.txt\n", "topology is ['Ring'] beside topology_file, expected [ Custom ]"),
        ("topology: [ Custom, Ring ]\ntopology_file: t.txt\n", "beside topology_file, expected [ Custom ]"),
        ("topology: [ Custom ]\ntopology_file: [ t.txt ]\n", "topology_file is ['t.txt'], expected the path"),
        ("topology: [ Custom ]\ntopology_file: other.txt\n", "other.txt"),
        ("topology: [ Custom ]\ntopology_file: t.txt\nnpus_count: [ 3 ]\n", "topology_file has NPUs 0 to 1, npus_count gives 3"),
        ("topology: [ Custom ]\ntopology_file: t.txt\nastra_tacos: { switches: 1 }\n", "'switches' without links"),
    ],
)
def test_bad_names_of_ns3_topologies(text, message, tmp_path):
    (tmp_path / "t.txt").write_text("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n")
    (tmp_path / "n.yml").write_text(text)
    with refused(message):
        read_network(tmp_path / "n.yml")


def test_a_graph_of_two_datacenters(tmp_path):
    """Somebody's experiment: the same answers as of its ns-3 topology, and a run for stock ASTRA-sim."""
    found, missing = peers("reports/inter_dc/*")
    if not found:
        pytest.skip(missing)
    custom = next(path for path in found if path.suffix == ".yml")
    assert run(f"network read {custom.with_name('topology.txt')} -o read", cwd=tmp_path).returncode == 0
    options = "--collective all-gather --size 1MiB --synthesizer ring"
    times = [
        answer(f"synthesize {options} --network {network} -o out{at}", cwd=tmp_path)["time_ns"]
        for at, network in enumerate((custom, "read/network.yml"))
    ]
    assert times[0] == times[1]
    assert (tmp_path / "out0" / "stand_in" / "run_astra_sim.sh").is_file()
    assert "Custom" not in (tmp_path / "out0" / "stand_in" / "network.yml").read_text()


def test_ns3_files_of_simai(tmp_path):
    """The header counts NVSwitches apart; both kinds of switches forward."""
    slow = "".join(f"{node} 5 400Gbps 0.0005ms 0\n" for node in (2, 3, 4))
    links = f"0 4 2880Gbps 0.000025ms 0\n1 4 2880Gbps 0.000025ms 0\n{slow}"
    (tmp_path / "t.txt").write_text(f"6 2 1 1 5 H100\n4 5 \n{links}")
    network = read_ns3_topology(tmp_path / "t.txt")
    assert (network.num_npus, [device.kind for device in network.forwarding], len(network.links)) == (4, ["switch"] * 2, 10)
    assert {round((link.bandwidth_gibps or 0) / GIB_PER_GB) for link in network.links} == {360, 50}
    assert {link.latency_ns for link in network.links} == {25.0, 500.0}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "1: found an empty file"),
        ("3 1 2\n", "no links, expected 2"),
        ("3 1 1 2\n2\n", "1: found '3 1 1 2', expected the numbers of nodes, switches and links, or SimAI's"),
        ("6 2 1 1 5 H100\n4\n", "1 switches, expected 2"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n", "1 links, expected 2"),
        ("3 1 2\n2 1\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n", "2 switches, expected 1"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n", "4: node is '3', expected 0 to 2"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1GB 1us 0\n", "expected two nodes, a rate as 100Gbps"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0.1\n", "expected 0: links here lose nothing"),
        ("3 1 3\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n2 1 2Gbps 1us 0\n", "another rate or delay"),
    ],
)
def test_bad_ns3_files(text, message, tmp_path):
    (tmp_path / "t.txt").write_text(text)
    with refused(message):
        read_ns3_topology(tmp_path / "t.txt")


INFRAGRAPH = """
infrastructure:
  devices:
    - name: server
      components:
        - {name: xpu, count: 2, type: xpu}
        - {name: nic, count: 2, type: nic}
      links: [{name: pcie, bandwidth: {choice: giga_bytes_per_second, giga_bytes_per_second: 32}}]
      connections: [xpu.0.pcie.nic.0, xpu.1.pcie.nic.1]
    - name: switch
      components: [{name: asic, type: switch}]
  links: [{name: eth, bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}]
  instances: [{name: host, device: server, count: 2}, {name: leaf, device: switch}]
  connections:
    - host.0.nic.0.eth.leaf.0.asic.0
    - host.0.nic.1.eth.leaf.0.asic.0
    - host.1.nic.0.eth.leaf.0.asic.0
    - host.1.nic.1.eth.leaf.0.asic.0
"""


def test_infragraph(tmp_path):
    (tmp_path / "i.yaml").write_text(INFRAGRAPH)
    what, network = read_fabric(tmp_path / "i.yaml", 100.0, 32.0)
    assert (what, network.num_npus, len(network.links)) == ("InfraGraph", 4, 16)
    assert [device.kind for device in network.forwarding] == ["nic"] * 4 + ["switch"]
    assert {round((link.bandwidth_gibps or 0) / GIB_PER_GB) for link in network.links} == {32, 50}
    for old, new, message in (
        ("device: switch", "device: router", "is of device 'router'"),
        ("1.eth.leaf.0.asic.0", "1.eth.leaf.1.asic.0", "names 'leaf.1.asic.0'"),
        ("[xpu.0.pcie.nic.0", "[xpu.0.pci.nic.0", "names the link 'pci'"),
        ("type: switch", "type: thing", "is of type 'thing'"),
        ("count: 2}, {name: leaf", "count: 0}, {name: leaf", "has count 0"),
        ("giga_bytes_per_second: 32", "lanes: 32", "has no bandwidth"),
    ):
        with refused(message):
            read_text(tmp_path, "i.yaml", INFRAGRAPH.replace(old, new))


def test_infragraph_in_several_files(tmp_path):
    """As InfraGraph's examples: devices in files of their own; without any count, there are as many as connections name."""
    text = INFRAGRAPH.replace(", count: 2, type", ", type").replace("device: server, count: 2", "device: server")
    begin, switch = text.index("    - name: server"), text.index("    - name: switch")
    end = text.index("  links: [{name: eth")
    (tmp_path / "d").mkdir()
    devices = "  devices:\n"
    for name, part in {
        "server.yaml": devices + text[begin:switch],
        "switch.yml": devices + text[switch:end],
        "all.yaml": text[end:],
    }.items():
        (tmp_path / "d" / name).write_text(f"infrastructure:\n{part}")
    whole = read_text(tmp_path, "one.yaml", INFRAGRAPH)
    for paths in (("d",), ("d/all.yaml", "d/server.yaml", "d/switch.yml")):
        done = run("network", "read", *paths, "--latency", "100", "--output", "out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert links_of(read_network(tmp_path / "out" / "network.yml")) == links_of(whole)
    alone = run("network read d/all.yaml --output new", cwd=tmp_path)
    assert alone.returncode == 2 and "or another file that is read together with it" in alone.stderr
    other = (tmp_path / "d" / "server.yaml").read_text().replace(": 32", ": 64")
    for more, message in (
        (other, r"server\.yaml: device 'server' is defined in two ways"),
        ("npus_count: [4]\n", r"more\.yaml: found a mapping of npus_count, expected an InfraGraph"),
    ):
        (tmp_path / "d" / "more.yaml").write_text(more)
        with refused(message):
            read_fabric(tmp_path / "d", 100.0, 32.0)
    with refused("found edges"):
        read_text(tmp_path, "one.yaml", INFRAGRAPH.replace("connections: [xpu", "edges: [xpu"))
    (tmp_path / "one.yaml").write_text(
        INFRAGRAPH.replace(", bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}", "")
    )
    assert links_of(read_fabric(tmp_path / "one.yaml", 100.0, 32.0, gbps=50.0)[1]) == links_of(whole)
