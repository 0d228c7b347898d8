"""Plain MSCCL XML for every collective that the dialect names: pairs of GPUs talk directly, sums are made in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass, field

COLLS = ("allgather", "allreduce", "reducescatter", "alltoall", "broadcast", "reduce", "gather", "scatter")
BY_PART = ("gather", "scatter")
SHARDED = ("allgather", "reducescatter", "alltoall")


@dataclass
class Block:
    """A thread block: its peers and steps, each with the steps that it waits for."""

    send: int
    recv: int
    steps: list[tuple[str, str, int, str, int, int, list[tuple[int, int]]]] = field(default_factory=list)


class Gpu:
    """Thread blocks of one GPU; the first one is for local steps."""

    def __init__(self) -> None:
        self.blocks = [Block(-1, -1)]

    def add(
        self,
        kind: str,
        src: tuple[str, int],
        dst: tuple[str, int],
        count: int,
        peer: int = -1,
        after: list[tuple[int, int]] | None = None,
    ) -> tuple[int, int]:
        """Add a step after others (thread block, step); returns where it is."""
        at = 0
        if peer >= 0:
            ends = (peer, -1) if kind == "s" else (-1, peer)
            at = next((at for at, block in enumerate(self.blocks) if (block.send, block.recv) == ends), len(self.blocks))
            if at == len(self.blocks):
                self.blocks.append(Block(*ends))
        waits = [step for step in after or [] if step[0] != at]
        steps = self.blocks[at].steps
        for wait in waits[1:]:
            steps.append(("nop", "i", -1, "o", -1, 0, [wait]))
        steps.append((kind, *src, *dst, count, waits[:1]))
        return at, len(steps) - 1


def direct_program(coll: str, ngpus: int, part: int, *, in_place: bool, root: int = 0, name: str | None = None) -> str:
    """A program in which `part` chunks are those of one rank's part, or the whole buffer where a collective has no parts.

    `name` is what the file says that it computes, if that is something else.
    """
    gpus = [Gpu() for _ in range(ngpus)]
    ranks = range(ngpus)
    whole = part * ngpus if coll in SHARDED + BY_PART else part
    match coll:
        case "allgather" | "gather":
            for dst in ranks if coll == "allgather" else [root]:
                if not in_place:
                    gpus[dst].add("cpy", ("i", 0), ("o", dst * part), part)
                for src in ranks:
                    _move(gpus, src, dst, ("i", 0), ("o", src * part), part)
        case "scatter" | "broadcast":
            step = part if coll == "scatter" else 0
            if not in_place:
                gpus[root].add("cpy", ("i", root * step), ("o", 0), part)
            for dst in ranks:
                _move(gpus, root, dst, ("i", dst * step), ("o", 0), part)
        case "alltoall":
            for dst in ranks:
                own = gpus[dst]
                if not in_place:
                    own.add("cpy", ("i", dst * part), ("o", dst * part), part)
                for src in ranks:
                    if src == dst:
                        continue
                    sent = own.add("s", ("i", src * part), ("o", 0), part, peer=src)
                    got = own.add("r", ("i", 0), ("s" if in_place else "o", src * part), part, peer=src)
                    if in_place:
                        own.add("cpy", ("s", src * part), ("o", src * part), part, after=[got, sent])
        case "reducescatter":
            for dst in ranks:
                _reduce(gpus, dst, dst * part, ("o", 0), part, in_place)
        case _:
            done = _reduce(gpus, root, 0, ("o", 0), part, in_place)
            if coll == "allreduce":
                for dst in ranks:
                    if dst != root:
                        gpus[root].add("s", ("o", 0), ("o", 0), part, peer=dst, after=done)
                        gpus[dst].add("r", ("o", 0), ("o", 0), part, peer=root, after=[(_block(gpus[dst], root), 0)])
    chunks = part if coll in BY_PART else whole
    return _written(gpus, name or coll, chunks, whole, in_place)


def ring_all_reduce(ngpus: int) -> str:
    """An All-Reduce in place with fused steps: chunk c starts at GPU c, is summed on its way round, and goes round once more."""
    lines = [
        f'<algo name="ring" proto="LL" nchannels="{ngpus}" nchunksperloop="{ngpus}" ngpus="{ngpus}" coll="allreduce" inplace="1" '
        'outofplace="0" minBytes="0" maxBytes="0">'
    ]
    for rank in range(ngpus):
        lines.append(f'<gpu id="{rank}" i_chunks="{ngpus}" o_chunks="0" s_chunks="0">')
        for chunk in range(ngpus):
            place = (rank - chunk) % ngpus
            kinds = ("s" if place == 0 else "rrcs" if place == ngpus - 1 else "rrs", "r" if place == ngpus - 2 else "rcs")
            kinds = kinds[: 1 if place == ngpus - 1 else 2]
            ends = f'send="{(rank + 1) % ngpus}" recv="{(rank - 1) % ngpus}"'
            lines.append(f'<tb id="{chunk}" {ends} chan="{chunk}">')
            for s, kind in enumerate(kinds):
                lines.append(
                    f'<step s="{s}" type="{kind}" srcbuf="i" srcoff="{chunk}" dstbuf="i" dstoff="{chunk}" cnt="1" depid="-1" '
                    'deps="-1" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join((*lines, "</algo>"))


def _move(gpus: list[Gpu], src: int, dst: int, source: tuple[str, int], target: tuple[str, int], count: int) -> None:
    if src != dst:
        gpus[src].add("s", source, target, count, peer=dst)
        gpus[dst].add("r", source, target, count, peer=src)


def _block(gpu: Gpu, peer: int) -> int:
    return next(at for at, block in enumerate(gpu.blocks) if block.send == peer)


def _reduce(gpus: list[Gpu], dst: int, offset: int, target: tuple[str, int], count: int, in_place: bool) -> list[tuple[int, int]]:
    """Sum what all have at `offset` of their inputs into the output of `dst`; the last step of it."""
    done = [] if in_place else [gpus[dst].add("cpy", ("i", offset), target, count)]
    for src in range(len(gpus)):
        if src != dst:
            gpus[src].add("s", ("i", offset), target, count, peer=dst)
            done = [gpus[dst].add("rrc", target, target, count, peer=src, after=done)]
    return done


def _written(gpus: list[Gpu], coll: str, chunks: int, whole: int, in_place: bool) -> str:
    awaited = {(rank, *wait) for rank, gpu in enumerate(gpus) for block in gpu.blocks for step in block.steps for wait in step[6]}
    place = f'inplace="{int(in_place)}" outofplace="{int(not in_place)}"'
    lines = [
        f'<algo name="{coll}" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{coll}" '
        f'{place} minBytes="0" maxBytes="0">'
    ]
    for rank, gpu in enumerate(gpus):
        lines.append(f'<gpu id="{rank}" i_chunks="{whole}" o_chunks="{whole}" s_chunks="{whole}">')
        for number, block in enumerate(gpu.blocks):
            lines.append(f'<tb id="{number}" send="{block.send}" recv="{block.recv}" chan="0">')
            for s, (kind, srcbuf, srcoff, dstbuf, dstoff, count, waits) in enumerate(block.steps):
                depid, deps = waits[0] if waits else (-1, -1)
                lines.append(
                    f'<step s="{s}" type="{kind}" srcbuf="{srcbuf}" srcoff="{srcoff}" dstbuf="{dstbuf}" dstoff="{dstoff}" '
                    f'cnt="{count}" depid="{depid}" deps="{deps}" hasdep="{int((rank, number, s) in awaited)}"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join((*lines, "</algo>"))
