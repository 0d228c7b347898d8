"""Reading remote memory files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.damage import refusal

from astra_tacos.run.system import KINDS, RemoteMemory, read_remote_memory


def read(tmp_path: Path, text: str) -> RemoteMemory:
    path = tmp_path / "memory.json"
    path.write_text(text)
    return read_remote_memory(path)


@pytest.mark.parametrize("name", KINDS)
def test_kinds(tmp_path: Path, name: str) -> None:
    memory = read(tmp_path, json.dumps({"memory-type": name}))
    assert (memory.kind, memory.latency_ns, memory.bytes_per_ns) == (KINDS[name], 0, 0)


def test_numbers_are_cut_off_as_astra_sim_does(tmp_path: Path) -> None:
    text = """{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 100.9, "remote-mem-bw": 50.5,
        "num-nodes": 2, "num-npus-per-node": 8, "more": "is ignored"}"""
    memory = read(tmp_path, text)
    assert (memory.latency_ns, memory.bytes_per_ns, memory.num_nodes, memory.npus_per_node) == (100, 50, 2, 8)
    assert memory.keys == set(json.loads(text))


BAD = [
    ("{}", "memory-type is missing, expected NO_MEMORY_EXPANSION or"),
    ('{"memory-type": "DISK"}', "memory-type is 'DISK'"),
    ('{"memory-type": "MEMORY_POOL", "remote-mem-bw": "50"}', "remote-mem-bw is '50', expected a whole number"),
    ('{"memory-type": "MEMORY_POOL", "remote-mem-latency": -1}', "remote-mem-latency is -1"),
    ('{"memory-type": "MEMORY_POOL", "num-nodes": true}', "num-nodes is True"),
    ('{"memory-type": "MEMORY_POOL", "num-nodes": 2147483648}', "num-nodes is 2147483648"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files_get_one_line(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(read, tmp_path, text)
