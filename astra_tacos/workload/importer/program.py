"""A program of a collective (MSCCL XML, MSCCL++ plan, Chakra traces) as a run: proven, scheduled, checked and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.collective import make_collective
from astra_tacos.export.candidate import read_candidate
from astra_tacos.export.run_directory import write_run_directory
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import read_network
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.solver.clock import beside_native, bounds_on, check_clock, time_on, timed_for
from astra_tacos.solver.clock_figures import figures_on
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.solver.native import best_native_time
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.workload.repairer.reading import network_of, network_text


def import_program(
    path: Path,
    network_path: Path | None,
    size_bytes: int,
    output: Path,
    options: SearchOptions,
    backend: Backend | None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Prove a program, make it a schedule of a network, check that, and write its run directory.

    Parameters
    ----------
    network_path
        The network; None for one in which every NPU is connected with every other one.

    Returns
    -------
    dict
        result.json of the run, with `output`, `notes` and `command`.
    """
    with progress("proving"):
        candidate = read_candidate(path)
    proven = candidate.proven
    network = network_of(network_text(proven.num_ranks)) if network_path is None else read_network(network_path)
    topology = build_topology(network, may_forward=True)
    if topology.num_endpoints != proven.num_ranks:
        size = f"has {proven.num_ranks} ranks, {topology.name} has {topology.num_endpoints} NPUs"
        raise ConfigError(f"{path}: {size}, expected as many")
    collective = make_collective(proven.collective, topology.num_npus, size_bytes, 1, proven.root, topology.endpoints)
    clock = choose_backend(backend)
    check_clock(topology, network, clock)
    _, models, reason = timed_for(options, topology, clock)
    with progress("importing"):
        converted = candidate.schedule(topology, collective, models, options.reduce_bandwidth_gbps)
        schedule = converted.schedule
        check_schedule(schedule)
        timed = time_on(schedule, network, clock)
        native = best_native_time(network, collective, clock, options.reduce_bandwidth_gbps)
    more = {
        **figures_on(clock, bounds_on(topology, collective, clock), topology, collective, timed.time_ns),
        **native.to_json(),
        "prints": [printed.to_json() for printed in beside_native(timed.prints, dict(native.prints))],
        "link_model_reason": reason,
        "verified": True,
        "in_thread_blocks_ns": converted.in_blocks_ns,
        "file": path.name,
        "digest": candidate.digest,
    }
    with progress("writing"):
        run = write_run_directory(schedule, output, more, backend=clock, check=False)
    notes = [*run.notes, *timed.notes, *filter(None, [candidate.note(schedule.collective)])]
    return run.result | {
        "output": str(run.path),
        **run.figures,
        "notes": notes,
        "command": run.command,
        "exactness": run.exactness,
    }
