"""What is written: as protobuf reads it, the same bytes each time, and nothing where it does not belong."""

from __future__ import annotations

import json

import pytest
from helpers.generated import parse_rank, small_model

from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

STEP = Step(small_model(experts=4, top_k=2), Parallelism(4, 2, 2, 2), 2, buckets=2)


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_bytes_each_time(tmp_path):
    run = generate(STEP, tmp_path / "a")
    first = content(run.path)
    assert set(first) == {
        *(f"workload/w.{rank}.et" for rank in range(16)),
        "comm_group.json",
        "system.json",
        "remote_memory.json",
        "generated.json",
    }
    assert content(generate(STEP, tmp_path / "a").path) == first
    assert content(generate(STEP, tmp_path / "b").path) == first


def test_a_layer_in_order(tmp_path):
    step = Step(small_model(layers=1), Parallelism(dp=2, tp=2))
    nodes = parse_rank(generate(step, tmp_path / "run").path, 0)
    expected = """
        embedding_forward_mb0 embedding_forward_all_reduce_mb0 mb0_attention_forward_layer0
        mb0_attention_forward_all_reduce_layer0 mb0_mlp_forward_layer0 mb0_mlp_forward_all_reduce_layer0
        head_forward_mb0 loss_all_reduce_mb0 head_input_gradient_mb0 head_backward_all_reduce_mb0
        head_weight_gradient_mb0 head_gradient_bucket0 mb0_mlp_input_gradient_layer0
        mb0_mlp_backward_all_reduce_layer0 mb0_mlp_weight_gradient_layer0 mb0_attention_input_gradient_layer0
        mb0_attention_backward_all_reduce_layer0 mb0_attention_weight_gradient_layer0 layer0_gradient_bucket0
        embedding_backward_mb0 embedding_gradient_bucket0 optimizer_step0
    """
    assert [node.name for node in nodes] == expected.split()
    by_name = {node.name: node for node in nodes}
    gradient = by_name["mb0_attention_input_gradient_layer0"]
    assert [nodes[id].name for id in gradient.data] == ["mb0_attention_forward_layer0", "mb0_mlp_backward_all_reduce_layer0"]
    assert [nodes[id].name for id in gradient.ctrl] == ["mb0_mlp_weight_gradient_layer0"]
    bucket = by_name["layer0_gradient_bucket0"]
    assert [nodes[id].name for id in bucket.data] == ["mb0_mlp_weight_gradient_layer0", "mb0_attention_weight_gradient_layer0"]
    assert [nodes[id].name for id in bucket.ctrl] == ["mb0_attention_backward_all_reduce_layer0"]
    assert bucket["comm_type"] == CommType.ALL_REDUCE


def test_a_network_of_listed_links_counts_as_one_dimension(tmp_path):
    rows = "".join(f"{npu},{(npu + 1) % 16},50,500\n" for npu in range(16))
    (tmp_path / "n.csv").write_text("src,dst,bandwidth,latency\n" + rows)
    (tmp_path / "n.yml").write_text("astra_tacos:\n  links: n.csv\n")
    run = generate(STEP, tmp_path / "run", network=tmp_path / "n.yml")
    assert json.loads((run.path / "system.json").read_text())["all-reduce-implementation"] == ["ring"]


def test_a_collective_of_fewer_bytes_than_ranks_gets_a_byte_per_rank_as_in_astra_sim(tmp_path):
    run = generate(Step(small_model(sequence=1), Parallelism(4, 2, 2)), tmp_path / "run")
    trace = read_trace(run.path / "workload/w", workload=True)
    assert trace.size_bytes[trace.kind == NodeType.COMM_COLL].min() == 16


def test_refuses_what_cannot_be(tmp_path):
    with pytest.raises(ConfigError, match=r"embedding_forward_mb0: .* are too many"):
        generate(Step(small_model(sequence=1 << 24), Parallelism(2), batch=1 << 40), tmp_path / "run")
    with pytest.raises(ConfigError, match="found 98,304,000 nodes in all or more, expected at most 50,000,000: choose fewer"):
        generate(Step(small_model(), Parallelism(512, 2), 4000), tmp_path / "run")
    with pytest.raises(ConfigError, match="found 402,653,184,000 nodes of a rank or more, expected at most 1,000,000"):
        generate(Step(small_model(layers=1 << 24), Parallelism(2), 4000), tmp_path / "run")
    with pytest.raises(ConfigError, match="buckets: found 1,000,000,000, expected 1 to 1,024"):
        Step(small_model(), Parallelism(2), buckets=10**9)
    with pytest.raises(ConfigError, match=r"takes .* s, expected less than ASTRA-sim's clock"):
        generate(STEP, tmp_path / "run", Device(1e-300, writes_durations=True))
    assert not [*tmp_path.iterdir()]
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="exists and is not a generated run"):
        generate(STEP, tmp_path / "run")
    with pytest.raises(ConfigError, match="exists and is not a directory"):
        generate(STEP, tmp_path / "run/thesis.tex")
    assert content(tmp_path / "run") == {"thesis.tex": b"x"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": 60}, "heads: found 8, expected a divisor of hidden, which is 60"),
        ({"kv_heads": 3}, "kv-heads: found 3, expected a divisor of heads, which is 8"),
        ({"top_k": 2}, "top-k: found 2, but there are no experts"),
        ({"experts": 2, "top_k": 3}, "top-k: found 3, but there are 2 experts"),
        ({"layers": 0}, "layers: found 0, expected 1 or more"),
    ],
)
def test_refuses_models(changes, message):
    with pytest.raises(ConfigError, match=message):
        small_model(**changes)
