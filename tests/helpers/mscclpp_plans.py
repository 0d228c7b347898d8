"""Small MSCCL++ execution plans."""

from __future__ import annotations

from typing import Any

Op = dict[str, Any]


def local(buffer: str, index: int, size: int = 1) -> Op:
    return {"type": buffer, "index": index, "size": size}


def remote(buffer_id: int, index: int, size: int = 1) -> Op:
    return {"buffer_id": buffer_id, "index": index, "size": size}


def op(name: str, sources: list[Op] | None = None, targets: list[Op] | None = None, **more: Any) -> Op:
    found: Op = {"name": name}
    if sources is not None:
        found |= {"src_buff": sources, "dst_buff": targets or []}
    return found | more


NOP = op("nop")


def sync(name: str, *channels: int, kind: str = "memory") -> Op:
    return op(name, channel_ids=list(channels), channel_type=kind)


def plan(
    coll: str,
    chunks: tuple[int, int, int],
    blocks: list[list[list[Op]]],
    *,
    kind: str = "memory",
    buffer: str = "i",
    in_place: bool = True,
    semaphores: int = 0,
) -> dict[str, Any]:
    """A plan whose thread block b of a rank has the b-th channel to every other rank, and their buffers; `blocks[rank][b]`."""
    num = len(blocks)
    gpus = []
    for rank in range(num):
        peers = [peer for peer in range(num) if peer != rank]
        own = []
        for number, ops in enumerate(blocks[rank]):
            ids = [at * len(blocks[rank]) + number for at in range(len(peers))]
            channels = [{"channel_type": kind, "channel_ids": ids}]
            refs = [{"access_channel_type": kind, "remote_buffer_ids": list(range(len(peers)))}]
            own.append({"id": number, "ops": ops, "channels": channels, "remote_buffer_refs": refs})
        gpus.append(
            {
                "id": rank,
                "input_chunks": chunks[0],
                "output_chunks": chunks[1],
                "scratch_chunks": chunks[2],
                "threadblocks": own,
                "channels": [{"channel_type": kind, "connected_to": [p for p in peers for _ in blocks[rank]]}],
                "remote_buffers": [{"rank": p, "type": buffer, "access_channel_types": [kind]} for p in peers],
                "semaphores": [{"init_value": 0}] * semaphores,
            }
        )
    return {"name": "test", "collective": coll, "protocol": "Simple", "inplace": in_place, "gpus": gpus}


def all_gather(num: int, kind: str = "memory") -> dict[str, Any]:
    """Every rank puts its part into the output of all others, says so, and waits for theirs."""
    blocks = []
    for rank in range(num):
        others = range(num - 1)
        ids = list(others)
        put = op("put", [local("o", rank)] * (num - 1), [remote(k, rank) for k in others], channel_type=kind, channel_ids=ids)
        blocks.append([[put, NOP, sync("signal", *ids, kind=kind), sync("wait", *ids, kind=kind)]])
    return plan("allgather", (1, num, 0), blocks, kind=kind, buffer="o")


def all_reduce(num: int) -> dict[str, Any]:
    """Every rank reads its chunk from all others, adds, and puts the sum there."""
    blocks = []
    for rank in range(num):
        ids = list(range(num - 1))
        read = [local("i", rank), *(remote(k, rank) for k in ids)]
        add = op("rres", read, read, channel_type="memory", reduce_op="sum")
        blocks.append([[sync("signal", *ids), sync("wait", *ids), NOP, add, NOP, sync("signal", *ids), sync("wait", *ids)]])
    return plan("allreduce", (num, num, 0), blocks)


def two_blocks() -> dict[str, Any]:
    """An All-Gather of two ranks in which one thread block waits, and another one copies what has come."""
    blocks = []
    for rank in range(2):
        put = op("put", [local("i", 0)], [remote(0, 0)], channel_type="memory")
        first = [put, NOP, sync("signal", 0), sync("wait", 0), NOP, op("sem_release", semaphore_ids=[0])]
        second = [
            op("copy", [local("i", 0)], [local("o", rank)]),
            op("sem_acquire", semaphore_ids=[0]),
            NOP,
            op("copy", [local("s", 0)], [local("o", 1 - rank)]),
        ]
        blocks.append([first, second])
    return plan("allgather", (1, 2, 1), blocks, buffer="s", in_place=False, semaphores=1)


PLANS = {
    "all-gather": all_gather(3),
    "all-reduce": all_reduce(3),
    "two blocks": two_blocks(),
}
