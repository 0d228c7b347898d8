"""Patterns of collectives, by the names that PyTorch, NCCL and converters give them."""

from __future__ import annotations

import re

from astra_tacos.trace.schema import CommType

_WORDS = (
    (CommType.REDUCE_SCATTER, "reducescatter"),
    (CommType.ALL_REDUCE, "allreduce"),
    (CommType.ALL_GATHER, "allgather"),
    (CommType.ALL_TO_ALL, "alltoall"),
    (CommType.ALL_TO_ALL, "all2all"),
    (CommType.BROADCAST, "broadcast"),
    (CommType.BROADCAST, "bcast"),
    (CommType.BARRIER, "barrier"),
    (CommType.SCATTER, "scatter"),
    (CommType.GATHER, "gather"),
    (CommType.REDUCE, "reduce"),
)
"""The longest words first, as they contain others."""
_NOT_LETTERS = re.compile(r"[^a-z0-9]+")


def pattern_of_name(name: str) -> CommType | None:
    """The pattern that a name contains, like `ncclDevKernel_AllReduce_Sum_f32_RING_LL` or `c10d::allgather_`; None for none."""
    # A kernel's argument types come after its name, and operators have their namespace before it.
    letters = _NOT_LETTERS.sub("", name.split("(")[0].lower())
    return next((pattern for pattern, word in _WORDS if word in letters), None)
