"""Workload texts of ASTRA-sim 1.0 become runs: work of a rank, groups, order, and what waits."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod

import pytest
from helpers.plans import attributes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.run import RunInputs
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.astra_sim_1 import read_astra_sim_1_workload
from astra_tacos.workload.importer.import_run import ImportOptions, import_run
from astra_tacos.workload.importer.layers import layer_groups, layer_nodes
from astra_tacos.workload.lint import lint
from astra_tacos.workload.repairer.reading import RepairInputs

PATTERNS = {
    "ALLREDUCE": CommType.ALL_REDUCE,
    "ALLGATHER": CommType.ALL_GATHER,
    "REDUCESCATTER": CommType.REDUCE_SCATTER,
    "ALLTOALL": CommType.ALL_TO_ALL,
}
MODEL_GROUP = "model_parallel_NPU_group:"
HEADERS = {
    "DATA": "DATA",
    "MODEL": "MODEL",
    "MICRO": "MICRO",
    "HYBRID_DATA_MODEL": "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA": "HYBRID_MODEL_DATA",
    "HYBRID_TRANSFORMER": f"HYBRID_TRANSFORMER {MODEL_GROUP} 2",
    "HYBRID_DLRM": "HYBRID_DLRM 1",
    "HYBRID_DLRM_ENHANCED": "HYBRID_DLRM_ENHANCED 1",
    "DISTRIBUTED_INFERENCE": "DISTRIBUTED_INFERENCE",
}
ROWS = tuple(
    f"layer{number} -1 {1 + number}000 ALLTOALL {64 << number} 2000 ALLREDUCE {640 << number} 3000 REDUCESCATTER 256 1000"
    for number in range(4)
)


def text(*rows, head="DATA"):
    return "\n".join((head, str(len(rows)), *rows)) + "\n"


def written(folder, content):
    path = folder / "workload.txt"
    path.write_text(content)
    return path


def network(folder, *sizes):
    path = folder / "network.yml"
    values = {"topology": ["Ring"], "npus_count": sizes, "bandwidth": [50.0], "latency": [500.0]}
    path.write_text(
        "".join(f"{key}: [ {', '.join(map(str, [*value] * (len(sizes) // len(value))))} ]\n" for key, value in values.items())
    )
    return path


def expected_work(policy, rows, bottom):
    """Time and collectives of one pass that ASTRA-sim 1.0 counts, by hand from its loops: ns in turn and after collectives."""
    chain, after, calls = 0, 0, []
    last = len(rows) - 1
    for number, row in enumerate(rows):
        times, kinds, update = row[:3], row[3:6], row[6]
        is_dlrm = policy.startswith("HYBRID_DLRM")
        if policy == "MICRO":
            runs, starts = (0, 0, 0), (0, 0, number == 0)
        elif policy == "DATA":
            runs, starts = (1, number > 0, 1), (0, 0, 1)
        elif is_dlrm:
            runs = (1, number > 0, 1)
            starts = (number == 0 and kinds[0][0] == "ALLTOALL", number == 0 and bottom < last, 1)
        elif policy == "DISTRIBUTED_INFERENCE":
            runs, starts = (1, 0, 0), (1, 0, 0)
        else:
            runs, starts = (1, 1, 1), (1, number > 0 or policy == "HYBRID_TRANSFORMER", policy != "MODEL")
        chain += sum(time for time, counts in zip(times, runs, strict=True) if counts)
        for phase, (kind, counts) in enumerate(zip(kinds, starts, strict=True)):
            if counts and kind[0] != "NONE" and kind[1]:
                calls.append((PATTERNS[kind[0]], kind[1], phase))
                blocks = phase == 0 and not is_dlrm
                chain, after = chain + update * blocks, after + update * (not blocks)
    return chain, after, calls


_KINDS = st.tuples(st.sampled_from(("NONE", *PATTERNS)), st.sampled_from((0, 640, 1280)))
_ROWS = st.lists(st.tuples(*[st.integers(0, 3_000)] * 3, *[_KINDS] * 3, st.integers(0, 900)), min_size=2, max_size=5)


@given(_ROWS, st.sampled_from(sorted(HEADERS)), st.sampled_from(((4, 3), (2, 2, 2))), st.integers(1, 3))
def test_totals_are_those_of_the_text(tmp_path_factory, rows, policy, sizes, passes):
    """The time and the bytes of a rank are those that ASTRA-sim 1.0's loops count; groups are those of the dimensions."""
    lines = []
    for number, (fwd, inputs, weights, *kinds, update) in enumerate(rows):
        phases = zip((fwd, inputs, weights), kinds, strict=True)
        lines.append(f"l{number} -1 {' '.join(f'{time} {kind} {size}' for time, (kind, size) in phases)} {update}")
    path = written(tmp_path_factory.mktemp("w"), text(*lines, head=HEADERS[policy]))
    workload = read_astra_sim_1_workload(path, sizes, passes)
    chain, after, calls = expected_work(policy, rows, bottom=1)
    inner = 2 if policy == "HYBRID_TRANSFORMER" else sizes[0]
    members = {"all": prod(sizes), "inner": inner, "outer": prod(sizes) // inner}
    axis = {"HYBRID_DATA_MODEL": ("inner", "inner", "outer"), "HYBRID_MODEL_DATA": ("outer", "outer", "inner")}
    axes = axis.get(policy, ("inner", "inner", "outer") if policy == "HYBRID_TRANSFORMER" else ("all",) * 3)
    groups = layer_groups(workload)
    for rank, nodes in enumerate(layer_nodes(workload)):
        assert sum(node.duration_us for node in nodes) == round(passes * chain / 1_000) + round(passes * after / 1_000)
        assert all(dep < number for number, node in enumerate(nodes) for dep in node.deps)
        found = Counter()
        for node in nodes:
            if node.call is not None:
                group = range(prod(sizes)) if node.call.group == "0" else groups[node.call.group]
                assert rank in group
                found[node.call.pattern, node.call.size_bytes, len(group), group[1] - group[0]] += 1
        expected = Counter()
        for pattern, size, phase in calls:
            expected[pattern, size, members[axes[phase]], inner if axes[phase] == "outer" else 1] += passes
        assert found == expected


@pytest.mark.parametrize("policy", sorted(HEADERS))
def test_runs_are_clean_and_end(policy, tmp_path):
    """`import` replays; `lint` finds no error and no warning, also of several passes."""
    inputs = RepairInputs(network=network(tmp_path, 2, 4))
    result = import_run(
        [written(tmp_path, text(*ROWS, head=HEADERS[policy]))], tmp_path / "out", inputs, ImportOptions(num_passes=2)
    )
    assert result.outcome.end_ns > 0
    assert not lint(RunInputs.in_folder(tmp_path / "out", "w")).findings


def ancestors(nodes):
    """For each node, all nodes that it waits for, through others."""
    before = []
    for node in nodes:
        before.append({other for dep in node.deps for other in (dep, *before[dep])})
    return before


def waits(workload):
    """Pairs of names (with the pass) of which the first waits for the second, and names of all nodes of rank 0."""
    nodes = layer_nodes(workload)[0]
    seen, names = Counter(), []
    for node in nodes:
        kind = f"{node.name}{' done' if node.call is not None else ''}"
        seen[kind] += 1
        names.append(f"{kind} {seen[kind]}")
    return {(names[number], names[other]) for number, earlier in enumerate(ancestors(nodes)) for other in earlier}, names


def test_what_waits_for_what(tmp_path):
    """Forward and input gradients are waited for by what follows, weight gradients by the next pass."""
    for policy, sizes in product(("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER"), ((2, 4),)):
        workload = read_astra_sim_1_workload(written(tmp_path, text(*ROWS, head=HEADERS[policy])), sizes, 2)
        pairs, _ = waits(workload)
        assert ("layer1 forward 1", "layer0 forward done 1") in pairs
        assert ("layer2 input gradient 1", "layer3 input gradient done 1") in pairs
        assert ("layer3 weight gradient 1", "layer3 input gradient done 1") not in pairs
        assert ("layer0 weight gradient 1", "layer3 weight gradient done 1") not in pairs
        assert ("layer1 forward 2", "layer1 weight gradient done 1") in pairs
        assert ("layer1 forward 2", "layer2 weight gradient done 1") not in pairs


def test_bottom_layers_of_a_dlrm(tmp_path):
    """The bottom layers hide the exchange of the embedding; the gradient's exchange begins after the top layers."""
    rows = ["embedding -1 1000 ALLTOALL 64 1000 ALLTOALL 64 1000 NONE 0 1000"]
    rows += [f"mlp{number} -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 640 1000" for number in range(4)]
    for policy, is_enhanced in (("HYBRID_DLRM", False), ("HYBRID_DLRM_ENHANCED", True)):
        pairs, names = waits(read_astra_sim_1_workload(written(tmp_path, text(*rows, head=f"{policy} 2")), (4,), 2))
        assert ("mlp1 forward 1", "embedding forward done 1") not in pairs
        assert ("mlp2 forward 1", "embedding forward done 1") in pairs
        gradient = "embedding input gradient done 1"
        assert (gradient, "mlp2 input gradient 1") in pairs and (gradient, "mlp1 weight gradient 1") not in pairs
        assert ("embedding weight gradient 1", gradient) not in pairs
        assert (("embedding forward 2", gradient) in pairs) != is_enhanced
        assert names.count("embedding forward done 1") == 1 and "embedding input gradient 1" not in names


def test_layers_of_their_own_kind(tmp_path):
    row = "{} -1 1000 ALLGATHER 64 1000 NONE 0 1000 ALLREDUCE 256 0 {}"
    kinds = ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "DATA", "MODEL")
    path = written(tmp_path, text(*(row.format(kind.lower(), kind) for kind in kinds), head="HYBRID_CUSTOMIZED"))
    workload = read_astra_sim_1_workload(path, (2, 4))
    groups = layer_groups(workload)
    found = [(node.name, len(groups.get(node.call.group, range(8)))) for node in layer_nodes(workload)[0] if node.call]
    assert found == [
        ("hybrid_data_model forward", 2),
        ("hybrid_model_data forward", 4),
        ("model forward", 8),
        ("data weight gradient", 8),
        ("hybrid_model_data weight gradient", 2),
        ("hybrid_data_model weight gradient", 4),
    ]
    assert workload.never_issued() == [
        ("forward", CommType.ALL_GATHER, 1, 64),
        ("weight gradient", CommType.ALL_REDUCE, 1, 256),
    ]


def test_an_all_gather_has_the_bytes_of_a_rank(tmp_path):
    path = written(tmp_path, text("a -1 1000 ALLGATHER 64 1000 NONE 0 1000 NONE 0 0", head="MODEL"))
    import_run([path], tmp_path / "out", options=ImportOptions(num_ranks=4))
    nodes = read_messages(tmp_path / "out/workload/w.0.et")[1]
    assert [attributes(node)["comm_size"] for node in nodes if node.type == NodeType.COMM_COLL] == [64]


def test_what_is_left_out_is_told(tmp_path):
    path = written(tmp_path, text(*ROWS, head="DATA"))
    result = import_run([path], tmp_path / "out", options=ImportOptions(num_ranks=4))
    told = [change.what for change in result.changes if change.step == "import"]
    assert told == [
        "left out 4 ALL_TO_ALL of the forward, 960 bytes in all",
        "left out 4 ALL_REDUCE of the input gradient, 9,600 bytes in all",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(*ROWS, head="DATA 3"), "txt:1: found '3' after DATA, expected nothing"),
        (text(*ROWS, head="HYBRID_DLRM"), "txt:1: found '' after HYBRID_DLRM, expected the number of the last bottom layer"),
        (text(*ROWS, head="HYBRID_DLRM 4"), "txt:1: the last bottom layer is 4, expected 0 to 3"),
        (text(*ROWS, head="HYBRID_TRANSFORMER 4"), f"expected {MODEL_GROUP} N"),
        (text(*ROWS, head=f"HYBRID_TRANSFORMER {MODEL_GROUP} 3"), f"{MODEL_GROUP} is 3, expected a number that divides .* 4 x 2"),
        (text(*ROWS, head=f"HYBRID_TRANSFORMER {MODEL_GROUP} 0"), f"{MODEL_GROUP} is 0"),
        (text(*ROWS, head=f"HYBRID_TRANSFORMER {MODEL_GROUP} 16"), f"{MODEL_GROUP} is 16"),
        (text(*ROWS).replace("\n4\n", "\n5\n"), "txt:2: found '5', expected 4"),
        (text(), "no layers, expected a row for each"),
        (text("a -1 1 NONE 0 1 NONE 0 1 NONE 0"), "txt:3: 11 columns, expected 12"),
        (
            text("a -1 1 ALLREDUCEALLTOALL 8 1 NONE 0 1 NONE 0 1"),
            "txt:3: the collective is 'ALLREDUCEALLTOALL', expected NONE or",
        ),
        (text("a -1 1 ALLTOALL_EP 8 1 NONE 0 1 NONE 0 1"), "txt:3: the collective is 'ALLTOALL_EP'"),
        (text("a -1 1.5 NONE 0 1 NONE 0 1 NONE 0 1"), "txt:3: Forward compute time is '1.5'"),
        (
            text("a -1 1 NONE 0 1 NONE 0 1 NONE 0 1 MICROS", head="HYBRID_CUSTOMIZED"),
            "txt:3: the layer's parallelism is 'MICROS'",
        ),
        (text("a -1 0 NONE 0 0 NONE 0 0 NONE 0 0"), "no computation of a us and no collective"),
    ],
)
def test_what_is_refused(content, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as found:
        import_run([written(tmp_path, content)], tmp_path / "out", RepairInputs(network=network(tmp_path, 4, 2)))
    assert "\n" not in str(found.value) and not (tmp_path / "out").exists()


def test_options_that_do_not_fit(tmp_path):
    path = written(tmp_path, text(*ROWS))
    with pytest.raises(ConfigError, match="does not say its ranks, expected --network FILE or --ranks N"):
        import_run([path], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"--ranks: found 4, but .* has 8 NPUs"):
        import_run([path], tmp_path / "out", RepairInputs(network=network(tmp_path, 4, 2)), ImportOptions(num_ranks=4))
    simai = written(tmp_path, text(*ROWS, head=f"HYBRID_TRANSFORMER_FWD_IN_BCKWD {MODEL_GROUP} 1 all_gpus: 4"))
    with pytest.raises(ConfigError, match=r"--passes: found 2, but .* is a text of SimAI"):
        import_run([simai], tmp_path / "out", options=ImportOptions(num_passes=2))


def test_more_passes_than_nodes_allow_are_refused_before_they_are_made(tmp_path):
    with pytest.raises(ConfigError, match=r"4 ranks with 40,000,000,000,000 phases each or more, .* expected at most 500,000"):
        read_astra_sim_1_workload(written(tmp_path, text(*ROWS)), [4], 10**13)
