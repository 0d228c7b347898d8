"""`astra-tacos calibrate`: the constants of a machine from measured times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_answer, print_json, print_table, progress
from astra_tacos.cli.shared.options import Size, json_option, network_option, output_option
from astra_tacos.solver.first_use import PROGRAMS, READING, REPLAYING
from astra_tacos.support.errors import ConfigError

_CONSTANTS = ("protocol", "programs", "times", "launch us", "step us", "extra us", "from", "thread block GB/s", "link GB/s")
_ERRORS = ("protocol", "median", "p90", "worst", "other half: median", "p90 ", "worst ")


@command()
@click.argument("files", metavar="LOG|CSV...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--from", "least_bytes", type=Size(), help="Smallest size that counts, for programs (64KiB) and --check.")
@click.option("--check", "checked", type=click.Path(path_type=Path), metavar="DIR", help="Check a calibration on other times.")
@click.option(
    "--limit", type=click.FloatRange(min=0), help="Largest error of --check (median; share of wrong choices) in percent."
)
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help="Rows of CSV files that count.")
@output_option("Write calibration.json and network files.")
@network_option
@json_option
def calibrate(
    files: tuple[Path, ...],
    least_bytes: int | None,
    checked: Path | None,
    limit: float | None,
    where: tuple[str, ...],
    output: Path | None,
    network_path: Path | None,
    as_json: bool,
) -> None:
    """Fit the constants of a machine to measured times of its collectives, and say how far off they are.

    \b
    astra-tacos calibrate all_reduce.log all_gather.log --output DIR
    astra-tacos calibrate --check DIR other.log --limit 10
    astra-tacos calibrate ring.xml ring.csv all_pairs.xml all_pairs.log --output DIR
    astra-tacos calibrate run_1 run_1.log run_2 run_2.log --output DIR

    Files are logs of nccl-tests or rccl-tests, or CSV with columns collective, size_bytes, time_us, nodes and gpus_per_node.
    The last two may be missing where --network says the shape.

    A CSV with columns shape (of a torus: 4x4x4), collective, algorithm, size_bytes and time_us fits which algorithm of MPI is the
    fastest. With --check, the share of right choices is printed.

    An MSCCL program and its times are a pair: constants are fitted by protocol. Times are CSV with columns `size` (bytes) and
    `time` (us), or a log. Of times in place and out of place, those count that the program is for. With four programs of a
    protocol or more, each half of them also predicts the other half. All programs need the same number of GPUs.

    Pairs of a run directory and a log of ASTRA-sim with ns-3 fit the configuration of ns-3 instead, where that is not known:
    payload, headers and windows. DIR gets it as ns3_config.txt, for --ns3-config. Two small runs do.
    """
    from astra_tacos.study.calibrator.calibration import calibrate_machine, calibrate_ns3

    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    if not any(path.suffix == ".xml" or path.is_dir() for path in files):
        chosen = {"least_bytes": least_bytes or 0, "limit": limit, "where": where}
        _collectives(files, checked, chosen, (output, network_path), as_json)
        return
    if checked is not None or where or limit is not None:
        raise click.UsageError("--check, --limit and --where are for times of collectives.")
    least_bytes = 64 << 10 if least_bytes is None else least_bytes
    if len(files) % 2:
        raise click.UsageError("Expected pairs of files: a program, and its measured times.")
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


def _collectives(
    files: tuple[Path, ...], checked: Path | None, chosen: dict[str, Any], paths: tuple[Path | None, Path | None], as_json: bool
) -> None:
    from astra_tacos.study.calibrator.collectives import calibrate_collectives, check_collectives
    from astra_tacos.study.calibrator.tori import calibrate_tori, check_tori, is_of_tori

    output, network = paths
    pairs = [text.partition("=") for text in chosen["where"]]
    if any(not equals for _, equals, _ in pairs):
        raise click.UsageError("--where takes COLUMN=VALUE.")
    where = {name: value for name, _, value in pairs}
    limit = chosen["limit"]
    of_tori = [is_of_tori(path) for path in files]
    if any(of_tori) and (not all(of_tori) or network is not None):
        raise click.UsageError("Files with shapes of tori take no other files and no --network.")
    show: Callable[[dict[str, Any]], None]
    if checked is None:
        if limit is not None or chosen["least_bytes"]:
            raise click.UsageError("--limit and --from are for --check and for programs.")
        if any(of_tori):
            result, show = calibrate_tori(files, where, output, progress), _print_tori
        else:
            result, show = calibrate_collectives(files, network, where, output, progress), _print_collectives
    else:
        if output is not None or network is not None:
            raise click.UsageError("--output and --network are for fits: --check DIR has both.")
        check, show = (check_tori, _print_choices) if any(of_tori) else (check_collectives, _print_check)
        result = check(checked, files, where, chosen["least_bytes"])
        off = 1 - result["share"] if any(of_tori) else result["median"]
        result = {**result, "limit": limit, "is_within": limit is None or off <= limit / 100}
    if as_json:
        print_json(result)
    else:
        show(result)
        if result.get("output") is not None:
            echo(f"\nwritten: {result['output']}")
    if not result.get("is_within", True):
        raise click.exceptions.Exit(CHECK_FAILED)


def _share(errors: dict[str, Any]) -> tuple[str, ...]:
    return str(errors["count"]), *(f"{errors[name]:.1%}" for name in ("median", "p90", "worst"))


def _print_collectives(result: dict[str, Any]) -> None:
    rows = [
        ("algorithms", "", ", ".join(f"{name} {count}" for name, count in result["algorithms"].items())),
        ("switch adds", "yes" if result["has_nvls"] else "no"),
    ]
    print_answer(f"up to {result['nodes']} nodes of {result['gpus_per_node']} GPUs, {result['times']} times", rows)
    _print_constants(result["constants"])
    left = [(f"without {name}" if name != "all" else "all left out", *_share(own)) for name, own in result["left_out"].items()]
    rows = [("the times fitted", *_share(result["errors"])), *left]
    print_table("errors", ("on", "times", "median", "p90", "worst"), rows)


def _print_check(result: dict[str, Any]) -> None:
    rows = [("all", *_share(result))]
    rows += [(name, *_share(errors)) for kind in ("collective", "size", "nodes") for name, errors in result[f"by_{kind}"].items()]
    print_table("errors", ("on", "times", "median", "p90", "worst"), rows)


def _print_tori(result: dict[str, Any]) -> None:
    rows = [("right choices", _right(result["fitted"]["all"]), "the fastest, or within 10% of it, of the times fitted")]
    left_out = result["left_out"].items()
    rows += [(f"without {name}", _right(own), "predicted from the others") for name, own in left_out if name[0].isdigit()]
    rows += [("left out", str(count), f"names: {why}") for why, count in result["not_described"].items()]
    print_answer(f"{result['times']} times of named algorithms", rows)
    _print_constants(result["constants"])


def _print_constants(constants: dict[str, Any]) -> None:
    table = [
        (own["meaning"], name, f"{own['value']:.3g}", f"{own['uncertainty']:.0%}" if own["is_measured"] else "typical value")
        for name, own in constants.items()
    ]
    print_table("constants", ("constant", "name", "value", "uncertainty"), table)


def _print_choices(result: dict[str, Any]) -> None:
    table = [(name, _right(own), f"{own['share']:.1%}") for name, own in result["by"].items()]
    print_table("right choices: the fastest, or within 10% of it", ("of", "right", "share"), table)


def _right(own: dict[str, Any]) -> str:
    return f"{own['right']} of {own['count']}"


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
            f"{row['step_us']:.1f}",
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
