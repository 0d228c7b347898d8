"""Whatever is in a file that people write, its reader makes something of it, or one short line that names the file.

`FUZZ_EXAMPLES` says how many files are made for each reader; `make fuzz` asks for many.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.mutated_text import mutated
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import read_network
from astra_tacos.pages.compare_rows import CompareRow, read_rows, write_csv
from astra_tacos.run.groups import read_communicator_groups
from astra_tacos.run.system import read_remote_memory, read_system
from astra_tacos.study.optimizer.libra_files import read_communicator, read_cost_model, read_libra_network, read_libra_workload
from astra_tacos.study.optimizer.model import Shape
from astra_tacos.study.optimizer.space import parse_constraint
from astra_tacos.study.sweep.sweep_file import read_sweep_file
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.expression import parse_expression
from astra_tacos.support.units import parse_sizes
from astra_tacos.workload.importer.astra_sim_1 import read_astra_sim_1_workload
from astra_tacos.workload.importer.simai import read_simai_workload

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
SHAPE = Shape("", ("Ring", "Switch"), (4, 8), (1.0, 1.0), ("a", "b"))
PHASES = ("Forward", "InputGrad", "WeightGrad")

NETWORK = b"""topology: [ Ring, Switch ]
npus_count: [ 2, 4 ]
bandwidth: [ 100.0, 25 ]  # GB/s
latency:\t[ 50, 5.0e+2 ]
astra_tacos:
  topology: [ Mesh, Switch ]
  failed_links: [ [ 8, 0 ] ]
  link_overrides:
    - { src: 0, dst: 8, bandwidth: 25.0, latency: 3 }
"""
LINKS = b"# x\nsrc,dst,bandwidth,latency\n0,1,50,500\n1,2,50.5,500\n2,3,50,1e3\n3,0,5,5\n"
SYSTEM = b"""{"scheduling-policy": "FIFO", "preferred-dataset-splits": 1, "endpoint-delay": 10, "peak-perf": 900.5,
 "all-reduce-implementation": ["ring", "direct4"], "all-gather-implementation-custom": ["collective/ag"], "local-mem-bw": 50,
 "collective-optimization": "localBWAware", "active-chunks-per-dimension": 2, "roofline-enabled": 1, "L": 0.5,
 "per-node-custom-implementation": "nodes.yml"}"""
MEMORY = b'{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 5, "num-nodes": 2}'
WORKLOAD = b"\n".join(
    b"layer%d -1 500 ALLGATHER 4096 300 ALLREDUCE 1048576 200 REDUCESCATTER 65536 100" % number for number in range(3)
)
ASTRA_SIM_1 = b"HYBRID_DLRM 1\n3\n" + WORKLOAD.replace(b"ALLGATHER", b"ALLTOALL")
SIMAI = b"""HYBRID_TRANSFORMER_FWD_IN_BCKWD \
model_parallel_NPU_group: 2 ep: 2 all_gpus: 8 checkpoints: 1 0 checkpoint_initiates: 1 1
2
embedding -1 1500 ALLREDUCE 65536 700 NONE 0 800 ALLREDUCE 1048576 100
experts -1 2000 ALLTOALL_EP 4096 2000 ALLTOALL_EP 4096 1 REDUCESCATTER_DP_EP 8192 100
"""
SWEEP = b"""name: x
point:
  network:
    topology: [ Ring, Switch ]
    npus_count: [ 2, "= n" ]
    bandwidth_per_npu: [ "= b0", "= 600 - b0" ]
    latency: [ 50, 250 ]
  failed_links: { fraction: "= f", seed: 1 }
  collective: all-reduce
  size: 64MiB
  synthesizer: themis
axes:
  - grid:
      b0: { from: 50, to: 500, step: 150 }
      f: [ 0, 0.1 ]
  - zip: { n: [ 4, 8 ], chunks_per_npu: [ 1, 2 ] }
define: { b1: 600 - b0 }
where: [ b1 >= 50, total_bandwidth <= 600 ]
"""


def network(path):
    build_topology(read_network(path))


def links(path):
    path.with_name("net.yml").write_bytes(b"npus_count: [ 4 ]\nastra_tacos: { links: %b }" % path.name.encode())
    network(path.with_name("net.yml"))


def system(path):
    path.with_name("nodes.yml").write_bytes(b"1: a/b")
    read_system(path, path.parent)


def per_node(path):
    path.with_name("system.json").write_bytes(b'{"per-node-custom-implementation": "%b"}' % path.name.encode())
    read_system(path.with_name("system.json"), path.parent)


def comparison():
    import io

    file = io.StringIO(newline="")
    row = CompareRow("n", "Ring 4", 4, "all-reduce", None, 1 << 20, "ring", time_ns=5, bound_ns=4, efficiency=0.8, is_best=True)
    write_csv([row, row], file)
    return file.getvalue().encode()


READERS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "network.yml": (NETWORK, network),
    "links.csv": (LINKS, links),
    "groups.json": (b'{"1": [0, 2, 4, 6], "2": [1, 3, 5, 7], "10": [0, 1]}', read_communicator_groups),
    "memory.json": (MEMORY, read_remote_memory),
    "run.json": (SYSTEM, system),
    "per_node.yml": (b"1: collective/ar4\n+3:\tcollective/ar8\n4: 0123\n", per_node),
    "libra_network.yml": (
        b"Topology: [ Ring, Switch ]\nNpusCount: [ 4, 8 ]\nCostDimension: [ a, b ]\n",
        lambda path: read_libra_network(path, 5.0),
    ),
    "libra_communicator.yml": (
        b"Forward: [ 4, -1 ]\nInputGrad: [ 2, 1 ]\nWeightGrad: [ -1, 8 ]\n",
        lambda path: read_communicator(path, SHAPE),
    ),
    "libra_cost.yml": (
        b"a:\n  Link: 4.0\n  Switch: 13\nb:\n  Link: 7.8\n  Switch: 18.0\n  Nic: 31.6\n",
        lambda path: read_cost_model(path).prices(SHAPE),
    ),
    "libra_workload.txt": (
        WORKLOAD,
        lambda path: read_libra_workload(path, SHAPE, dict.fromkeys(PHASES, (4, 2))),
    ),
    "astra_sim_1.txt": (ASTRA_SIM_1, lambda path: read_astra_sim_1_workload(path, (4, 2))),
    "simai.txt": (SIMAI, read_simai_workload),
    "sweep.yml": (SWEEP, read_sweep_file),
    "compare.csv": (comparison(), read_rows),
    "compare.json": (
        b'{"rows": [{"network": "n", "topology": "Ring 4", "num_npus": 4, "collective": "reduce", "root": 1, '
        b'"size_bytes": 1024, "synthesizer": "ring", "time_ns": 5, "efficiency": 0.5}]}',
        read_rows,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_the_file_without_changes_is_read(tmp_path, name):
    data, read = READERS[name]
    (tmp_path / name).write_bytes(data)
    read(tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_any_text_is_read_or_gets_one_line(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("fuzz")
    data, read = READERS[name]

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, (1 << 62) - 1) | st.binary(max_size=100))
    def attack(change):
        (folder / name).write_bytes(change if isinstance(change, bytes) else mutated(data, change))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                read(folder / name)
            except AstraTacosError as error:
                message = str(error)
                assert "\n" not in message
                assert len(message) < 700
                assert str(folder) in message or "expected less" in message

    attack()


@pytest.mark.parametrize(
    ("text", "parse"),
    {
        b"10 <= b[1] + 2 * B0 / 3 <= total - 1.5e2": lambda text: parse_constraint(text, 3),
        b"cost == (B0 + B2) * 0.5": lambda text: parse_constraint(text, 3, (1.0, 2.0, 3.0)),
        b"max(b0, 2 ** 3) // 3 if b0 in [1, 2] and not x[-1] else 'a' + \"b\"": lambda text: value(text),
        b"64KiB:1GiB,1MB, 4096": parse_sizes,
    }.items(),
    ids=["constraint", "constraint of cost", "sweep", "sizes"],
)
def test_any_expression_is_read_or_gets_one_line(text, parse):
    @settings(max_examples=4 * EXAMPLES)
    @given(st.integers(0, (1 << 62) - 1))
    def attack(seed):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                parse(mutated(text, seed).decode(errors="surrogateescape"))
            except ConfigError as error:
                assert "\n" not in str(error)
                assert len(str(error)) < 700

    attack()


def value(text):
    return parse_expression(text, "a.yml: x").value({"b0": 3, "b": "text", "x": [1, 2.5]})
