"""Models as lists of layers, DDP's buckets, several training steps, and virtual stages."""

from __future__ import annotations

import pytest
from helpers.command import run as command
from helpers.generated import parse_rank, small_model, write_network

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS, read_layer_file
from astra_tacos.workload.generator.layered_step import LayeredStep
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step
from astra_tacos.workload.lint import lint

MIB = 1 << 20


def end_ns(folder, network, *, is_realistic=True):
    groups = folder / "comm_group.json"
    files = (folder / "workload/w", folder / "system.json", network, groups if groups.is_file() else None)
    memory = folder / "remote_memory.json"
    found = {finding.code for finding in lint(RunInputs(*files, memory)).findings}
    assert not is_realistic or found <= {"G10"}  # what ASTRA-sim does at its end with native collectives in one dimension
    return replay_run(read_run(RunInputs(*files, memory)), "congestion-aware").end_ns


def all_reduces(nodes):
    return [node["comm_size"] for node in nodes if node.kind == NodeType.COMM_COLL]


@pytest.mark.parametrize(
    ("model", "parameters", "tensors", "buckets"),
    [
        ("resnet50", 25_557_032, 161, [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160]),
        ("vgg16", 138_357_544, 32, [16_388_000, 67_125_248, 411_058_176, 28_317_696, 28_319_744, 2_221_312]),
        ("bert-large", 335_141_888, None, None),
    ],
)
def test_ddp_makes_these_buckets(model, parameters, tensors, buckets, tmp_path):
    """Buckets are what PyTorch's rule gives for the models' tensors (design facts, solved by hand)."""
    made = LAYERED_MODELS[model]()
    assert made.parameters == parameters
    if buckets:
        assert sum(len(layer.tensors) for layer in made.layers) == tensors
        generate(LayeredStep(made, Parallelism(dp=2), bucket_bytes=25 * MIB, first_bucket_bytes=MIB), tmp_path / "run")
        assert all_reduces(parse_rank(tmp_path / "run", 0)) == buckets


def test_dlrm_exchanges_vectors_and_reduces_its_mlps(tmp_path):
    network = write_network(tmp_path / "n.yml", "Ring 4")
    generate(LayeredStep(LAYERED_MODELS["dlrm"](), Parallelism(dp=4), batch=64, steps=2), tmp_path / "run", network=network)
    nodes = {node.name: node for node in parse_rank(tmp_path / "run", 0)}
    assert nodes["step0_mb0_tables_forward_all_to_all_layer0"]["comm_size"] == 64 * 26 * 128 * 4
    update = nodes["step0_mb0_tables_weight_gradient_layer0"]
    assert update.data == [nodes["step0_mb0_tables_backward_all_to_all_layer0"].id]
    assert update.id in nodes["step1_mb0_tables_forward_layer0"].data
    assert end_ns(tmp_path / "run", network) > 0


@pytest.mark.parametrize("sharded", [False, True])
def test_several_steps_of_a_transformer_end(sharded, tmp_path):
    network = write_network(tmp_path / "n.yml", "FullyConnected 8")
    times = []
    for count in (1, 3):
        step = Step(
            small_model(hidden=256),
            Parallelism(dp=2, tp=2, pp=2),
            2,
            shards_optimizer=sharded,
            steps=count,
            bucket_bytes=MIB,
            first_bucket_bytes=MIB // 8,
        )
        generate(step, tmp_path / "run", Device(peak_tflops=1), network)
        names = [node.name for node in parse_rank(tmp_path / "run", 0)]
        assert len(names) == len(set(names))
        times.append(end_ns(tmp_path / "run", network))
    assert 2 < times[1] / times[0] < 3.5


BUBBLES = [("1f1b", 4, 8, 1, 33), ("breadth-first", 4, 8, 2, 28.5), ("breadth-first", 4, 8, 4, 26.25), ("1f1b", 4, 8, 2, 28.5)]


@pytest.mark.parametrize(("schedule", "stages", "micro_batches", "chunks", "units"), BUBBLES)
def test_bubbles_shrink_with_virtual_stages(schedule, stages, micro_batches, chunks, units, tmp_path):
    """Beyond 3 units a micro-batch a step takes (p - 1) / v passes forward and backward (design facts)."""
    model = small_model(layers=16, hidden=256, ffn=1024, vocab=1)
    step = Step(model, Parallelism(pp=stages), micro_batches, batch=4, schedule=schedule, virtual_stages=chunks)
    network = write_network(tmp_path / "n.yml", ("FullyConnected", stages), bandwidth=1e6, latency=0)
    generate(step, tmp_path / "run", Device(peak_tflops=0.1, memory_gbps=1e6), network)
    nodes = parse_rank(tmp_path / "run", 1)
    hidden = (stages - 1) * next(node["num_ops"] // 100 for node in nodes if "attention_weight_gradient" in node.name)
    work = sum(node["num_ops"] // 100 for node in nodes if node.kind == NodeType.COMP and "optimizer" not in node.name)
    update = next(node["num_ops"] // 100 for node in nodes if node.name == "optimizer_step0")
    unit = work / (3 * micro_batches)
    # A stage passes its gradient on before it computes that of its first weights, which hides a little of the bubble.
    assert (end_ns(tmp_path / "run", network, is_realistic=False) - update + hidden) / unit == pytest.approx(units, abs=0.05)


def test_a_model_comes_from_a_file(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("name,parameters,forward_us,backward_us,activations\na,100 4,10,20,7\n\nb,0,5,6,8\nc,8,1,2,9\n")
    model = read_layer_file(path)
    assert [layer.tensors for layer in model.layers] == [(100, 4), (), (8,)]
    generate(LayeredStep(model, Parallelism(dp=2)), tmp_path / "run", Device(writes_durations=True))
    took = {node.name: node.duration_us for node in parse_rank(tmp_path / "run", 0) if node.kind == NodeType.COMP}
    took.pop("optimizer_step0")
    assert list(took.values()) == [10, 5, 1, 1, 1, 6, 20]


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "": "no header",
        "name,parameters\na,1\n": "line 1: found name,parameters",
        "name,parameters,forward_us,backward_us\na,x,1,1\n": "line 2: parameters: found 'x'",
        "name,parameters,forward_us,backward_us\na,1,nan,1\n": "line 2: forward_us: found 'nan'",
        "name,parameters,forward_us,backward_us\na,1,1\n": "line 2: found 3 values, expected 4",
        "name,parameters,forward_us,backward_us\n": "found no layers",
    }.items(),
)
def test_wrong_files_are_refused_with_their_line(text, message, tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_layer_file(path)


def test_the_command_takes_lists_of_layers(tmp_path):
    def generated(*options):
        return command("generate", "--output", "run", "--dp", "2", "--model", *options, cwd=tmp_path)

    made = generated("resnet50", "--bucket-mb", "25", "--steps", "2")
    assert made.returncode == 0
    refused = generated("resnet50", "--heads", "4")
    assert refused.returncode == 2
    assert "--heads" in refused.stderr
    refused = generated("vgg16", "--tp", "2")
    assert refused.returncode == 2
