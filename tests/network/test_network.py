"""Reading network files: what is good is read, what is bad gets one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.examples import rows
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, read_network
from astra_tacos.support.errors import ConfigError

GOOD = """
topology: [ Ring, Switch ]
npus_count: [ 4, 2 ]  # comment
bandwidth: [ 50.0, 1e2 ]
latency: [ 500, 0 ]
boost: whatever ASTRA-sim ignores, so do we
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "net.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_dimensions(tmp_path: Path) -> None:
    network = read_network(write(tmp_path, GOOD))
    assert network.name == "net"
    assert network.dimensions == (Dimension("Ring", 4, 50.0, 500.0), Dimension("Switch", 2, 100.0, 0.0))
    assert network.num_npus == 8


def test_extension(tmp_path: Path) -> None:
    text = GOOD + (
        "astra_tacos:\n  topology: [Mesh, Ring]\n  failed_links: [[0, 1]]\n"
        "  link_overrides:\n  - {src: 1, dst: 2, bandwidth: 7}\n  - {src: 2, dst: 1, latency: 9}\n"
    )
    network = read_network(write(tmp_path, text))
    assert [dimension.block for dimension in network.dimensions] == ["Mesh", "Ring"]
    assert network.failed_links == ((0, 1),)
    assert network.link_overrides == (LinkSpec(1, 2, 7.0, None), LinkSpec(2, 1, None, 9.0))


def test_link_table(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("# three NPUs\nlatency, bandwidth, src, dst\n10,50,0,1\n20,25,1,2\n\n30,12.5,2,0\n")
    network = read_network(write(tmp_path, "astra_tacos: {links: links.csv}"))
    assert network.num_npus == 3
    assert network.links[1] == LinkSpec(1, 2, 25.0, 20.0)


REPLACED = """
    50.0 -> 190:20:30 | bandwidth[0] is '190:20:30', expected a number
    50.0 -> 1.0e-320 | bandwidth[0] is 1e-320, expected a number of GB/s at least 1e-09
    500 -> 1e300 | latency[0] is 1e+300, expected a number of ns, 0 or more and at most 1e+30
    50.0 -> !!python/name:os.system | could not determine a constructor
    bandwidth -> bw | bandwidth is missing
    [ Ring, Switch ] -> [] | topology is an empty list
    Switch -> Torus | topology[1] is 'Torus', expected Ring or FullyConnected or Switch
    Ring -> Mesh | belong in astra_tacos.topology
    [ 4, 2 ] -> [ 4 ] | npus_count has 1 entry, topology has 2
    [ 4, 2 ] -> [ 4, 1 ] | npus_count[1] is 1, expected a whole number above 1
    [ 4, 2 ] -> [ 2000, 1001 ] | 2,002,000 NPUs, expected at most 2,000,000
    50.0 -> 0 | bandwidth[0] is 0, expected a number of GB/s above 0 and at most 1e+12
"""
"""What stands in a good file, what stands there instead, and what is said."""
EXTENSIONS = """
    3 | astra_tacos is 3, expected a mapping
    {topologie: []} | astra_tacos has the key 'topologie'
    {topology: [Mesh, Cube]} | astra_tacos.topology[1] is 'Cube'
    {topology: [Mesh]} | npus_count has 2 entries, astra_tacos.topology has 1
    {topology: [Mesh, Mesh], links: l.csv} | both links and topology
    {failed_links: 3} | failed_links is 3
    {failed_links: [[0, x]]} | failed_links[0] is 'x', expected a device id
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
    topology: [ Ring | not valid YAML: line 1
    - Ring | expected a YAML mapping
    astra_tacos: {links: 3} | links is 3, expected the path of a CSV
    astra_tacos: {links: none.csv} | none.csv: cannot be read
    """
    ),
    *((GOOD.replace(*change.split(" -> ")), expected) for change, expected in rows(REPLACED)),
    *((f"{GOOD}astra_tacos: {extension}", expected) for extension, expected in rows(EXTENSIONS)),
    ("topology:\n\t- Ring", "not valid YAML"),
    ("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\ntopology: *c", "aliases"),
    (b"topology: [ Ring\xff ]", "not UTF-8"),
    (GOOD + "latency: [1, 2]", "key 'latency' is given twice"),
    (GOOD.replace("[ 4, 2 ]", f"[ {'9' * 401}, 2 ]"), "line 3, column 15: found '9999"),
    (GOOD + "Astra-Tacos: {failed_links: []}", "has the key 'Astra-Tacos', expected astra_tacos"),
]


@pytest.mark.parametrize(("text", "expected"), BAD)
def test_bad_input_gets_one_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        build_topology(read_network(path))
    message = str(caught.value)
    assert "\n" not in message
    assert expected in message
    assert message.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("table", "expected"),
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
def test_bad_link_table(tmp_path: Path, table: str, expected: str) -> None:
    (tmp_path / "l.csv").write_text(table)
    with pytest.raises(ConfigError, match=expected):
        build_topology(read_network(write(tmp_path, "astra_tacos: {links: l.csv}")))


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_network(path)


class _Counted(int):
    """A device id that counts comparisons."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return int.__eq__(self, other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("failed_links", lambda device: [_Counted(device), _Counted(device + 1)]),
        ("link_overrides", lambda device: {"src": _Counted(device), "dst": _Counted(device + 1), "latency": 1}),
    ],
)
def test_many_links_are_not_each_compared_with_all_others(monkeypatch: pytest.MonkeyPatch, key: str, entry: Any) -> None:
    dimensions = {"topology": ["Ring"], "npus_count": [1000], "bandwidth": [1.0], "latency": [1.0]}
    document = dimensions | {"astra_tacos": {key: [entry(device) for device in range(999)]}}
    monkeypatch.setattr("astra_tacos.network.network_config.read_yaml_mapping", lambda path: document)
    monkeypatch.setattr(_Counted, "compared", 0)
    assert len(getattr(read_network("x"), key)) == 999
    assert _Counted.compared < 10 * 999


@given(st.binary(max_size=200))
def test_any_bytes_give_a_network_or_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yml"
    path.write_bytes(data)
    try:
        read_network(path)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_files_that_ship_with_astra_sim(astra_sim_inputs: Path) -> None:
    files = sorted((astra_sim_inputs / "network").glob("*.yml"))
    assert len(files) >= 10
    for path in files:
        if path.name == "dgx_v100_8gpu.yml":
            with pytest.raises(ConfigError, match=r"bandwidth\[0\] is 'tbd'"):
                read_network(path)
        else:
            topology = build_topology(read_network(path))
            assert topology.num_npus == read_network(path).num_npus


A_SWITCHED_BOX = "src,dst,bandwidth,latency\n" + "".join(f"{npu},8,300,500\n8,{npu},300,500\n" for npu in range(8))
"""Eight NPUs around a switch, which has the next id, as other tools list their graphs."""


@pytest.mark.parametrize("npus_count", ["[ 8 ]", "[ 4, 2 ]", "[ 10 ]"])
def test_ids_of_a_link_table_past_npus_count_are_refused(tmp_path: Path, npus_count: str) -> None:
    (tmp_path / "box.csv").write_text(A_SWITCHED_BOX)
    path = write(tmp_path, f"npus_count: {npus_count}\nastra_tacos: {{links: box.csv}}")
    with pytest.raises(ConfigError, match=r"net\.yml: astra_tacos\.links has NPUs 0 to 8, npus_count gives"):
        read_network(path)
    assert read_network(write(tmp_path, "npus_count: [ 9 ]\nastra_tacos: {links: box.csv}")).num_npus == 9
    assert read_network(write(tmp_path, "astra_tacos: {links: box.csv}")).num_npus == 9


@pytest.mark.parametrize(
    ("block", "size", "message"),
    [
        ("Hypercub", 8, "astra_tacos.topology[0] is 'Hypercub', expected Ring or "),
        ("[Ring]", 8, "astra_tacos.topology[0] is ['Ring'], expected Ring or "),
        ("Hypercube", 12, "npus_count[0] is 12, expected a power of two for a Hypercube"),
        ("TwistedTorus", 12, "npus_count[0] is 12, expected k**2 with k above 2, or 2 * k**2 with k above 1 ("),
    ],
)
def test_unknown_blocks_and_sizes_are_refused_when_a_file_is_read(tmp_path: Path, block: str, size: int, message: str) -> None:
    path = tmp_path / "n.yml"
    path.write_text(f"astra_tacos: {{topology: [{block}]}}\nnpus_count: [{size}]\nbandwidth: [50.0]\nlatency: [500.0]\n")
    with pytest.raises(ConfigError) as refused:
        read_network(path)
    assert str(refused.value).startswith(f"{path}: {message}")
