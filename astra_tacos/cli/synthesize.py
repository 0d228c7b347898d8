"""`astra-tacos synthesize`: a collective algorithm for a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import file_rows, print_json, print_result, progress
from astra_tacos.cli.shared.options import (
    COUNTS,
    PATH,
    SIZE,
    backend_option,
    json_option,
    network_option,
    ns3_option,
    output_option,
    read_with_ns3,
    verbose_option,
)
from astra_tacos.cli.shared.search_options import asked_parts, search_options, unequal_collective_options
from astra_tacos.schedule.schedule import LINK_ORDERS
from astra_tacos.support.rows import detail

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend


@command()
@network_option
@click.option(
    "--size",
    "size_bytes",
    type=SIZE,
    help="64MiB, 1GB, 4096: comm_size of a workload node (all-gather, gather: an NPU's shard; otherwise the whole buffer).",
)
@output_option("Write an ASTRA-sim run directory here.")
@click.option(
    "--sketch",
    "sketch_path",
    type=PATH,
    metavar="FILE",
    help="Use only the links that this sketch allows (YAML: chunks, allow, forbid, relays), and print the cost in time.",
)
@unequal_collective_options
@click.option(
    "--helpers",
    type=COUNTS,
    metavar="IDS",
    help="NPUs without data of their own, which may add and pass on what others send: 8,9 or 8:11 (parameter servers).",
)
@search_options()
@backend_option(of_schedules=True, packets=True)
@ns3_option
@click.option(
    "--link-order",
    type=click.Choice(LINK_ORDERS),
    help="How traces keep the order of sends on a link; by default chosen for the link model and for packets.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1),
    metavar="W",
    help="Let W messages be in flight on a link (link order window); by default the number in the schedule.",
)
@click.option(
    "--msccl-xml/--no-msccl-xml",
    default=None,
    help="Whether --output has an MSCCL XML; by default up to 20,000 sends.",
)
@click.option("--verify/--no-verify", "with_checks", default=True, help="Check the schedule by the oracle and the replay.")
@verbose_option
@json_option
def synthesize(
    network_path: Path | None,
    size_bytes: int | None,
    output: Path | None,
    sketch_path: Path | None,
    collective_name: str,
    matrix: str | None,
    helpers: tuple[int, ...] | None,
    backend: Backend | None,
    ns3_config: Path | None,
    msccl_xml: bool | None,
    with_checks: bool,
    verbose: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Synthesize a collective algorithm for a network, and verify, replay and write it.

    With --output, DIR gets everything that ASTRA-sim needs: Chakra traces of the collective and a workload that runs it, the
    system and network files, an MSCCL XML (if the format supports the collective), and run_astra_sim.sh.

    On networks that look the same from every NPU, schedules of more sends than --max-sends are made for NPU 0's chunks only:
    all other NPUs do the same. DIR gets schedule.npz with these sends, and no traces.
    On other networks, a schedule of more than 20 million sends is refused.
    """
    from astra_tacos.export.run_directory import EXPORTER
    from astra_tacos.network.sketch import read_sketch
    from astra_tacos.solver.solution import Request, Solution
    from astra_tacos.solver.solve import solve

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if size_bytes is None and matrix is None:
        raise click.UsageError("Missing option '--size'.")
    if msccl_xml is not None and output is None:
        raise click.UsageError(f"--{'' if msccl_xml else 'no-'}msccl-xml needs --output, where the file is written.")
    if output is not None:
        EXPORTER.check_output(output)
    network = read_with_ns3(network_path, ns3_config, backend)
    request = Request(
        network,
        collective_name,
        size_bytes or 0,
        part_bytes=asked_parts(matrix, network.num_npus, size_bytes),
        helpers=helpers or (),
        backend=backend,
        sketch=None if sketch_path is None else read_sketch(sketch_path),
        checks=with_checks,
        **asked,
    )
    solution = solve(request, progress=progress)
    result = solution.to_json() | network.carried_error | {"output": None if output is None else str(output)}
    sketch = solution.sketch if isinstance(solution, Solution) else None
    if output is not None:
        with progress("writing"):
            run = solution.write(output, msccl_xml)
        result |= run.figures | {"notes": [*run.notes, *result["notes"]]}
    if as_json:
        print_json(result)
        return
    from astra_tacos.pages.table import Certificate

    files = file_rows(output, run.command, run.exactness) if output is not None else file_rows(None, "")
    more = [detail("checks", solution.checked if with_checks else "not verified")]
    more += [] if sketch is None else [detail("sketch", sketch.describe())]
    print_result(Certificate(result), verbose=verbose, error=network.error, more=more, files=files)
