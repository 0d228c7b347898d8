"""What the collectives of a training run send, from its Chakra traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from astra_tacos import CommType, NodeType, read_trace

WORKLOAD = Path(__file__).parents[1] / "configs" / "workload" / "transformer_16" / "workload" / "w"


def main() -> None:
    """A line per pattern and size of collectives, the most bytes first."""
    trace = read_trace(WORKLOAD, chunks=False, workload=True)
    assert trace.workload is not None
    is_collective = trace.kind == NodeType.COMM_COLL
    columns = (trace.workload.comm_type[is_collective].tolist(), trace.size_bytes[is_collective].tolist())
    nodes = Counter(zip(*columns, strict=True))
    for (pattern, size), count in sorted(nodes.items(), key=lambda item: -item[0][1] * item[1]):
        print(f"{CommType(pattern).name:20} {size:>12,} bytes  {count:5d} nodes")


if __name__ == "__main__":
    main()
