"""Whole runs for the replay's tests: written and read back, and random ones of a few ranks."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.lint_runs import Node, RunFiles, Traces, coll, comp, node, recv, send
from helpers.networks import Rows, config, sizes_of

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.network_config import write_network
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import AstraTacosError

BYTE_PER_NS = 1e9 / 2**30
"""A bandwidth in GiB/s at which a byte takes a nanosecond."""
Dimensions = Sequence[Rows]
"""Building block, NPUs, GiB/s, ns."""

PATTERNS = {
    "all-reduce": CommType.ALL_REDUCE,
    "all-gather": CommType.ALL_GATHER,
    "reduce-scatter": CommType.REDUCE_SCATTER,
    "all-to-all": CommType.ALL_TO_ALL,
}


def load_run(folder: Path) -> Run:
    """The run in a folder laid out like those of `golden`."""
    return read_run(RunInputs.in_folder(folder, "w"))


def stage_inputs(astra_sim_inputs: Path, folder: Path, block: str, policy: str) -> RunInputs:
    """A dense transformer by the STAGE generator, with native rings and a roofline, on 16 NPUs of one dimension."""
    made = astra_sim_inputs.parent / "stage_dense16"
    if not made.is_dir():
        pytest.skip(f"NOT TESTED on a whole training step: {made} is missing")
    system = {"scheduling-policy": policy, "collective-optimization": "baseline", "preferred-dataset-splits": 1}
    system |= {"roofline-enabled": 1, "peak-perf": 900, "local-mem-bw": 1600}
    system |= {f"{key}-implementation": ["ring"] for key in PATTERNS}
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "network.yml").write_text(f"topology: [{block}]\nnpus_count: [16]\nbandwidth: [50]\nlatency: [500]\n")
    return RunInputs(made / "workload", folder / "system.json", folder / "network.yml", made / "workload.json", directory=folder)


def write_run(folder: Path, files: RunFiles, dimensions: Dimensions | None = None) -> Path:
    """Write a run, with a network of its own for each dimension if any are given; returns the folder."""
    files.write(folder)
    if dimensions is not None:
        write_network(config(*dimensions), folder / "network.yml")
    return folder


def make_run(folder: Path, ranks: Traces, *dimensions: tuple[str, int, float, float], **rest: Any) -> Run:
    """A run of these nodes; by default its NPUs are fully connected, a byte takes a nanosecond, and the latency is 10 ns."""
    files = RunFiles(ranks=ranks, **rest)
    network = dimensions or (("FullyConnected", len(files.ranks), BYTE_PER_NS, 10.0),)
    return load_run(write_run(folder, files, network))


# ---- Random runs ----

SAME_TAG = (0, 0, 0, 500_000_000)
"""Tags that are the same to ASTRA-sim."""
ONE_DIMENSION: tuple[Dimensions, ...] = (
    (("FullyConnected", 2, BYTE_PER_NS, 1000.0),),
    (("Switch", 2, BYTE_PER_NS, 0.0),),
    (("Ring", 3, BYTE_PER_NS, 1000.0),),
    (("Ring", 4, BYTE_PER_NS, 0.0),),
    (("Ring", 5, BYTE_PER_NS, 0.0),),
    (("Switch", 4, BYTE_PER_NS, 1000.0),),
    (("Switch", 3, BYTE_PER_NS, 0.0),),
    (("FullyConnected", 4, 0.7, 12.3),),
    (("Ring", 4, 3.3, 7.9),),
    (("FullyConnected", 5, 5000.0, 500.0),),
)
SEVERAL_DIMENSIONS: tuple[Dimensions, ...] = (
    (("Ring", 2, BYTE_PER_NS, 1000.0), ("Ring", 2, 0.7, 3.0)),
    (("Switch", 2, BYTE_PER_NS, 0.0), ("Ring", 3, BYTE_PER_NS, 1000.0)),
    (("FullyConnected", 3, 0.9, 0.0), ("Switch", 2, BYTE_PER_NS, 1000.0)),
)
"""Mostly such that messages of 1000 bytes take whole microseconds, as computations do, so that events tie."""
EVERY_BLOCK: tuple[Dimensions, ...] = tuple(
    ((block, sizes_of(block, 50)[0], BYTE_PER_NS, 1000.0), *((("Ring", 2, 0.7, 3.0),) if composed else ()))
    for block in BUILDING_BLOCKS
    for composed in (False, True)
)
"""Every building block in its smallest size, alone and with another dimension."""


@dataclass(frozen=True)
class Tastes:
    """What random runs hold, as weights of kinds of operations and as chances."""

    comp: int = 5
    message: int = 4
    collective: int = 4
    broadcast: int = 1
    memory: int = 1
    invalid: int = 1
    cpu: float = 0.15
    roofline: float = 0.3
    replay_only: float = 0.05
    cycle: float = 0.1
    unordered: float = 0.15
    """That a rank's collectives are not chained, so that ranks may differ in their order."""
    ordered: float = 0.3
    """That whatever holds the slot of communication is chained, so that nothing stalls that is not lost."""
    same_tag: float = 0.5
    """That a message has a tag of others, so that it may meet another's receive."""
    unsorted_group: float = 0.15
    empty: float = 0.02
    """That a collective has no bytes."""
    instant: float = 0.1
    """That a roofline says 0 ns."""
    lost: float = 0.02
    """That a node is left out, so that others may wait for it for ever."""


DEFAULT_TASTES = Tastes()


@dataclass(frozen=True)
class RandomRun:
    files: RunFiles
    dimensions: Dimensions

    def write(self, folder: Path) -> Run:
        return load_run(write_run(folder, self.files, self.dimensions))


def random_run(rng: random.Random, dimensions: Dimensions, num_operations: int, tastes: Tastes = DEFAULT_TASTES) -> RandomRun:
    """A run of some operations in which ranks take part or not; few sizes, times and tags, so that events tie."""
    return _RunMaker(rng, dimensions, tastes).make(num_operations)


def ending_runs(folder: Path, networks: Sequence[Dimensions], backend: str, count: int) -> Iterator[Run]:
    """Random runs that go to their end on a backend."""
    tastes = Tastes(lost=0, ordered=1, empty=0, instant=0, replay_only=0)
    ended = 0
    for seed in range(10 * count):
        rng = random.Random(seed)
        run = random_run(rng, rng.choice(networks), 25, tastes).write(folder / str(seed))
        try:
            replay_run(run, backend)
        except AstraTacosError:
            continue
        yield run
        ended += 1
        if ended == count:
            return
    raise AssertionError(f"{ended} of {10 * count} random runs end, expected {count}")


def random_collective(rng: random.Random, num_positions: int, tastes: Tastes, first_tag: int) -> list[list[Node]]:
    """A custom collective: random messages and reductions, each after some of its position's earlier ones."""
    positions: list[list[Node]] = [[] for _ in range(num_positions)]
    lost = tastes.lost / 4
    spread = rng.choice([1, 1, 7])

    def add(position: int, make: Any, *arguments: int, **rest: int) -> None:
        nodes = positions[position]
        deps = rng.sample([other.id for other in nodes], rng.randint(0, min(2, len(nodes))))
        free = [number for number in range(2 * len(nodes) + 3) if spread * number not in [other.id for other in nodes]]
        nodes.append(make(spread * rng.choice(free), *arguments, deps, **rest))

    for number in range(rng.randint(1, 3 * num_positions) if num_positions > 1 else 0):
        src, dst = rng.sample(range(num_positions), 2)
        tag, size = rng.choice(SAME_TAG) if rng.random() < tastes.same_tag else first_tag + number, rng.choice([1000, 1000, 2000])
        if rng.random() >= lost:
            add(src, send, dst, size=size, tag=tag)
        if rng.random() < 0.5:
            add(dst, comp, us=rng.choice([0, 0, 0, 1]))
        if rng.random() >= lost:
            add(dst, recv, src, size=size, tag=tag)
    for nodes in positions:
        if not nodes:
            nodes.append(comp(rng.choice([0, 3]), us=0))
        if rng.random() < 0.3:
            rng.shuffle(nodes)
    return positions


class _RunMaker:
    def __init__(self, rng: random.Random, dimensions: Dimensions, tastes: Tastes) -> None:
        self.rng, self.dimensions, self.tastes = rng, dimensions, tastes
        self.num_ranks = math.prod(dimension[1] for dimension in dimensions)
        self.ranks: list[list[Node]] = [[] for _ in range(self.num_ranks)]
        self.latest_chained: list[int | None] = [None] * self.num_ranks
        self.group_size = rng.randint(1, self.num_ranks)
        self.groups = self.make_groups()
        self.sizes = {"collective/a": self.num_ranks, "collective/b": self.num_ranks}
        self.sizes |= {"collective/c": self.group_size, "other/d": self.group_size}
        self.custom = dict(zip(PATTERNS, self.sizes, strict=True))
        self.per_node: dict[int, str] = {}
        self.is_ordered = self.chance(tastes.ordered)
        self.is_chained = self.is_ordered or not self.chance(tastes.unordered)
        self.has_roofline = self.chance(tastes.roofline)
        self.has_memory = tastes.memory > 0 and self.chance(0.5)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def make_groups(self) -> dict[str, list[int]]:
        groups = {}
        for name in self.rng.sample(("1", "2", "7", "31"), self.rng.randint(0, 3)):
            size = self.num_ranks if self.chance(0.4) else self.group_size
            members = self.rng.sample(range(self.num_ranks), size)
            groups[name] = members if self.chance(self.tastes.unsorted_group) else sorted(members)
        return groups

    def make(self, num_operations: int) -> RandomRun:
        tastes = self.tastes
        weights = (
            tastes.comp,
            tastes.message,
            tastes.collective,
            tastes.broadcast,
            tastes.memory * self.has_memory,
            tastes.invalid,
        )
        makers = (self.add_comp, self.add_message, self.add_collective, self.add_broadcast, self.add_access, self.add_invalid)
        for number in range(num_operations):
            self.rng.choices(makers, weights)[0](number)
        for rank, nodes in enumerate(self.ranks):
            if not nodes:
                self.add_comp(900, rank)
        if self.chance(tastes.cycle):
            nodes = self.rng.choice(self.ranks)
            ops = {"num_ops": 1, "tensor_size": 1}
            nodes += [comp(901, [902], **ops), comp(902, [901], **ops), comp(903, [902, nodes[0].id], **ops)]
        self.rename()
        collectives = {
            prefix: random_collective(self.rng, size, tastes, 100 * number)
            for number, (prefix, size) in enumerate(self.sizes.items())
        }
        flags = {"replay-only": self.chance(tastes.replay_only), "roofline-enabled": self.has_roofline}
        system: dict[str, object] = {name: int(value) for name, value in flags.items()}
        system |= {"peak-perf": 0.004, "local-mem-bw": 2, "active-chunks-per-dimension": self.rng.choice([1, 1, 2])}
        system |= {f"{key}-implementation-custom": [prefix] for key, prefix in self.custom.items()}
        files = RunFiles(
            ranks=self.ranks,
            collectives=collectives,
            system=system,
            groups=self.groups or None,
            topology=[dimension[0] for dimension in self.dimensions],
            npus=[dimension[1] for dimension in self.dimensions],
            per_node=self.per_node or None,
            remote_memory=self.make_memory() if self.has_memory else None,
        )
        return RandomRun(files, self.dimensions)

    def make_memory(self) -> dict[str, object]:
        return {
            "memory-type": self.rng.choice(["PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL"]),
            "remote-mem-latency": self.rng.choice([0, 1, 1000]),
            "remote-mem-bw": self.rng.choice([1, 2]),
            "num-nodes": (self.num_ranks + 1) // 2,
            "num-npus-per-node": 2,
        }

    def add(self, rank: int, made: Node) -> None:
        """A node that waits for some earlier ones of its rank."""
        nodes = self.ranks[rank]
        deps = self.rng.sample([other.id for other in nodes], self.rng.randint(0, min(2, len(nodes))))
        cut = self.rng.randint(0, len(deps))
        made.data_deps.extend(deps[:cut])
        made.ctrl_deps.extend(deps[cut if self.chance(0.8) else 0 :])
        holds_slot = made.type in (NodeType.COMM_SEND, NodeType.COMM_COLL, NodeType.MEM_LOAD, NodeType.MEM_STORE)
        if (self.is_ordered and holds_slot) or (self.is_chained and made.type == NodeType.COMM_COLL):
            before = self.latest_chained[rank]
            made.ctrl_deps.extend([] if before is None else [before])
            self.latest_chained[rank] = made.id
        nodes.append(made)

    def add_comp(self, number: int, rank: int | None = None) -> None:
        attributes: dict[str, Any] = {"is_cpu_op": self.chance(self.tastes.cpu)}
        if self.has_roofline:
            attributes["num_ops"] = 1 if self.chance(self.tastes.instant) else self.rng.choice([4000, 4000, 8000, 12_345])
            attributes["tensor_size"] = self.rng.choice([0, 1, 2000, 4321])
        rank = self.rng.randrange(self.num_ranks) if rank is None else rank
        self.add(rank, comp(number, us=self.rng.choice([0, 0, 1, 2]), **attributes))

    def add_message(self, number: int) -> None:
        src, dst = self.rng.sample(range(self.num_ranks), 2)
        size, tag = self.rng.choice([1000, 1000, 2000, 7000]), 1000 + number
        if self.chance(self.tastes.same_tag):
            tag = self.rng.choice(SAME_TAG)
        if not self.chance(self.tastes.lost):
            self.add(src, send(number, dst, size=size, tag=tag))
        if not self.chance(self.tastes.lost):
            self.add(dst, recv(number, src, size=size, tag=tag))

    def members_of(self, name: str | None) -> list[int]:
        return self.groups[name] if name in self.groups else list(range(self.num_ranks))

    def pick_group(self) -> str | None:
        return self.rng.choice([None, None, "", "0", *self.groups, *self.groups])

    def add_collective(self, number: int) -> None:
        name = self.pick_group()
        members = self.members_of(name)
        fitting = [key for key, prefix in self.custom.items() if self.sizes[prefix] == len(members)]
        key = self.rng.choice(fitting)
        if self.chance(0.3):
            self.per_node[number] = self.rng.choice([prefix for prefix, size in self.sizes.items() if size == len(members)])
        attributes: dict[str, Any] = {} if name is None else {"pg_name": name}
        for rank in members:
            if self.chance(self.tastes.lost):
                continue
            size = 0 if key != "all-gather" and self.chance(self.tastes.empty) else 4096
            self.add(rank, coll(number, comm_type=PATTERNS[key], size=size, **attributes))

    def add_broadcast(self, number: int) -> None:
        name = self.pick_group()
        for rank in self.members_of(name):
            attributes: dict[str, Any] = {} if name is None else {"pg_name": name}
            self.add(rank, coll(number, comm_type=CommType.BROADCAST, us=self.rng.choice([0, 1]), **attributes))

    def add_access(self, number: int) -> None:
        kind = self.rng.choice([NodeType.MEM_LOAD, NodeType.MEM_STORE])
        rank = self.rng.randrange(self.num_ranks)
        size = self.rng.choice([1, 2000, 2000, 4000])
        self.add(rank, node(number, kind, is_cpu_op=self.chance(self.tastes.cpu), tensor_size=size))

    def add_invalid(self, number: int) -> None:
        rank = self.rng.randrange(self.num_ranks)
        self.add(rank, node(number, NodeType.INVALID, us=5, is_cpu_op=self.chance(self.tastes.cpu)))

    def rename(self) -> None:
        """Now and then sparse ids that say nothing of the order, the same on all ranks, and files in any order."""
        if self.chance(0.5):
            return
        known = sorted({other.id for nodes in self.ranks for other in nodes})
        new = dict(zip(known, self.rng.sample(range(1, 5 * len(known) + 1), len(known)), strict=True))
        self.per_node = {new[number]: prefix for number, prefix in self.per_node.items() if number in new}
        if self.chance(0.2):  # ASTRA-sim looks for the collectives of single nodes by the lower 32 bits of their ids
            new = {old: number + self.rng.choice([0, 1 << 31, 1 << 32, (1 << 64) - (1 << 32)]) for old, number in new.items()}
        for nodes in self.ranks:
            for other in nodes:
                other.id = new[other.id]
                for deps in (other.data_deps, other.ctrl_deps):
                    deps[:] = [new[dep] for dep in deps]
            if self.chance(0.5):
                self.rng.shuffle(nodes)
