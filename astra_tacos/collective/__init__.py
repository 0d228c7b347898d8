"""Collectives by the name that the command line gives them."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.collective.all_gather import all_gather
from astra_tacos.collective.all_reduce import all_reduce
from astra_tacos.collective.broadcast import broadcast
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.reduce import reduce
from astra_tacos.collective.reduce_scatter import reduce_scatter
from astra_tacos.errors import ConfigError

COLLECTIVES: dict[str, Callable[..., Collective]] = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "broadcast": broadcast,
    "reduce": reduce,
}
"""Functions of (number of NPUs, bytes, chunks per NPU); those in `ROOTED` take a `root`, too."""
ROOTED = frozenset({"broadcast", "reduce"})


def make_collective(name: str, num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int | None = None) -> Collective:
    """The collective of that name in `COLLECTIVES`; `root` is for those that have one, 0 if it is None.

    Raises
    ------
    ConfigError
        If there is no such collective or it has no root, or what the collective itself refuses.
    """
    if name not in COLLECTIVES:
        raise ConfigError(f"collective: found {name!r}, expected {', '.join(COLLECTIVES)}")
    if name in ROOTED:
        return COLLECTIVES[name](num_npus, size_bytes, chunks_per_npu, root=root or 0)
    if root is not None:
        raise ConfigError(f"{name}: found root {root}, but only {' and '.join(sorted(ROOTED))} have a root")
    return COLLECTIVES[name](num_npus, size_bytes, chunks_per_npu)


def cut_into(collective: Collective, chunks_per_npu: int) -> Collective:
    """The same collective in another number of chunks.

    Raises
    ------
    ConfigError
        If there are fewer bytes than chunks.
    """
    return make_collective(collective.name, collective.num_npus, collective.size_bytes, chunks_per_npu, collective.root)
