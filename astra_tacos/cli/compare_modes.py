"""`astra-tacos compare --offload` and `--servers`: what it gains if switches, or servers, add."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import collected, compile_ahead, print_json, print_result
from astra_tacos.cli.shared.options import COUNTS, SIZE, SIZES, json_option, network_option
from astra_tacos.cli.shared.search_options import search_options
from astra_tacos.solver.first_use import CHECKING, REPLAYING, searching
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from astra_tacos.synthesizer.search.search_options import SearchOptions

_COLLECTIVES = ("all-reduce", "reduce", "broadcast", "reduce-scatter", "all-gather")
_MOST_NPUS = 128
"""Workers and servers together."""
_MOST_TIMES = 1_000_000
"""Bandwidths as multiples of a link."""


@command()
@network_option
@click.option("--npus", type=COUNTS, metavar="N,...", help="Number of NPUs that take part, from id 0 on; by default all NPUs.")
@click.option("--sizes", type=SIZES, default="64MiB", show_default=True, help="64KiB,1MiB or 64KiB:1GiB, as --sizes of compare.")
@click.option("--collective", type=click.Choice(_COLLECTIVES), default="all-reduce", show_default=True)
@search_options(without=("synthesizer",))
@json_option
def offload(
    network_path: Path | None,
    npus: tuple[int, ...] | None,
    sizes: tuple[int, ...],
    collective: str,
    options: SearchOptions,
    as_json: bool,
) -> None:
    """Compare sums in hosts with sums in the network, whose file says which devices add (astra_tacos: reducing).

    Both times are those of the best schedules found, verified and replayed. The bounds hold for every algorithm, with and without
    devices that add.
    """
    from astra_tacos.collective import make_collective
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.solver.devices_that_add import offload_answer, offload_rows

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    topology = build_topology(read_network(network_path), may_forward=True)
    counts = npus or (topology.num_endpoints,)
    example = make_collective(collective, topology.num_npus, 1 << 30, 1, members=topology.endpoints)
    compile_ahead(*searching(topology, example), *CHECKING, *REPLAYING)
    rows = collected("comparing", offload_rows(topology, collective, counts, sizes, options), len(counts) * len(sizes))
    if as_json:
        print_json({"network": topology.name, "rows": [row.to_json() for row in rows]})
        return
    print_result(offload_answer(rows, f"{collective} on {topology.name}: {topology.describe_shape()}"))


@command()
@click.option("--workers", type=click.IntRange(2, _MOST_NPUS), default=8, show_default=True, help="NPUs that have data.")
@click.option(
    "--servers",
    "counts",
    type=COUNTS,
    is_flag=False,
    flag_value=(),
    metavar="[K,...]",
    help="Numbers of servers; without a value, six numbers up to the number of workers.",
)
@click.option("--size", "size_bytes", type=SIZE, default="64MiB", show_default=True, help="Size of each worker's buffer.")
@click.option(
    "--bandwidth", type=float, default=100.0, show_default=True, metavar="GB/s", help="Bandwidth of each port (2^30 bytes/s)."
)
@click.option("--latency", type=float, default=500.0, show_default=True, metavar="NS", help="Of each link.")
@click.option("--chunks-per-npu", type=click.IntRange(1), default=128, show_default=True, help="Chunks for each worker.")
@click.option(
    "--box", type=float, metavar="TIMES", help="Also compare a single server with this many times a worker's bandwidth."
)
@click.option(
    "--racks", type=click.IntRange(2), metavar="R", help="Also compute theoretical times for R racks with this many workers each."
)
@click.option(
    "--uplink", type=float, metavar="TIMES", help="With --racks: bandwidth of a rack's uplink, as a multiple of a worker's port."
)
@json_option
def servers(
    workers: int,
    counts: tuple[int, ...],
    size_bytes: int,
    bandwidth: float,
    latency: float,
    chunks_per_npu: int,
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
    from astra_tacos.solver.devices_that_add import server_rows, servers_answer
    from astra_tacos.synthesizer.parts.server_shares import racks_of

    if not counts:
        counts = tuple(sorted({0, 1, *range(0, workers + 1, max(1, workers // 4)), workers}))
    if workers + max(counts) > _MOST_NPUS:
        raise ConfigError(f"--servers: found {max(counts)} for {workers} workers, expected at most {_MOST_NPUS - workers}")
    if (racks is None) != (uplink is None):
        raise click.UsageError("--racks and --uplink go together.")
    for name, value in (("--box", box), ("--uplink", uplink)):
        if value is not None and not 0 < value < _MOST_TIMES:
            raise ConfigError(f"{name}: found {value}, expected a number above 0 and below {_MOST_TIMES:,}")
    compile_ahead(*CHECKING, *REPLAYING)
    rows = server_rows(workers, counts, size_bytes, (bandwidth, latency), chunks_per_npu, box)
    results = collected("scheduling", rows, sum(2 if count else 1 for count in counts) + (box is not None))
    levels = {} if racks is None or uplink is None else racks_of(workers, racks, uplink)
    if as_json:
        print_json({"size_bytes": size_bytes, "rows": [asdict(row) for row in results], "racks": levels})
        return
    title = f"All-Reduce of {format_size(size_bytes)} on {workers} workers"
    racks_title = f"{racks} racks of {workers} workers, uplinks of {uplink or 0:g} ports (theory)"
    print_result(servers_answer(results, title, levels, racks_title))
