"""`astra-tacos calibrate`: the constants of a machine from measured times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_answer, print_json, print_table, progress
from astra_tacos.cli.shared.options import Size, json_option, network_option, output_option
from astra_tacos.solver.first_use import PROGRAMS, READING, REPLAYING
from astra_tacos.support.errors import ConfigError

_CONSTANTS = ("protocol", "programs", "times", "launch us", "extra us", "from", "thread block GB/s", "link GB/s")
_ERRORS = ("protocol", "median", "p90", "worst", "other half: median", "p90 ", "worst ")


@command()
@click.argument("files", metavar="PROGRAM.xml|DIR TIMES|LOG...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--from", "least_bytes", type=Size(), default="64KiB", show_default=True, help="Smallest size that counts.")
@output_option("Write calibration.json and a network file for each protocol.")
@network_option
@json_option
def calibrate(files: tuple[Path, ...], least_bytes: int, output: Path | None, network_path: Path | None, as_json: bool) -> None:
    """Fit the constants of a machine to measured times of MSCCL programs, by protocol, and say how far off they are.

    \b
    astra-tacos calibrate ring.xml ring.csv all_pairs.xml all_pairs.log --output DIR
    astra-tacos calibrate run_1 run_1.log run_2 run_2.log --output DIR

    FILEs come in pairs: a program, and its times: CSV with columns `size` (bytes) and `time` (us), or a log of nccl-tests. Of
    times in place and out of place, those count that the program is for. The constants are the launch of a program, the
    throughput of a thread block and of a link, and what large messages cost beside.
    With four programs of a protocol or more, each half of them also predicts the other half. All programs need the same number
    of GPUs.

    Pairs of a run directory and a log of ASTRA-sim with ns-3 fit the configuration of ns-3 instead, where that is not known:
    payload, headers and windows. DIR gets it as ns3_config.txt, for --ns3-config. Two small runs do.
    """
    from astra_tacos.study.calibrator.calibration import calibrate_machine, calibrate_ns3

    if len(files) % 2:
        raise click.UsageError("Expected pairs of files: a program, and its measured times.")
    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    are_runs = {path.is_dir() for path in files[::2]}
    if len(are_runs) > 1:
        raise click.UsageError("Got programs and run directories, expected one kind of them.")
    pairs = list(zip(files[::2], files[1::2], strict=True))
    if are_runs == {True}:
        compile_ahead(*READING, *REPLAYING)
        result, show = calibrate_ns3(pairs, network_path, output, progress), _print_ns3
    else:
        if network_path is not None:
            raise click.UsageError("--network is for run directories: programs have no network.")
        compile_ahead(*PROGRAMS)
        result, show = calibrate_machine(pairs, least_bytes, output, progress), _print
    if as_json:
        print_json({key: value for key, value in result.items() if key not in ("is_fitted", "text")})
    else:
        show(result)
        if result["output"] is not None:
            echo(f"\nwritten: {result['output']}")
    if not result["is_fitted"]:
        raise click.exceptions.Exit(CHECK_FAILED)


def _print_ns3(result: dict[str, Any]) -> None:
    errors: list[tuple[str, ...]] = [
        ("worst error", f"{error:.2%}", f"of a rank, {name}") for name, error in result["errors"].items()
    ]
    rows: list[tuple[str, ...]] = [(key, str(value)) for key, value in (line.split() for line in result["text"].splitlines())]
    rows += [("note", "", note) for note in result["notes"]]
    print_answer(f"ns-3, {result['configurations_tried']} configurations tried", [*errors, *rows])


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.support.units import format_size

    def share(errors: dict[str, float] | None, name: str) -> str:
        return "-" if errors is None else f"{errors[name]:.1%}"

    rows: list[tuple[str, ...]] = []
    for label, errors in (("error", result["errors"]), ("error, other half", result["cross_validated"])):
        if errors is not None:
            shares = f"p90 {errors['p90']:.1%}, worst {errors['worst']:.1%} of {errors['count']} times"
            rows.append((label, f"{errors['median']:.1%}", f"median, {shares}"))
    rows.append(("times that count", "", ", ".join(f"{count} {name}" for name, count in result["placements"].items())))
    rows += [("note", "", note) for note in result["notes"]]
    print_answer(f"{result['num_npus']} GPUs, times from {format_size(result['from_bytes'])} on", rows)
    constants = [
        (
            row["protocol"],
            str(row["programs"]),
            str(row["times"]),
            f"{row['launch_us']:.1f}",
            f"{row['extra_us']:.1f}",
            "-" if row["threshold_bytes"] is None else format_size(row["threshold_bytes"]),
            f"{row['block_gbps']:.3g}",
            f"{row['link_gbps']:.3g}",
        )
        for row in result["protocols"]
    ]
    print_table("constants", _CONSTANTS, constants)
    names = [(which, name) for which in ("errors", "cross_validated") for name in ("median", "p90", "worst")]
    errors_of = [(row["protocol"], *(share(row[which], name) for which, name in names)) for row in result["protocols"]]
    print_table("errors", _ERRORS, errors_of)
