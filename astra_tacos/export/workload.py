"""A workload with a single collective, with which ASTRA-sim runs a custom collective by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable, encode_trace

COMM_TYPES = {
    "all-reduce": CommType.ALL_REDUCE,
    "all-gather": CommType.ALL_GATHER,
    "reduce-scatter": CommType.REDUCE_SCATTER,
    "broadcast": CommType.ALL_REDUCE,
    "reduce": CommType.ALL_REDUCE,
    "all-to-all": CommType.ALL_TO_ALL,
    "all-to-allv": CommType.ALL_TO_ALL,
    "scatter": CommType.ALL_REDUCE,
    "gather": CommType.ALL_REDUCE,
}
"""ASTRA-sim has no custom Broadcast (it only waits) and throws for a Reduce, a Scatter or a Gather: the node of such a collective
is an All-Reduce of its size. What it does is in its custom traces."""


def export_workload(collective: Collective, prefix: str | Path) -> None:
    """Write `PREFIX.<npu>.et`, each with one COMM_COLL node of the collective."""
    attributes = {"is_cpu_op": 0, "comm_type": COMM_TYPES[collective.name], "comm_size": collective.size_bytes}
    nothing = np.zeros(2, np.int64)
    table = NodeTable(
        node_id=np.array([0]),
        kind=np.array([NodeType.COMM_COLL], np.uint8),
        duration_us=np.array([0]),
        names=(collective.name.replace("-", "_") + "_",),
        name=np.array([0], np.uint16),
        name_number=np.array([0]),
        ctrl_first=nothing,
        ctrl=np.empty(0, np.int64),
        data_first=nothing,
        data=np.empty(0, np.int64),
        attr_first=np.array([0, len(attributes)]),
        attr_key=np.array([ATTRIBUTE_KEYS[name] for name in attributes], np.uint8),
        attr_value=np.array(list(attributes.values()), np.int64),
    )
    encoded = encode_trace(table, 0, 1)
    for npu in range(collective.num_npus):
        Path(f"{prefix}.{npu}.et").write_bytes(encoded)
