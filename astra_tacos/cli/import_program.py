"""`astra-tacos import` of a program: an MSCCL XML, an MSCCL++ plan or a collective's traces as a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.console import compile_ahead, print_json, print_rows, progress
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, PROGRAMS, READING, REPLAYING, WRITING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.network.network_config import NetworkConfig
    from astra_tacos.run.backend import Backend
    from astra_tacos.synthesizer.search.search_options import SearchOptions


def import_program(
    path: Path,
    network_path: Path | None,
    size_bytes: int | None,
    output: Path,
    options: SearchOptions,
    backend: Backend | None,
    as_json: bool,
) -> None:
    """Prove a program, make it a schedule of a network, check that, and write its run directory.

    Parameters
    ----------
    path
        The program's file.
    network_path
        The network; None for one in which every NPU is connected with every other one.
    size_bytes
        Size of the collective.
    output
        Where the run is written.
    options, backend
        Link model and speed of reductions; the backend to write for.
    as_json
        Whether to print JSON.
    """
    from astra_tacos.collective import make_collective
    from astra_tacos.export.candidate import read_candidate
    from astra_tacos.export.run_directory import EXPORTER, write_run_directory
    from astra_tacos.network.composition import build_topology
    from astra_tacos.report.table import synthesis_rows
    from astra_tacos.solver.judgement import judge_schedule
    from astra_tacos.solver.judges import backend_in_use, backend_that_runs, timed_for
    from astra_tacos.solver.synthesize import check_schedule

    if size_bytes is None:
        raise click.UsageError("Missing option '--size': a program does not say how large its collective is.")
    EXPORTER.check_output(output)
    compile_ahead(*READING, *PROGRAMS, *CHECKING, *CERTIFYING, *WRITING, *REPLAYING)
    with progress("proving"):
        candidate = read_candidate(path)
    proven = candidate.proven
    network = _network(network_path, proven.num_ranks)
    topology = build_topology(network)
    if topology.num_npus != proven.num_ranks:
        raise ConfigError(f"{path}: has {proven.num_ranks} ranks, {topology.name} has {topology.num_npus} NPUs, expected as many")
    what = make_collective(proven.collective, topology.num_npus, size_bytes, 1, proven.root)
    _, models, reason = timed_for(options, topology, backend)
    with progress("importing"):
        converted = candidate.schedule(topology, what, models, options.reduce_bandwidth_gbps)
        schedule = converted.schedule
        check_schedule(schedule)
        in_use = backend_that_runs(schedule, backend_in_use(network, models, backend), backend)
        judged = judge_schedule(schedule, network, in_use)
    in_blocks = {"in_thread_blocks_ns": converted.in_blocks_ns, "file": path.name, "digest": candidate.digest}
    more = {"link_model_reason": reason, "verified": True, **judged.to_json(), **in_blocks}
    with progress("writing"):
        run = write_run_directory(schedule, output, more, backend=judged.backend, check=False)
    notes = [*run.notes, *judged.notes, *filter(None, [candidate.note(schedule.collective)])]
    result = run.result | {"output": str(run.path), **run.figures, "notes": notes}
    if as_json:
        print_json(result)
        return
    rows = [*synthesis_rows(result), ("checks", "program and schedule verified; the replay takes exactly the predicted time")]
    rows += [("in thread blocks", f"{converted.in_blocks_ns:,} ns if every thread block does one step at a time")]
    rows += [*(("note", note) for note in notes), ("files", str(run.path)), ("run", run.command)]
    print_rows(rows)


def _network(path: Path | None, num_npus: int) -> NetworkConfig:
    """The network of a file, or by default every NPU connected with every other one."""
    from astra_tacos.network.network_config import read_network

    if path is not None:
        return read_network(path)
    from astra_tacos.workload.repairer.reading import default_network, network_of

    return network_of(default_network(num_npus))
