"""Files of a run: what ASTRA-sim takes is read, what would go wrong there gets one line."""

from __future__ import annotations

import json

import pytest
from helpers.damage import refusal
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.groups import group_id, read_communicator_groups
from astra_tacos.run.system import KINDS, READ_KEYS, SystemConfig, read_remote_memory, read_system
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object


def read(tmp_path, text):
    path = tmp_path / "system.json"
    path.write_text(text)
    return read_system(path, tmp_path)


def test_defaults_are_astra_sims(tmp_path):
    system = read(tmp_path, "{}")
    assert system == SystemConfig(str(tmp_path / "system.json"))
    assert (system.endpoint_delay_ns, system.local_reduction_delay_ns, system.active_chunks_per_dimension) == (10, 1, 1)
    assert system.preferred_dataset_splits is None and not system.roofline_enabled


def test_reads_every_key(tmp_path):
    (tmp_path / "per_node.yml").write_text("3: collective/a\n7: collective/b\n")
    text = """
        {"scheduling-policy": "EXPLICIT", "collective-optimization": "localBWAware", "local-reduction-delay": 2,
        "active-chunks-per-dimension": 4, "L": 1.5, "o": 0, "g": 0, "G": 0.25, "endpoint-delay": 12.7,
        "model-shared-bus": 1, "preferred-dataset-splits": 2, "peak-perf": 900, "local-mem-bw": 1600.5,
        "roofline-enabled": 1, "trace-enabled": 0, "replay-only": true, "track-local-mem": 1.0,
        "local-mem-trace-filename": "mem", "all-reduce-implementation": ["ring", "direct4", "oneDirect16",
        "halvingDoubling"], "all-gather-implementation": ["oneHalvingDoubling"], "reduce-scatter-implementation":
        ["doubleBinaryTree", "oneRing"], "all-to-all-implementation": ["direct"], "all-reduce-implementation-custom":
        ["collective/ar"], "all-gather-implementation-custom": ["collective/ag"],
        "reduce-scatter-implementation-custom": ["collective/rs"], "all-to-all-implementation-custom": ["../a2a"],
        "per-node-custom-implementation": "per_node.yml"}
    """
    document = json.loads(text)
    assert set(document) == set(READ_KEYS)
    system = read(tmp_path, json.dumps(document | {"boost-mode": 0}))
    assert system.keys == {*document, "boost-mode"}
    assert system.scheduling_policy == "EXPLICIT" and system.collective_optimization == "localBWAware"
    assert (system.local_reduction_delay_ns, system.endpoint_delay_ns) == (2, 12)
    assert (system.preferred_dataset_splits, system.active_chunks_per_dimension) == (2, 4)
    assert (system.peak_perf_tflops, system.local_mem_bw_gbps) == (900.0, 1600.5)
    assert (system.roofline_enabled, system.replay_only, system.track_local_mem) == (True, True, True)
    assert system.native["all-reduce"] == ("ring", "direct4", "oneDirect16", "halvingDoubling")
    assert system.custom == {
        "all-reduce": "collective/ar",
        "all-gather": "collective/ag",
        "reduce-scatter": "collective/rs",
        "all-to-all": "../a2a",
    }
    assert system.per_node == {3: "collective/a", 7: "collective/b"} and system.per_node_source == "per_node.yml"


BAD = [
    ("[]", "found an empty list at the top, expected a JSON object"),
    ("", "file is empty"),
    ('{"a": 1,}', "not valid JSON: line 1, column"),
    ('{"L": 1, "L": 2}', "key 'L' is given twice"),
    ('{"L": NaN}', "NaN is not a JSON number"),
    ('{"L": 1e999}', "'1e999' is too large"),
    ('{"L": 1' + "0" * 5000 + "}", "too many digits"),
    ("[" * 100_000, "nested too deeply"),
    ('{"\\ud800": 1}', "half a surrogate pair"),
    ('{"scheduling-policy": "SJF"}', "scheduling-policy is 'SJF', expected LIFO or FIFO or EXPLICIT"),
    ('{"collective-optimization": "best"}', "expected baseline or localBWAware"),
    ('{"preferred-dataset-splits": "1"}', "preferred-dataset-splits is '1', expected a whole number"),
    ('{"active-chunks-per-dimension": true}', "is True, expected a whole number"),
    ('{"endpoint-delay": -1}', "endpoint-delay is -1, expected a number of ns, 0 or more"),
    ('{"endpoint-delay": 2147483648}', "below 2**31"),
    ('{"peak-perf": "900"}', "peak-perf is '900', expected a number"),
    ('{"roofline-enabled": false}', "is False, expected 0 or 1 (ASTRA-sim takes false, null and text for on)"),
    ('{"local-mem-trace-filename": 3}', "expected a path"),
    ('{"all-reduce-implementation": "ring"}', "is 'ring', expected a list of one algorithm per dimension"),
    ('{"all-reduce-implementation": ["ring", "tree"]}', "all-reduce-implementation[1] is 'tree', expected ring"),
    ('{"all-gather-implementation-custom": ["a", "b"]}', "is ['a', 'b'], expected a list of exactly one prefix"),
    ('{"all-gather-implementation-custom": ["a\\u0000b"]}', "expected a path"),
    ('{"per-node-custom-implementation": 3}', "per-node-custom-implementation is 3, expected a path"),
    ('{"per-node-custom-implementation": "nowhere.yml"}', "nowhere.yml: cannot be read"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_systems_get_one_line(tmp_path, text, message):
    said = refusal(read, tmp_path, text)
    assert message in said and said.startswith(str(tmp_path))


def test_paths_of_per_node_files_start_where_astra_sim_does(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "per_node.yml").write_text("3: collective/a\n")
    path = tmp_path / "config/system.json"
    path.write_text('{"per-node-custom-implementation": "per_node.yml"}')
    assert read_system(path, tmp_path).per_node == {3: "collective/a"}
    with pytest.raises(ConfigError, match="cannot be read"):
        read_system(path, tmp_path / "config")


def test_a_per_node_file_beside_the_system_says_where_to_start(tmp_path):
    (tmp_path / "per_node.yml").write_text("3: collective/a\n")
    path = tmp_path / "system.json"
    path.write_text('{"per-node-custom-implementation": "per_node.yml"}')
    assert refusal(read_system, path, "elsewhere").endswith(f"; there is one in {tmp_path} (--directory)")


PER_NODE_BAD = {
    "a: b": ":1:1 has the key 'a', expected the id of a workload node",
    "-1: b": "has the key '-1'",
    "1: a\n1: b": "key '1' is given twice",
    "1: [a]": ":1:4: 1 is ['a'], expected the prefix of a trace",
    "- 1": "expected a YAML mapping",
}


@pytest.mark.parametrize(("text", "message"), PER_NODE_BAD.items())
def test_bad_per_node_files(tmp_path, text, message):
    (tmp_path / "p.yml").write_text(text)
    said = refusal(read, tmp_path, '{"per-node-custom-implementation": "p.yml"}')
    assert message in said and said.startswith(str(tmp_path / "p.yml"))


@given(st.binary(max_size=64))
def test_any_bytes_are_an_object_or_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.json"
    path.write_bytes(data)
    try:
        assert isinstance(read_json_object(path), dict)
    except ConfigError as error:
        assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab/\0 1", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(READ_KEYS), json_values, max_size=4))
def test_any_values_are_read_or_get_one_line(tmp_path_factory, document):
    path = tmp_path_factory.getbasetemp() / "fuzz_system.json"
    path.write_text(json.dumps(document))
    try:
        read_system(path, path.parent)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_systems_that_ship_with_astra_sim(astra_sim_inputs):
    for path in sorted((astra_sim_inputs / "system").glob("*.json")):
        assert read_system(path).preferred_dataset_splits in (1, 4)


def test_members_keep_their_order(tmp_path):
    path = tmp_path / "groups.json"
    path.write_text('{"2": [3, 1], "10": [0], "7": []}')
    groups = read_communicator_groups(path)
    assert groups.members == {2: (3, 1), 10: (0,), 7: ()} and groups.source == str(path)


BAD_GROUPS = {
    '{"0": [1]}': "group '0' is no whole number from 1 to 2,147,483,647",
    '{"2147483648": [1]}': "group '2147483648' is no whole number from 1 to 2,147,483,647",
    '{"tp": [1]}': "group 'tp' is no whole number",
    '{"-1": [1]}': "group '-1' is no whole number",
    '{"1.5": [1]}': "group '1.5' is no whole number",
    '{"1": [0], "01": [1]}': "group '01' is given twice",
    '{"1": 4}': "group 1 is 4, expected a list of ranks",
    '{"1": ["0"]}': "group 1 has '0' at 0, expected a rank",
    '{"1": [true]}': "group 1 has True at 0",
    '{"1": [0, -1]}': "group 1 has -1 at 1",
    '{"1": [0, 2, 0]}': "group 1 has rank 0 twice",
    "[1]": "expected a JSON object",
}


@pytest.mark.parametrize(("text", "message"), BAD_GROUPS.items())
def test_bad_groups_get_one_line(tmp_path, text, message):
    path = tmp_path / "groups.json"
    path.write_text(text)
    said = refusal(read_communicator_groups, path)
    assert message in said and said.startswith(f"{path}: ")


def test_group_names():
    assert [group_id(name) for name in ("1", "007", "2147483647")] == [1, 7, 2147483647]
    assert [group_id(name) for name in ("", "0", "-1", "+1", " 1", "1 ", "1a", "1e3", "٣", "9" * 5000)] == [None] * 10


def read_memory(tmp_path, text):
    path = tmp_path / "memory.json"
    path.write_text(text)
    return read_remote_memory(path)


@pytest.mark.parametrize("name", KINDS)
def test_kinds(tmp_path, name):
    memory = read_memory(tmp_path, json.dumps({"memory-type": name}))
    assert (memory.kind, memory.latency_ns, memory.bytes_per_ns) == (KINDS[name], 0, 0)


def test_numbers_are_cut_off_as_astra_sim_does(tmp_path):
    text = """{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 100.9, "remote-mem-bw": 50.5,
        "num-nodes": 2, "num-npus-per-node": 8, "more": "is ignored"}"""
    memory = read_memory(tmp_path, text)
    assert (memory.latency_ns, memory.bytes_per_ns, memory.num_nodes, memory.npus_per_node) == (100, 50, 2, 8)
    assert memory.keys == set(json.loads(text))


BAD_MEMORIES = {
    "{}": "memory-type is missing, expected NO_MEMORY_EXPANSION or",
    '{"memory-type": "DISK"}': "memory-type is 'DISK'",
    '{"memory-type": "MEMORY_POOL", "remote-mem-bw": "50"}': "remote-mem-bw is '50', expected a whole number",
    '{"memory-type": "MEMORY_POOL", "remote-mem-latency": -1}': "remote-mem-latency is -1",
    '{"memory-type": "MEMORY_POOL", "num-nodes": true}': "num-nodes is True",
    '{"memory-type": "MEMORY_POOL", "num-nodes": 2147483648}': "num-nodes is 2147483648",
}


@pytest.mark.parametrize(("text", "message"), BAD_MEMORIES.items())
def test_bad_files_get_one_line(tmp_path, text, message):
    assert message in refusal(read_memory, tmp_path, text)
