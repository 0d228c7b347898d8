"""`astra-tacos calibrate`: the constants of a machine from measured times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_json, print_result, progress
from astra_tacos.cli.shared.options import PATH, SIZE, json_option, network_option, output_option
from astra_tacos.solver.first_use import PROGRAMS, READING, REPLAYING
from astra_tacos.study.calibrator.nccl_tests import COLLECTIVES
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Answer

_PLACES = {"in": True, "out": False}
Says = Callable[[dict[str, Any]], Answer]


@command()
@click.argument("files", metavar="LOG|CSV...", type=PATH, nargs=-1, required=True)
@click.option("--from", "least_bytes", type=SIZE, help="Smallest size that counts, for programs (64KiB) and --check.")
@click.option("--check", "checked", type=PATH, metavar="DIR", help="Check a calibration on other times.")
@click.option("--limit", type=click.FloatRange(min=0), help="Largest median error of --check in percent.")
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help="Rows of CSV files that count.")
@click.option("--collective", type=click.Choice(COLLECTIVES), help="What files measured that do not say it.")
@click.option("--place", type=click.Choice(list(_PLACES)), help="Take only times in place, or out of place.")
@output_option("Write calibration.json and network files.")
@network_option
@json_option
def calibrate(
    files: tuple[Path, ...],
    output: Path | None,
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
    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    calibrated = _programs if any(path.suffix == ".xml" or path.is_dir() for path in files) else _collectives
    result, answer = calibrated(files, output=output, **asked)
    if as_json:
        print_json({key: value for key, value in result.items() if key not in ("is_fitted", "text")})
    else:
        print_result(answer(result))
        if result.get("output") is not None:
            echo(f"\nwritten: {result['output']}")
    if not (result.get("is_fitted", True) and result.get("is_within", True)):
        raise click.exceptions.Exit(CHECK_FAILED)


def _programs(
    files: tuple[Path, ...],
    checked: Path | None,
    least_bytes: int | None,
    limit: float | None,
    where: tuple[str, ...],
    collective: str | None,
    place: str | None,
    output: Path | None,
    network_path: Path | None,
) -> tuple[dict[str, Any], Says]:
    """Fit pairs of programs, or of run directories, and times."""
    from astra_tacos.study.calibrator import answers
    from astra_tacos.study.calibrator.calibration import calibrate_machine, calibrate_ns3

    if checked is not None or where or limit is not None or collective is not None or place is not None:
        raise click.UsageError("--check, --limit, --where, --collective and --place are for times of collectives.")
    if len(files) % 2:
        raise click.UsageError("Expected pairs of files: a program, and its measured times.")
    are_runs = {path.is_dir() for path in files[::2]}
    if len(are_runs) > 1:
        raise click.UsageError("Got programs and run directories, expected one kind of them.")
    pairs = list(zip(files[::2], files[1::2], strict=True))
    if are_runs == {True}:
        compile_ahead(*READING, *REPLAYING)
        return calibrate_ns3(pairs, network_path, output, progress), answers.of_ns3
    if network_path is not None:
        raise click.UsageError("--network is for run directories: programs have no network.")
    compile_ahead(*PROGRAMS)
    least_bytes = 64 << 10 if least_bytes is None else least_bytes
    return calibrate_machine(pairs, least_bytes, output, progress), answers.of_programs


def _collectives(
    files: tuple[Path, ...],
    checked: Path | None,
    least_bytes: int | None,
    limit: float | None,
    where: tuple[str, ...],
    collective: str | None,
    place: str | None,
    output: Path | None,
    network_path: Path | None,
) -> tuple[dict[str, Any], Says]:
    """Fit times of collectives, or check a calibration on them."""
    from astra_tacos.study.calibrator import answers
    from astra_tacos.study.calibrator.collective_times import Reading
    from astra_tacos.study.calibrator.collectives import calibrate_collectives, check_collectives

    pairs = [text.partition("=") for text in where]
    if any(not equals for _, equals, _ in pairs):
        raise click.UsageError("--where takes COLUMN=VALUE.")
    values = {name: value for name, _, value in pairs}
    reading = Reading(where=values, collective=collective, place=None if place is None else _PLACES[place])
    if checked is None:
        if limit is not None or least_bytes:
            raise click.UsageError("--limit and --from are for --check and for programs.")
        return calibrate_collectives(files, network_path, reading, output, progress), answers.of_collectives
    if output is not None or network_path is not None:
        raise click.UsageError("--output and --network are for fits: --check DIR has both.")
    result = check_collectives(checked, files, reading, least_bytes or 0)
    return {**result, "limit": limit, "is_within": limit is None or result["median"] <= limit / 100}, answers.of_check
