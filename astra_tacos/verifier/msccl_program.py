"""MSCCL XML as a `Program`: thread blocks keep program order, connections match first in, first out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.verifier.messages import match_messages
from astra_tacos.verifier.msccl_file import BUFFERS, STEP_TYPES, MscclFile
from astra_tacos.verifier.msccl_rules import NOP, dependency_rows
from astra_tacos.verifier.program_form import NOWHERE, Action, Buffers, Program
from astra_tacos.verifier.violation import Violation

_SRC, _DST, _OWN = "src", "dst", "own"
_RECIPES: dict[str, tuple[tuple[Action, str | None, str | None], ...]] = {
    "s": ((Action.SEND, _SRC, None),),
    "r": ((Action.RECV, None, _DST),),
    "rcs": ((Action.RECV, None, _DST), (Action.SEND, _DST, None)),
    "rrc": ((Action.RECV_REDUCE, _SRC, _DST),),
    "rrs": ((Action.RECV_REDUCE, _SRC, _OWN), (Action.SEND, _OWN, None)),
    "rrcs": ((Action.RECV_REDUCE, _SRC, _DST), (Action.SEND, _DST, None)),
    "cpy": ((Action.COPY, _SRC, _DST),),
    "re": ((Action.REDUCE, _SRC, _DST),),
    "nop": (),
}
"""What each step type does from where to where; `own` is a place of the step's own, since `rrs` stores nothing."""


def msccl_program(file: MscclFile, *, in_place: bool) -> tuple[Program, list[Violation]]:
    """A file's program for one placement of its buffers, and what is wrong with its connections."""
    rows = np.arange(file.num_steps)
    same_block = file.block_of[1:] == file.block_of[:-1]
    target = dependency_rows(file)
    waiting = np.flatnonzero(target >= 0)
    buffers, location = _locations(file, in_place=in_place)
    op, kind, src, dst = _actions(file, location)
    block = file.block_of[op]
    peers = np.array([(b.send, b.recv, b.channel) for b in file.blocks], np.int64).reshape(-1, 3)
    peer = np.where(kind == Action.SEND, peers[block, 0], peers[block, 1])
    npu = file.step_npu
    ends, violations = _match(file, op, kind, peer, peers[block, 2])
    program = Program(
        num_ranks=file.num_npus,
        op_rank=npu,
        describe=file.describe,
        before=np.concatenate((rows[:-1][same_block], target[waiting])),
        after=np.concatenate((rows[1:][same_block], waiting)),
        action_op=op,
        action_kind=kind,
        action_src=src,
        action_dst=dst,
        action_count=file.cnt[op],
        action_peer=peer,
        message_send=ends[0],
        message_recv=ends[1],
        alike_first=np.empty(0, np.int64),
        alike_second=np.empty(0, np.int64),
        adds_commute=False,
        buffers=buffers,
    )
    return program, violations


def _locations(file: MscclFile, *, in_place: bool) -> tuple[Buffers | None, dict[str, NDArray[np.int64]]]:
    """Buffers, and the source, destination and own location of every step; without buffers if they make no sense."""
    nowhere = dict.fromkeys((_SRC, _DST, _OWN), np.full(file.num_steps, NOWHERE, np.int64))
    shard, rest = divmod(file.num_chunks, file.num_npus)
    if file.collective is None or (rest and file.collective != "all-reduce"):
        return None, nowhere
    whole = file.num_chunks
    size = {
        "i": shard if file.collective == "all-gather" else whole,
        "o": shard if file.collective == "reduce-scatter" else whole,
        "s": int(file.buffer_chunks[:, 2].max()),
    }
    npu = file.step_npu
    output_at = 0 if in_place else size["i"]
    begin = {"i": np.zeros_like(npu), "o": np.full_like(npu, output_at)}
    begin["s"] = np.full_like(npu, whole if in_place else size["i"] + size["o"])
    if in_place:
        # The smaller buffer is the part of the larger one that belongs to the rank.
        smaller = {"all-gather": "i", "reduce-scatter": "o"}.get(file.collective)
        if smaller:
            begin[smaller] = npu * shard
    own = int(begin["s"][0] if len(npu) else 0) + size["s"]
    stride = own + int(np.where(file.kind == STEP_TYPES.index("rrs"), file.cnt, 0).clip(0).sum())
    used = file.kind != NOP
    locations = {_OWN: npu * stride + own + np.cumsum(file.cnt) - file.cnt}
    for name, buffer, offset in ((_SRC, file.srcbuf, file.srcoff), (_DST, file.dstbuf, file.dstoff)):
        room = np.array([size[name] for name in BUFFERS])[buffer]
        if np.any(used & ((offset < 0) | (file.cnt < 1) | (offset + file.cnt > room))):
            return None, nowhere
        locations[name] = npu * stride + np.stack([begin[name] for name in BUFFERS])[buffer, np.arange(len(npu))] + offset
    return Buffers(whole, stride, output_at, in_place), locations


def _actions(file: MscclFile, location: dict[str, NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
    """Operation, kind, source and destination of every action, by operation."""
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for number, name in enumerate(STEP_TYPES):
        rows = np.flatnonzero(file.kind == number)
        for action, src, dst in _RECIPES[name]:
            nowhere = np.full(len(rows), NOWHERE, np.int64)
            ends = (location[end][rows] if end else nowhere for end in (src, dst))
            parts.append((rows, np.full(len(rows), action, np.int64), *ends))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(column[order] for column in columns)


def _match(
    file: MscclFile, op: NDArray[np.int64], kind: NDArray[np.int64], peer: NDArray[np.int64], channel: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], list[Violation]]:
    """Actions that belong together, and violations for those without a counterpart or of another size."""
    npu = file.step_npu[op]
    sends = np.flatnonzero(kind == Action.SEND)
    recvs = np.flatnonzero((kind == Action.RECV) | (kind == Action.RECV_REDUCE))
    send, recv = match_messages(
        (npu[sends], peer[sends], channel[sends]), op[sends], (peer[recvs], npu[recvs], channel[recvs]), op[recvs]
    )
    violations = []
    for code, rows, matched, other in (("unmatched-send", sends, send, "receive"), ("unmatched-recv", recvs, recv, "send")):
        for action in np.delete(rows, matched).tolist():
            message = f"{file.describe(int(op[action]))}: no {other} at gpu {peer[action]} in channel {channel[action]}"
            violations.append(Violation(code, message, npu=int(npu[action])))
    send, recv = sends[send], recvs[recv]
    for pair in np.flatnonzero(file.cnt[op[send]] != file.cnt[op[recv]]).tolist():
        first, second = int(op[send[pair]]), int(op[recv[pair]])
        message = f"{file.describe(first)} sends {file.cnt[first]} chunks, {file.describe(second)} expects {file.cnt[second]}"
        violations.append(Violation("size-mismatch", message, npu=int(npu[send[pair]])))
    return (send, recv), violations
