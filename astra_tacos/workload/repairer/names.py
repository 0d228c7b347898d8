"""Communicator groups and patterns by the names that PyTorch, NCCL and converters give them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from astra_tacos.run.communicator import MAX_RANK
from astra_tacos.run.trace.schema import CommType

ALL_RANKS = ("", "0")
"""Names that stand for the group of all ranks."""
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


def groups_of_text(text: str) -> Iterator[tuple[str, list[int]]]:
    """Name and ranks of each group that the text of a `process_group:init` lists."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or "pg_name" not in entry:
            continue
        ranks = entry.get("ranks", [])
        if isinstance(ranks, dict):  # older PyTorch: rank in the world to rank in the group
            ranks = [int(rank) for rank in ranks if str(rank).isdecimal()]
        if isinstance(ranks, list) and all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks):
            yield str(entry["pg_name"]).encode("utf-8", "replace").decode(), ranks


def pattern_of_name(name: str) -> CommType | None:
    """The pattern that a name contains, like `ncclDevKernel_AllReduce_Sum_f32_RING_LL` or `c10d::allgather_`; None for none."""
    # A kernel's argument types come after its name, and operators have their namespace before it.
    letters = _NOT_LETTERS.sub("", name.split("(")[0].lower())
    return next((pattern for pattern, word in _WORDS if word in letters), None)
