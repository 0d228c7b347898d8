"""How fast Chakra traces are read: prints a table and rewrites results/reading.md.

    python benchmarks/reading.py [--no-record]

Files are in memory (the page cache), kernels are compiled before. Figures are medians of warm runs, millions of nodes a second.
`protobuf` is the time that protobuf's own parser (upb) takes to make message objects of the same bytes, without looking at them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from results_page import machine, main

from astra_tacos.run.trace.reader import load_file, read_ranks, read_trace, trace_files
from astra_tacos.run.trace.schema import NodeType, schema_module
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable, write_trace

NODES = 800_000
RUNS = 5
CASES = {
    "sends, 16 ranks": (16, ("is_cpu_op", "comm_size", "comm_dst", "comm_tag"), 1),
    "sends with chunks, 16 ranks": (16, tuple(ATTRIBUTE_KEYS), 1),
    "sends, 1 rank": (1, ("is_cpu_op", "comm_size", "comm_dst", "comm_tag"), 1),
    "sends, ids in no order, 16 ranks": (16, ("is_cpu_op", "comm_size", "comm_dst", "comm_tag"), 0x9E3779B97F4A7C15),
}
"""Number of ranks, attributes of each node, and by what ids go on."""


def write(prefix: Path, num_ranks: int, attributes: tuple[str, ...], step: int) -> None:
    """Chains of sends, each of which depends on the one before and on an earlier one."""
    size = NODES // num_ranks
    node = np.arange(size)
    ids = (node.astype(np.uint64) * np.uint64(step) >> np.uint64(1)).astype(np.int64) if step > 1 else node
    first = np.minimum(np.arange(size + 1), size)
    values = np.stack([node % 997 if name != "comm_size" else np.full(size, 1 << 20) for name in attributes], axis=1)
    table = NodeTable(
        node_id=ids,
        kind=np.full(size, NodeType.COMM_SEND, np.uint8),
        duration_us=np.zeros(size, np.int64),
        names=("send_",),
        name=np.zeros(size, np.uint8),
        name_number=node,
        ctrl_first=first,
        ctrl=ids[np.maximum(node - 1, 0)],
        data_first=first,
        data=ids[np.maximum(node - 7, 0)],
        attr_first=np.arange(size + 1) * len(attributes),
        attr_key=np.tile(np.array([ATTRIBUTE_KEYS[name] for name in attributes], np.uint8), size),
        attr_value=np.where(np.isin(attributes, ("is_cpu_op", "is_rrc")), values % 2, values).ravel(),
    )
    for rank in range(num_ranks):
        write_trace(Path(f"{prefix}.{rank}.et"), table, 0, size)


def parse(prefix: Path) -> int:
    """Parse every node with protobuf."""
    make, count = schema_module().Node, 0
    for path in trace_files(prefix):
        data = path.read_bytes()
        at = data[0] + 1
        while at < len(data):
            size = shift = 0
            while True:
                size, shift, at = size | (data[at] & 127) << shift, shift + 7, at + 1
                if data[at - 1] < 128:
                    break
            make().ParseFromString(data[at : at + size])
            at, count = at + size, count + 1
    return count


def millions(work: Callable[[], object], runs: int = RUNS) -> float:
    """Millions of nodes a second."""
    work()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return NODES / statistics.median(seconds) / 1e6


def one_thread(prefix: Path) -> object:
    files = [partial(load_file, path) for path in trace_files(prefix)]
    return read_ranks(str(prefix), files, threads=1, chunks=True, workload=False)


def table() -> str:
    lines = [
        f"Machine: {machine()}. {NODES:,} nodes each.",
        "",
        "| traces | bytes per node | protobuf | 1 thread | threads | threads, with workload columns | threads / protobuf |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (num_ranks, attributes, step) in CASES.items():
        with tempfile.TemporaryDirectory() as directory:
            prefix = Path(directory) / "t"
            write(prefix, num_ranks, attributes, step)
            size = sum(path.stat().st_size for path in trace_files(prefix)) / NODES
            assert parse(prefix) == read_trace(prefix).num_nodes == NODES
            theirs = millions(lambda prefix=prefix: parse(prefix), 1)
            alone = millions(lambda prefix=prefix: one_thread(prefix))
            ours = millions(lambda prefix=prefix: read_trace(prefix))
            whole = millions(lambda prefix=prefix: read_trace(prefix, workload=True))
        figures = (f"{size:.0f}", f"{theirs:.2f}", f"{alone:.1f}", f"{ours:.1f}", f"{whole:.1f}", f"{ours / theirs:.0f}")
        lines.append(f"| {' | '.join((name, *figures))} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "reading", table)
