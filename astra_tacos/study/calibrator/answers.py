"""Calibrations as rows and tables: constants of a machine, and errors."""

from __future__ import annotations

from typing import Any

from astra_tacos.support.rows import Answer, Row, Table
from astra_tacos.support.units import format_size

_OF_PROGRAMS = ("protocol", "programs", "times", "launch us", "step us", "extra us", "from", "thread block GB/s", "link GB/s")
_ERRORS = ("protocol", "median", "p90", "worst", "other half: median", "p90 ", "worst ")


_SHARES = ("on", "times", "median", "p90", "worst")


def _share(errors: dict[str, Any]) -> tuple[str, ...]:
    return str(errors["count"]), *(f"{errors[name]:.1%}" for name in ("median", "p90", "worst"))


def of_collectives(result: dict[str, Any]) -> Answer:
    """What a fit to times of collectives found."""
    rows = [
        Row("algorithms", note=", ".join(f"{name} {count}" for name, count in result["algorithms"].items())),
        Row("switch adds", "yes" if result["has_nvls"] else "no"),
        *_notes(result),
    ]
    left = [
        (f"without {name}" if name != "all" else "all left out", *_share(errors)) for name, errors in result["left_out"].items()
    ]
    errors = Table("errors", _SHARES, [("the times fitted", *_share(result["errors"])), *left])
    of = f"up to {result['nodes']} nodes of {result['gpus_per_node']} GPUs, {result['times']} times"
    return Answer(of, rows, [_constants(result["constants"]), errors])


def of_check(result: dict[str, Any]) -> Answer:
    """Errors of a calibration on other times."""
    rows = [("all", *_share(result))]
    rows += [(name, *_share(errors)) for kind in ("collective", "size", "nodes") for name, errors in result[f"by_{kind}"].items()]
    return Answer("times to check" if result["notes"] else "", _notes(result), [Table("errors", _SHARES, rows)])


def _notes(result: dict[str, Any]) -> list[Row]:
    return [Row("note", note=note) for note in result["notes"]]


def _constants(constants: dict[str, Any]) -> Table:
    table = [
        (
            constant["meaning"],
            name,
            f"{constant['value']:.3g}",
            f"{constant['uncertainty']:.0%}" if constant["is_measured"] else "typical value",
        )
        for name, constant in constants.items()
    ]
    return Table("constants", ("constant", "name", "value", "uncertainty"), table)


def of_ns3(result: dict[str, Any]) -> Answer:
    """The configuration of ns-3 that fits some runs."""
    errors = [Row("worst error", f"{error:.2%}", note=f"of a rank, {name}") for name, error in result["errors"].items()]
    rows = [Row(key, value) for key, value in (line.split() for line in result["text"].splitlines())]
    return Answer(f"ns-3, {result['configurations_tried']} configurations tried", [*errors, *rows, *_notes(result)])


def of_programs(result: dict[str, Any]) -> Answer:
    """What a fit to programs found, by protocol."""

    def share(errors: dict[str, float] | None, name: str) -> str:
        return "-" if errors is None else f"{errors[name]:.1%}"

    rows = []
    for label, errors in (("error", result["errors"]), ("error, other half", result["cross_validated"])):
        if errors is not None:
            shares = f"p90 {errors['p90']:.1%}, worst {errors['worst']:.1%} of {errors['count']} times"
            rows.append(Row(label, f"{errors['median']:.1%}", note=f"median, {shares}"))
    rows.append(Row("times that count", note=", ".join(f"{count} {name}" for name, count in result["placements"].items())))
    rows += _notes(result)
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
    names = [(which, name) for which in ("errors", "cross_validated") for name in ("median", "p90", "worst")]
    errors_of = [(row["protocol"], *(share(row[which], name) for which, name in names)) for row in result["protocols"]]
    of = f"{result['num_npus']} GPUs, times from {format_size(result['from_bytes'])} on"
    return Answer(of, rows, [Table("constants", _OF_PROGRAMS, constants), Table("errors", _ERRORS, errors_of)])
