"""Dimensions that a collective of all ranks involves."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS
from astra_tacos.repairer.step import Step

_ASSUMED = 4
"""Dimensions that ASTRA-sim assumes where a node has no `involved_dim`."""


def involve_dimensions(draft: Draft, log: Log) -> None:
    """Write `involved_dim` with an entry per dimension, where ASTRA-sim would read past its end, or no dimension is involved.

    Dimensions that the list lacks are involved, as they are where there is no list.
    """
    count = len(draft.network.dimensions)
    for rank, node in draft.collectives():
        if (node.get("pg_name") or "") not in ALL_RANKS or not count:
            continue
        given = node.get("involved_dim")
        flags = None if given is None else list(given.values)
        if flags is None and count <= _ASSUMED:
            continue
        if flags is not None and len(flags) >= count and any(flags[:count]):
            continue
        new = [*(flags or []), *[True] * count][:count]
        new = new if any(new) else [True] * count
        log.add(f"involved_dim became {new}", f"the network has {count} dimensions, and it was {flags}", rank, node.id)
        node.set("involved_dim", new)


STEP = Step("involved-dimensions", ("A17",), involve_dimensions)
