"""MSCCL XML as a `Program`: thread blocks keep program order, connections match first in, first out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.verifier.layout import Layout
from astra_tacos.verifier.msccl_file import STEP_TYPES, MscclFile
from astra_tacos.verifier.msccl_places import outside_buffers, overlapping, step_locations
from astra_tacos.verifier.msccl_rules import dependency_rows
from astra_tacos.verifier.program_form import NOWHERE, Action, Alike, Buffers, Program, match_messages
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
"""Actions of each step type, with source and destination; `own` is the step's own place, as `rrs` stores nothing."""


def msccl_program(file: MscclFile, layout: Layout) -> tuple[Program, list[Violation]]:
    """The program of a file for one placement of its buffers, and violations of its connections, places and copies."""
    rows = np.arange(file.num_steps)
    same_block = file.block_of[1:] == file.block_of[:-1]
    target = dependency_rows(file)
    waiting = np.flatnonzero(target >= 0)
    outside = list(outside_buffers(file, layout))
    src, dst, own_places = [np.full(file.num_steps, NOWHERE, np.int64)] * 3 if outside else step_locations(file, layout)
    op, kind, at_src, at_dst = _actions(file, {_SRC: src, _DST: dst, _OWN: own_places})
    block = file.block_of[op]
    peers = np.array([(b.send, b.recv, b.channel) for b in file.blocks], np.int64).reshape(-1, 3)
    peer = np.where(kind == Action.SEND, peers[block, 0], peers[block, 1])
    ends, violations = _match(file, op, kind, peer, peers[block, 2])
    violations += outside or [*overlapping(file, layout), *_idle_copies(file, layout)]
    program = Program(
        num_ranks=file.num_npus,
        op_rank=file.step_npu,
        describe=file.describe,
        before=np.concatenate((rows[:-1][same_block], target[waiting])),
        after=np.concatenate((rows[1:][same_block], waiting)),
        action_op=op,
        action_kind=kind,
        action_src=at_src,
        action_dst=at_dst,
        action_count=file.cnt[op] * layout.grain,
        action_peer=peer,
        message_send=ends[0],
        message_recv=ends[1],
        alike=Alike(),
        adds_commute=False,
        buffers=None if outside else Buffers(layout.stride, layout.regions),
    )
    return program, violations


def _idle_copies(file: MscclFile, layout: Layout) -> Iterator[Violation]:
    """Violations for `copy` elements that would have to move data, as executors skip elements that they do not know."""
    for npu, source, target in file.copies.tolist():
        if layout.place(npu, "i") + source * layout.grain != layout.place(npu, "o") + target * layout.grain:
            message = f"gpu {npu}: copy of input chunk {source} to output chunk {target} is skipped by executors; use a cpy step"
            yield Violation("copy-skipped", message, npu=npu)


def _actions(file: MscclFile, location: dict[str, Ints]) -> tuple[Ints, ...]:
    """int64[num_actions] each: operation, kind, source and destination of every action, sorted by operation."""
    parts: list[tuple[Ints, ...]] = []
    for number, name in enumerate(STEP_TYPES):
        rows = np.flatnonzero(file.kind == number)
        for action, src, dst in _RECIPES[name]:
            nowhere = np.full(len(rows), NOWHERE, np.int64)
            ends = (location[end][rows] if end else nowhere for end in (src, dst))
            parts.append((rows, np.full(len(rows), action, np.int64), *ends))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(column[order] for column in columns)


def _match(file: MscclFile, op: Ints, kind: Ints, peer: Ints, channel: Ints) -> tuple[tuple[Ints, Ints], list[Violation]]:
    """The two actions of each message, and violations for actions without a counterpart or with one of another size."""
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
