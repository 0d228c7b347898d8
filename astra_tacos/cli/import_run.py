"""`astra-tacos import`: a run of PyTorch's traces, of a workload text, of several runs, or of somebody's algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    compile_ahead,
    file_rows,
    print_json,
    print_next,
    print_result,
    progress,
)
from astra_tacos.cli.shared.options import PATH, SIZE, backend_option, json_option, optional_files, output_option, verbose_option
from astra_tacos.cli.shared.search_options import search_options
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, PROGRAMS, READING, REPAIRING, REPLAYING, WRITING
from astra_tacos.support.rows import Row, detail
from astra_tacos.support.units import format_time
from astra_tacos.workload.path_kind import is_program

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.workload.repairer.reading import RepairInputs

_OF_SEARCHES = ("synthesizer", "budget", "time_limit_s", "chunks_per_npu", "max_sends", "trials", "seed", "threads")
"""Options that a program, which is finished, has no use for."""


@command(name="import")
@click.argument("traces", metavar="FILE...", type=PATH, nargs=-1, required=True)
@optional_files()
@output_option("Write the run here.", required=True)
@click.option(
    "--ranks",
    type=click.IntRange(2),
    help="Replicate the trace of a single rank over so many data-parallel ranks; by default as many as the trace says. Of a "
    "workload text without all_gpus: the GPUs of all pipeline stages, or of the fully connected network that is assumed.",
)
@click.option(
    "--passes",
    "num_passes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="For a workload text of ASTRA-sim 1.0: number of training steps, one after another.",
)
@click.option("--without", multiple=True, metavar="STEP", help="Leave out this step of `lint --fix`; may be given several times.")
@click.option("--size", "size_bytes", type=SIZE, help="For a program: size of the collective, as --size of synthesize.")
@search_options(without=_OF_SEARCHES)
@backend_option(default="by default what stock ASTRA-sim has for the network.")
@verbose_option
@json_option
def import_run(
    traces: tuple[Path, ...],
    inputs: RepairInputs,
    output: Path,
    ranks: int | None,
    num_passes: int,
    without: tuple[str, ...],
    size_bytes: int | None,
    options: SearchOptions,
    backend: Backend | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Make a run from PyTorch's traces (host, Kineto, or both, of each rank), a workload text, several runs, or a program.

    \b
    astra-tacos import et_rank*.json kineto_rank*.json --network N.yml --output DIR
    astra-tacos import workload.txt --network N.yml --output DIR
    astra-tacos import RUN RUN --network N.yml --output DIR
    astra-tacos import PROGRAM.xml --size 64MiB --network N.yml --output DIR

    Traces of PyTorch are JSON files, JSON files compressed by gzip, or tar archives of these files. Kineto traces give the
    durations of kernels and of the host; host traces give sizes and groups of collectives where Kineto traces lack them. The
    steps of `lint --fix` follow, so DIR becomes a run directory that ASTRA-sim finishes.

    A workload text has a row of computation and collectives for each layer. The number of ranks comes from the header (all_gpus)
    or --ranks for a text of SimAI, and from the network for a text of ASTRA-sim 1.0 (DATA, MODEL, MICRO, HYBRID_DLRM, ...), whose
    groups are the dimensions of the network.

    RUNs are directories of runs, which then run side by side on one network: the ranks of the second run follow the ranks of the
    first run.

    A program (MSCCL XML, MSCCL++ plan, or the prefix of a collective's Chakra traces, with sizes or without) becomes a schedule
    after the oracle has proven the program correct. DIR gets the schedule's traces and a run of them, as from `synthesize`.
    """
    if any(is_program(path) for path in traces):
        if len(traces) > 1 or ranks is not None or num_passes > 1 or without or inputs != type(inputs)(network=inputs.network):
            raise click.UsageError("A program is imported alone, with --size, --network, --link-model and --reduce-bandwidth.")
        if size_bytes is None:
            raise click.UsageError("Missing option '--size': a program does not say how large its collective is.")
        from astra_tacos.export.run_directory import EXPORTER
        from astra_tacos.workload.importer.program import import_program

        EXPORTER.check_output(output)
        compile_ahead(*READING, *PROGRAMS, *CHECKING, *CERTIFYING, *WRITING, *REPLAYING)
        imported = import_program(traces[0], inputs.network, size_bytes, output, options, backend, progress)
        _show_program(imported, verbose=verbose, as_json=as_json)
        return
    if size_bytes is not None:
        raise click.UsageError("--size is for a program: traces say how large their collectives are.")
    from astra_tacos.workload.importer.import_run import ImportOptions
    from astra_tacos.workload.importer.import_run import import_run as make_run
    from astra_tacos.workload.repairer.repair import check_repair_output

    check_repair_output(output, inputs, traces)
    compile_ahead(*REPAIRING)
    with progress("importing"):
        result = make_run(traces, output, inputs, ImportOptions(backend, ranks, without, num_passes))
    if as_json:
        print_json(result.to_json())
    else:
        print_result(result, verbose=verbose)
        print_next(result.path)


def _show_program(result: dict[str, Any], *, verbose: bool, as_json: bool) -> None:
    from astra_tacos.pages.table import Certificate

    command, exactness = result.pop("command"), result.pop("exactness")
    if as_json:
        print_json(result)
        return
    in_blocks_ns = result["in_thread_blocks_ns"]
    more = [detail("checks", "program and schedule verified; the replay takes exactly the predicted time")]
    if in_blocks_ns is not None:
        one_step = "if every thread block does one step at a time"
        more.append(Row("in thread blocks", format_time(in_blocks_ns), note=one_step))
    print_result(Certificate(result), verbose=verbose, more=more, files=file_rows(Path(result["output"]), command, exactness))
