"""Each step, shown by the smallest run that needs it: what it says, and that the run ends without errors afterwards."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.damage import refusal
from helpers.lint_runs import RunFiles, coll, drop, every, node, one_step_exchange, run_of

from astra_tacos.run.run import RunInputs
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.workload.lint import RULES, lint
from astra_tacos.workload.mends import MENDS
from astra_tacos.workload.repairer.reading import RepairInputs
from astra_tacos.workload.repairer.repair import repair

ROOFLINE = "{roofline-enabled: 1, peak-perf: 900, local-mem-bw: 1600}"
GROUPS = '[{"pg_name": "7", "ranks": [0, 1], "group_size": 2}, {"pg_name": "0", "ranks": []}]'


def defines_groups(id, text=GROUPS):
    message = node(id, NodeType.METADATA, name="## process_group:init ##")
    message.inputs.values = str([text])
    return message


def with_tensor(message, *tensor):
    message.inputs.values = str([[*tensor, "cuda:0"]])
    return message


def compress(folder):
    file = folder / "workload/w.1.et"
    file.write_bytes(gzip.compress(file.read_bytes()))


@dataclass
class Case:
    """A run that needs a step, and what the step says."""

    step: str
    run: RunFiles | str
    says: tuple[str, ...]
    is_refused_without: bool = True
    """Whether the run is refused with the step switched off."""
    edit: Callable[[Path], object] | None = None
    num_ranks: int | None = None


CASES = [
    Case("compressed-traces", "2 * comp 0", ("decompressed",), False, compress),
    Case("rank-count", RunFiles("comp 0; coll 1 [0]", npus=(3,)), ("copied from rank 0",) * 2, num_ranks=3),
    Case("rank-count", every("comp 0", count=3, npus=(2,)), ("trace left out",), False),
    Case(
        "process-groups",
        every([defines_groups(1), coll(2, [1], group=7), coll(3, [2], group=0)]),
        ("group '7' of ranks [0, 1] added to comm_group.json",),
        False,
    ),
    Case(
        "process-groups",
        every([defines_groups(1, " " * (2 << 20) + GROUPS), coll(2, [1], group=7), coll(3, [2], group=0)]),
        ("group '7' of ranks [0, 1] added to comm_group.json",),
        False,
    ),
    Case(
        "group-names",
        RunFiles(
            "coll 1 pg_name='0.0' | coll 1 pg_name='0.0' | 2 * coll 1 pg_name='4'",
            groups="{'0': [0, 1], '4': [2, 3]}",
        ),
        ("pg_name '0.0' became '0'", "pg_name '0.0' became '0'", "group '0' became 1") + ("pg_name '0' became '1'",) * 2,
    ),
    Case(
        "collective-sizes",
        RunFiles([[with_tensor(drop(coll(3), "comm_size"), 1, 2, 0, 512, 4)], [coll(3, size=-1)]]),
        ("comm_size became 2,048",) * 2,
    ),
    Case("message-pairs", "send 3 1 | comp 0", ("COMM_RECV added",), False),
    Case("roofline", every("comp 3", system=ROOFLINE), ("roofline-enabled became 0",)),
    Case(
        "roofline",
        every("comp 3 num_ops=1000000000 tensor_size=1000000; comp 4 [3] us=7", system=ROOFLINE),
        ("num_ops became 6,300,450,000, of 1 byte",) * 2,
    ),
    Case(
        "system",
        every("coll 0", system={"preferred-dataset-splits": None, "all-reduce-implementation": ["ring"] * 2}),
        ("preferred-dataset-splits: absent became 1", "all-reduce-implementation:"),
    ),
    Case(
        "one-plan-per-group",
        every(
            "coll 1 group=1; coll 2 [1] size=8192 group=1",
            collectives={"collective/a": one_step_exchange(), "collective/b": one_step_exchange(size=8192, tag=10)},
            groups="'1': [0, 1]",
            per_node="{1: collective/a, 2: collective/b}",
        ),
        ("group 2: a copy of group 1", "group 1 became 2", "group 1 became 2"),
    ),
]


SHORT = """
cpu-collectives: coll 3 is_cpu_op=True; coll 4 [3] | coll 3 is_cpu_op=True; coll 4 [3]
    => n3 became a CPU node of its 0 us / n3 became a CPU node of its 0 us
group-names: coll 0 pg_name=('bytes_val',b'tp') | coll 0 pg_name=('bytes_val',b'tp')
    => pg_name 'tp' became '1' / pg_name 'tp' became '1'
group-names: 2 * comp 0 ## {groups: {tp: [0, 1]}} => group 'tp' became 1
group-members: 3 * coll 0 group=1 ## {groups: {'1': [0, 1]}} => added to group 1
group-members: 2 * coll 0 group=1 ## {groups: {'1': [0, 1, 1, 5]}} => group 1: each / group 1: without
collective-patterns: coll 1 comm_type=BARRIER | coll 1 -comm_type
    => BARRIER became ALL_REDUCE / comm_type became BARRIER / BARRIER became ALL_REDUCE
lonely-collectives: coll 1 group=1; comp 2 [1] | comp 0 ## {groups: {'1': [0]}} => removed ALL_RED
network: 2 * comp 0 ## {topology: [Ring]} => Ring of 2 became FullyConnected
involved-dimensions: coll 3 involved_dim=[False] | coll 3 involved_dim=[False]
    => involved_dim became [True] / involved_dim became [True]
collective-order: coll 1 group=1; coll 2 group=2 | coll 2 group=1; coll 1 group=2 ## {groups: {'1': [0, 1], '2': [0, 1]}}
    => waits for node 1 / waits for node 2
stream-numbers: coll 1 group=1; coll 2 [1] | coll 2 | coll 1 group=1; coll 2 [1] ## {groups: {'1': [0, 2]}}
    => became a collective of group 2 / became a collective of group 2 / became a collective of group 2
duplicate-ids: comp 3 | comp 7; comp 7 => id 7 became 8
attribute-values: 2 * comp 3 is_cpu_op=None => is_cpu_op removed / is_cpu_op removed
dangling-dependencies: comp 3 [9,8] | comp 0 => no longer depends on 9, 8
metadata-nodes: comp 1; METADATA 2 [1]; comp 3 [2] | comp 0 => removed n2
cpu-collectives: 2 * coll 3 is_cpu_op=True => is_cpu_op became False / is_cpu_op became False
group-members: 2 * coll 0 group=7 => group 7 of ranks 0, 1 added
collective-patterns: 2 * coll 3 comm_type=GATHER => GATHER became ALL_GATHER / GATHER became ALL_GATHER
matching-collectives: coll 1; coll 2 [1] | coll 1 => removed ALL_REDUCE
matching-collectives: coll 1 | coll 1 size=8192 => comm_size 4096 became 8192
message-pairs: comp 0 | recv 3 0; comp 4 [3] => removed COMM_RECV
message-pairs: send 3 1 size=64 | recv 4 0 size=65 => comm_size 65 became 64
message-pairs: send 3 1 tag=-5 | recv 4 0 tag=2 => comm_tag -5 became 2
message-pairs: send 3 1 | recv 4 0 -comm_src => comm_src became 0
message-pairs: send 3 1 comm_src=1 | recv 4 0 => comm_src 1 became 0
message-pairs: send 3 0; recv 4 0; comp 5 | comp 0 => removed COMM_SEND / removed COMM_RECV
skipped-nodes: INVALID 3; comp 4 [3] | comp 0 => removed (INVALID)
cycles: comp 2; comp 3 [4]; comp 4 [3]; comp 5 [4] | comp 0 => no longer depends on 4
empty-ranks: comp 0 |  => a compute node of 0 us (1 ns) added
first-nodes: send 0 1 size=10 | recv 0 0 size=10 => starts with a compute node / starts with a compute node
last-nodes: comp 3 is_cpu_op=True; send 4 1 [3] | recv 0 0 => ends with a compute node
"""
"""A step, the run, and how each of its changes begins."""
for _line in re.split(r"\n(?! )", SHORT.strip()):
    _step, _run, _says = re.fullmatch(r"([\w-]+): (.*)\s+=> (.*)", _line).groups()
    CASES.append(Case(_step, _run, tuple(_says.split(" / "))))


def mended(case, folder, **options):
    arguments = run_of(case.run).write(folder)
    if case.edit:
        case.edit(folder)
    return repair(RepairInputs(**arguments), folder / "out", num_ranks=case.num_ranks, **options)


def lint_again(out):
    groups = out / "comm_group.json"
    report = lint(
        RunInputs(
            out / "workload/w",
            out / "system.json",
            out / "network.yml",
            groups if groups.exists() else None,
            out / "remote_memory.json",
            out,
        )
    )
    return dict(report.errors)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.step}-{case.says[0][:30]}")
def test_step(case, tmp_path):
    result = mended(case, tmp_path)
    made = [change for change in result.changes if change.step == case.step]
    assert len(made) == len(case.says), made
    assert all(change.what.startswith(text) and change.reason for change, text in zip(made, case.says, strict=True)), made
    assert lint_again(tmp_path / "out") == {}
    assert (result.outcome.finish_ns > 0).all()
    written = json.loads((tmp_path / "out/repair.json").read_text())
    assert [change["what"] for change in written["changes"]] == [change.what for change in result.changes]


@pytest.mark.parametrize("case", [case for case in CASES if case.is_refused_without], ids=lambda case: case.says[0][:30])
def test_a_step_that_is_switched_off_is_not_taken(case, tmp_path):
    """The fault then remains: the run is refused, and nothing is written."""
    try:
        result = mended(case, tmp_path, without=[case.step])
    except AstraTacosError as error:
        assert "\n" not in str(error)
        assert not (tmp_path / "out").exists()
    else:  # another step has found another way
        assert result.skipped == (case.step,) and all(change.step != case.step for change in result.changes)


def test_every_step_is_shown():
    assert {case.step for case in CASES} == {mend.name for mend in MENDS}
    assert len({mend.name for mend in MENDS}) == len(MENDS)
    for mend in MENDS:
        assert set(mend.codes) <= set(RULES)
        assert len(mend.explanation.split("\n\n")) > 1, mend.name


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (every("comp 0", npus=(3,)), "w.2.et: no such file, and the network has 3 NPUs"),
        ("2 * coll 3 -comm_size", "a collective without a size"),
        ("coll 1 | coll 1 comm_type=ALL_GATHER", "ALL_REDUCE and ALL_GATHER"),
        (
            "coll 1 | coll 1 comm_type=ALL_GATHER | coll 1 -comm_type",
            "neither 'n1' nor other ranks tell it",
        ),
        ("coll 1 | comp 1", "rank 1 runs no collective in group of all ranks, rank 0 runs 1"),
        ("comp 3 us=1<<53 | comp 0", "A06: w.0.et node 3: takes 9,007,199,254,740,992 us"),
        (
            RunFiles(
                "coll 1 group=1; coll 2 [1] group=2 | coll 2 group=2; coll 1 [2] group=1",
                groups="{'1': [0, 1], '2': [0, 1]}",
            ),
            "deadlock: ranks order their collectives differently",
        ),
        ("comp 7; comp 7; comp 8 [7] | comp 0", "several nodes have the id 7, and others depend on it"),
        (every([coll(3, comm_size="4 KiB")]), "comm_size is '4 KiB'"),
        (RunFiles("comp 0", npus=(2,)), "--ranks N replicates it"),
        (every("comp 3 us=0 num_ops=9 tensor_size=9", system="roofline-enabled: 1"), "peak-perf is absent"),
    ],
)
def test_what_nothing_tells_is_refused_in_one_line(run, says, tmp_path):
    assert says in refusal(repair, RepairInputs(**run_of(run).write(tmp_path)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_step_is_refused(tmp_path):
    run = RepairInputs(**RunFiles("2 * comp 0").write(tmp_path))
    with pytest.raises(ConfigError, match="'cycle', expected one of compressed-traces, "):
        repair(run, tmp_path / "out", without=["cycle"])


def test_a_trace_that_begins_with_no_metadata_is_refused_in_one_line(tmp_path):
    inputs = RepairInputs(**run_of("2 * comp 0").write(tmp_path))
    trace = tmp_path / "workload/w.1.et"
    trace.write_bytes(b"\x02\x0e\x01" + trace.read_bytes())
    assert "w.1.et: byte 0: not a Chakra message" in refusal(repair, inputs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_network_of_as_many_ranks_as_are_asked_for_has_a_limit(tmp_path):
    trace = RunFiles("comp 0", npus=(2,)).write(tmp_path)["workload"]
    says = refusal(lambda: repair(RepairInputs(trace), tmp_path / "out", num_ranks=1_000_000_000))
    assert says == f"{trace}: 1,000,000,000 ranks, expected at most 1,000,000: --ranks says how many"


def test_a_run_is_looked_at_without_a_copy_of_it(tmp_path, monkeypatch):
    """Findings and errors name the files that the run will have; only the output is written."""
    monkeypatch.setattr("astra_tacos.support.temporaries.create_scratch_directory", None)
    crossed = [[coll(0), coll(1, group=1)], [coll(0, group=1), coll(1)]]
    files = RunFiles(crossed, groups={"1": [0, 1]}).write(tmp_path / "crossed")
    del files["directory"]
    result = repair(RepairInputs(**files), tmp_path / "out")
    assert any(change.step == "collective-order" for change in result.changes)
    bound = [[coll(0), coll(1, [0], group=1)], [coll(0, group=1), coll(1, [0])]]
    files = RunFiles(bound, groups={"1": [0, 1]}).write(tmp_path / "bound")
    del files["directory"]
    with pytest.raises(ConfigError, match=r"\Acannot be repaired \(collective-order\): workload/w: deadlock: ranks order"):
        repair(RepairInputs(**files), tmp_path / "none")
    assert not (tmp_path / "none").exists()
