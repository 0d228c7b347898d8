"""`astra-tacos offload`: what it gains if switches add, over numbers of NPUs and sizes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.compare import Sizes
from astra_tacos.cli.console import compile_ahead, echo, print_json, print_table, progress
from astra_tacos.cli.counts import Counts
from astra_tacos.cli.options import json_option, network_option
from astra_tacos.cli.search_options import search_options
from astra_tacos.solver.first_use import CHECKING, REPLAYING, searching
from astra_tacos.support.units import format_size, format_time
from astra_tacos.synthesizer.work import AUTO_BUDGET

if TYPE_CHECKING:
    from astra_tacos.synthesizer.search.search_options import SearchOptions

_COLLECTIVES = ("all-reduce", "reduce", "broadcast", "reduce-scatter", "all-gather")
_HEADER = ("NPUs", "size", "hosts", "network", "gain", "bound, hosts", "bound, network", "gain of bounds")


@click.command()
@network_option
@click.option("--npus", type=Counts(), metavar="N,...", help="How many NPUs take part, from id 0 on; by default all.")
@click.option("--sizes", type=Sizes(), default="64MiB", show_default=True, help="64KiB,1MiB or 64KiB:1GiB, as for compare.")
@click.option("--collective", type=click.Choice(_COLLECTIVES), default="all-reduce", show_default=True)
@search_options(without=("synthesizer",), budget=f"{AUTO_BUDGET // 1_000_000}M")
@json_option
def offload(
    network_path: Path | None,
    npus: tuple[int, ...] | None,
    sizes: tuple[int, ...],
    collective: str,
    options: SearchOptions,
    as_json: bool,
) -> None:
    """Compare sums made by hosts with sums made in the network, whose file says which devices add (astra_tacos: reducing).

    Both are the best schedules found, verified and replayed; the bounds hold for every algorithm, with and without such devices.
    """
    from astra_tacos.collective import make_collective
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.solver.devices_that_add import offload_rows

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    topology = build_topology(read_network(network_path), may_forward=True)
    counts = npus or (topology.num_endpoints,)
    example = make_collective(collective, topology.num_npus, 1 << 30, 1, members=topology.endpoints)
    compile_ahead(*searching(topology, example), *CHECKING, *REPLAYING)
    rows = []
    with progress("comparing") as on_progress:
        for row in offload_rows(topology, collective, counts, sizes, options):
            rows.append(row)
            on_progress(len(rows), len(counts) * len(sizes))
    if as_json:
        print_json(
            {"network": topology.name, "rows": [asdict(row) | {"gain": row.gain, "bound_gain": row.bound_gain} for row in rows]}
        )
        return

    def time(value: int | None) -> str:
        return "-" if value is None else format_time(value)

    print_table(
        f"{collective} on {topology.name}: {topology.describe_shape()}",
        _HEADER,
        [
            (
                f"{row.npus:,}",
                format_size(row.size_bytes),
                time(row.host_ns),
                time(row.network_ns),
                "-" if row.gain is None else f"{row.gain:.2f}",
                time(row.host_bound_ns),
                time(row.network_bound_ns),
                "-" if row.bound_gain is None else f"{row.bound_gain:.2f}",
            )
            for row in rows
        ],
    )
    below = [
        bound_ns is not None and time_ns is not None and time_ns < bound_ns
        for row in rows
        for time_ns, bound_ns in ((row.host_ns, row.host_bound_ns), (row.network_ns, row.network_bound_ns))
    ]
    if any(below):
        echo(f"{sum(below)} times are less than their bound, as ASTRA-sim truncates the time of each message")
    for row in rows:
        if row.refusal:
            echo(f"{row.npus} NPUs, {format_size(row.size_bytes)}: {row.refusal}")
