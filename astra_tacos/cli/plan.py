"""`astra-tacos plan`: a training run with its collectives replaced by synthesized ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.plan_modes import refuse_others
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    compile_ahead,
    echo,
    file_rows,
    points_to_lint,
    print_json,
    print_result,
    progress,
)
from astra_tacos.cli.shared.options import (
    backend_option,
    check_ns3,
    json_option,
    ns3_option,
    output_option,
    run_options,
    verbose_option,
)
from astra_tacos.cli.shared.request_options import request_options
from astra_tacos.cli.shared.search_options import candidate_option, read_candidates, search_options
from astra_tacos.planner.request import PLAN_OPTIONS, PlanRequest
from astra_tacos.solver.first_use import ALL_SEARCHING, PLANNING, READING, REPLAYING, SYMMETRIC
from astra_tacos.support.rows import Importance, Row

if TYPE_CHECKING:
    from astra_tacos.network.network_config import NetworkConfig
    from astra_tacos.planner.plan import Plan
    from astra_tacos.run.backend import Backend
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.run.run import RunInputs
    from astra_tacos.synthesizer.search.search_options import SearchOptions


@command(
    modes={
        "--only-place": "plan_modes.only_place",
        "--endpoint": "plan_modes.endpoint",
    },
    removed={"--compact": "astra-tacos plan DIR"},
)
@run_options(required=True, takes_compact=True)
@output_option("Write the planned run here.", required=True)
@backend_option("also times both runs with your ASTRA-sim.", packets=True)
@ns3_option
@candidate_option
@search_options(without=("max_sends", "link_model"), defaults=PLAN_OPTIONS)
@request_options(PlanRequest, "request_of")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of synthesized collectives; by default the user's cache.",
)
@click.option("--no-cache", is_flag=True, help="Do not read or write the cache.")
@verbose_option
@json_option
def plan(
    inputs: RunInputs | CompactInputs,
    output: Path,
    backend: Backend | None,
    in_astra_sim: bool,
    in_ns3: bool,
    ns3_config: Path | None,
    astra_sim_bin: Path | None,
    candidate_paths: tuple[Path, ...],
    cache: Path | None,
    no_cache: bool,
    verbose: bool,
    as_json: bool,
    request_of: Callable[..., PlanRequest],
    options: SearchOptions,
) -> None:
    """Replace the collectives of a training run by collectives synthesized for the network, and print the gain.

    \b
    astra-tacos plan DIR --output PLANNED
    astra-tacos plan --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output PLANNED

    Collective nodes are matched across ranks, each distinct collective is synthesized once, and PLANNED gets the same run with
    the new collectives: workload, traces, groups, system, plan.json and run_astra_sim.sh. The run is replayed before and after.

    In a compact run (which `generate` writes for many ranks) one rank stands for all ranks of its class. A collective gets a
    schedule in which all members do the same, if that schedule is faster than ASTRA-sim's own ring or direct exchange.
    """
    from astra_tacos.network.network_config import read_network
    from astra_tacos.planner import plan as planning
    from astra_tacos.planner.run_files import check_output, find_program, measure_plan
    from astra_tacos.planner.synthesis_cache import default_cache
    from astra_tacos.run.backend import PACKET
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.run.run import RunInputs

    if isinstance(inputs, CompactInputs):
        refuse_others(inputs)
    if cache is not None and no_cache:
        raise click.UsageError("Got --cache and --no-cache, expected at most one of them.")
    backend = PACKET if in_ns3 else backend
    check_ns3(ns3_config, backend, in_ns3)
    inputs = replace(inputs, ns3=ns3_config) if isinstance(inputs, RunInputs) else inputs
    check_output(output, inputs)
    request = request_of(
        inputs,
        backend,
        options=options,
        cache=None if no_cache else cache or default_cache(),
        candidates=read_candidates(candidate_paths),
    )
    measured: dict[str, Any] = {}
    if isinstance(inputs, CompactInputs):
        compile_ahead(*READING, *REPLAYING, *SYMMETRIC)
        with progress("planning") as on_progress:
            planned = planning.plan(request, output, on_progress, on_progress)
    else:
        program = find_program(inputs, astra_sim_bin, in_ns3) if in_astra_sim else None
        compile_ahead(*PLANNING, *(() if request.keep_collectives else ALL_SEARCHING))
        work = "scheduling" if request.keep_collectives else "planning (native configurations, then collectives)"
        with points_to_lint(), progress(work) as on_progress:
            planned = planning.plan(request, output, on_progress, on_progress)
        if program is not None:
            measured = measure_plan(inputs, output, program, request.baseline, in_ns3, progress)
    _print(planned, output, read_network(inputs.network), measured, verbose=verbose, as_json=as_json)


def _print(
    planned: Plan, output: Path, network: NetworkConfig, measured: dict[str, Any], *, verbose: bool, as_json: bool
) -> None:
    """Print what was planned; `measured` is what ASTRA-sim itself took."""
    from astra_tacos.planner.run_files import ORDINARY

    result = planned.result
    if as_json:
        cached = {} if result is None else {"cases_from_cache": sum(case.from_cache for case in result.cases)}
        document = planned.to_json() | {"output": str(output)} | cached
        document |= network.carried_error
        print_json(document if result is None else document | {"astra_sim": measured or None})
        return
    scheduled, importance = planned.scheduled, Importance.DETAIL if verbose else Importance.ANSWER
    if result is None:
        print_result(planned, error=network.error, files=file_rows(output, _start(output, network, planned.clock)))
        return
    if verbose and scheduled is not None:
        print_result(scheduled)
        echo("")
    ordinary = output if result.num_classes is None else output / ORDINARY
    files = file_rows(output, _start(ordinary, network, planned.clock), importance=importance)
    print_result(
        planned,
        verbose=verbose,
        error=network.error,
        more=_measured_rows(measured, importance),
        files=files if verbose else [*files, _next(output, planned.clock)],
    )


def _start(output: Path, network: NetworkConfig, clock: Backend) -> str:
    """How to start ASTRA-sim on a written run; "" if no version of it has such a network."""
    from astra_tacos.export.run_directory import start_command

    script = output / ("run_astra_sim.sh" if clock.is_analytical else "run_ns3.sh")
    if not script.exists():
        return ""
    if clock.is_analytical:
        return start_command(script, network, clock)
    return f"ASTRA_SIM_BIN=.../{clock.binary} {shlex.quote(str(script))}"


def _measured_rows(measured: dict[str, Any], importance: Importance) -> list[Row]:
    """What ASTRA-sim itself took, where it was run."""
    cycles = {when: measured[when] for when in ("before", "after") if when in measured}
    return [
        Row(f"ASTRA-sim, {when}", "stalls" if took is None else f"{took:,} cycles", importance=importance)
        for when, took in cycles.items()
    ]


def _next(output: Path, clock: Backend) -> Row:
    """What to do next with a planned run: replay it on its clock."""
    from astra_tacos.run.backend import choose_backend

    option = "" if clock == choose_backend(None) else f" --backend {clock}"
    return Row("next", f"astra-tacos replay {shlex.quote(str(output))}{option}")
