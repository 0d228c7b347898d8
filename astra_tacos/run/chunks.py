"""The number of chunks into which ASTRA-sim cuts a native collective; each chunk is a stream (`system/Sys.cc`)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from astra_tacos.errors import ConfigError


class SplitSystem(Protocol):
    """What cutting asks of the system JSON; `SystemConfig` has it."""

    @property
    def source(self) -> str:
        """Name of the system file, for errors."""

    @property
    def preferred_dataset_splits(self) -> int | None:
        """`preferred-dataset-splits`, if the file has it."""


def cut_into_chunks(pattern: str, size_bytes: int, num_npus: int, system: SplitSystem) -> tuple[int, int]:
    """Size and number of chunks (`Sys::determine_chunk_size`); the last is as large as the others, whatever is left for it.

    Parameters
    ----------
    pattern
        Key in the system JSON.
    size_bytes
        Of the collective.
    num_npus
        Of the network, also in a communicator group of fewer.
    system
        The system JSON.

    Raises
    ------
    ConfigError
        Where ASTRA-sim stops, stalls or never ends.
    """
    splits = system.preferred_dataset_splits
    if splits is None or splits < 1:
        found = "missing" if splits is None else str(splits)
        raise ConfigError(f"{system.source}: preferred-dataset-splits is {found}, where ASTRA-sim stops; expected 1 or more")
    chunk_bytes = size_bytes // splits
    if pattern != "all-gather" and chunk_bytes < num_npus:
        return num_npus, splits
    if chunk_bytes < 1:
        outcome = "never ends" if size_bytes else "stalls"
        raise ConfigError(
            f"{system.source}: preferred-dataset-splits is {splits}, with which ASTRA-sim {outcome} in an all-gather of "
            f"{size_bytes} bytes; expected a byte per split or more"
        )
    return chunk_bytes, -(-size_bytes // chunk_bytes)


def count_chunks(pattern: str, size_bytes: NDArray[np.int64], num_npus: int, system: SplitSystem) -> NDArray[np.int64]:
    """int64[len(size_bytes)], chunks of native collectives of one pattern; 0 for those that `cut_into_chunks` refuses.

    Parameters
    ----------
    pattern
        Pattern of the collectives.
    size_bytes
        int64[n], their sizes.
    num_npus
        Number of NPUs that take part.
    system
        Settings of the system.
    """
    sizes, which = np.unique(size_bytes, return_inverse=True)
    counts = np.zeros(len(sizes), np.int64)
    for entry, size in enumerate(sizes.tolist()):
        try:
            counts[entry] = cut_into_chunks(pattern, size, num_npus, system)[1]
        except ConfigError:
            continue
    return counts[which.reshape(-1)]
