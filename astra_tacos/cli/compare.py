"""`astra-tacos compare`: several synthesizers on one network, over a list of sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import collected, compile_ahead, echo, print_json, print_result
from astra_tacos.cli.shared.options import (
    NAMES,
    OUTPUT,
    SIZES,
    backend_option,
    checks_option,
    json_option,
    network_option,
    ns3_option,
    output_option,
    read_with_ns3,
    verbose_option,
)
from astra_tacos.cli.shared.request_options import refuse_useless
from astra_tacos.cli.shared.search_options import candidate_option, collective_options, read_candidates, search_options
from astra_tacos.collective import make_collective
from astra_tacos.pages.compare_rows import FILES, ComparisonFiles, comparison_result
from astra_tacos.pages.style import WIDTHS
from astra_tacos.solver.first_use import CHECKING, REPLAYING, searching
from astra_tacos.support.units import MAX_SIZE_BYTES
from astra_tacos.synthesizer import auto_synthesizers

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.synthesizer.search.search_options import SearchOptions


@command(modes={"--frontier": "frontier.frontier", "--offload": "compare_modes.offload", "--servers": "compare_modes.servers"})
@network_option
@click.option(
    "--sizes",
    type=SIZES,
    required=True,
    help="64KiB,1MiB or 64KiB:1GiB (each size is four times the one before); as --size of synthesize.",
)
@click.option(
    "--synthesizers",
    type=NAMES,
    default=auto_synthesizers,
    help="ring,direct,...,auto; by default all synthesizers that auto tries.",
)
@candidate_option
@collective_options
@search_options(without=("synthesizer",))
@backend_option(of_schedules=True, packets=True)
@ns3_option
@click.option("--csv", "table", type=OUTPUT, metavar="FILE", help="Write a row per size and synthesizer.")
@click.option("--plot", "figure", type=OUTPUT, metavar="FILE", help="Draw time and bus bandwidth: .svg, .pdf or .png.")
@click.option(
    "--plot-width",
    "width",
    type=click.Choice(WIDTHS),
    default="double",
    show_default=True,
    help="Width of the figure in columns of a paper.",
)
@output_option(f"Write {', '.join(FILES)} here.", parameter="directory")
@checks_option
@verbose_option
@json_option
def compare(
    network_path: Path | None,
    sizes: tuple[int, ...],
    synthesizers: tuple[str, ...],
    candidate_paths: tuple[Path, ...],
    collective_name: str,
    root: int | None,
    options: SearchOptions,
    backend: Backend | None,
    ns3_config: Path | None,
    with_checks: bool,
    verbose: bool,
    as_json: bool,
    **written: Any,
) -> None:
    """Compare synthesizers on a network and a collective over a list of sizes.

    The command prints a table of times, with those of ASTRA-sim's own algorithms by the replay (`native`). --csv, --plot and
    --output write its data, and a figure for a paper.
    """
    from astra_tacos.network.composition import build_topology
    from astra_tacos.run.backend import choose_backend
    from astra_tacos.solver.clock import check_clock
    from astra_tacos.solver.comparison import Comparison, mark_best
    from astra_tacos.solver.many_sends import check_sends

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    refuse_useless(type(options), *(replace(options, synthesizer=name) for name in synthesizers))
    files = ComparisonFiles(**written)
    files.check()
    network = read_with_ns3(network_path, ns3_config, backend)
    check_sends(network, collective_name, replace(options, chunks_per_npu=1))
    topology = build_topology(network, may_forward=True)
    clock = choose_backend(backend)
    check_clock(topology, network, clock)
    candidates = read_candidates(candidate_paths)
    comparison = Comparison(
        topology, collective_name, root, options, sizes, synthesizers, network, candidates, clock, checks=with_checks
    )
    # A wrong root is so for every size.
    largest = make_collective(collective_name, topology.num_npus, MAX_SIZE_BYTES, 1, root, topology.endpoints)
    compile_ahead(*searching(topology, largest), *(CHECKING if with_checks else ()), *REPLAYING)
    rows = mark_best(collected("comparing", comparison.rows(), comparison.num_rows))
    paths = files.write(rows)
    if as_json:
        more = {"astra_sim_aborts": list(comparison.astra_sim_aborts), "run_as_bytes": comparison.run_as_bytes}
        print_json(comparison_result(rows, paths) | more | network.carried_error)
    else:
        print_result(comparison.compared(rows), verbose=verbose, error=network.error)
        for path in paths:
            echo(f"written: {path}")
    if any(row.refusal for row in rows if row.synthesizer in {candidate.name for candidate in candidates}):
        raise click.exceptions.Exit(CHECK_FAILED)
