"""Fabrics: kinds have the devices that their definitions say; files of other tools are read, or refused in one line."""

from __future__ import annotations

import json
import shlex
from collections import Counter

import numpy as np
import pytest
from helpers.command import answer, run
from helpers.examples import refused, rows
from helpers.peers import peers

from astra_tacos.bounds.cut import bisection_gibps
from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.files import read_fabric
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.network.fabric.ns3_topology import ns3_topology_text, read_ns3_topology
from astra_tacos.network.network_config import read_network, write_network
from astra_tacos.network.packet_links import hops_between_npus
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import GIB_PER_GB


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


def test_a_directory_of_others_stays_as_it_is(tmp_path):
    """A network that was written is replaced; one beside other files, without its tables or edited by hand is not."""

    def changed(name, text):
        (tmp_path / "f" / name).write_text(text)

    assert run("network leaf-spine --output f", cwd=tmp_path).returncode == 0
    assert run("network fat-tree --output f", cwd=tmp_path).returncode == 0
    written = (tmp_path / "f/network.yml").read_text()
    for change in (
        lambda: changed("notes.txt", "mine"),
        lambda: changed("network.yml", f"{written}# mine\n"),
        lambda: (tmp_path / "f/network.yml").unlink(),
    ):
        change()
        before = {path.name: path.read_text() for path in (tmp_path / "f").iterdir()}
        done = run("network leaf-spine --output f", cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert {path.name: path.read_text() for path in (tmp_path / "f").iterdir()} == before
        (tmp_path / "f/notes.txt").unlink(missing_ok=True)
        (tmp_path / "f/network.yml").write_text(written)


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
    assert np.count_nonzero(np.isclose(nvlink, 12 * 20.0 * GIB_PER_GB)) == 8  # one node for its 6 NVSwitches
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
        ('sm="60"', "nvlink", 18.0),
        ('sm="75"', "nvlink", 20.0),
        ('sm="80"', "nvlink", 20.0),
        ('sm="86"', "nvlink", 12.0),
        ('sm="89"', "nvlink", 20.0),
        ('sm="90"', "nvlink", 20.6),
        ('sm="100"', "nvlink", 40.1),
        ('sm="103"', "nvlink", 40.1),
        ('sm="120"', "nvlink", 40.1),
    ],
)
@pytest.mark.parametrize("named_by", [(0, 1), (0,), (1,)])
def test_links_between_gpus_are_read_once_whichever_gpu_names_them(attributes, link, gbps, named_by, tmp_path, caplog):
    inside = [f'<{link} target="{1 - gpu}" count="2" tclass="0x030200"/>' if gpu in named_by else "" for gpu in range(2)]
    gpus = [f"<gpu {attributes}>{each}</gpu>" for each in inside]
    links = read_text(tmp_path, "t.xml", machine(*gpus)).links
    between = {(each.src, each.dst): each.bandwidth_gibps for each in links if max(each.src, each.dst) < 2}
    assert between == {(0, 1): pytest.approx(2 * gbps * GIB_PER_GB), (1, 0): pytest.approx(2 * gbps * GIB_PER_GB)}
    assert len(links) == 6
    said = [f"GPU {gpu} (NPU {gpu}) has no <{link}> links" for gpu in range(2) if gpu not in named_by]
    assert len(caplog.messages) == len(said) and all(each in caplog.text for each in said)


def read_text(folder, name, text, cpu_gbps=32.0):
    (folder / name).write_text(text)
    return read_fabric(folder / name, 100.0, cpu_gbps)[1]


def test_gpus_that_are_linked_to_their_cpu(tmp_path):
    """NVLink-C2C, whose file says MB/s, and NVLink of POWER9."""
    gpus = (
        '<gpu sm="90"><c2c bw="44672" count="10"/></gpu>',
        '<gpu sm="70"><nvlink target="x" count="3" tclass="0x068001"/></gpu>',
    )
    network = read_text(tmp_path, "t.xml", machine(*gpus))
    assert [device.kind for device in network.forwarding] == ["cpu"]
    found = sorted(round((each.bandwidth_gibps or 0) / GIB_PER_GB, 3) for each in network.links if each.dst == 2)
    assert found == [24.0, 24.0, 60.0, 446.72]


def gbps_between(network):
    """Decimal GB/s of all links by their ends: numbers of NPUs, names of other devices."""
    name_of = [*range(network.num_npus), *(device.name for device in network.forwarding)]
    found = Counter()
    for link in network.links:
        found[name_of[link.src], name_of[link.dst]] += (link.bandwidth_gibps or 0) / GIB_PER_GB
    return {ends: round(gbps, 6) for ends, gbps in found.items()}


def report(name):
    found, missing = peers(f"reports/{name}")
    if not found:
        pytest.skip(missing)
    return found[0]


def hosts_text(*hosts):
    """NCCL's file of hosts with their hashes, each with two CPUs and as many GPUs as there are counts of NVLinks to switches."""
    text, at = "", 0
    for host, counts in hosts:
        for numa in range(2):
            text += f'<cpu host_hash="{host:#x}" numaid="{numa}" arch="arm64" vendor="NVIDIA" familyid="143" modelid="1">'
            for count in counts[numa::2]:
                links = f'<nvlink target="fffffff:ff:ff.0" count="{count}" tclass="0x068000"/>' if count else ""
                gpu = f'<gpu dev="0" sm="100" rank="{at}" gdr="1">{links}</gpu>'
                text += f'<pci busid="{at:04x}:01:00.0" link_speed="32.0 GT/s PCIe" link_width="16">{gpu}</pci>'
                at += 1
            text += "</cpu>"
    return f'<system version="1">{text}</system>'


def test_cpus_of_different_hosts_are_not_joined(tmp_path):
    network = read_text(tmp_path, "t.xml", hosts_text((1, [18] * 4), (2, [18] * 4)), None)
    found = gbps_between(network)
    cpus = {end for end in found if all("cpu" in str(each) for each in end)}
    assert cpus == {(f"host{host}.cpu{numa}", f"host{host}.cpu{1 - numa}") for host in range(2) for numa in range(2)}
    assert {found[end] for end in cpus} == {6.0}
    assert {found[npu, "nvswitch"] for npu in range(8)} == {721.8}
    with refused("1 of 2 hosts have no NVLink to a switch"):
        read_text(tmp_path, "t.xml", hosts_text((1, [18] * 4), (2, [0] * 4)), None)


@pytest.mark.parametrize("seed", range(10))
def test_gpus_that_lack_links_are_named(seed, tmp_path, caplog):
    rng = np.random.default_rng(seed)
    counts = rng.choice([18, 18, 18, 17, 0], 6).tolist()
    read_text(tmp_path, "t.xml", hosts_text((1, [18, *counts])))
    in_file = [18, *counts][0::2] + [18, *counts][1::2]
    said = "\n".join(caplog.messages)
    assert [f"{npu:04x}:01:00.0 (NPU {npu})" in said for npu in range(7)] == [count < 18 for count in in_file]


def test_the_gpu_without_nvlinks_of_two_trays_is_named(tmp_path):
    path = report("nccl_gb300_2tray_one_gpu_without_nvlink.xml")
    done = run("network", "read", str(path), "--output", "out", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert (
        "GPU host1.0009:06:00.0 (NPU 5) has no <nvlink> links, others of its kind (sm 103, device 0x31c2) have 18" in done.stderr
    )
    found = gbps_between(read_network(tmp_path / "out" / "network.yml"))
    assert [found.get((npu, "nvswitch")) for npu in range(8)] == [721.8] * 5 + [None] + [721.8] * 2
    assert found[5, "host1.cpu0"] == 96.0 + 223.56
    assert not {end for end in found if str(end[0]).startswith("host0") and str(end[1]).startswith("host1")}


def test_ranks_that_share_a_gpu_share_its_links(tmp_path):
    network = read_fabric(report("nccl_two_gpu_in_one_pci.xml"), 100.0)[1]
    found = gbps_between(network)
    shared = "0000:18:00.0"
    assert network.num_npus == 3 and found[0, shared] == found[1, shared] == 5000.0
    assert found[shared, "nvswitch"] == found[2, "nvswitch"] == 370.8
    assert not {(0, "nvswitch"), (1, "nvswitch")} & found.keys()


def test_partitions_of_a_gpu_halve_its_links(tmp_path):
    inside = '<nvlink target="x" count="18" tclass="0x068000"/><c2c bw="40000" count="5"/>'
    gpus = "".join(f'<gpu sm="100" rank="{part}" mlopart="{part}">{inside}</gpu>' for part in range(2))
    found = gbps_between(read_text(tmp_path, "t.xml", machine(gpus)))
    assert found[0, 1] == 2618.0 and found[0, "nvswitch"] == found[1, "nvswitch"] == 360.9
    assert found[0, "0.c2c"] == found[1, "0.c2c"] == found["0.c2c", "cpu0"] == 200.0


def test_all_nvswitches_of_a_file_are_one_device(tmp_path):
    named = (
        '<nvlink target="0000:05:00.0" count="9" tclass="0x068000"/><nvlink target="0000:06:00.0" count="9" tclass="0x068000"/>'
    )
    hidden = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    gpus = [f'<gpu sm="90">{links}</gpu>' for links in (named, hidden, named)]
    network = read_text(tmp_path, "t.xml", machine(*gpus))
    assert [device.kind for device in network.forwarding].count("switch") == 1
    assert {gbps_between(network)[npu, "nvswitch"] for npu in range(3)} == {370.8} and len(network.links) == 12


def test_pcie_devices_without_speed_are_taken_as_nccl_takes_them(tmp_path):
    done = run("network", "read", str(report("nccl_azure_ncv4.xml")), "--output", "out", cwd=tmp_path)
    assert done.returncode == 0 and "have no link speed: 8 GT/s" in done.stderr and "have no link width: x16" in done.stderr
    found = gbps_between(read_network(tmp_path / "out" / "network.yml"))
    assert [found[npu, f"cpu{npu}"] for npu in range(4)] == [12.0] * 4 and found["cpu0", "cpu3"] == 16.0


@pytest.mark.parametrize(
    "attributes, gbps",
    [
        ('arch="ppc64"', 32.0),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"', 40.0),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"', 22.0),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"', 10.0),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', 6.0),
        ('arch="x86_64" vendor="GenuineIntel" familyid="19" modelid="207"', 6.0),
        ('arch="x86_64" vendor="CentaurHauls" familyid="7" modelid="91"', 9.0),
        ('arch="x86_64" vendor="CentaurHauls" familyid="7" modelid="59"', 6.0),
        ('arch="riscv"', None),
    ],
)
def test_bandwidth_between_cpus_is_what_nccl_counts_on(attributes, gbps, tmp_path):
    pci = '<pci busid="{}" link_speed="16.0 GT/s PCIe" link_width="16"><gpu sm="80"/></pci>'
    cpus = "".join(f'<cpu numaid="{numa}" {attributes}>{pci.format(numa)}</cpu>' for numa in range(2))
    if gbps is None:
        with refused("a CPU of arch 'riscv' .*--cpu-bandwidth"):
            read_text(tmp_path, "t.xml", f"<system>{cpus}</system>", None)
    else:
        assert gbps_between(read_text(tmp_path, "t.xml", f"<system>{cpus}</system>", None))["cpu0", "cpu1"] == gbps
    assert gbps_between(read_text(tmp_path, "t.xml", f"<system>{cpus}</system>", 33.0))["cpu0", "cpu1"] == 33.0


def test_npus_are_numbered_by_rank(tmp_path):
    gpus = [f'<gpu sm="90" rank="{rank}"><nvlink target="x" count="{1 + rank}" tclass="0x068000"/></gpu>' for rank in (2, 0, 1)]
    found = gbps_between(read_text(tmp_path, "t.xml", machine(*gpus)))
    assert [found[npu, "nvswitch"] for npu in range(3)] == pytest.approx([20.6, 41.2, 61.8])


def test_two_levels_of_a_broadcom_switch_are_one(tmp_path):
    """A switch below one of the same kind is a part of it, and one below that is not."""
    ids = 'vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"'
    speed = 'link_speed="16.0 GT/s PCIe" link_width="16"'
    inner = machine('<gpu sm="90"/>', '<gpu sm="90"/>').partition('numaid="0">')[2].removesuffix("</cpu></system>")
    for bus in ("c", "b", "a"):
        inner = f'<pci busid="{bus}" {ids} {speed}>{inner}</pci>'
    network = read_text(tmp_path, "t.xml", f'<system><cpu numaid="0">{inner}</cpu></system>')
    assert [device.name for device in network.forwarding] == ["cpu0", "a", "c"]


@pytest.mark.parametrize("nics", [0, 2])
def test_files_of_several_hosts_are_one_network(nics, tmp_path):
    """Each network card has a port, or each GPU of a host that has none."""
    nic = '<pci busid="9{}" link_speed="16.0 GT/s PCIe" link_width="16"><nic><net dev="0"/></nic></pci>'
    for host in range(3):
        gpus = '<gpu sm="90" rank="0"/>', '<gpu sm="90" rank="1"/>'
        (tmp_path / f"{host}.xml").write_text(machine(*gpus, inside="".join(nic.format(at) for at in range(nics))))
    files = [f"{host}.xml" for host in range(3)]
    done = run("network", "read", *files, "--between", "Switch 400 Gb/s 2 us", "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    network = read_network(tmp_path / "out" / "network.yml")
    ports = [link for link in network.links if link.dst == network.num_npus + len(network.forwarding) - 1]
    assert network.num_npus == 6 and network.forwarding[-1].name == "between"
    assert {(round((link.bandwidth_gibps or 0) / GIB_PER_GB, 6), link.latency_ns) for link in ports} == {(50.0, 2000.0)}
    kinds = ["npu" if link.src < 6 else network.forwarding[link.src - 6].kind for link in ports]
    assert kinds == ["nic" if nics else "npu"] * 6
    build_topology(network, may_forward=True)


@pytest.mark.parametrize(
    "arguments, message",
    rows(
        """
    read a.xml b.xml | b.xml: a second file of NCCL, expected the link between hosts: --between 'Switch 50 GB/s 2 us'
    read a.xml --between 'Switch 50 GB/s 2 us' | a.xml has a single host
    read a.xml b.xml --between 'Ring 50 GB/s 2 us' | found 'Ring 50 GB/s 2 us', expected the bandwidth and the latency
    read a.xml b.xml --between 'Switch 0 GB/s 2 us' | found 'Switch 0 GB/s 2 us', expected 1.1e-09 to 1.1e+12 GB/s
    read a.xml b.xml --between 'Switch 0.0000000001 GB/s 2 us' | expected 1.1e-09 to 1.1e+12 GB/s and 0 to 1e+30 ns
    read a.xml b.xml --between 'Switch fast GB/s 2 us' | found 'Switch fast GB/s 2 us', expected
    read c.xml c.xml --between 'Switch 50 GB/s 2 us' | has host 0x1, as c.xml has, expected files of different hosts
    read a.xml b.yml --between 'Switch 50 GB/s 2 us' | b.yml: found the suffix '.yml' beside an XML of NCCL
    read b.yml --between 'Switch 50 GB/s 2 us' | b.yml is not an XML of NCCL
    """
    ),
)
def test_files_of_hosts_that_nothing_joins(arguments, message, tmp_path):
    for name in ("a.xml", "b.xml"):
        (tmp_path / name).write_text(machine('<gpu sm="90"/>', '<gpu sm="90"/>'))
    (tmp_path / "c.xml").write_text(hosts_text((1, [1, 1])))
    (tmp_path / "b.yml").write_text("x: 1")
    done = run("network", *shlex.split(arguments), "--output", "out", cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


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
        ("topology: [ Custom ]\n", "n.yml:1:1: topology_file is missing, expected the path of an ns-3 topology"),
        (
            "topology: [ Ring ]\ntopology_file: t.txt\n",
            "n.yml:1:11: topology is ['Ring'], expected [ Custom ] beside topology_file",
        ),
        ("topology: [ Custom, Ring ]\ntopology_file: t.txt\n", "expected [ Custom ] beside topology_file"),
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
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0.1\n", "expected 0: links of astra_tacos lose no packets"),
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
    assert alone.returncode == 2 and "or in another file that is read with this file" in alone.stderr
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
