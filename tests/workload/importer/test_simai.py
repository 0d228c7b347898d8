"""Workload texts of SimAI become runs: rows in order, groups by the degrees of parallelism, whole us, sizes of one rank."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers.peers import peers
from helpers.plans import attributes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.import_run import ImportOptions, import_run
from astra_tacos.workload.importer.layers import collectives_of_one, first_word, layer_nodes
from astra_tacos.workload.importer.simai import POLICY, read_simai_workload

HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: 1 ga: 1 all_gpus: {gpus} "
    "checkpoints: {kept} checkpoint_initiates: {again}"
)
ROWS = (
    "embedding -1 1500 ALLREDUCE 65536 700 NONE 0 800 ALLREDUCE 1048576 100",
    "experts\t-1\t2000\tALLTOALL_EP\t4096\t2000\tALLGATHER\t4096\t1\tREDUCESCATTER_DP_EP\t8192\t100",
)


def text(*rows, tp=2, ep=2, pp=1, gpus=8, kept="0", again="0"):
    head = HEADER.format(tp=tp, ep=ep, pp=pp, gpus=gpus, kept=kept, again=again)
    return "\n".join((head, str(len(rows)), *rows)) + "\n"


def written(folder, content):
    path = folder / "workload.txt"
    path.write_text(content)
    return path


def test_layers_become_a_run(tmp_path):
    path = written(tmp_path, text(*ROWS))
    assert first_word(path) == POLICY
    result = import_run([path], tmp_path / "out")
    # 1.5 + 2 + 2 + 0.7 + 0.001 + 0.8 us of phases, 3 x 0.1 us after collectives that others wait for; 2 x 0.1 us after the
    # others are less than half a us. The real ASTRA-sim ends this run at the same time.
    assert result.compute_us == (8 * 7, 8 * 7)
    nodes = read_messages(tmp_path / "out/workload/w.0.et")[1]
    found = [(node.name, attributes(node)["comm_type"], attributes(node)["comm_size"]) for node in nodes if node.type == 7]
    assert found == [
        ("embedding forward", CommType.ALL_REDUCE, 65536),
        ("experts forward", CommType.ALL_TO_ALL, 4096),
        ("experts input gradient", CommType.ALL_GATHER, 2048),  # of 2 ranks, which have 4096 in the end
        ("experts weight gradient", CommType.REDUCE_SCATTER, 8192),
        ("embedding weight gradient", CommType.ALL_REDUCE, 1048576),
    ]


def test_groups_are_those_of_simai(tmp_path):
    """Neighbours share a tensor; then come experts, then copies of the experts."""
    groups = read_simai_workload(written(tmp_path, text(*ROWS, gpus=16))).groups()
    assert groups["tp"] == [range(rank, rank + 2) for rank in range(0, 16, 2)]
    assert groups["dp"] == [range(first, 16, 2) for first in (0, 1)]
    assert groups["ep"] == [range(first, first + 4, 2) for first in (0, 1, 4, 5, 8, 9, 12, 13)]
    assert groups["dp_ep"] == [range(first, 16, 4) for first in range(4)]


def test_layers_are_computed_again_from_a_checkpoint(tmp_path):
    rows = [f"layer{number} -1 1000 NONE 0 1000 NONE 0 1000 NONE 0 0" for number in range(4)]
    workload = read_simai_workload(written(tmp_path, text(*rows, kept="1 1", again="1 3")))
    names = [step.name for step in workload.work()]
    assert names[4:8] == ["layer1 recomputation", "layer2 recomputation", "layer3 input gradient", "layer3 weight gradient"]
    assert len(names) == 4 + 2 + 8


@given(
    st.lists(st.tuples(*[st.integers(0, 3_000)] * 4, st.integers(0, 5)), min_size=1, max_size=6),
    st.sampled_from(((1, 1), (2, 1), (2, 2), (4, 1), (8, 1), (1, 4))),
)
def test_no_computation_is_lost(tmp_path_factory, rows, degrees):
    """The sum of a rank is that of its rows, rounded once for what follows in turn and once for updates of weights."""
    kinds = ("NONE", "ALLREDUCE", "ALLGATHER_EP", "ALLTOALL", "REDUCESCATTER_DP_EP", "ALLREDUCE")
    lines = [f"l -1 {a} {kinds[kind]} 640 {b} {kinds[-kind]} 64 {c} {kinds[kind]} 640 {d}" for a, b, c, d, kind in rows]
    tp, ep = degrees
    workload = read_simai_workload(written(tmp_path_factory.mktemp("w"), text(*lines, tp=tp, ep=ep)))
    sizes = {axis: len(groups[0]) for axis, groups in workload.groups().items()}
    chain = updates = 0
    for _, phase, update_ns, is_blocking, _ in workload.work():
        has_collective = phase.pattern is not None and sizes[phase.axis] > 1
        chain += phase.compute_ns + update_ns * (has_collective and is_blocking)
        updates += update_ns * (has_collective and not is_blocking)
    for nodes in layer_nodes(workload):
        assert sum(node.duration_us for node in nodes) == round(chain / 1_000) + round(updates / 1_000)
        assert all(dep < number for number, node in enumerate(nodes) for dep in node.deps)
    kinds_of_ranks = [Counter(node.call.pattern for node in nodes if node.call) for nodes in layer_nodes(workload)]
    assert all(kinds == kinds_of_ranks[0] for kinds in kinds_of_ranks)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(*ROWS).replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "DATA"), "does not say its ranks, expected --network"),
        (text(*ROWS, gpus=9), "all_gpus is 9, expected a multiple of 2 x 1 x 2"),
        (text(*ROWS).replace("all_gpus: 8", ""), "all_gpus is missing, expected --ranks N"),
        (text(*ROWS).replace("\n2\n", "\n3\n"), "found '3', expected 2"),
        (text("a -1 1 NONE 0 1 NONE 0 1 NONE 0"), "11 columns, expected 12"),
        (text("a -1 1 BROADCAST 8 1 NONE 0 1 NONE 0 1"), "collective is 'BROADCAST'"),
        (text("a -1 1.5 NONE 0 1 NONE 0 1 NONE 0 1"), "compute time is '1.5'"),
        (text(*ROWS, kept="1 0", again="1 0"), "checkpoint_initiates has layer 0, expected a layer after a checkpoint"),
        (text(*ROWS, kept="3 0"), "checkpoints is"),
        (text(ROWS[0], tp=2, ep=1, pp=4, gpus=8).replace("NPU_group: 2", "NPU_group: 1").replace("pp: 4", "pp: 8"), "one GPU a"),
        (text("a -1 0 NONE 0 0 NONE 0 0 NONE 0 0"), "no computation of a us and no collective"),
        (text(*ROWS * 60, gpus=8_192), "8,192 ranks with 360 phases each, expected at most"),
        (text(*ROWS, gpus=1 << 24), "16,777,216 GPUs a pipeline stage, expected at most 1,000,000"),
        (HEADER.split()[0], "1 lines, expected a header"),
    ],
)
def test_what_is_refused(content, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as found:
        import_run([written(tmp_path, content)], tmp_path / "out")
    assert "\n" not in str(found.value) and not (tmp_path / "out").exists()


def test_a_text_comes_alone(tmp_path):
    path = written(tmp_path, text(*ROWS))
    with pytest.raises(ConfigError, match="expected a single file"):
        import_run([path, path], tmp_path / "out")
    with pytest.raises(ConfigError, match="without --ranks"):
        import_run([path], tmp_path / "out", options=ImportOptions(num_ranks=8))


def test_ranks_says_what_a_header_does_not(tmp_path):
    path = written(tmp_path, text(*ROWS, pp=2).replace("all_gpus: 8 ", ""))
    result = import_run([path], tmp_path / "out", options=ImportOptions(num_ranks=16))
    assert len(result.outcome.finish_ns) == 8
    with pytest.raises(ConfigError, match="1: --ranks is 9, expected a multiple of 2 x 2 x 2"):
        import_run([path], tmp_path / "none", options=ImportOptions(num_ranks=9))


def test_sizes_that_are_rounded_are_told(tmp_path):
    row = "a -1 1000 ALLGATHER 4097 1000 NONE 0 1000 NONE 0 0"
    result = import_run([written(tmp_path, text(row))], tmp_path / "out")
    assert any("1 All-Gathers" in change.what for change in result.changes)
    nodes = read_messages(tmp_path / "out/workload/w.0.et")[1]
    assert next(attributes(node)["comm_size"] for node in nodes if node.type == NodeType.COMM_COLL) == 2049


@given(
    st.lists(
        st.tuples(*[st.sampled_from(("NONE 0", "ALLGATHER 64", "ALLTOALL_EP 128", "REDUCESCATTER_DP_EP 64"))] * 3), min_size=1
    ),
    st.sampled_from([(1, 1, 4), (2, 1, 2), (2, 2, 4), (1, 4, 4), (4, 1, 4), (1, 1, 2)]),
)
def test_collectives_of_one_rank_are_listed(tmp_path_factory, phases, degrees):
    """Each collective of the text is a node of a rank or among those that are listed, with their bytes."""
    tp, ep, gpus = degrees
    lines = ["a -1 " + " ".join(f"1000 {each}" for each in row) + " 1" for row in phases]
    path = written(tmp_path_factory.mktemp("run"), text(*lines, tp=tp, ep=ep, gpus=gpus))
    workload = read_simai_workload(path)
    made = sum(node.kind == NodeType.COMM_COLL for node in layer_nodes(workload)[0])
    left_out = collectives_of_one(workload)
    sizes = {"NONE": 0, "ALLGATHER": 64, "ALLTOALL_EP": 128, "REDUCESCATTER_DP_EP": 64}
    words = [each.split()[0] for row in phases for each in row]
    assert made + sum(count for _, _, count, _ in left_out) == sum(word != "NONE" for word in words)
    alone = {"ALLTOALL_EP": ep == 1, "REDUCESCATTER_DP_EP": gpus == tp * ep}
    expected = sum(sizes[word] for word in words if alone.get(word))
    axes = (tp, tp, gpus // tp)
    expected += sum(
        64 for row in phases for each, size in zip(row, axes, strict=True) if each.startswith("ALLGATHER") and size == 1
    )
    assert sum(size for *_, size in left_out) == expected


def test_what_is_left_out_is_told(tmp_path):
    """A micro test of a tensor's collective, on as many tensor ranks as there are and on one."""
    row = "embedding_layer -1 556000 ALLREDUCE 16777216 1 NONE 0 1 NONE 0 1"
    result = import_run([written(tmp_path, text(row, tp=8, ep=1))], tmp_path / "out")
    assert not result.changes
    result = import_run([written(tmp_path, text(row, row, tp=1, ep=1))], tmp_path / "out")
    assert [change.what for change in result.changes] == [
        "left out 2 ALL_REDUCE of each rank, 33,554,432 bytes in all: each tensor group is one rank"
    ]
    with pytest.raises(ConfigError, match="no collective of two or more ranks, expected"):
        import_run([written(tmp_path, text("a -1 0 ALLREDUCE 64 0 NONE 0 0 NONE 0 0", tp=1, ep=1))], tmp_path / "none")


def test_somebodys_zero3_text(tmp_path):
    found, missing = peers("reports/simai_zero3.txt")
    if not found:
        pytest.skip(missing)
    result = import_run(found, tmp_path / "out", options=ImportOptions(num_ranks=8))
    assert [change.what.split(" of ")[0] for change in result.changes] == ["left out 2 ALL_GATHER"]
