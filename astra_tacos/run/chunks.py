"""The number of chunks into which ASTRA-sim cuts a native collective; each chunk is a stream (`system/Sys.cc`)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError


class SplitSystem(Protocol):
    """The settings of a system JSON that the number of chunks depends on; `SystemConfig` has them."""

    @property
    def source(self) -> str:
        """Name of the system file, for errors."""

    @property
    def preferred_dataset_splits(self) -> int | None:
        """`preferred-dataset-splits`, if the file has it."""


def cut_into_chunks(pattern: str, size_bytes: int, num_npus: int, system: SplitSystem) -> tuple[int, int]:
    """Size in bytes and number of chunks (`Sys::determine_chunk_size`). The last one has this size even if fewer bytes are left.

    Parameters
    ----------
    pattern
        Pattern of the collective, as the system JSON names it.
    size_bytes
        Size of the collective.
    num_npus
        Number of NPUs of the network, also for a communicator group of fewer.
    system
        Settings of the system JSON.

    Raises
    ------
    ConfigError
        If ASTRA-sim would stop, stall or never end.
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
        Pattern of the collectives, as the system JSON names it.
    size_bytes
        int64[n], sizes of the collectives.
    num_npus
        Number of NPUs of the network.
    system
        Settings of the system JSON.
    """
    sizes, which = np.unique(size_bytes, return_inverse=True)
    counts = np.zeros(len(sizes), np.int64)
    for entry, size in enumerate(sizes.tolist()):
        try:
            counts[entry] = cut_into_chunks(pattern, size, num_npus, system)[1]
        except ConfigError:
            continue
    return counts[which.reshape(-1)]
