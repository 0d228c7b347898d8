"""`astra-tacos servers`: from how many parameter servers on they beat an All-Reduce."""

from __future__ import annotations

from dataclasses import asdict

import click

from astra_tacos.cli.console import compile_ahead, echo, print_json, print_table, progress
from astra_tacos.cli.counts import Counts
from astra_tacos.cli.options import Size, json_option
from astra_tacos.solver.first_use import CHECKING, REPLAYING
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size, format_time

_MOST_NPUS = 128
_MOST_TIMES = 1_000_000
_HEADER = ("variant", "servers", "theory", "programme", "bound", "scheduled", "time", "over all-reduce")


@click.command()
@click.option("--workers", type=click.IntRange(2, _MOST_NPUS), default=8, show_default=True, help="NPUs that have data.")
@click.option("--servers", "counts", type=Counts(), metavar="K,...", help="Numbers of servers; by default six up to all workers.")
@click.option("--size", "size_bytes", type=Size(), default="64MiB", show_default=True, help="Of the buffer of each worker.")
@click.option("--bandwidth", type=float, default=100.0, show_default=True, metavar="GB/s", help="Of each port (2^30 bytes/s).")
@click.option("--latency", type=float, default=500.0, show_default=True, metavar="NS", help="Of each link.")
@click.option("--chunks", type=click.IntRange(1), default=128, show_default=True, help="Chunks for each worker.")
@click.option("--box", type=float, metavar="TIMES", help="Also one box with so many times a worker's bandwidth.")
@click.option("--racks", type=click.IntRange(2), metavar="R", help="Also theory for R racks of so many workers each.")
@click.option("--uplink", type=float, metavar="TIMES", help="Bandwidth of a rack's uplink, in ports of a worker; with --racks.")
@json_option
def servers(
    workers: int,
    counts: tuple[int, ...] | None,
    size_bytes: int,
    bandwidth: float,
    latency: float,
    chunks: int,
    box: float | None,
    racks: int | None,
    uplink: float | None,
    as_json: bool,
) -> None:
    """Compare parameter servers with an All-Reduce of the workers, on one Switch that stores and forwards.

    Variants: colocated (a server process on each worker), dedicated (all data on K servers), mixed (the best share on servers,
    the rest on workers), and box. Times are in units of S / B, in which a port sends one buffer: theory counts bandwidth only;
    the linear programme deals data to trees; the bound holds for every algorithm; the schedule is verified and replayed.
    """
    from astra_tacos.solver.devices_that_add import MIXED, server_rows
    from astra_tacos.synthesizer.parts.server_shares import colocated, fewest_that_win, racks_flat, racks_summed

    if counts is None:
        counts = tuple(sorted({0, 1, *range(0, workers + 1, max(1, workers // 4)), workers}))
    if workers + max(counts) > _MOST_NPUS:
        raise ConfigError(f"--servers: found {max(counts)} for {workers} workers, expected at most {_MOST_NPUS - workers}")
    if (racks is None) != (uplink is None):
        raise click.UsageError("--racks and --uplink go together.")
    for name, value in (("--box", box), ("--uplink", uplink)):
        if value is not None and not 0 < value < _MOST_TIMES:
            raise ConfigError(f"{name}: found {value}, expected a number above 0 and below {_MOST_TIMES:,}")
    compile_ahead(*CHECKING, *REPLAYING)
    found = []
    with progress("scheduling") as on_progress:
        total = sum(2 if count else 1 for count in counts) + (box is not None)
        for row in server_rows(workers, counts, size_bytes, (bandwidth, latency), chunks, box):
            found.append(row)
            on_progress(len(found), total)
    levels = {}
    if racks is not None and uplink is not None:
        levels = {
            "flat": racks_flat(workers, racks, uplink),
            "summed in racks": racks_summed(workers, racks, uplink),
            "servers above racks": racks_summed(workers, racks, uplink, dedicated_at_the_top=True),
        }
    winner = next((row.servers for row in found if row.kind == MIXED and row.time_ns < colocated(workers) * row.unit_ns), None)
    if as_json:
        print_json({"size_bytes": size_bytes, "rows": [asdict(row) for row in found], "racks": levels})
        return
    rows = [
        (
            row.kind,
            f"{row.servers}",
            f"{row.formula:.4f}",
            f"{row.programme_ns / row.unit_ns:.4f}",
            f"{row.bound_ns / row.unit_ns:.4f}",
            f"{row.time_ns / row.unit_ns:.4f}",
            format_time(row.time_ns),
            f"{colocated(workers) / row.formula:.2f}",
        )
        for row in found
    ]
    unit = format_time(found[0].unit_ns)
    print_table(f"All-Reduce of {format_size(size_bytes)} on {workers} workers, in units of {unit}", _HEADER, rows)
    if levels:
        print_table(
            f"{racks} racks of {workers} workers, uplinks of {uplink:g} ports (theory)",
            ("variant", "units"),
            [(name, f"{value:.4f}") for name, value in levels.items()],
        )
    echo(f"\ndedicated servers alone win from {fewest_that_win(workers)} on, mixed ones from 1 on (theory)")
    if winner is not None:
        echo(f"scheduled: mixed servers win from {winner} on, of the numbers above")
