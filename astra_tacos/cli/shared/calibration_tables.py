"""What `calibrate` prints: constants of a machine, and errors."""

from __future__ import annotations

from typing import Any

from astra_tacos.cli.shared.console import print_answer, print_table

_CONSTANTS = ("protocol", "programs", "times", "launch us", "step us", "extra us", "from", "thread block GB/s", "link GB/s")
_ERRORS = ("protocol", "median", "p90", "worst", "other half: median", "p90 ", "worst ")


_SHARES = ("on", "times", "median", "p90", "worst")


def _share(errors: dict[str, Any]) -> tuple[str, ...]:
    return str(errors["count"]), *(f"{errors[name]:.1%}" for name in ("median", "p90", "worst"))


def print_collectives(result: dict[str, Any]) -> None:
    """What a fit to times of collectives found."""
    rows = [
        ("algorithms", "", ", ".join(f"{name} {count}" for name, count in result["algorithms"].items())),
        ("switch adds", "yes" if result["has_nvls"] else "no"),
        *(("note", "", note) for note in result["notes"]),
    ]
    print_answer(f"up to {result['nodes']} nodes of {result['gpus_per_node']} GPUs, {result['times']} times", rows)
    _print_constants(result["constants"])
    left = [(f"without {name}" if name != "all" else "all left out", *_share(own)) for name, own in result["left_out"].items()]
    rows = [("the times fitted", *_share(result["errors"])), *left]
    print_table("errors", _SHARES, rows)


def print_check(result: dict[str, Any]) -> None:
    """Errors of a calibration on other times."""
    if result["notes"]:
        print_answer("times to check", [("note", "", note) for note in result["notes"]])
    rows = [("all", *_share(result))]
    rows += [(name, *_share(errors)) for kind in ("collective", "size", "nodes") for name, errors in result[f"by_{kind}"].items()]
    print_table("errors", _SHARES, rows)


def _print_constants(constants: dict[str, Any]) -> None:
    table = [
        (own["meaning"], name, f"{own['value']:.3g}", f"{own['uncertainty']:.0%}" if own["is_measured"] else "typical value")
        for name, own in constants.items()
    ]
    print_table("constants", ("constant", "name", "value", "uncertainty"), table)


def print_ns3(result: dict[str, Any]) -> None:
    """The configuration of ns-3 that fits some runs."""
    errors: list[tuple[str, ...]] = [
        ("worst error", f"{error:.2%}", f"of a rank, {name}") for name, error in result["errors"].items()
    ]
    rows: list[tuple[str, ...]] = [(key, str(value)) for key, value in (line.split() for line in result["text"].splitlines())]
    rows += [("note", "", note) for note in result["notes"]]
    print_answer(f"ns-3, {result['configurations_tried']} configurations tried", [*errors, *rows])


def print_programs(result: dict[str, Any]) -> None:
    """What a fit to programs found, by protocol."""
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
