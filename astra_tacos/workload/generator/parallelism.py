"""Parallelism of training: rank numbers, coordinates, and the groups that communicate.

Four axes number the ranks. `tp` shards matrices and `pp` layers. `dp` ranks train on different data, and groups of `ep` of them
share the experts, so the data-parallel ranks lie on two axes: `ep`, and the dp / ep copies of the experts (also called `dp`).
Parameters outside the experts are copied over both axes, experts over the second one only (as in Megatron Core).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from astra_tacos.run.placement_matrix import Axis, npu_of_rank
from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

AXES = ("tp", "ep", "dp", "pp")


class GroupKind(IntEnum):
    """The kinds of groups that communicate."""

    TENSOR = 0
    DATA = 1
    EXPERT = 2
    EXPERT_DATA = 3


_VARYING = {
    GroupKind.TENSOR: ("tp",),
    GroupKind.DATA: ("ep", "dp"),
    GroupKind.EXPERT: ("ep",),
    GroupKind.EXPERT_DATA: ("dp",),
}
"""Axes along which the members of a group differ."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Degrees of parallelism, and the order of ranks.

    Parameters
    ----------
    dp, tp, pp, ep
        Degrees of data, tensor, pipeline and expert parallelism: copies of the model, shards of a matrix, pipeline stages, and
        the number of copies that divide the experts among them.
    order
        The axes, sorted from the one whose coordinate varies fastest with the rank.
    placement
        How many parts of an axis lie within each level of the network, outermost first, for each axis of more than one part, as
        in P2 (`run.placement_matrix`); none if the order alone says where ranks are.

    Raises
    ------
    ConfigError
        If there are fewer than 2 ranks, ep does not divide dp, `order` does not name each axis, or the
        placement has not the degree of each axis.

    Examples
    --------
    >>> from astra_tacos import Parallelism
    >>> Parallelism(dp=2, tp=4, pp=2).num_ranks
    16
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    order: tuple[str, ...] = AXES
    placement: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("dp", "tp", "pp", "ep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: found {getattr(self, name)}, expected 1 or more")
        if self.num_ranks < 2:
            raise ConfigError("dp x tp x pp: found 1 rank, expected 2 or more")
        if self.dp % self.ep:
            raise ConfigError(f"ep: found {self.ep}, expected a divisor of dp, which is {self.dp}")
        if sorted(self.order) != sorted(AXES):
            raise ConfigError(f"order: found {','.join(self.order)}, expected each of {','.join(AXES)} once (ep may be left out)")
        if self.placement:
            self._check_placement()

    def _check_placement(self) -> None:
        rows = dict(self.placement)
        wrong = [axis for axis in rows if axis not in AXES]
        wrong += [axis for axis in AXES if math.prod(rows.get(axis, (1,))) != self.size(axis)]
        if wrong or len({len(row) for row in rows.values()}) > 1:
            placement = ",".join(f"{axis}:{'x'.join(map(str, row))}" for axis, row in self.placement)
            sizes = ", ".join(f"{axis} {self.size(axis)}" for axis in AXES)
            raise ConfigError(f"placement: found {placement}, expected as many levels for each axis, and in all {sizes}")

    @property
    def levels(self) -> tuple[int, ...]:
        """Sizes of the levels that the placement makes, outermost first; none without a placement."""
        return tuple(math.prod(column) for column in zip(*(row for _, row in self.placement), strict=True))

    @property
    def npu(self) -> Ints:
        """int64[num_ranks], where each rank is, numbered by `order`: its number in the files."""
        if not self.placement:
            return np.arange(self.num_ranks)
        axes = tuple(Axis(name, self.size(name), self.stride[name]) for name, _ in self.placement)
        return npu_of_rank(tuple(row for _, row in self.placement), axes)

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.dp * self.tp * self.pp

    @property
    def expert_copies(self) -> int:
        """Number of copies of each expert."""
        return self.dp // self.ep

    @property
    def stride(self) -> dict[str, int]:
        """For each axis, the distance of two ranks whose coordinates differ by 1."""
        sizes = [self.size(axis) for axis in self.order]
        return {axis: math.prod(sizes[:place]) for place, axis in enumerate(self.order)}

    def size(self, axis: str) -> int:
        """Degree of an axis."""
        return {"tp": self.tp, "ep": self.ep, "dp": self.expert_copies, "pp": self.pp}[axis]

    def coordinate(self, axis: str) -> Ints:
        """int64[num_ranks], coordinate of each rank along an axis."""
        return np.arange(self.num_ranks) // self.stride[axis] % self.size(axis)

    def lane(self) -> Ints:
        """int64[num_ranks], number of each rank in its stage; activations go between ranks of equal number (a lane)."""
        lane = np.zeros(self.num_ranks, np.int64)
        width = 1
        for axis in ("tp", "ep", "dp"):
            lane += width * self.coordinate(axis)
            width *= self.size(axis)
        return lane

    def group_size(self, kind: GroupKind) -> int:
        """Number of ranks of each group of a kind."""
        return math.prod(self.size(axis) for axis in _VARYING[kind])

    def first_of_group(self, kind: GroupKind) -> Ints:
        """int64[num_ranks], the first rank of each rank's group of a kind."""
        first = np.arange(self.num_ranks)
        for axis in _VARYING[kind]:
            first -= self.coordinate(axis) * self.stride[axis]
        return first

    def groups_of(self, kind: GroupKind) -> list[list[int]]:
        """The ranks of all groups of a kind. Ranks of a group ascend, and groups are sorted by their first rank."""
        first = self.first_of_group(kind)
        return [np.flatnonzero(first == first_rank).tolist() for first_rank in np.unique(first).tolist()]


def axis_order(text: str) -> tuple[str, ...]:
    """Parse an order such as `tp,ep,dp,pp`; if ep is left out, it comes right before dp."""
    axes = [axis.strip().lower() for axis in text.split(",")]
    if "ep" not in axes and "dp" in axes:
        axes.insert(axes.index("dp"), "ep")
    return tuple(axes)


@dataclass(frozen=True, slots=True)
class Groups:
    """The communicator groups of a run.

    Parameters
    ----------
    members
        Ranks of each group by its id, 1 or more, for the communicator group JSON.
    of_rank
        int64[num_kinds, num_ranks], id of each rank's group of a `GroupKind`; 0 if groups of the kind are not used. Ranks are
        numbered by the order of axes, wherever they are placed.
    """

    members: dict[int, list[int]]
    of_rank: Ints


def number_groups(parallelism: Parallelism, used: set[GroupKind], ranks: Ints | None = None) -> Groups:
    """Number the groups of the used kinds; groups of the same ranks get one id.

    With `ranks` only the groups of these ranks are numbered, in the order in which the ranks come.
    """
    members: dict[int, list[int]] = {}
    ids: dict[tuple[int, ...], int] = {}
    of_rank = np.zeros((len(GroupKind), parallelism.num_ranks), np.int64)
    npu = parallelism.npu
    for kind in sorted(used):
        first = parallelism.first_of_group(kind)
        for first_rank in dict.fromkeys((first if ranks is None else first[ranks]).tolist()):
            inside = first == first_rank
            places = sorted(npu[inside].tolist())
            number = ids.setdefault(tuple(places), len(ids) + 1)
            members[number] = places
            of_rank[kind, inside] = number
    return Groups(members, of_rank)
