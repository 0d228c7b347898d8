"""Communicator groups as texts of traces name and define them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from astra_tacos.config.communicator import MAX_RANK

ALL_RANKS = ("", "0")
"""Names that stand for the group of all ranks."""


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
