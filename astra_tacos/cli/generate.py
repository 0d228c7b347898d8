"""`astra-tacos generate`: training steps of a model as ASTRA-sim's input files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import print_answer, print_json, progress
from astra_tacos.cli.shared.options import PATH, Decorator, json_option, network_option, output_option
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS
from astra_tacos.workload.generator.model import PRESETS
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES

_ABOVE_0 = click.FloatRange(0, min_open=True)


def _size(name: str, text: str) -> Decorator:
    return click.option(f"--{name}", type=click.IntRange(1), help=text)


def _degree(name: str, text: str) -> Decorator:
    return click.option(f"--{name}", type=click.IntRange(1), default=1, show_default=True, help=text)


@command()
@output_option("Write the run here.", required=True)
@_degree("dp", "Data parallelism: copies of the model.")
@_degree("tp", "Tensor parallelism: shards of each matrix.")
@_degree("pp", "Pipeline parallelism: stages.")
@_degree("ep", "Expert parallelism: how many of the dp copies share out the experts.")
@click.option(
    "--order",
    help="Axes of the rank number, from the fastest-varying to the slowest; by default tp,ep,dp,pp, or above 1,024 ranks, where "
    "that has too many classes, the order with the fewest.",
)
@click.option(
    "--placement",
    metavar="AXIS:PARTS,...",
    help="Parts of each axis within each dimension of the network, the last dimension first: tp:1x8,dp:4x2.",
)
@click.option(
    "--model",
    type=click.Choice([*PRESETS, *LAYERED_MODELS]),
    help="Sizes of a published model. The options below override those of a transformer; the last four are data-parallel only.",
)
@click.option(
    "--layer-file",
    type=PATH,
    metavar="CSV",
    help="A model as a list of layers: name,parameters,forward_flops,backward_flops (or _us) and perhaps activations.",
)
@_size("layers", "Layers.")
@_size("hidden", "Width of the model.")
@click.option("--ffn", metavar="F|Nx", help="Width of the MLP, or a multiple of the model's: 4x, the default.")
@_size("heads", "Attention heads.")
@_size("kv-heads", "Heads of keys and values; by default as many as heads.")
@_size("sequence", "Tokens of a sequence.")
@_size("vocab", "Words of the vocabulary.")
@click.option("--gated/--no-gated", "is_gated", default=None, help="MLPs of three matrices (SwiGLU) instead of two.")
@click.option(
    "--experts", type=click.IntRange(0), help="Experts (MLPs) of each layer; a token uses --top-k of them. By default none."
)
@_size("top-k", "Experts that a token goes through; by default 1.")
@_size("dtype-bytes", "Bytes of a parameter, activation or gradient; by default 2.")
@_degree("micro-batches", "Micro-batches of a step.")
@_degree("batch", "Sequences (or samples) of a micro-batch, for each copy of the model.")
@_degree("steps", "Training steps: the forward pass of a layer waits for the update of its parameters.")
@_degree("virtual-stages", "Chunks of layers of each pipeline stage.")
@click.option(
    "--schedule", type=click.Choice(list(PIPELINE_SCHEDULES)), default="1f1b", show_default=True, help="Schedule of the pipeline."
)
@_degree("buckets", "Parts of a layer's gradients, each reduced as soon as it is computed.")
@click.option(
    "--bucket-mb",
    type=_ABOVE_0,
    metavar="MiB",
    help="Buckets across layers instead, closed once they have so many MiB: PyTorch's DDP, whose default is 25.",
)
@click.option(
    "--first-bucket-mb",
    type=_ABOVE_0,
    default=1.0,
    show_default=True,
    metavar="MiB",
    help="The same for the first bucket of a step.",
)
@click.option(
    "--optimizer-sharding",
    "--zero",
    "shards_optimizer",
    is_flag=True,
    help="Reduce-Scatter of gradients and All-Gather of parameters, instead of All-Reduce.",
)
@click.option(
    "--sequence-parallel", is_flag=True, help="Tensor parallelism by All-Gather and Reduce-Scatter, instead of All-Reduce."
)
@click.option("--durations", is_flag=True, help="Write compute nodes with durations, instead of operations and bytes.")
@click.option("--peak-tflops", type=float, default=312.0, show_default=True, help="Peak performance of an NPU.")
@click.option(
    "--memory-bandwidth", type=float, default=2039.0, show_default=True, metavar="GB/s", help="Memory bandwidth of an NPU."
)
@click.option("--compact", is_flag=True, help="Write a trace for each class of ranks; always above 1,024 ranks. Needs --network.")
@network_option
@json_option
def generate(output: Path, network_path: Path | None, compact: bool, as_json: bool, **asked: Any) -> None:
    """Generate a training run for ASTRA-sim: steps of a transformer on dp x tp x pp ranks, or of a list of layers on dp ranks.

    DIR is a run: traces (workload/w.<rank>.et), comm_group.json, system.json, remote_memory.json, and network.yml with --network,
    which must have as many NPUs as there are ranks.

    \b
    astra-tacos generate --output DIR --dp 4 --tp 2 --pp 2 --layers 4 --hidden 1024 --heads 16 --sequence 512 --vocab 8192
    """
    from astra_tacos.workload.generator.directory import generate as write
    from astra_tacos.workload.generator.request import StepRequest

    request = StepRequest(**asked)
    step, device = request.step(), request.device()
    with progress("generating"):
        run = write(step, output, device, network_path, compact=compact, is_order_free=request.order is None)
    if as_json:
        print_json({"output": str(run.path)} | run.result)
        return
    print_answer(f"{run.result['num_ranks']:,} ranks of {run.result['num_nodes']:,} nodes", run.rows())
