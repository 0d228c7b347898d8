"""`doubleBinaryTree`: a chunk is reduced up a binary tree and broadcast down it (`DoubleBinaryTreeAllReduce.cc`)."""

from __future__ import annotations

import numpy as np

from astra_tacos.replayer.native.assembly import Phase, PhaseRequest, Role
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

_COMP, _SEND, _RECV = NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV

# Nodes of a role: kind (of a message or reduction), peer of a message, rows that it waits for.
_REDUCE = -1
_Row = tuple[int, str, tuple[int, ...]]
_LEAF: tuple[_Row, ...] = ((_COMP, "", ()), (_SEND, "up", (0,)), (_RECV, "up", (0,)), (_COMP, "", (2,)))
_INNER: tuple[_Row, ...] = (
    (_RECV, "left", ()),
    (_RECV, "right", ()),
    (_COMP, "", (0,)),
    (_REDUCE, "", (2,)),
    (_COMP, "", (1,)),
    (_REDUCE, "", (4,)),
    (_SEND, "up", (3, 5)),
    (_RECV, "up", (3, 5)),
    (_COMP, "", (7,)),
    (_REDUCE, "", (8,)),
    (_SEND, "left", (9,)),
    (_SEND, "right", (9,)),
)
_ROOT: tuple[_Row, ...] = ((_RECV, "left", ()), (_COMP, "", (0,)), (_REDUCE, "", (1,)), (_SEND, "left", (2,)))


def double_binary_tree(request: PhaseRequest) -> Phase:
    """Reduce the whole chunk up a binary tree to its root, then broadcast it down the tree.

    ASTRA-sim does so for every pattern, not for All-Reduce only. In one tree the root is the last member, and the others form an
    in-order complete tree below it (`BinaryTree.cc`). In the other tree the root is member 0, and all other members have moved up
    by one. The phases of a dimension alternate between the two.

    Raises
    ------
    ConfigError
        For a number of NPUs that is not a power of 2, and for communicator groups of some NPUs, where ASTRA-sim crashes; and as
        in `PhaseRequest.check`.
    """
    num_members = request.num_members
    if request.sub_group:
        raise ConfigError(f"{request.title}, some of the network's: ASTRA-sim crashes; expected all NPUs or ring")
    if num_members & (num_members - 1):
        raise ConfigError(f"{request.title}: ASTRA-sim crashes; expected a power of 2")
    request.check(len(_INNER) * num_members, np.array([request.size_bytes]))
    # Places in the tree are numbered in order from 1: half the lowest set bit of a place is the distance to its children.
    place = np.arange(1, num_members)
    height = place & -place
    above = np.where(place & (2 * height), place - height, place + height)
    top = num_members // 2
    above[top - 1] = num_members

    def at(places: Ints) -> Ints:
        return (places - (not request.other_tree)) % num_members

    leaf, inner = place[height == 1], place[height > 1]
    below = height[inner - 1] // 2
    roles = [
        _role(request, at(leaf), _LEAF, {"up": at(above[leaf - 1])}),
        _role(request, at(np.array([num_members])), _ROOT, {"left": at(np.array([top]))}),
    ]
    if len(inner):
        peers = {"up": at(above[inner - 1]), "left": at(inner - below), "right": at(inner + below)}
        roles.append(_role(request, at(inner), _INNER, peers))
    return Phase(tuple(roles), request.size_bytes)


def _role(request: PhaseRequest, member: Ints, rows: tuple[_Row, ...], peers: dict[str, Ints]) -> Role:
    reduction_ns = int(request.reduction_ns(np.array([request.size_bytes]))[0])
    delay_ns = {_COMP: request.endpoint_ns, _REDUCE: reduction_ns}
    kind = np.array([_COMP if row[0] == _REDUCE else row[0] for row in rows], np.uint8)
    absent = np.full(len(member), ABSENT, np.int64)
    return Role(
        member=member,
        kind=kind,
        delay_ns=np.array([delay_ns.get(row[0], 0) for row in rows], np.int64),
        size_bytes=np.where(kind == _COMP, 0, request.size_bytes),
        pool=np.full(len(rows), ABSENT, np.int64),
        peer=np.stack([peers[row[1]] if row[1] else absent for row in rows], axis=1),
        dep_first=np.concatenate(([0], np.cumsum([len(row[2]) for row in rows]))),
        dep=np.array([dep for row in rows for dep in row[2]], np.int64),
        last=int(np.flatnonzero(kind == _COMP)[-1]),
    )
