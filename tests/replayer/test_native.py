"""Native collectives: ASTRA-sim's own times to the nanosecond, well-formed programs, and refusals where ASTRA-sim fails."""

from __future__ import annotations

import heapq
import itertools
import re
from ast import literal_eval
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.damage import refusal
from helpers.examples import examples
from helpers.naive import naive_direct_delay, naive_route
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.replayer.collective_program import LocalKind
from astra_tacos.replayer.native import NATIVE_ALGORITHMS, NativeCollective, native_program
from astra_tacos.replayer.native.assembly import PATTERNS
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT

SYSTEM = SystemConfig("system.json", preferred_dataset_splits=1, collective_optimization="baseline", local_mem_bw_gbps=50.0)

# ---- Times of ASTRA-sim ----

ASTRA_SIM = """
aware R8 AR ring 1M = 96365
aware R8 AG ring 1M = 140297
aware R8 RS ring 1M = 75708
aware R8 A2A ring 1M = 82638
aware R8 AR direct 1M = 53331
aware R8 AG direct 1M = 196330
aware R8 RS direct 1M = 33293
aware R8 A2A direct 1M = 25430
aware R8 AR direct3 1M = 71037
aware R8 AG direct3 1M = 216871
aware R8 RS direct3 1M = 42166
aware R8 A2A direct3 1M = 28881
aware R8 AR halvingDoubling 1M = 89245
aware R8 AG halvingDoubling 1M = 237913
aware R8 RS halvingDoubling 1M = 56422
aware R8 AR doubleBinaryTree 1M = 595069 575028 595069 472043 595069 575028 595069 328996
aware R8 AG doubleBinaryTree 1M = 595069 575028 595069 472043 595069 575028 595069 328996
aware R8 RS doubleBinaryTree 1M = 595069 575028 595069 472043 595069 575028 595069 328996
aware R8 A2A doubleBinaryTree 1M = 595069 575028 595069 472043 595069 575028 595069 328996
aware S8 AR ring 64M = 7912362
aware S8 AR direct 5000 = 2198
aware S8 AR direct3 5000 = 6274
aware S8 AR halvingDoubling 5000 = 6501
aware S8 AR doubleBinaryTree 5000 = 8872 7676 8965 6180 8965 7769 9058 4684
aware FC8 AR direct 1000003 mem=1600 = 5920
aware FC8 AR direct2 1000003 mem=1600 = 23182
aware FC8 AR halvingDoubling 1000003 mem=1600 = 36366
aware FC8 AR doubleBinaryTree 1000003 mem=1600 = 124201 105065 124201 84054 124201 105065 124201 63043
aware R4 AR direct 1M = 36784
aware R4 AR direct1 1M mem=0 = 43126
aware R5 AR direct 1000003 bw=50 lat=0 ep=1 = 30629
aware R5 RS direct3 1000003 lat=0 ep=1 = 23177
unaware R8 AR direct 1M = 15775
unaware R8 A2A ring 7 = 14290
unaware S8 RS direct2 64M = 1635682
unaware FC6 AG halvingDoubling 1K = 1087
aware FC2 AR direct 1K = 1078
aware FC2 AR halvingDoubling 1K = 1048
aware S2 AR doubleBinaryTree 1K = 2166 1118
unaware FC8 AR ring 0 ep=1000 = 22000
aware FC8 AR halvingDoubling 1K ep=1000 mem=0 = 10030
aware R8 AR ring 1048577 splits=2 active=1 = 155220
aware S8 A2A direct 1M splits=2 active=1 = 21560
aware R8 AR ring 1048577 splits=4 active=1 = 147225
aware S8 A2A direct 1M splits=4 active=1 = 23600
aware R8 AR ring 1048577 splits=4 active=2 = 89715
aware S8 A2A direct 1M splits=4 active=2 = 18710
aware R8 AR ring 1048577 splits=4 active=4 = 66900
aware S8 A2A direct 1M splits=4 active=4 = 18710
aware R8 AR ring 1048577 splits=3 active=2 = 78472
aware S8 A2A direct 1M splits=3 active=2 = 24597
aware R8 AR doubleBinaryTree 5000 splits=4 active=2 = 15034 15534 15034 15534 15034 15534 15034 15534
aware R8 AR direct 5000 splits=8 active=2 lat=0 = 241
aware FC8 AR doubleBinaryTree 2M splits=2 = 683173 869122 849081 869122 766127 869122 849081 869122
unaware R4xFC2 AR ring,direct 1M = 131555
unaware R4xFC2 AR ring,direct 1M splits=4 = 102495
unaware R2xFC4xS2 AR ring,direct,halvingDoubling 1M splits=4 bw=25,200,50 lat=100,500,0 = 81910
unaware R2xFC4xS2 AR direct,direct2,doubleBinaryTree 64M splits=8 active=2 bw=200,25,50 lat=0,500,100 = 8*3839653 8*3996113
unaware R4xFC2 AR ring,direct 1M lba = 93325
unaware R4xFC2 AR ring,direct 1M lba splits=4 = 88760
unaware R2xFC4xS2 AR ring,direct,halvingDoubling 1M lba splits=4 bw=25,200,50 lat=100,500,0 = 71468
unaware R2xFC4xS2 AR direct,direct2,doubleBinaryTree 64M lba splits=8 active=2 bw=200,25,50 lat=0,500,100 = 8*1440948 8*1460689
unaware R2xFC4xS2 AR doubleBinaryTree,doubleBinaryTree,direct4 1M lba splits=4 bw=25,50,25 lat=500,100,500 = stalls
unaware R2xFC4xS2 AG ring,direct,ring 64K splits=2 bw=25,50,100 lat=100,500,0 = 21835
unaware R2xFC4xS2 RS ring,direct,ring 64K splits=2 bw=25,50,100 lat=100,500,0 = 4420
unaware R2xFC4xS2 A2A ring,direct,ring 64K splits=2 bw=25,50,100 lat=100,500,0 = 2304
unaware FC4xR4 AG halvingDoubling,ring 1000003 splits=3 active=2 = 171234
unaware FC4xR4 RS direct1 1M = 47638
unaware R4xFC2 AR oneRing 1M = 96365
unaware R4xFC2 AR ring,oneDirect 1M = 94315
unaware R4xFC2 AG oneHalvingDoubling,ring 1M = 138758
unaware R4xFC2 AR ring,ring 1M involved=1,0 = 79540
unaware R4xFC2 RS ring,ring 1M involved=0,1 = 41740
unaware R2xR2xR2xR2xR2 AR ring,ring,ring,ring,ring 1M involved=1,1,1,1,1 = 260075
aware R8 AR ring 1M group=0,2,3,7 ep=1000 = 117214 2*106450 117214
aware R8 AR direct 1M group=0,2,3,7 = 2*68656 78920 74038
aware R8 RS direct2 1M group=0,1,4,5,7 splits=2 = 61519 62972 58566 56113 51207
aware R8 AG ring 1M group=6,0,3,1 = 160288 140257 160288 140257
aware S8 AR halvingDoubling 1M group=0,1,6,7 = 78364
aware S8 A2A oneDirect 3 group=1,2,4 = 1020
unaware R4xFC2 AR direct,direct 1M group=0,1,5 splits=2 active=2 = 36040
aware R4 AR ring 1M ep=0 late=1 = 80470
aware R8 AR direct 1M ep=0 late=1 mem=0 lat=0 = 49820
aware S8 AR direct3 5000 ep=0 late=1 mem=0 splits=2 = 13120
"""
"""Finish times in ns that ASTRA-sim printed for a workload of one collective, by rank (3*5: thrice 5) if they differ.

Backend, dimensions (R Ring, S Switch, FC FullyConnected), pattern, implementations, bytes. What is not given is: bandwidth 50,
latency 500, splits 1, active chunks 1, baseline (not lba: localBWAware), endpoint delay 10, local memory bandwidth 50. `group`:
the ranks of the communicator group that runs it; `late`: microseconds that a computation takes before.
"""
BLOCKS = {"R": "Ring", "S": "Switch", "FC": "FullyConnected"}
SHORT = {"AR": "all-reduce", "AG": "all-gather", "RS": "reduce-scatter", "A2A": "all-to-all"}


def numbers(text):
    return [int(number) for number in text.split(",")]


@pytest.mark.parametrize("case", ASTRA_SIM.strip().splitlines())
def test_equals_astra_sim(case):
    left, right = case.split(" = ")
    backend, shape, pattern, names, size, *rest = left.split()
    options = dict(option.split("=") for option in rest if option != "lba")
    blocks = re.findall("([A-Z]+)([0-9]+)", shape)
    bandwidths, latencies = (
        numbers(options.get(key, usual)) * (1 if "," in options.get(key, "") else len(blocks))
        for key, usual in (("bw", "50"), ("lat", "500"))
    )
    dimensions = tuple(
        Dimension(BLOCKS[block], int(npus), *links) for (block, npus), *links in zip(blocks, bandwidths, latencies, strict=True)
    )
    network = NetworkConfig("net.yml", dimensions)
    system = replace(
        SYSTEM,
        preferred_dataset_splits=int(options.get("splits", 1)),
        active_chunks_per_dimension=int(options.get("active", 1)),
        collective_optimization="localBWAware" if "lba" in rest else "baseline",
        endpoint_delay_ns=int(options.get("ep", 10)),
        local_mem_bw_gbps=float(options.get("mem", 50)),
    )
    group = numbers(options["group"]) if "group" in options else list(range(network.num_npus))
    sizes = (len(group),) if "group" in options else tuple(dimension.size for dimension in dimensions)
    involved = tuple(bool(number) for number in numbers(options["involved"])) if "involved" in options else None
    num_bytes = int(size.replace("K", "")) << 10 if "K" in size else int(size.replace("M", "")) << (20 if "M" in size else 0)
    collective = NativeCollective(SHORT[pattern], tuple(names.split(",")), num_bytes, sizes, network.num_npus, involved)
    program = native_program(collective, system)
    finish_ns = naive_program_replay(program, network, backend, group, int(options.get("late", 0)) * 1000)
    expected: list[int] = []
    for run in right.replace("stalls", "-1").split():
        value, _, count = run.partition("*")[::-1] if "*" in run else (run, "", "1")
        expected += [int(value)] * int(count)
    assert finish_ns == (expected * len(group) if len(expected) == 1 else expected)


def test_every_algorithm_has_measured_times():
    for name in NATIVE_ALGORITHMS:
        assert sum(f" {name} " in case for case in ASTRA_SIM.splitlines()) >= 5, name


def naive_program_replay(program, network, backend, members, start_ns=0):
    """When each position is through, -1 if never: callbacks in a queue of (time, order of creation)."""
    events: list[tuple[int, int, Callable[[], None]]] = []
    created = itertools.count()
    now = 0
    kind, size, tag, peer = (column.tolist() for column in (program.kind, program.size_bytes, program.tag, program.peer))
    rows = [range(*program.rank_first[position : position + 2]) for position in range(program.num_positions)]
    owner = [position for position in range(program.num_positions) for _ in rows[position]]
    awaited = [set(program.dep[program.dep_first[row] : program.dep_first[row + 1]].tolist()) for row in range(program.num_nodes)]
    children: dict[int, list[int]] = defaultdict(list)
    for row, others in enumerate(awaited):
        for other in sorted(others):
            children[other].append(row)
    finish_ns: dict[int, int] = {}
    num_issued: Counter[Any] = Counter()
    receivers: dict[Any, int] = {}
    arrived: set[Any] = set()
    tokens: Counter[Any] = Counter()
    takers: dict[Any, deque[int]] = defaultdict(deque)
    batches: dict[tuple[int, int], list[Callable[[], None]]] = {}
    busy: set[Any] = set()
    queues: dict[Any, deque[Any]] = defaultdict(deque)

    def schedule(delay_ns, action):
        heapq.heappush(events, (now + delay_ns, next(created), action))

    def elapse(position, delay_ns, action):
        """What a position waits for until one instant is one event, to which even that event may add."""
        batch = (position, now + delay_ns)
        if batch in batches:
            batches[batch].append(action)
        else:
            batches[batch] = [action]
            schedule(delay_ns, lambda: run_batch(batch))

    def run_batch(batch):
        for action in batches[batch]:
            action()
        del batches[batch]

    def issue(row):
        position, pool = owner[row], (owner[row], tag[row])
        if kind[row] == NodeType.COMP:
            elapse(position, int(program.delay_ns[row]), lambda: finish(row))
        elif kind[row] == LocalKind.TAKE and not tokens[pool]:
            takers[pool].append(row)
        elif kind[row] == LocalKind.TAKE:
            tokens[pool] -= 1
            finish(row)
        elif kind[row] in (LocalKind.PUT, LocalKind.PULSE):
            tokens[pool] += int(kind[row] == LocalKind.PUT and not takers[pool])
            finish(row)
            if takers[pool]:
                finish(takers[pool].popleft())
        else:
            sends = kind[row] == NodeType.COMM_SEND
            src, dst = (members[p] for p in ((position, peer[row]) if sends else (peer[row], position)))
            key = (tag[row], src, dst, size[row])
            message = (*key, num_issued[sends, key])
            num_issued[sends, key] += 1
            if not sends and message in arrived:
                schedule(0, lambda: finish(row))
            elif not sends:
                receivers[message] = row
            elif backend == "aware":
                cross(naive_route(network, src, dst), size[row], lambda: arrive(message))
            else:
                schedule(naive_direct_delay(network, src, dst, size[row]), lambda: arrive(message))

    def finish(row):
        finish_ns[row] = now
        for child in children[row]:
            awaited[child].remove(row)
        for child in [child for child in children[row] if not awaited[child]]:
            issue(child)

    def arrive(message):
        arrived.add(message)
        if message in receivers:
            finish(receivers[message])

    def cross(hops, num_bytes, at_end):
        if not hops:
            at_end()
        elif hops[0][0] in busy:
            queues[hops[0][0]].append((hops, num_bytes, at_end))
        else:
            link, bytes_per_ns, latency = hops[0]
            busy.add(link)
            schedule(int(latency + num_bytes / bytes_per_ns), lambda: cross(hops[1:], num_bytes, at_end))
            schedule(int(num_bytes / bytes_per_ns), lambda: free(link))

    def free(link):
        busy.remove(link)
        if queues[link]:
            cross(*queues[link].popleft())

    def begin(position):
        for row in [row for row in rows[position] if not awaited[row]]:
            issue(row)

    for position in range(program.num_positions):
        if start_ns:
            elapse(position, start_ns, lambda position=position: begin(position))
        else:
            begin(position)
    while events:
        now, _, action = heapq.heappop(events)
        action()
    awaits = [[row for row in rows[position] if kind[row] != NodeType.COMM_SEND] for position in range(program.num_positions)]
    return [max(finish_ns[row] for row in some) if set(some) <= set(finish_ns) else -1 for some in awaits]


# ---- Programs ----


@st.composite
def programs(draw):
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=2))
    pattern = draw(st.sampled_from(PATTERNS))
    names = ["ring", "direct", "direct1", "direct3", "doubleBinaryTree", "oneRing"]
    names += ["halvingDoubling"] if pattern != "all-to-all" else []
    system = replace(
        SYSTEM,
        preferred_dataset_splits=draw(st.integers(1, 4)),
        active_chunks_per_dimension=draw(st.integers(1, 3)),
        collective_optimization=draw(st.sampled_from(["baseline", "localBWAware"])),
    )
    implementations = tuple(draw(st.sampled_from(names)) for _ in sizes)
    return native_program(NativeCollective(pattern, implementations, draw(st.integers(10_000, 99_999)), tuple(sizes)), system)


@examples(20)
@given(programs())
def test_programs_are_well_formed(program):
    position = np.repeat(np.arange(program.num_positions), np.diff(program.rank_first))
    kind, peer, tag, size = program.kind, program.peer, program.tag, program.size_bytes
    assert program.native
    assert set(np.unique(kind).tolist()) <= {NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV, *LocalKind}
    assert program.rank_first[-1] == program.num_nodes == len(program.dep_first) - 1
    assert np.array_equal(program.node_id, np.arange(program.num_nodes) - program.rank_first[position])
    sends, receives = kind == NodeType.COMM_SEND, kind == NodeType.COMM_RECV
    messages = sends | receives
    assert np.all((peer[messages] >= 0) & (peer[messages] < program.num_positions) & (peer[messages] != position[messages]))
    assert np.all(peer[~messages] == ABSENT)
    assert np.all((size > 0) == messages)
    assert np.all(program.delay_ns[kind != NodeType.COMP] == 0)
    # Every message is received.
    sent = np.stack((tag, position, peer, size))[:, sends]
    received = np.stack((tag, peer, position, size))[:, receives]
    assert np.array_equal(sent[:, np.lexsort(sent)], received[:, np.lexsort(received)])
    # Dependencies stay within a position, and nothing waits for a send, or twice for one node.
    waiting = np.repeat(np.arange(program.num_nodes), np.diff(program.dep_first))
    assert np.array_equal(position[waiting], position[program.dep])
    assert not sends[program.dep].any()
    assert len(np.unique(waiting * program.num_nodes + program.dep)) == len(waiting)
    for column in (program.rank_first, kind, program.delay_ns, size, peer, tag, program.dep_first, program.dep):
        assert not column.flags.writeable


def sent_bytes(pattern, implementation, size, npus):
    program = native_program(NativeCollective(pattern, (implementation,), size, (npus,)), SYSTEM)
    sends = program.kind == NodeType.COMM_SEND
    position = np.repeat(np.arange(npus), np.diff(program.rank_first))
    return np.bincount(position[sends], program.size_bytes[sends], npus).astype(int).tolist()


@pytest.mark.parametrize("implementation", ["ring", "direct", "direct3", "halvingDoubling"])
def test_what_every_npu_sends(implementation):
    assert sent_bytes("all-reduce", implementation, 8000, 8) == [14000] * 8
    assert sent_bytes("reduce-scatter", implementation, 8000, 8) == [7000] * 8
    assert sent_bytes("all-gather", implementation, 1000, 8) == [7000] * 8
    if implementation != "halvingDoubling":
        assert sent_bytes("all-to-all", implementation, 8000, 8) == [28000 if implementation == "ring" else 7000] * 8


def test_a_tree_carries_the_whole_buffer():
    assert sent_bytes("all-gather", "doubleBinaryTree", 100, 8) == [100, 300, 100, 300, 100, 300, 100, 100]


def test_trees_take_turns_across_collectives():
    twice = NativeCollective("all-reduce", ("doubleBinaryTree",), 2000, (4,))
    both = native_program(twice, replace(SYSTEM, preferred_dataset_splits=2))
    for earlier in range(4):
        alone = native_program(replace(twice, size_bytes=1000, earlier_chunks=earlier), SYSTEM)
        rows = (both.tag == earlier % 2) & (both.kind < LocalKind.TAKE)
        assert np.array_equal(alone.kind, both.kind[rows])
        assert np.array_equal(alone.peer, both.peer[rows])


# ---- Refusals ----

REFUSED = {
    "broadcast ring 64 4": "native collective: found 'broadcast', expected all-reduce, all-gather",
    "all-gather tree 64 4": "system.json: all-gather-implementation[0] is 'tree', expected ring, direct,",
    "all-reduce ring,ring 64 4": "all-reduce-implementation has 2 entries, the network 1 dimension; one entry per",
    "all-to-all halvingDoubling 64 4": (
        "halvingDoubling all-to-all over 4 NPUs: ASTRA-sim has none and stops; expected ring, direct or doubleBinaryTree"
    ),
    "all-reduce halvingDoubling 64 6": (
        "over 6 NPUs: NPU 4 waits for NPU 0, which sends to NPU 2, so that ASTRA-sim stalls; expected a power of 2"
    ),
    "all-reduce halvingDoubling 8 8": (
        "halvingDoubling all-reduce over 8 NPUs: 8 bytes make a message of 0 bytes, where ASTRA-sim stops; expected more"
    ),
    "all-reduce doubleBinaryTree 64 6": "over 6 NPUs: ASTRA-sim crashes; expected a power of 2",
    "all-reduce doubleBinaryTree 64 4 num_npus=8": (
        "doubleBinaryTree all-reduce over 4 NPUs, some of the network's: ASTRA-sim crashes; expected all NPUs or ring"
    ),
    "all-reduce ring,doubleBinaryTree 64 2,4,2": (
        "all-reduce-implementation ends with doubleBinaryTree before the last dimension, where ASTRA-sim crashes"
    ),
    "all-reduce ring 64 1 num_npus=8": "over 1 NPUs: no dimension of 2 NPUs or more takes part",
    "all-reduce ring,ring 64 2,4 involved=[False,False]": (
        "over 8 NPUs: no dimension of 2 NPUs or more takes part, so that ASTRA-sim stalls; expected one"
    ),
    "all-gather ring 0 4": (
        "preferred-dataset-splits is 1, with which ASTRA-sim stalls in an all-gather of 0 bytes; expected a byte per split"
    ),
    "all-gather ring 3 4 preferred_dataset_splits=4": (
        "preferred-dataset-splits is 4, with which ASTRA-sim never ends in an all-gather of 3 bytes; expected a byte per split"
    ),
    "all-gather ring 3 4 preferred_dataset_splits=None": "splits is absent: the first collective ends ASTRA-sim; set it to 1",
    "all-gather ring 3 4 active_chunks_per_dimension=0": (
        "system.json: active-chunks-per-dimension is 0: no collective ever starts; set it to 1"
    ),
    "all-gather ring 18014398509481984 4": "a message of 18014398509481984 bytes, expected at most 900",
    "all-to-all ring 1073741824 1024": "over 1024 NPUs: 2,145,386,496 nodes, expected at most 67",
    "all-reduce ring 1073741824 256 preferred_dataset_splits=200": (
        "native all-reduce (ring): 92,003,584 nodes, expected at most 67,108,864"
    ),
}
"""Pattern, names, bytes, sizes, and what is not as usual."""


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_refusals(text, message):
    pattern, names, size, sizes, *given = text.split()
    options = {key: literal_eval(value) for key, value in (word.split("=") for word in given)}
    group = {key: options[key] for key in ("num_npus", "involved") if key in options}
    system = replace(SYSTEM, **{key: value for key, value in options.items() if key not in group})
    assert message in refusal(
        native_program, NativeCollective(pattern, names.split(","), int(size), numbers(sizes), **group), system
    )
