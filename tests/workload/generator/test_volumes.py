"""Bytes and operations of generated runs against closed formulas, summed over what protobuf reads."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import pytest
from helpers.generated import parse_rank, small_model

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.model import PRESETS
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

AR, AG, RS, A2A = CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL
LOSS_BYTES = 12

CASES = {
    "tensor": Step(small_model(), Parallelism(tp=4), 3, 2),
    "sequence": Step(small_model(), Parallelism(tp=4), 3, 2, sequence_parallel=True),
    "data": Step(small_model(), Parallelism(dp=4), 2, 1, buckets=3),
    "zero": Step(small_model(), Parallelism(dp=3), 2, 1, buckets=2, shards_optimizer=True),
    "pipeline": Step(small_model(), Parallelism(pp=4), 5),
    "gpipe": Step(small_model(), Parallelism(pp=2, tp=2), 3, schedule="gpipe"),
    "all": Step(small_model(is_gated=True, kv_heads=4), Parallelism(4, 2, 2), 2, 1, buckets=2),
    "all sharded": Step(small_model(), Parallelism(2, 2, 4), 5, 2, shards_optimizer=True, sequence_parallel=True),
    "experts": Step(small_model(experts=8, top_k=2), Parallelism(4, 2, 2, 4), 2),
    "copied experts": Step(small_model(experts=4, top_k=2), Parallelism(4, 1, 2, 2), 2, buckets=3),
    "sharded experts": Step(small_model(experts=4, top_k=3), Parallelism(4, 2, 1, 2), 2, 1, 1, True, sequence_parallel=True),
    "own experts": Step(small_model(experts=4), Parallelism(2, 2, 1, 1), 2),
}


def padded(weights, copies, buckets):
    """Bytes of gradients, each bucket a multiple of the copies."""
    ends = [weights * number // buckets for number in range(buckets + 1)]
    return 2 * sum(-(-(end - begin) // copies) * copies for begin, end in itertools.pairwise(ends))


def expected(step, stage):
    """Bytes of a rank by pattern and kind of group, from the sizes of the model alone."""
    model, split = step.model, step.parallelism
    layers, passes = model.layers // split.pp, step.micro_batches
    first, last = stage == 0, stage == split.pp - 1
    tokens = step.batch * model.sequence
    whole = tokens * model.hidden * 2
    volume: dict[tuple[CommType, str], int] = defaultdict(int)
    if split.tp > 1:
        volume[AR, "tensor"] += last * passes * LOSS_BYTES * tokens
        fold = model.top_k if model.experts else 1
        if step.sequence_parallel:
            # Attention and MLP each: a Reduce-Scatter forward and one backward, and three All-Gathers.
            volume[RS, "tensor"] += passes * whole * (layers * 2 * (1 + fold) + first + last)
            volume[AG, "tensor"] += passes * whole // split.tp * (layers * 3 * (1 + fold) + first + 2 * last)
        else:
            volume[AR, "tensor"] += passes * whole * (layers * 4 + first + last)
    if split.ep > 1:
        sent = whole * model.top_k // (split.tp if step.sequence_parallel else 1)
        volume[A2A, "expert"] += passes * layers * 4 * sent
    attention = (2 * model.hidden**2 + 2 * model.hidden * model.kv_width) // split.tp
    mlp = (3 if model.is_gated else 2) * model.hidden * model.ffn // split.tp
    dense = attention + (model.hidden * model.experts if model.experts else mlp)
    ends = model.hidden * model.vocab // split.tp
    gradients = layers * padded(dense, split.dp, step.buckets) + (first + last) * padded(ends, split.dp, 1)
    copies = split.dp // split.ep
    of_experts = layers * padded(model.experts // split.ep * mlp, copies, step.buckets) if model.experts else 0
    for kind, size, num_bytes in (("data", split.dp, gradients), ("expert-data", copies, of_experts)):
        if size > 1 and num_bytes:
            if step.shards_optimizer:
                volume[RS, kind] += num_bytes
                volume[AG, kind] += num_bytes // size
            else:
                volume[AR, kind] += num_bytes
    return {key: num_bytes for key, num_bytes in volume.items() if num_bytes}


def written(step, folder):
    """Nodes of all ranks, and the first kind of group that a pg_name is of."""
    generate(step, folder)
    ranks = [parse_rank(folder, rank) for rank in range(step.parallelism.num_ranks)]
    groups = json.loads((folder / "generated.json").read_text())["groups"]
    kinds: dict[str, str] = {}
    for kind, ids in groups.items():
        for number in ids:
            kinds.setdefault(str(number), kind)
    return ranks, kinds


@pytest.mark.parametrize("case", list(CASES))
def test_bytes(case, tmp_path):
    step = CASES[case]
    ranks, kinds = written(step, tmp_path / "run")
    stages = step.parallelism.coordinate("pp").tolist()
    for rank, nodes in enumerate(ranks):
        found: dict[tuple[CommType, str], int] = defaultdict(int)
        sent = 0
        for node in nodes:
            if node.kind == NodeType.COMM_COLL:
                found[CommType(node["comm_type"]), kinds[node["pg_name"]]] += node["comm_size"]
            sent += node["comm_size"] if node.kind == NodeType.COMM_SEND else 0
        wanted: dict[tuple[CommType, str], int] = defaultdict(int)
        for (pattern, kind), num_bytes in expected(step, stages[rank]).items():
            # Groups of the same ranks are one group.
            same = kind == {step.parallelism.dp: "expert", 1: "expert-data"}.get(step.parallelism.ep)
            wanted[pattern, "data" if same else kind] += num_bytes
        assert found == wanted
        hops = (stages[rank] > 0) + (stages[rank] < step.parallelism.pp - 1)
        whole = step.batch * step.model.sequence * step.model.hidden * 2
        shard = whole // (step.parallelism.tp if step.sequence_parallel else 1)
        assert sent == hops * step.micro_batches * shard


@pytest.mark.parametrize("case", list(CASES))
def test_operations(case, tmp_path):
    """Six per parameter and token, twelve per layer, token, token of the sequence and width for attention scores."""
    step = CASES[case]
    model, split = step.model, step.parallelism
    ranks, _ = written(step, tmp_path / "run")
    total = {"embedding": 0, "optimizer": 0, "router": 0, "": 0}
    for node in (node for nodes in ranks for node in nodes if node.kind == NodeType.COMP):
        part = next(name for name in total if name in node.name)
        total[part] += node["num_ops"]
        assert node["num_ops"] > 0 and node["tensor_size"] > 0
    tokens = split.dp * step.micro_batches * step.batch * model.sequence
    router = model.layers * model.hidden * model.experts
    scores = 12 * model.layers * model.sequence * model.hidden
    assert total[""] == tokens * (6 * (model.active_parameters - router) + scores)
    # Not sharded: every tensor-parallel rank does it, for all tokens or for its own.
    assert total["router"] == tokens * 6 * router * (1 if step.sequence_parallel else split.tp)
    assert total["embedding"] == tokens * 2 * model.hidden * split.tp
    if not step.shards_optimizer:
        experts = model.layers * max(model.experts, 1) * model.mlp_weights
        dense = model.parameters - (experts if model.experts else 0) - router
        held = split.dp * (dense + router * split.tp) + (split.expert_copies * experts if model.experts else 0)
        assert total["optimizer"] == 12 * held


@pytest.mark.parametrize(
    ("name", "billions"),
    {"gpt3-6.7b": 6.7, "gpt3-175b": 175, "llama-7b": 6.7, "llama-65b": 65.2, "mixtral-8x7b": 46.7}.items(),
)
def test_published_models_have_their_published_size(name, billions):
    """Without the output head where the model shares it with the embedding, as GPT-3 does."""
    model = PRESETS[name]
    shared = model.vocab * model.hidden if name.startswith("gpt3") else 0
    assert (model.parameters - shared) / 1e9 == pytest.approx(billions, rel=0.02)
