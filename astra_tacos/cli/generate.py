"""`astra-tacos generate`: training steps of a model as ASTRA-sim's input files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import print_json, print_rows, progress
from astra_tacos.cli.shared.options import json_option, network_option, output_option
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.model import PRESETS
from astra_tacos.workload.generator.models import LAYERED_MODELS
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES

if TYPE_CHECKING:
    from astra_tacos.workload.generator.directory import GeneratedRun
    from astra_tacos.workload.generator.layered_model import LayeredModel
    from astra_tacos.workload.generator.model import Transformer

_REQUIRED = ("layers", "hidden", "heads", "sequence", "vocab")
_MIB = 1 << 20
_WIDTH = re.compile(r"([0-9]{1,18})([xX]?)")


_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _size(name: str, text: str) -> _Decorator:
    return click.option(f"--{name}", type=click.IntRange(1), help=text)


def _degree(name: str, text: str) -> _Decorator:
    return click.option(f"--{name}", type=click.IntRange(1), default=1, show_default=True, help=text)


@command()
@output_option("Write the run here.", required=True)
@_degree("dp", "Data parallelism: copies of the model.")
@_degree("tp", "Tensor parallelism: shards of each matrix.")
@_degree("pp", "Pipeline parallelism: stages.")
@_degree("ep", "Expert parallelism: how many of the dp copies share out the experts.")
@click.option(
    "--order", default="tp,ep,dp,pp", show_default=True, help="Axes of the rank number, from the fastest-varying to the slowest."
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
    type=click.Path(path_type=Path),
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
    type=click.FloatRange(0, min_open=True),
    metavar="MiB",
    help="Buckets across layers instead, closed once they have so many MiB: PyTorch's DDP, whose default is 25.",
)
@click.option(
    "--first-bucket-mb",
    type=click.FloatRange(0, min_open=True),
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
@network_option
@json_option
def generate(
    output: Path,
    dp: int,
    tp: int,
    pp: int,
    ep: int,
    order: str,
    placement: str | None,
    micro_batches: int,
    batch: int,
    steps: int,
    virtual_stages: int,
    schedule: str,
    buckets: int,
    bucket_mb: float | None,
    first_bucket_mb: float,
    layer_file: Path | None,
    shards_optimizer: bool,
    sequence_parallel: bool,
    durations: bool,
    peak_tflops: float,
    memory_bandwidth: float,
    network_path: Path | None,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Generate a training run for ASTRA-sim: steps of a transformer on dp x tp x pp ranks, or of a list of layers on dp ranks.

    DIR holds the traces (workload/w.<rank>.et), comm_group.json, system.json and remote_memory.json. With --network, there must
    be as many ranks as NPUs.

    \b
    astra-tacos generate --output DIR --dp 4 --tp 2 --pp 2 --layers 4 --hidden 1024 --heads 16 --sequence 512 --vocab 8192
    """
    from astra_tacos.run.placement_matrix import read_placement
    from astra_tacos.workload.generator.device import Device
    from astra_tacos.workload.generator.directory import generate as write
    from astra_tacos.workload.generator.layered_step import LayeredStep
    from astra_tacos.workload.generator.parallelism import Parallelism, axis_order
    from astra_tacos.workload.generator.step import Step

    split = Parallelism(dp, tp, pp, ep, axis_order(order), () if placement is None else read_placement(placement))
    reduction: dict[str, Any] = {
        "micro_batches": micro_batches,
        "batch": batch,
        "steps": steps,
        "buckets": buckets,
        "bucket_bytes": 0 if bucket_mb is None else round(bucket_mb * _MIB),
        "first_bucket_bytes": 0 if bucket_mb is None else round(first_bucket_mb * _MIB),
        "shards_optimizer": shards_optimizer,
    }
    layered = _layered(sizes, layer_file)
    step: Step | LayeredStep
    if layered is not None:
        if sequence_parallel or virtual_stages > 1:
            raise click.UsageError("A list of layers is data-parallel: found --sequence-parallel or --virtual-stages.")
        step = LayeredStep(layered, split, **reduction)
    else:
        more: dict[str, Any] = {"schedule": schedule, "sequence_parallel": sequence_parallel, "virtual_stages": virtual_stages}
        step = Step(_model(sizes), split, **reduction, **more)
    with progress("generating"):
        run = write(step, output, Device(peak_tflops, memory_bandwidth, durations), network_path)
    if as_json:
        print_json({"output": str(run.path)} | run.result)
        return
    _print(run, network_path)


def _layered(sizes: dict[str, Any], layer_file: Path | None) -> LayeredModel | None:
    """The model as a list of layers; None for a transformer."""
    from dataclasses import replace

    from astra_tacos.workload.generator.layered_model import read_layer_file

    name = sizes["model"]
    if layer_file is None and name not in LAYERED_MODELS:
        return None
    given = [f"--{key.removeprefix('is_').replace('_', '-')}" for key, value in sizes.items() if value is not None]
    given = [option for option in given if option not in ("--dtype-bytes", *([] if layer_file else ["--model"]))]
    if given:
        raise click.UsageError(f"Got {given[0]}, which says nothing about a list of layers.")
    dtype_bytes = sizes["dtype_bytes"]
    if layer_file is not None:
        return read_layer_file(layer_file, dtype_bytes or 4)
    model = LAYERED_MODELS[name]()
    return replace(model, dtype_bytes=dtype_bytes) if dtype_bytes else model


def _model(sizes: dict[str, Any]) -> Transformer:
    """The preset, with the sizes that were given put over it."""
    from dataclasses import asdict

    from astra_tacos.workload.generator.model import Transformer

    preset, ffn = sizes.pop("model"), sizes.pop("ffn")
    given = {name: value for name, value in sizes.items() if value is not None}
    known = (asdict(PRESETS[preset]) if preset else {}) | given
    missing = [name for name in _REQUIRED if name not in known]
    if missing:
        raise click.UsageError(f"Missing option '--{missing[0]}' (or '--model').")
    if "heads" in given or not preset:
        known["kv_heads"] = given.get("kv_heads", known["heads"])
    if ffn is not None or not preset:
        known["ffn"] = _ffn(ffn or "4x", known["hidden"])
    return Transformer(**known)


def _ffn(text: str, hidden: int) -> int:
    match = _WIDTH.fullmatch(text)
    if match is None:
        raise ConfigError(f"ffn: found {text[:60]!r}, expected a width such as 4096, or a multiple of hidden such as 4x")
    return int(match[1]) * (hidden if match[2] else 1)


def _print(run: GeneratedRun, network_path: Path | None) -> None:
    import shlex

    from astra_tacos.support.units import format_size

    result = run.result
    groups = ", ".join(f"{len(ids)} {kind}" for kind, ids in result["groups"].items())
    rows = [
        ("ranks", f"{result['num_ranks']:,} of {result['num_nodes']:,} nodes"),
        ("parameters", f"{result['parameters']:,}"),
        ("operations", f"{result['num_ops']:.4g} for {result['tokens']:,} tokens"),
        ("groups", groups or "none"),
    ]
    for name, entry in result["communication"].items():
        rows.append((name, f"{entry['nodes']:,} nodes, {format_size(entry['bytes'])}"))
    paths = {"--workload": run.path / "workload" / "w", "--system": run.path / "system.json"}
    paths["--network"] = network_path or Path("N.yml")
    if run.comm_group:
        paths["--comm-group"] = run.comm_group
    command = " ".join(f"{option} {shlex.quote(str(path))}" for option, path in paths.items())
    print_rows([*rows, ("files", str(run.path)), ("replay", f"astra-tacos replay {command}")])
