"""`astra-tacos generate`: training steps of a model as ASTRA-sim's input files."""

from __future__ import annotations

from pathlib import Path

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import print_json, print_result, progress
from astra_tacos.cli.shared.options import json_option, network_option, output_option
from astra_tacos.cli.shared.request_options import request_options
from astra_tacos.workload.generator.request import StepRequest


@command()
@output_option("Write the run here.", required=True)
@request_options(StepRequest, "request", is_whole=True)
@click.option(
    "--compact",
    is_flag=True,
    help="Write one trace per class of ranks that do the same. Needs --network. Always done above 1,024 ranks.",
)
@network_option
@json_option
def generate(output: Path, network_path: Path | None, compact: bool, as_json: bool, request: StepRequest) -> None:
    """Generate a training run for ASTRA-sim: steps of a transformer on dp x tp x pp ranks, or of a list of layers on dp ranks.

    DIR is a run: traces (workload/w.<rank>.et), comm_group.json, system.json, remote_memory.json, and network.yml with --network,
    which must have as many NPUs as there are ranks.

    \b
    astra-tacos generate --output DIR --dp 4 --tp 2 --pp 2 --layers 4 --hidden 1024 --heads 16 --sequence 512 --vocab 8192
    """
    from astra_tacos.workload.generator.directory import generate as write

    step, device = request.step(), request.device()
    with progress("generating"):
        run = write(step, output, device, network_path, compact=compact, is_order_free=request.order is None)
    if as_json:
        print_json({"output": str(run.path)} | run.result)
        return
    print_result(run)
