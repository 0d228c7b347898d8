"""Compressed traces become plain ones."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step


def decompress(draft: Draft, log: Log) -> None:
    """Write traces that are compressed by gzip as plain files.

    ASTRA-sim takes the compressed bytes for nodes.
    """
    for rank in draft.compressed:
        log.add("decompressed", "ASTRA-sim does not read gzip", rank)


STEP = Step("compressed-traces", ("F09",), decompress)
