"""An interpreter of MSCCL XML with numbers in real buffers, thread blocks in random turns: the slow twin of the oracle.

It follows the executors' kernel (Azure/msccl-executor-nccl, `src/device/msccl_kernel.cu`): thread blocks run their steps in turn,
a dependency waits until the other thread block has announced that step or a later one, messages of a connection are taken in the
order in which they were sent. It shares no code with the oracle and looks at the file itself.
"""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import numpy as np

_RECEIVES = ("r", "rcs", "rrc", "rrs", "rrcs")
_SENDS = ("s", "rcs", "rrs", "rrcs")


class _Hangs(Exception):
    """No thread block can go on."""


def computes_its_collective(path: Path, seed: int, root: int = 0) -> bool:
    """Whether one run, in an order drawn from `seed`, ends and leaves the right numbers in the output buffers."""
    algo = ElementTree.parse(path).getroot()
    values = np.random.default_rng(seed)
    placements = [True] if algo.get("inplace") != "0" else []
    placements += [False] if algo.get("outofplace", "1" if not placements else "0") != "0" else []
    return all(_run(algo, in_place, values, Random(seed), root) for in_place in placements)


def _run(algo: ElementTree.Element, in_place: bool, values: np.random.Generator, turns: Random, root: int) -> bool:
    coll, ngpus, nchunks = algo.attrib["coll"].replace("_", ""), int(algo.attrib["ngpus"]), int(algo.attrib["nchunksperloop"])
    by_part = coll in ("gather", "scatter")
    # Elements of a chunk: any number for which every rank's part has a whole number of elements.
    per_chunk = ngpus
    whole = nchunks * per_chunk * (ngpus if by_part else 1)
    part = whole // ngpus
    sizes = {
        "i": part if coll in ("allgather", "gather") else whole,
        "o": part if coll in ("reducescatter", "scatter") else whole,
    }
    memory: list[dict[str, np.ndarray]] = []
    inputs = []
    for rank in range(ngpus):
        scratch = max(int(gpu.attrib["s_chunks"]) for gpu in algo.iter("gpu")) * per_chunk
        all_of = values.integers(1, 1 << 40, whole)
        one = {"i": all_of[: sizes["i"]], "o": values.integers(1, 1 << 40, sizes["o"])}
        if in_place:
            for name in "io":
                own = sizes[name] < whole
                one[name] = all_of[rank * part : (rank + 1) * part] if own else all_of
        one["s"] = values.integers(1, 1 << 40, scratch)
        inputs.append(one["i"].copy())
        memory.append(one)
    try:
        _interpret(algo, memory, per_chunk, turns)
    except (_Hangs, IndexError, KeyError, ValueError):
        return False
    return all(np.array_equal(memory[rank]["o"], expected) for rank, expected in _expected(coll, inputs, part, root).items())


def _expected(coll: str, inputs: list[np.ndarray], part: int, root: int) -> dict[int, np.ndarray]:
    """What must be in the output buffers in the end, by rank."""
    ranks = range(len(inputs))
    cut = [slice(rank * part, (rank + 1) * part) for rank in ranks]
    match coll:
        case "allreduce":
            return dict.fromkeys(ranks, sum(inputs))
        case "reduce":
            return {root: sum(inputs)}
        case "reducescatter":
            return {rank: sum(inputs)[cut[rank]] for rank in ranks}
        case "allgather":
            return dict.fromkeys(ranks, np.concatenate(inputs))
        case "gather":
            return {root: np.concatenate(inputs)}
        case "alltoall":
            return {rank: np.concatenate([one[cut[rank]] for one in inputs]) for rank in ranks}
        case "scatter":
            return {rank: inputs[root][cut[rank]] for rank in ranks}
        case _:
            return dict.fromkeys(ranks, inputs[root])


def _interpret(algo: ElementTree.Element, memory: list[dict[str, np.ndarray]], per_chunk: int, turns: Random) -> None:
    """Run all thread blocks to their ends, in turns of some steps each. Raises where executors would hang or fail."""
    blocks = {(int(gpu.attrib["id"]), int(tb.attrib["id"])): tb for gpu in algo.iter("gpu") for tb in gpu.iter("tb")}
    queue: dict[tuple[int, int, int], deque[np.ndarray]] = defaultdict(deque)
    announced = dict.fromkeys(blocks, -1)
    steps = {key: list(tb) for key, tb in blocks.items()}
    at = dict.fromkeys(blocks, 0)
    ready = [key for key in blocks if steps[key]]
    while ready:
        turns.shuffle(ready)
        moved = False
        for key in list(ready):
            # Some go far, others wait: orders that differ much.
            for _ in range(turns.choice((0, 1, 1, 3, 64))):
                if at[key] == len(steps[key]) or not _can_go(key, steps[key][at[key]], blocks[key], queue, announced):
                    break
                _do(key, steps[key][at[key]], blocks[key], queue, memory[key[0]], per_chunk)
                if steps[key][at[key]].attrib["hasdep"] == "1" and steps[key][at[key]].attrib["type"] != "nop":
                    announced[key] = at[key]
                at[key] += 1
                moved = True
        ready = [key for key in ready if at[key] < len(steps[key])]
        if not moved and not any(_can_go(key, steps[key][at[key]], blocks[key], queue, announced) for key in ready) and ready:
            raise _Hangs
    if any(queue.values()):
        raise ValueError  # the next collective on that connection would receive it


def _can_go(key, step, tb, queue, announced) -> bool:
    depid = int(step.attrib["depid"])
    if depid >= 0 and announced[key[0], depid] < int(step.attrib["deps"]):
        return False
    return step.attrib["type"] not in _RECEIVES or bool(queue[int(tb.attrib["recv"]), key[0], int(tb.attrib["chan"])])


def _do(key, step, tb, queue, memory, per_chunk) -> None:
    kind, count = step.attrib["type"], int(step.attrib["cnt"]) * per_chunk
    if kind == "nop":
        return
    rank, channel = key[0], int(tb.attrib["chan"])

    def place(name: str) -> np.ndarray:
        first = int(step.attrib[f"{name}off"]) * per_chunk
        buffer = memory[step.attrib[f"{name}buf"]]
        if first < 0 or first + count > len(buffer):
            raise IndexError
        return buffer[first : first + count]

    if kind in _RECEIVES:
        data = queue[int(tb.attrib["recv"]), rank, channel].popleft()
        if len(data) != count:
            raise ValueError
        if kind.startswith("rr"):
            data = data + place("src")
        if kind != "rrs":
            place("dst")[:] = data
    elif kind == "re":
        place("dst")[:] = place("dst") + place("src")
    else:
        data = place("src").copy()
        if kind == "cpy":
            place("dst")[:] = data
    if kind in _SENDS:
        queue[rank, int(tb.attrib["send"]), channel].append(data.copy())
