"""Random runs whose ranks do the same at translated places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from helpers.networks import config

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.groups import CommunicatorGroups
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace, WorkloadColumns

BLOCKS = ("Ring", "FullyConnected", "Switch")
_LARGEST = 64
"""Most members of a group of a large run, which is replayed rank by rank as well."""
PATTERNS = {
    CommType.ALL_REDUCE: "all-reduce",
    CommType.ALL_GATHER: "all-gather",
    CommType.REDUCE_SCATTER: "reduce-scatter",
    CommType.ALL_TO_ALL: "all-to-all",
}


def random_network(random: Random, most: int, blocks: tuple[str, ...]) -> NetworkConfig:
    """One to three dimensions."""
    dimensions, total = [], 1
    for _ in range(random.randint(1, 3)):
        size = random.choice([size for size in (2, 3, 4, 5, 8, 16) if total * size <= most] or [1])
        if size > 1:
            total *= size
            bandwidth, latency = random.choice((10.0, 25.0, 50.0, 33.3)), random.choice((1.0, 100.0, 500.0))
            dimensions.append((random.choice(blocks), size, bandwidth, latency))
    return config(*dimensions)


def random_compact_run(seed: int, most: int = 64, blocks: tuple[str, ...] = BLOCKS) -> Run:
    """A run of one to some classes, of compute nodes, collectives of several groups, native and of traces, and messages."""
    random = Random(seed)
    network = random_network(random, most, blocks)
    size = tuple(dimension.size for dimension in network.dimensions)
    period = [1] * len(size)
    if len(size) > 1 and random.random() < 0.6:
        at = random.randrange(len(size))
        period[at] = size[at] if random.random() < 0.7 or size[at] % 2 else 2
    lattice = Lattice(size, tuple(period))
    ranks = lattice.representatives
    algorithms = tuple(random.choice(("ring", "ring", "direct", "direct", "direct2", "halvingDoubling")) for _ in size)
    if any(name == "halvingDoubling" and count & (count - 1) for name, count in zip(algorithms, size, strict=True)):
        algorithms = ("ring",) * len(size)
    roofline = random.random() < 0.25
    customs: list[Trace] = []
    may_be_custom = random.random() < 0.4
    splits = 1 if may_be_custom else random.choice((1, 1, 2, 4))
    system = SystemConfig(
        "system.json",
        preferred_dataset_splits=splits,
        active_chunks_per_dimension=random.choice((1, 2)),
        endpoint_delay_ns=random.choice((10, 10, 7, 0)),
        collective_optimization=random.choice((None, None, "localBWAware")),
        roofline_enabled=roofline,
        peak_perf_tflops=0.5,
        local_mem_bw_gbps=50.0 if roofline else random.choice((0.0, 50.0)),
        native={key: algorithms if random.random() < 0.5 else algorithms[:1] for key in PATTERNS.values()},
    )
    stride, _, _ = lattice.columns
    groups: dict[int, tuple[int, ...]] = {}
    names: dict[tuple[int, ...], int] = {}
    rows: list[list[tuple[int, ...]]] = [[] for _ in ranks]
    for _ in range(random.randint(2, 8)):
        what = random.random()
        if what < 0.4:
            durations = [random.choice((1, 2, 5, 20)) for _ in ranks]
            if random.random() < 0.5:
                durations = durations[:1] * len(ranks)
            for one, us in zip(rows, durations, strict=True):
                one.append((NodeType.COMP, us, ABSENT, ABSENT, ABSENT, ABSENT, 0, NATIVE))
        elif what < 0.8:
            pattern = random.choice(list(PATTERNS))
            bytes_ = random.choice((4096, 65536, 1 << 20)) * int(np.prod(size))
            chosen = sorted(random.sample(range(len(size)), random.randint(1, len(size))))
            if most > 2 * _LARGEST:
                chosen = [index for index in chosen if size[index] <= _LARGEST][:1]
            everyone = random.random() < 0.3 and most <= 2 * _LARGEST
            custom = NATIVE
            if may_be_custom and len(chosen) == 1 and not everyone and random.random() < 0.6:
                customs.append(custom_trace(random, size[chosen[0]], len(customs)))
                custom = len(customs) - 1
            for one, rank in zip(rows, ranks.tolist(), strict=True):
                number = 0
                if not everyone:
                    members = np.zeros(1, np.int64)
                    for index in range(len(size)):
                        here = rank // stride[index] % size[index]
                        values = np.arange(size[index]) if index in chosen else np.array([here])
                        members = (members[None] + (values * stride[index])[:, None]).ravel()
                    key = tuple(sorted(members.tolist()))
                    number = names.setdefault(key, len(names) + 1)
                    groups[number] = key
                one.append((NodeType.COMM_COLL, 0, bytes_, ABSENT, ABSENT, pattern, number, custom))
        else:
            index, tag, amount = random.randrange(len(size)), random.randint(0, 2), random.choice((64, 4096, 1 << 18))
            far = random.randint(1, size[index] - 1)
            for one, rank in zip(rows, ranks.tolist(), strict=True):
                here = rank // stride[index] % size[index]
                to = rank + ((here + far) % size[index] - here) * stride[index]
                source = rank + ((here - far) % size[index] - here) * stride[index]
                one.append((NodeType.COMM_SEND, 0, amount, int(to), tag, ABSENT, 0, NATIVE))
                one.append((NodeType.COMM_RECV, 0, amount, int(source), tag, ABSENT, 0, NATIVE))
    if len(rows[0]) < 2:
        for one in rows:
            one.append((NodeType.COMP, 3, ABSENT, ABSENT, ABSENT, ABSENT, 0, NATIVE))
    return replace(run_of(rows, ranks, network, system, groups, customs, random), classes=lattice)


def custom_trace(random: Random, members: int, number: int) -> Trace:
    """A custom collective in which all members do the same: some send to others at one distance, and wait for theirs."""
    rows: list[tuple[int, int, int, int, int]] = []
    deps: list[list[int]] = []
    for step in range(random.randint(1, 4)):
        far, amount = random.randint(1, members - 1), random.choice((512, 4096, 1 << 17))
        at = len(rows)
        rows += [(NodeType.COMM_SEND, 0, amount, far, step), (NodeType.COMM_RECV, 0, amount, -far, step)]
        before = [at - random.randint(1, at)] if at and random.random() < 0.8 else []
        deps += [before, []]
        if random.random() < 0.4:
            rows.append((NodeType.COMP, random.choice((0, 1, 3)), ABSENT, 0, ABSENT))
            deps.append([at + 1])
    count = len(rows)
    table = np.array(rows * members, np.int64)
    position = np.repeat(np.arange(members), count)
    peer = np.where(table[:, 0] == NodeType.COMP, ABSENT, (position + table[:, 3]) % members)
    return Trace(
        prefix=f"collective/c{number}",
        rank_first=np.arange(members + 1) * count,
        node_id=np.tile(np.array(random.sample(range(40), count)), members).astype(np.uint64),
        kind=table[:, 0].astype(np.uint8),
        duration_us=table[:, 1].copy(),
        size_bytes=table[:, 2].copy(),
        peer=peer,
        tag=table[:, 4].copy(),
        dep_first=np.concatenate(([0], np.cumsum([len(each) for each in deps * members]))).astype(np.int64),
        dep=np.array([d + place * count for place in range(members) for each in deps for d in each], np.int64),
    )


def run_of(
    rows: list[list[tuple[int, ...]]],
    ranks: np.ndarray,
    network: NetworkConfig,
    system: SystemConfig,
    groups: dict[int, tuple[int, ...]],
    customs: list[Trace],
    random: Random,
) -> Run:
    """The run of some ranks, of a row (kind, us, bytes, peer, tag, pattern, group, custom trace) for each node."""
    count = len(rows[0])
    table = np.array([row for one in rows for row in one], np.int64)
    total = len(table)
    deps = [sorted(set(random.sample(range(i), min(i, random.choice((0, 1, 1, 2)))))) for i in range(count)]
    if random.random() < 0.5:
        deps = [[i - 1] if i else [] for i in range(count)]
    kinds = [row[0] for row in rows[0]]
    for i, each in enumerate(deps):  # a receive that waits for a send of its rank could wait for ever
        deps[i] = [d for d in each if kinds[d] != NodeType.COMM_SEND or kinds[i] != NodeType.COMM_RECV]
    dep_first = np.concatenate(([0], np.cumsum([len(each) for _ in rows for each in deps]))).astype(np.int64)
    dep = np.array([d + place * count for place in range(len(rows)) for each in deps for d in each], np.int64)
    absent = np.full(total, ABSENT, np.int64)
    # Some nodes are on the CPU; with a roofline, some have no bytes and take no time.
    on_cpu = np.tile([kind == NodeType.COMP and random.random() < 0.2 for kind in kinds], len(rows))
    bytes_ = np.tile([random.choice((0, 4096, 1 << 16)) for _ in kinds], len(rows))
    kind = table[:, 0].astype(np.uint8)
    names = tuple(str(number) for number in groups)
    group = np.where(table[:, 6] == 0, ABSENT, table[:, 6] - 1).astype(np.int32)
    trace = Trace(
        prefix="workload/w",
        rank_first=np.arange(len(rows) + 1, dtype=np.int64) * count,
        node_id=np.tile(np.arange(count), len(rows)).astype(np.uint64),
        kind=kind,
        duration_us=table[:, 1].copy(),
        size_bytes=table[:, 2].copy(),
        peer=table[:, 3].copy(),
        tag=table[:, 4].copy(),
        dep_first=dep_first,
        dep=dep,
        workload=WorkloadColumns(
            comm_type=table[:, 5].copy(),
            num_ops=np.where(kind == NodeType.COMP, np.maximum(table[:, 1], 1) * 1000, ABSENT),
            tensor_size=np.where(kind == NodeType.COMP, bytes_, ABSENT),
            comm_priority=absent,
            is_cpu_op=on_cpu,
            own=absent,
            group=group,
            group_names=names,
            involved_dims=absent,
            involved_count=np.zeros(total, np.int64),
            root=absent,
            carried_pattern=absent,
            own_group=absent,
            num_data=np.diff(dep_first),
            wrong_type=np.zeros(total, np.uint32),
            no_value=np.zeros(total, np.uint32),
            byte_offset=np.zeros(total, np.int64),
        ),
        owners=ranks,
    )
    return Run(
        workload=trace,
        system=system,
        network=network,
        groups=CommunicatorGroups("comm_group.json", groups),
        remote_memory=None,
        prefixes=tuple(each.prefix for each in customs),
        collectives=tuple(customs),
        implementation=table[:, 7].astype(np.int32),
        directory=Path(),
    )
