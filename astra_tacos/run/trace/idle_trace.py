"""The trace of a rank that takes no part in a collective."""

from __future__ import annotations

import numpy as np

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable, encode_trace


def idle_trace() -> bytes:
    """A trace with a single computation that takes no time, because ASTRA-sim needs at least one node."""
    nothing = np.zeros(2, np.int64)
    table = NodeTable(
        node_id=np.array([0]),
        kind=np.array([NodeType.COMP], np.uint8),
        duration_us=np.array([0]),
        names=("nothing_",),
        name=np.array([0], np.uint8),
        name_number=np.array([0]),
        ctrl_first=nothing,
        ctrl=np.empty(0, np.int64),
        data_first=nothing,
        data=np.empty(0, np.int64),
        attr_first=np.array([0, 1]),
        attr_key=np.array([ATTRIBUTE_KEYS["is_cpu_op"]], np.uint8),
        attr_value=np.array([0]),
    )
    return encode_trace(table, 0, 1)
