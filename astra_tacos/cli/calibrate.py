"""`astra-tacos calibrate`: the constants of a machine from measured times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import echo, print_json, print_result, progress
from astra_tacos.cli.shared.options import PATH, SIZE, json_option, network_option, output_option
from astra_tacos.study.calibrator.nccl_tests import COLLECTIVES


@command()
@click.argument("files", metavar="LOG|CSV...", type=PATH, nargs=-1, required=True)
@click.option("--from", "least_bytes", type=SIZE, help="Leave out smaller sizes, for programs (by default 64KiB) and --check.")
@click.option("--check", type=PATH, metavar="DIR", help="Compare the calibration in DIR with other measured times.")
@click.option(
    "--limit", type=click.FloatRange(min=0), help="With --check: exit with code 1 if the median error is above this percentage."
)
@click.option(
    "--where", multiple=True, metavar="COLUMN=VALUE", help="Take only rows of CSV files with this value in this column."
)
@click.option(
    "--collective", type=click.Choice(COLLECTIVES), help="Collective that was measured, for files that do not name a collective."
)
@click.option(
    "--place", type=click.Choice(("in", "out")), help="Take only times of in-place, or only of out-of-place collectives."
)
@output_option("Write calibration.json and network files.")
@network_option
@json_option
def calibrate(
    files: tuple[Path, ...],
    output: Path | None,
    where: tuple[str, ...],
    network_path: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Fit the constants of a machine to measured times of its collectives, and say how far off they are.

    \b
    astra-tacos calibrate all_reduce.log all_gather.log --output DIR
    astra-tacos calibrate --check DIR other.log --limit 10
    astra-tacos calibrate ring.xml ring.csv all_pairs.xml all_pairs.log --output DIR
    astra-tacos calibrate run_1 run_1.log run_2 run_2.log --output DIR

    Files are logs or JSON of nccl-tests or rccl-tests, or CSV with columns collective, size_bytes, time_us, nodes and
    gpus_per_node. The last two may be missing where --network says the shape, the first where --collective says it. Logs whose
    results are wrong, or that lack a rank, are refused. What is left out is counted in notes.

    An MSCCL program and its times are a pair: constants are fitted by protocol. Times are CSV with columns `size` (bytes) and
    `time` (us), or a log. Of times in place and out of place, those count that the program is for. With four programs of a
    protocol or more, each half of them also predicts the other half. All programs need the same number of GPUs.

    Pairs of a run directory and a log of ASTRA-sim with ns-3 fit the configuration of ns-3 instead, where that is not known:
    payload, headers and windows. DIR gets it as ns3_config.txt, for --ns3-config. Two small runs do.
    """
    from astra_tacos.study.calibrator.calibrate import calibrate as fitted

    pairs = [text.partition("=") for text in where]
    if any(not equals for _, equals, _ in pairs):
        raise click.UsageError("--where takes COLUMN=VALUE.")
    values = {name: value for name, _, value in pairs}
    calibration = fitted(files, output, where=values, network=network_path, progress=progress, **asked)
    if as_json:
        print_json(calibration.figures)
    else:
        print_result(calibration)
        if calibration.output is not None:
            echo(f"\nwritten: {calibration.output}")
    if not calibration.is_good:
        raise click.exceptions.Exit(CHECK_FAILED)
