"""Each finding, shown by the smallest run that has it, as ASTRA-sim's analytical backends were seen to behave."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from helpers.lint_runs import RunFiles, coll, comp, drop, every, node, one_step_exchange, recv, run_of, send

from astra_tacos.run.run import RunInputs
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.rows import Severity
from astra_tacos.workload.lint import RULES, lint

AG, RS, A2A = CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL
CUSTOM = {"all-reduce-implementation-custom": ["collective/c"]}
ROOFLINE = "{roofline-enabled: 1, peak-perf: 900, local-mem-bw: 1600}"
MEMORY = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}


def alike(make, count=2):
    """Traces of so many ranks."""
    return [make(rank) for rank in range(count)]


def custom(traces=None, count=2, **settings):
    """A run in which every rank runs one custom All-Reduce."""
    return RunFiles(
        alike(lambda _: [coll(0)], count), {"collective/c": traces or one_step_exchange(count)}, **{"system": CUSTOM, **settings}
    )


def in_group(ranks, count, **settings):
    """A run in which the ranks of group 1 run a collective in it."""
    return RunFiles(
        alike(lambda rank: [coll(0, group=1)] if rank in ranks else [comp(0)], count), groups={"1": ranks}, **settings
    )


@dataclass
class Case:
    """A run, and the finding that has to come of it."""

    code: str
    run: RunFiles | str
    says: str
    where: str = ""
    """How its place ends."""
    severity: Severity = Severity.ERROR
    edit: Callable[[Path], object] | None = None
    """What is done to the files."""
    arguments: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Other codes that cannot be kept apart."""
    count: int = 1


WARNING = Severity.WARNING
FINE = "2 * comp 0"


def rewrite(name, text):
    return lambda folder: (folder / name).write_text(text)


def remove(name):
    return lambda folder: (folder / name).unlink()


def compress(name):
    return lambda folder: (folder / name).write_bytes(gzip.compress((folder / name).read_bytes()))


def shorten(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-3])


def per_node_beside(folder):
    (folder / "config").mkdir()
    for name in ("system.json", "per_node.yml"):
        (folder / name).rename(folder / "config" / name)


def rename_groups(folder):
    (folder / "comm_group.json").rename(folder / "nonempty.json")


TBD = "topology: [Ring]\nnpus_count: [2]\nbandwidth: [tbd]\nlatency: [500]\n"
MESH = "astra_tacos: {topology: [Mesh]}\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"

FILES = [
    Case("F01", FINE, "bandwidth[0] is 'tbd', expected a number", "network.yml", edit=rewrite("network.yml", TBD)),
    Case("F02", FINE, "line 1, column", "system.json", edit=rewrite("system.json", "{")),
    Case("F02", RunFiles(FINE, system="roofline-enabled: false"), "ASTRA-sim takes false, null and text for on", "system.json"),
    Case("F03", in_group([0, 1], 2), "found [1] at the top", "group.json", edit=rewrite("comm_group.json", "[1]")),
    Case("F04", RunFiles(FINE, remote_memory={}), "memory-type is missing", "remote_memory.json"),
    Case("F05", every("coll 0", per_node="0: c"), "cannot be read", "per_node.yml", edit=remove("per_node.yml")),
    Case(
        "F05",
        every("coll 0", per_node="0: c"),
        "there is one in",
        "per_node.yml",
        edit=per_node_beside,
        arguments={"system": "config/system.json"},
    ),
    Case("F06", RunFiles(FINE, npus=(3,)), "no such file; there are files of 2 ranks for 3 NPUs", "w.2.et"),
    Case("F06", FINE, "no such file, and no file of another rank", "v.0.et", arguments={"workload": "workload/v"}),
    Case("F08", FINE, "byte", "w.1.et", edit=shorten("workload/w.1.et")),
    Case("F08", custom([one_step_exchange()[0], []]), "no nodes", "collective/c.1.et"),
    Case("F09", FINE, "gzip", "w.1.et", edit=compress("workload/w.1.et")),
    Case("F10", every("coll 0", system=CUSTOM), "no such file in", "collective/c.0.et"),
    Case("F10", custom(), "there is one in", "collective/c.0.et", arguments={"directory": "workload"}),
    Case("F11", in_group([0, 1], 2), 'holds "empty"', "nonempty.json", edit=rename_groups, arguments={"groups": "nonempty.json"}),
    Case(
        "F11",
        RunFiles(FINE, groups="'1': [0, 1]"),
        'holds "empty"',
        "nonempty.json",
        WARNING,
        edit=rename_groups,
        arguments={"groups": "nonempty.json"},
    ),
]

TINY = 10
NETWORKS = [
    Case("N01", RunFiles(FINE, topology=("Ring",)), "a Ring of 2 NPUs", "network.yml"),
    Case(
        "N02",
        every("comp 0", count=9, topology=("Ring", "Ring"), npus=(3, 3)),
        "2 dimensions",
        "network.yml",
        WARNING,
        arguments={"backend": "congestion-aware"},
    ),
    Case("N03", FINE, "a dimension is a Mesh", "network.yml", WARNING, edit=rewrite("network.yml", MESH)),
    Case(
        "N04",
        "send 0 1 size=10 | recv 0 0 size=10",
        "sends 10 B, in less than 1 ns, at time 0",
        "w.0.et node 0",
        also=("N05",),
    ),
    Case(
        "N04", custom(one_step_exchange(size=TINY)), "in less than 1 ns", "collective/c.0.et node 0", also=("N05", "T04"), count=2
    ),
    Case(
        "N04",
        RunFiles("send 0 1 size=10 | recv 0 0 size=10", latency=0),
        "in less than 1 ns",
        "w.0.et node 0",
        arguments={"backend": "congestion-unaware"},
    ),
    Case(
        "N04",
        every("comp 0 num_ops=10 tensor_size=10", system=ROOFLINE),
        "computes for less than 1 ns",
        "w.0.et node 0",
        count=2,
    ),
    Case(
        "N04",
        every("MEM_LOAD 0 tensor_size=9", remote_memory={**MEMORY, "remote-mem-latency": 0}),
        "MEM_LOAD takes less than 1 ns",
        "w.0.et node 0",
        count=2,
        also=("A14",),
    ),
]

GRID = {"topology": ("FullyConnected", "FullyConnected"), "npus": (2, 2)}
SYSTEMS = [
    Case("S01", custom(system={**CUSTOM, "preferred-dataset-splits": 0}), "preferred-dataset-splits is 0", "system.json"),
    Case("S02", custom(system={**CUSTOM, "preferred-dataset-splits": 2}), "(collective/c) never finish", "system.json"),
    Case(
        "S05",
        RunFiles(FINE, system="all-gather-implementation: [ring, ring]"),
        "has 2 entries, the network 1",
        "system.json",
    ),
    Case(
        "S06",
        every("coll 0", count=4, system="all-reduce-implementation: [ring]", **GRID),
        "has 1 of 2 dimensions",
        "system.json",
    ),
    Case(
        "S07",
        every("coll 0", count=4, system="collective-optimization: null", **GRID),
        "collective-optimization is absent",
        "system.json",
    ),
    Case("S08", RunFiles(FINE, system="scheduling-policy: null"), "no default", "system.json", WARNING),
    Case("S09", RunFiles(FINE, system="boost-mode: 0"), "boost-mode has no effect", "system.json", WARNING),
    Case("S10", RunFiles(FINE, system="endpoint-dealy: 5"), "ASTRA-sim does not read 'endpoint-dealy'", "system.json", WARNING),
    Case(
        "S14",
        in_group([0, 1], 3, system="all-reduce-implementation: [doubleBinaryTree]"),
        "crashes in a group smaller than the network",
        "w.0.et node 0",
    ),
    Case(
        "S15",
        in_group([0, 1], 4, system="all-reduce-implementation: [direct, direct]", **GRID),
        "ALL_REDUCE runs as a ring in group 1",
        "system.json",
        WARNING,
    ),
    Case(
        "S19",
        every(
            "coll 0 size=1<<20",
            count=9,
            system="{collective-optimization: localBWAware, preferred-dataset-splits: 4, active-chunks-per-dimension: 2}",
            topology=("Ring", "Ring"),
            npus=(3, 3),
        ),
        "ALL_REDUCE over 2 rings of unequal latency in 4 chunks, 2 at a time",
        "system.json",
        WARNING,
        edit=lambda folder: rewrite("network.yml", (folder / "network.yml").read_text().replace("500, 500", "500, 800"))(folder),
    ),
    Case(
        "S19",
        every(
            "coll 0 size=1<<20",
            count=8,
            system="{collective-optimization: localBWAware, preferred-dataset-splits: 2}",
            topology=("Ring", "Switch", "Ring"),
            npus=(2, 2, 2),
        ),
        "ALL_REDUCE over 3 dimensions in 2 chunks, 1 at a time",
        "system.json",
        WARNING,
    ),
    Case(
        "S17",
        every("coll 0", collectives={"collective/c": one_step_exchange()}, per_node="{0: collective/c, 9: collective/c}"),
        "no rank has a collective node of id 9",
        "per_node.yml",
        WARNING,
    ),
    Case(
        "S18",
        "2 * MEM_LOAD 4 tensor_size=64",
        "there is no remote memory",
        "w.0.et node 4",
        also=("A14",),
    ),
    Case(
        "S18",
        every(
            "MEM_LOAD 4 tensor_size=64",
            remote_memory={**MEMORY, "memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 1, "num-npus-per-node": 1},
        ),
        "for 2 NPUs: ASTRA-sim crashes",
        "remote_memory.json",
        also=("A14",),
    ),
    Case(
        "S18",
        every("MEM_LOAD 4 tensor_size=64", remote_memory="memory-type: PER_NPU_MEMORY_EXPANSION"),
        "transfers take no time",
        "remote_memory.json",
        WARNING,
        also=("A14",),
    ),
]

TWO_TRACES = {"collective/a": one_step_exchange(), "collective/b": one_step_exchange(size=8192, tag=10)}
SAME_SIZE = {"collective/a": one_step_exchange(), "collective/b": one_step_exchange(tag=10)}


def two_all_reduces(sizes):
    return [[coll(1, size=sizes[0], group=1), coll(2, [1], size=sizes[1], group=1)]] * 2


GROUPS = [
    Case("G01", RunFiles(FINE, groups="'0': [0, 1]"), "group '0' is no whole number from 1 to 2,147,483,647", "comm_group.json"),
    Case("G01", RunFiles(FINE, groups="{'1': [0], '01': [1]}"), "group '01' is given twice", "comm_group.json"),
    Case("G02", RunFiles(FINE, groups="'1': [0, 1, 1]"), "group 1 has rank 1 twice", "comm_group.json"),
    Case(
        "G03",
        every("coll 0 group=1", collectives={"collective/c": one_step_exchange()}, system=CUSTOM, groups="'1': [1, 0]"),
        "group 1 is [1, 0]",
        "comm_group.json",
    ),
    Case("G07", in_group([0, 1, 5], 2), "group 1 holds rank 5, the network has 2 NPUs", "comm_group.json"),
    Case("G08", in_group([0], 2), "ALL_REDUCE in group 1 of one rank never ends", "w.0.et node 0"),
    Case(
        "G09",
        RunFiles(two_all_reduces((4096, 8192)), TWO_TRACES, groups="'1': [0, 1]", per_node="{1: collective/a, 2: collective/b}"),
        "runs collective/a, which node 1 names, not collective/b: made for 4 KiB, not 8 KiB",
        "w.0.et node 2",
        count=2,
        also=("T04",),
    ),
    Case(
        "G09",
        RunFiles(two_all_reduces((4096, 4096)), SAME_SIZE, groups="'1': [0, 1]", per_node="{1: collective/a, 2: collective/b}"),
        "runs collective/a, which node 1 names, not collective/b",
        "w.1.et node 2",
        WARNING,
        count=2,
    ),
    Case(
        "G10",
        RunFiles(
            [
                [coll(1, group=first), coll(2, [1], group=second)]
                for first, second in ((1, 3), (1, 4), (2, 3), (2, 4))  # rows and columns of 2 x 2 ranks
            ],
            groups="{'1': [0, 1], '2': [2, 3], '3': [0, 2], '4': [1, 3]}",
        ),
        "rank 0 runs ALL_REDUCE in groups 1 and 3 by one algorithm, which ASTRA-sim frees twice: ASTRA-sim may abort at its end",
        severity=WARNING,
    ),
]

NODES = [
    Case("A01", every("comp 3 tensor_size=64", system=ROOFLINE), "COMP without num_ops", "w.0.et node 3", count=2),
    Case(
        "A01",
        custom([[drop(send(0, 1), "comm_size"), recv(1, 1, tag=1)], one_step_exchange()[1]]),
        "COMM_SEND without comm_size",
        "collective/c.0.et node 0",
        also=("T04",),
    ),
    Case(
        "A06",
        "send 3 1 size=1<<60 | comp 0",
        "comm_size is 1,152,921,504,606,846,976",
        "w.0.et node 3",
        also=("M02",),
    ),
    Case(
        "A08",
        custom([[send(0, 4), recv(1, 1, tag=1)], one_step_exchange()[1]]),
        "sends to position 4, there are 2",
        "collective/c.0.et node 0",
    ),
    Case("A13", "INVALID 3; comp 4 [3] | comp 0", "the rank stalls", "w.0.et node 3", also=("A14",)),
    Case(
        "A13",
        "INVALID 3; comp 4 [3]; comp 5 | comp 0",
        "starts with the rank's next event",
        "w.0.et node 3",
        WARNING,
        also=("A14",),
    ),
    Case(
        "A13",
        RunFiles(
            "comp 3 tensor_size=0 num_ops=9; comp 4 [3] num_ops=1<<30 tensor_size=9 | comp 0 num_ops=1<<30 tensor_size=9",
            system=ROOFLINE,
        ),
        "COMP of tensor_size 0",
        "w.0.et node 3",
    ),
    Case("A17", every("coll 3 involved_dim=[True]", count=4, **GRID), "shorter than the 2 dimensions", "w.0.et node 3", count=4),
    Case(
        "A17",
        every("coll 3", count=32, topology=("FullyConnected",) * 5, npus=(2,) * 5),
        "ASTRA-sim assumes four of 5",
        "w.0.et node 3",
        count=32,
    ),
    Case("A18", every("comp 3 num_ops=0 tensor_size=9", system=ROOFLINE), "num_ops is 0", "w.0.et node 3", count=2),
]

DEPENDENCIES = []

MESSAGES = [
    Case(
        "M06",
        RunFiles("coll 0; send 1 1 [0] | coll 0; recv 1 0", {"collective/c": one_step_exchange()}, CUSTOM),
        "the workload's own messages and collective/c share 1 message",
        "w.1.et node 1",
        WARNING,
    ),
    Case(
        "M06",
        every(
            "coll 1; coll 2 comm_type=ALL_GATHER",
            collectives={"collective/c": one_step_exchange(), "collective/d": one_step_exchange()},
            system={**CUSTOM, "all-gather-implementation-custom": ["collective/d"]},
        ),
        "collective/c and collective/d share 2 messages",
        "w.0.et node 1",
        WARNING,
        also=("C05",),
    ),
]

CHUNK = {"msg_chunk_idx": 0, "msg_chunk_cnt": 1, "total_chunk_cnt": 4}
CUSTOMS = [
    Case("T01", custom(one_step_exchange(2), 3), "the group of all ranks has 3 ranks: none for position 2", "collective/c.2.et"),
    Case(
        "T02",
        custom([*one_step_exchange(), [comp(0)]]),
        "made for 3 positions, used by the group of all ranks of 2",
        "c.2.et",
        WARNING,
    ),
    Case(
        "T02",
        custom(one_step_exchange()),
        "made for 6 positions, used by the group of all ranks of 2",
        "c.5.et",
        WARNING,
        edit=lambda folder: (folder / "collective/c.5.et").write_bytes(b"no trace"),
    ),
    Case(
        "F07",
        FINE,
        "files of rank 9 are never read",
        "w.9.et",
        WARNING,
        edit=lambda folder: (folder / "workload/w.9.et").write_bytes(b"no trace"),
    ),
    Case("T02", custom(one_step_exchange(3), 2), "messages of its ranks go beyond the group", "collective/c.2.et"),
    Case(
        "T03",
        custom([[*one_step_exchange()[0], node(3, NodeType.INVALID)], one_step_exchange()[1]]),
        "INVALID in a custom collective never ends",
        "collective/c.0.et node 3",
    ),
    Case("T04", custom(one_step_exchange(size=64)), "whose ranks receive 128 B in all", "w.0.et node 0", WARNING),
    Case(
        "T04",
        custom([[send(0, 1 - r, tag=r, **CHUNK), recv(1, 1 - r, tag=1 - r, **CHUNK)] for r in range(2)]),
        "whose chunks make up 16 KiB",
        "w.0.et node 0",
        WARNING,
    ),
    Case(
        "T05",
        RunFiles("coll 1 | coll 2", TWO_TRACES, per_node="{1: collective/a, 2: collective/b}"),
        "rank 1 runs collective/b 1 times in the group of all ranks, rank 0 0 times",
        "w.1.et node 2",
        also=("T04",),
    ),
]

CYCLE = "{'1': [0, 1], '2': [2, 3], '3': [0, 2], '4': [1, 3]}"
ORDERS = [
    Case(
        "C02",
        RunFiles(
            "coll 1 size=8192; coll 2 [1] | coll 2; coll 3 [2] size=64",
            {"collective/c": one_step_exchange()},
            per_node="2: collective/c",
        ),
        "rank 0 runs ALL_REDUCE of 8 KiB in all ranks, rank 1 this ALL_REDUCE of 64 B instead",
        "w.1.et node 3",
    ),
    Case(
        "C03",
        RunFiles("coll 1 | coll 1 size=4094", {"collective/c": one_step_exchange()}, CUSTOM),
        "4.00 KiB here",
        "w.1.et node 1",
        WARNING,
    ),
    Case(
        "C05",
        RunFiles("coll 1 group=1; coll 2 group=2 | coll 2 group=1; coll 1 group=2", groups="{'1': [0, 1], '2': [0, 1]}"),
        "nothing orders node 1 (ALL_REDUCE of group 1) and node 2 (ALL_REDUCE of group 2), which both need ranks 0, 1",
        "w.0.et node 1",
        WARNING,
        also=("R01",),
    ),
    Case(
        "C05",
        "coll 1; send 2 1 | recv 1 0; coll 2 [1]",
        "node 1 needs node 2 by way of other ranks, and blocks it if it starts first",
        "w.0.et node 1",
        WARNING,
        also=("R01",),
    ),
    Case(
        "R01",
        "recv 1 1; INVALID 2 [1]; send 3 1 [2]; recv 5 1 tag=5; comp 6 [3,5] | send 1 0; recv 3 0 [1]; send 5 0 [3] tag=5",
        "never starts: a node that ends at once (INVALID, or COMP without bytes) made it ready",
        "w",
        also=("A13", "A14"),
    ),
    Case(
        "C06",
        RunFiles(
            "coll 1 group=1; coll 2 group=3 | coll 1 group=4; coll 2 group=1"
            "| coll 1 group=3; coll 2 group=2 | coll 1 group=2; coll 2 group=4",
            groups=CYCLE,
        ),
        "groups 1 -> 3 -> 2 -> 4 -> 1 can wait for one another",
        "w.0.et node 1",
        WARNING,
        also=("G10", "R01"),
    ),
]
ORDERS += [
    Case(
        "C08",
        RunFiles("coll 1 group=1; coll 2 [1] | coll 2 | coll 1 group=1; coll 2 [1]", groups="'1': [0, 2]"),
        "rank 0 has started 1 collectives before it, rank 1 has started 0, so they never meet",
        "w.1.et node 2",
    )
]
SHORT = """
F07?1 3 * comp 0 ## {npus: [2]} => w.2.et: files of rank 2 are never read
N04!2 2 * coll 0 ## {system: {endpoint-delay: 0}} => w.0.et node 0: endpoint-delay of 0
N06!1 8 * coll 0 ## {latency: 1000000000000000.0, topology: [Ring]} => w.0.et: rank 0 takes 1.4e+16 ns
N06!1 send 0 1 | recv 0 0 ## {latency: 1.0e+19} => w.0.et: rank 0 takes 1e+19 ns or more
N06?1 3 * coll 0 ## {latency: 1000000000000000.0} => network.yml: latencies may come to 1.8e+16 ns
S01!1 2 * coll 0 ## {system: {preferred-dataset-splits: null}} => system.json: is absent
S03!1 2 * coll 0 ## {system: {active-chunks-per-dimension: 0}} => system.json: no collective ever
S04!1 2 * coll 5 ## {system: {all-reduce-implementation: null}}
    => w.0.et node 5: no implementation of ALL_REDUCE, which 2 nodes run
S11?1 2 * comp 0 us=0 num_ops=1000000000 tensor_size=1000000 => system.json: each takes 1 ns
S12!1 2 * comp 0 num_ops=1000000000 tensor_size=1000000 ## {system: {roofline-enabled: 1, peak-perf: 900}}
    => system.json: local-mem-bw is 0 or absent
S13?1 2 * coll 0 ## {system: {replay-only: 1}} => system.json: 2 communication nodes take their duration
S14!1 3 * coll 0 ## {system: {all-reduce-implementation: [halvingDoubling]}}
    => w.0.et node 0: on 3 ranks, not a power of two
S14!1 4 * coll 0 comm_type=ALL_TO_ALL ## {system: {all-to-all-implementation: [halvingDoubling]}}
    => w.0.et node 0: crashes for this pattern
S14!1 4 * coll 0 comm_type=REDUCE_SCATTER ## {system: {reduce-scatter-implementation: [doubleBinaryTree]}}
    => w.0.et node 0: runs an All-Reduce instead
S14!1 6 * coll 0 ## {system: {all-reduce-implementation: [doubleBinaryTree]}}
    => w.0.et node 0: on 6 ranks, not a power of two: crashes
S16!1 comp 0 | comp 0 inputs='' outputs='' ## {system: {track-local-mem: 1}} => w.0.et: inputs and outputs
G04!2 2 * coll 5 group=7 ## {groups: {'1': [0]}} => w.0.et node 5: group 7, which does not exist
G06!1 3 * coll 5 group=1 ## {groups: {'1': [0, 1]}} => w.2.et node 5: uses group 1, whose ranks are 0, 1
C01!1 coll 1; coll 2 [1] | coll 1
    => w.0.et node 2: rank 1 runs 1 collectives of all ranks, rank 0 2: it lacks ALL_REDUCE of 4 KiB, as here
C02!1 coll 1 | coll 1 size=8192
    => w.1.et node 1: rank 0 runs ALL_REDUCE of 4 KiB in all ranks, rank 1 this ALL_REDUCE of 8 KiB instead
C04!1 coll 1 group=1; coll 2 [1] group=2 | coll 2 group=2; coll 1 [2] group=1 ## {groups: {'1': [0, 1], '2': [0, 1]}}
    => : waits for itself: rank
F08!1 comp 0 | comp 7; comp 7 => w.1.et: a second node has the id 7
N05?1 comp 3; send 0 1 [3] size=10 | recv 0 0 size=10 => w.0.et node 0: 10 B take a link no time
G05!2 2 * coll 5 pg_name=tp => w.0.et node 5: pg_name is 'tp'
A01!2 2 * coll 3 -comm_size => w.0.et node 3: ALL_REDUCE without comm_size
A02!2 2 * coll 3 comm_size='4096' => w.0.et node 3: comm_size has a value of a wrong type
A03!2 2 * coll 3 comm_size=None => w.0.et node 3: comm_size has no value
A04!1 send 3 1 size=0 | comp 0 => w.0.et node 3: COMM_SEND of 0 bytes
A04!2 2 * coll 3 comm_type=ALL_GATHER size=0 => w.1.et node 3: ALL_GATHER of 0 bytes
A05?2 2 * coll 3 size=0 => w.0.et node 3: 0 bytes runs as one of 2
A06!1 comp 3 us=1<<53 | comp 0 => w.0.et node 3: more than ASTRA-sim's clock counts
A06!1 comp 3 us=1<<43; comp 4 [3] us=1<<43 | comp 0 => w.0.et: for more than 2**53 ns
A07!2 send 3 1 tag=-5 | recv 0 0 tag=-5 => w.0.et node 3: comm_tag is -5
A08!1 send 3 5 | comp 0 => w.0.et node 3: sends to rank 5, there are 2
A09!2 send 3 0; recv 4 0 | comp 0 => w.0.et node 3: sends to rank 0: itself
A10!1 send 3 1 comm_src=1 | recv 0 0 => w.0.et node 3: comm_src is 1, in the file of rank 0
A11!2 2 * coll 3 is_cpu_op=True => w.0.et node 3: ALL_REDUCE with is_cpu_op
A12!1 METADATA 3 | comp 0 => w.0.et node 3: METADATA
A14?1 comp 3 is_cpu_op=True | comp 0 => w.0.et node 3: gets no statistics
A14!1 comp 3 is_cpu_op=True; send 4 1 [3] | recv 0 0 => w.0.et node 3: ASTRA-sim aborts as the rank ends
A15!2 2 * coll 3 comm_type=REDUCE => w.0.et node 3: REDUCE is not supported
A16?2 2 * coll 3 comm_type=BROADCAST => w.0.et node 3: takes 1 ns
A17!2 2 * coll 3 involved_dim=[False] => w.0.et node 3: has no true entry
D01!1 comp 3 [9] | comp 0 => w.0.et node 3: depends on a node that does not exist
D02!1 comp 3 [4]; comp 4 [3] | comp 0 => w.0.et node 4: no node can start
D03!1 comp 2; comp 3 [4]; comp 4 [3]; comp 5 [4] | comp 0 => w.0.et node 4: 3 of 4 nodes never run
D03!1 comp 2; comp 3 [3] | comp 0 => w.0.et node 3: waits for itself (3 -> 3)
M01!1 comp 0 | recv 3 0 size=64 tag=7 => w.1.et node 3: 64 bytes, tag 7: nothing from rank 0 comes
M02?1 send 3 1 | comp 0 => w.0.et node 3: rank 1 receives nothing like it
M03!1 send 3 1 size=64 | recv 4 0 size=65 => w.1.et node 4: waits for 65 bytes, tag 0; rank 0, node 3 sends 64 bytes
M04!1 send 3 1 tag=1 | recv 4 0 tag=2 => w.1.et node 4: tag 2; rank 0, node 3 sends 4,096 bytes, tag 1
M05?1 send 3 1; send 4 1 [3] | recv 5 0; recv 6 0 => w.1.et node 5: nodes 5 and 6 receive from rank 0 the same
C04!1 coll 1; send 2 1 [1] | recv 1 0; coll 2 [1] => : (receive from rank 0)
C04!1 recv 1 1; recv 2 1 [1]; send 3 1 [2]; send 4 1 [3] | recv 1 0; recv 2 0 [1]; send 3 0 [2]; send 4 0 [3] => : 8 nodes never
"""
"""Code, error or warning (?), how many, the run, how the place ends, and what is said there."""


def case_of(line):
    head, run, where, says = re.fullmatch(r"(\S+) (.*)\s+=> (.*?): (.*)", line).groups()
    code, is_warning, count = head[:3], head[3] == "?", int(head[4:])
    return Case(code, run, says, where, WARNING if is_warning else Severity.ERROR, count=count)


CASES = [
    *FILES,
    *NETWORKS,
    *SYSTEMS,
    *GROUPS,
    *NODES,
    *DEPENDENCIES,
    *MESSAGES,
    *CUSTOMS,
    *ORDERS,
    *map(case_of, re.split(r"\n(?! )", SHORT.strip())),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.says[:40]}")
def test_finding(case, tmp_path):
    arguments = run_of(case.run).write(tmp_path)
    if case.edit:
        case.edit(tmp_path)
    arguments |= {key: tmp_path / value for key, value in case.arguments.items() if key != "backend"}
    report = lint(RunInputs(**arguments), case.arguments.get("backend"))
    counts = report.errors if case.severity is Severity.ERROR else report.warnings
    shown = [f"{finding.code} {finding.severity} {finding.where}: {finding.message}" for finding in report.findings]
    assert counts.get(case.code) == case.count, shown
    assert set(report.errors) | set(report.warnings) <= {case.code, *case.also}, shown
    found = [finding for finding in report.findings if finding.code == case.code and finding.severity == case.severity]
    assert any(
        case.says in finding.message
        and finding.where.endswith(case.where)
        and (finding.rank is None or f".{finding.rank}.et" in finding.where)
        for finding in found
    ), shown
    assert all(finding.remedy and "\n" not in finding.message for finding in report.findings)


def test_a_search_that_was_cut_short_says_so(tmp_path, monkeypatch):
    """C07."""
    from astra_tacos.rules import run_order

    groups = {"1": [0, 1], "2": [0, 1]}
    run = every([comp(9), *(coll(id, [9], group=1 + id % 2) for id in range(8))], groups=groups)
    monkeypatch.setattr(run_order, "_MOST_PAIRS", 3)
    monkeypatch.setattr(run_order, "_MOST_STEPS", 0)
    report = lint(RunInputs(**run.write(tmp_path)))
    assert report.warnings == {"C05": 1, "C07": 2}


def test_every_code_is_shown_and_explained():
    assert {case.code for case in CASES} | {"C07"} == set(RULES)
    for code, check in RULES.items():
        assert code[0].isalpha() and code[1:].isdigit() and check.title
        paragraphs = check.explanation.split("\n\n")
        assert len(paragraphs) > 2 and paragraphs[-1].startswith("Remedy: "), code


def test_a_fine_run_has_no_findings(tmp_path):
    traces = {"collective/c": one_step_exchange(), "collective/d": one_step_exchange(size=1 << 16, tag=100)}
    run = RunFiles(
        alike(
            lambda rank: [
                comp(10),
                coll(20, [10]),
                coll(30, [20], comm_type=AG, size=1 << 16, group=3),
                (send if rank == 0 else recv)(40, 1 - rank, [30], size=64, tag=1000),
                comp(50, [40]),
            ]
        ),
        traces,
        groups="'3': [0, 1]",
        per_node="{20: collective/c, 30: collective/d}",
    )
    report = lint(RunInputs(**run.write(tmp_path)))
    assert report.findings == ()
    assert (report.num_npus, report.num_ranks, report.num_nodes) == (2, 2, 10)
