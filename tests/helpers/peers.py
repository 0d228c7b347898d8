"""Files that others made: not part of the repository, read where they are."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ASTRA_TACOS_PEERS"
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "peers"


def peers(*kinds: str) -> tuple[list[Path], str]:
    """Files that match a pattern below the directory of peers, and why there are none.

    The directory is `$ASTRA_TACOS_PEERS`, or `../shared/peers` beside the checkout.
    """
    directory = Path(os.environ.get(VARIABLE) or _BESIDE)
    found = sorted(path for kind in kinds for path in directory.glob(kind))
    return found, "" if found else f"NOT TESTED on files of others: set {VARIABLE} to a directory that has {', '.join(kinds)}"
