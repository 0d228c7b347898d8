"""`astra-tacos plan`: a training run with its collectives replaced by synthesized ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.command import command
from astra_tacos.cli.console import compile_ahead, echo, points_to_lint, print_json, print_rows, print_table, progress
from astra_tacos.cli.options import (
    RunFiles,
    backend_option,
    check_ns3,
    json_option,
    network_option,
    ns3_option,
    output_option,
    run_options,
)
from astra_tacos.cli.schedule_table import print_schedule
from astra_tacos.cli.search_options import candidate_option, read_candidates, search_options
from astra_tacos.solver.first_use import ALL_SEARCHING, PLANNING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.planner.plan_result import CaseFigures, JointFigures, PlanResult
    from astra_tacos.planner.retime.schedule_run import ScheduleResult
    from astra_tacos.planner.run_files import RunInputs
    from astra_tacos.run.backend import Backend
    from astra_tacos.synthesizer.search.search_options import SearchOptions

_path = click.Path(path_type=Path)
_MOST_RANKS = 8


@command(modes={"--only-place": "plan_modes.only_place", "--endpoint": "plan_modes.endpoint"})
@run_options(required=True)
@network_option
@output_option("Write the planned run here.", required=True)
@backend_option("also runs a binary of ASTRA-sim before and after.", packets=True)
@ns3_option
@click.option(
    "--astra-sim-bin", type=_path, metavar="FILE", help="The binary for --backend astra-sim or ns-3; by default $ASTRA_SIM_BIN."
)
@click.option(
    "--baseline",
    type=click.Choice(("ring", "direct", "halvingDoubling", "doubleBinaryTree")),
    help="Native algorithm of all collectives in the run before; by default those of its system file.",
)
@candidate_option
@search_options(without=("max_sends", "link_model"), trials=4)
@click.option(
    "--max-messages",
    type=click.IntRange(1),
    help="About how many messages ASTRA-sim may have to simulate; by default 20 times as many as native collectives take.",
)
@click.option("--place", is_flag=True, help="Also plan the run with its ranks on other NPUs, and keep the faster.")
@click.option("--cache", type=_path, metavar="DIR", help="Directory of synthesized collectives; by default the user's cache.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option(
    "--schedule",
    is_flag=False,
    flag_value="search",
    metavar="POLICY[,POLICY]",
    help="Also schedule communication: policies or systems such as fuse, split, priority, decouple, reorder, pipeline, ddp, "
    "bytescheduler:partition=4MB,credit=16MB, dear; alone, search for the best combination (docs/schedule.md).",
)
@click.option(
    "--schedule-replays", type=click.IntRange(0), default=80, show_default=True, help="Combinations that the search replays."
)
@click.option(
    "--per-iteration",
    is_flag=True,
    help="With --schedule, of runs of `generate --steps`: shorten an iteration in steady state, not the whole run.",
)
@click.option("--keep-collectives", is_flag=True, help="With --schedule: keep the algorithms of collectives.")
@json_option
def plan(
    files: RunFiles,
    network_path: Path | None,
    output: Path,
    backend: Backend | None,
    in_astra_sim: bool,
    in_ns3: bool,
    ns3_config: Path | None,
    astra_sim_bin: Path | None,
    baseline: str | None,
    candidate_paths: tuple[Path, ...],
    options: SearchOptions,
    max_messages: int | None,
    place: bool,
    cache: Path | None,
    no_cache: bool,
    schedule: str | None,
    schedule_replays: int,
    per_iteration: bool,
    keep_collectives: bool,
    as_json: bool,
) -> None:
    """Replace the collectives of a training run by ones synthesized for their groups on the network, and print the gain.

    \b
    astra-tacos plan --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output DIR

    Collective nodes are matched across ranks, each distinct collective is synthesized once, and DIR gets the same run with the
    new collectives: workload, traces, groups, system, plan.json and run_astra_sim.sh. The run is replayed before and after.
    """
    from astra_tacos.planner.request import PlanRequest
    from astra_tacos.planner.retime.make_plan import make_plan
    from astra_tacos.planner.run_files import RunInputs, check_output
    from astra_tacos.planner.synthesis_cache import default_cache
    from astra_tacos.run.backend import PACKET

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if cache is not None and no_cache:
        raise click.UsageError("Got --cache and --no-cache, expected at most one of them.")
    backend = PACKET if in_ns3 else backend
    check_ns3(ns3_config, backend, in_ns3)
    run = files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory
    inputs = RunInputs(*run, ns3_config)
    check_output(output, inputs)
    request = PlanRequest(
        inputs,
        backend,
        baseline,
        options,
        cache=None if no_cache else cache or default_cache(),
        most_messages=max_messages,
        candidates=read_candidates(candidate_paths),
        place=place,
        schedule=schedule,
        schedule_replays=schedule_replays,
        per_iteration=per_iteration,
        keep_collectives=keep_collectives,
    )
    program = _program(inputs, astra_sim_bin, in_ns3) if in_astra_sim else None
    compile_ahead(*PLANNING, *(() if keep_collectives else ALL_SEARCHING))
    what = "scheduling" if keep_collectives else "planning (native configurations, then collectives)"
    with points_to_lint(), progress(what) as on_progress:
        planned = make_plan(request, output, on_progress, on_progress)
    result, scheduled = planned.result, planned.scheduled
    measured = {} if program is None else _measure(inputs, output, program, baseline, in_ns3)
    if as_json:
        cached = {} if result is None else {"cases_from_cache": sum(case.from_cache for case in result.cases)}
        found = planned.to_json() | {"output": str(output)} | cached
        print_json(found if result is None else found | {"astra_sim": measured or None})
        return
    if scheduled is not None:
        print_schedule(scheduled)
    if result is None:
        assert scheduled is not None
        print_rows(_file_rows(output, scheduled.backend))
        return
    if scheduled is not None:
        echo("")
    _print(result, output, measured, scheduled)


def _file_rows(output: Path, backend: Backend) -> list[tuple[str, str]]:
    """Where the files are, and how to run them, if a version of ASTRA-sim has such a network."""
    script = output / ("run_astra_sim.sh" if backend.is_analytical else "run_ns3.sh")
    return [("files", str(output)), *([("run", f"ASTRA_SIM_BIN=... {script}")] if script.exists() else [])]


def _program(inputs: RunInputs, binary: Path | None, in_ns3: bool) -> Path:
    """The binary to run, which is looked for before there is anything to run on it."""
    from astra_tacos.network.network_config import read_network
    from astra_tacos.replayer.astra_sim import find_binary
    from astra_tacos.run.backend import PACKET

    network = read_network(inputs.network)
    if network.forwarding:
        raise ConfigError(
            f"{inputs.network}: has devices that forward, which no ASTRA-sim has; expected the embedded replay alone"
        )
    return find_binary(binary, network, PACKET if in_ns3 else None)


def _measure(inputs: RunInputs, output: Path, program: Path, baseline: str | None, in_ns3: bool) -> dict[str, Any]:
    """Cycles of a real ASTRA-sim, before (unless that is another run than the files say) and after."""
    from astra_tacos.network.network_config import configured, read_network
    from astra_tacos.planner.run_files import planned_inputs
    from astra_tacos.replayer.astra_sim import run_astra_sim

    network = configured(read_network(inputs.network), inputs.ns3)
    runs = {"after": planned_inputs(output, inputs)} | ({} if baseline else {"before": inputs})
    measured: dict[str, Any] = {"binary": str(program)}
    for when, run in runs.items():
        with progress(f"running ASTRA-sim ({when})"):
            seen = run_astra_sim(
                program,
                network.num_npus,
                run.workload,
                run.system,
                network if in_ns3 else run.network,
                run.groups,
                run.remote_memory,
                run.directory,
            )
        measured[when] = None if seen.stalled else int(seen.finish_ns.max())
    return measured


def _print(result: PlanResult, output: Path, measured: dict[str, Any], scheduled: ScheduleResult | None = None) -> None:
    rows = [
        ("planned", f"{result.num_collectives:,} collectives of {result.num_ranks:,} ranks, {len(result.cases):,} distinct"),
        ("judged by", f"the embedded replay, {result.backend}"),
    ]
    if result.placement is not None:
        rows.append(("placement", result.placement.name))
    if result.before_ns is None:
        rows.append(("before", f"does not end: {result.before_reason}"))
        rows.append(("end of the run", f"{result.after_ns:,} ns"))
        rows.append(("exposed communication", f"up to {result.exposed_after_ns:,} ns"))
    else:
        own = what = "native " + result.baseline if result.baseline else "as it was"
        own_ns = None
        if scheduled is not None and scheduled.plan_starts_scheduled:
            what, own_ns = "scheduled, with its own collectives", scheduled.before_ns
        elif result.placement is not None and not result.placement.kept_as_is:
            what, own_ns = f"placed, {'with its own collectives' if own == 'as it was' else own}", result.placement.before_ns
        if own_ns is not None:
            gain = own_ns / max(result.after_ns, 1)
            rows.append(("in all", f"{own_ns:,} ns ({own}) -> {result.after_ns:,} ns, speed-up {gain:.3f}"))
        rows.append(("end of the run", f"{result.before_ns:,} ns ({what}) -> {result.after_ns:,} ns"))
        rows.append(("exposed communication", f"up to {result.exposed_before_ns:,} ns -> {result.exposed_after_ns:,} ns"))
        rows.append(("speed-up", f"{result.speed_up:.3f}"))
    rows += [
        (name, f"not physically possible: {end.impossible}")
        for name, end in (("the run before", result.before_end), ("the planned run", result.after_end))
        if end is not None and end.impossible
    ]
    rows += _native_rows(result) + _bound_rows(result)
    rows += _message_rows(result)
    rows += _judge_rows(result)
    for when in ("before", "after"):
        if when in measured:
            cycles = "stalls" if measured[when] is None else f"{measured[when]:,} cycles"
            rows.append((f"ASTRA-sim, {when}", cycles))
    rows += [("note", note) for note in result.notes]
    print_rows(rows + _file_rows(output, result.backend))
    header = (
        "collective",
        "members",
        "groups",
        "count",
        "algorithm",
        "predicted ns",
        "all at once ns",
        "bound ns",
        "before ns",
        "after ns",
        "share",
    )
    print_table("collectives (before and after: the most time that a rank spends in them)", header, map(_row, result.cases))
    if result.joint:
        columns = ("joint schedules", "ranks", "count", "chunks", "predicted ns", "apart ns", "after ns")
        title = "several groups as one schedule, whose ranks pass chunks on for one another (times of one, on average)"
        print_table(title, columns, map(_joint_row, result.joint))
    left = [case for case in result.cases if case.reason]
    if left:
        echo("")
    for case in left:
        echo(f"left as it is: {_which(case)}: {case.reason}")


def _native_rows(result: PlanResult) -> list[tuple[str, str]]:
    """The best native configuration, and one that is faster where no network is so fast."""
    native = result.native
    searched = f"{native.num_replays} tried" + (", more would take too many messages" if native.was_cut_off else "")
    rows = []
    if native.fastest_possible is None:
        why = native.refusal if native.fastest is None else f"what ends is not physically possible ({searched})"
        rows.append(("best native", f"none: {why}"))
    else:
        name = native.fastest_possible.name
        where = " where each link carries one message at a time" if native.fastest_possible.end.impossible else ""
        rows.append(("best native", f"{result.best_native_ns:,} ns{where}: {name} ({searched})"))
        rows.append(("speed-up over it", f"{result.speed_up_over_best_native:.3f}{_lost_elsewhere(result)}"))
    if native.fastest is not None and (native.fastest.end.impossible or native.fastest != native.fastest_possible):
        rows.append(("fastest native", f"{native.fastest.end.end_ns:,} ns: {native.fastest}"))
    return rows


def _lost_elsewhere(result: PlanResult) -> str:
    """Where messages queue on another judge, and the best native run there is faster than the planned one."""
    lost = []
    for judged in result.judged:
        if judged.loses_to_native and judged.native_ns is not None:
            speed_up = judged.speed_up_over_native
            gain = "the planned run does not end" if speed_up is None else f"{speed_up:.3f}"
            lost.append(f", but {gain} on {judged.judge.label} over the best native run there, {judged.native_ns:,} ns")
    return "".join(lost)


def _bound_rows(result: PlanResult) -> list[tuple[str, str]]:
    """What the run takes at least, and how close the planned one is."""
    from astra_tacos.bounds.certificate import below_bound

    bound = result.bound
    share = "less than any network takes" if result.efficiency is None else f"efficiency {result.efficiency:.1%}"
    less = below_bound(result.counted_ns, bound.end_ns)
    share += f"; the run takes {less}" if less and result.efficiency is not None else ""
    rows = [("at least", f"{bound.end_ns:,} ns: {bound.where} ({share})")]
    if bound.in_step_ns is not None:
        is_met = bound.in_step_ns <= result.counted_ns
        share = f"{bound.in_step_ns / max(result.counted_ns, 1):.1%}" if is_met else "this run takes less"
        what = "the least if the members of collectives begin and end together and nobody relays"
        rows.append(("in step", f"{bound.in_step_ns:,} ns: {what} ({share})"))
    return rows


def _message_rows(result: PlanResult) -> list[tuple[str, str]]:
    """What the planned run costs the simulator."""
    from astra_tacos.support.units import format_time

    counts = result.messages
    before = "" if counts.before is None else f"{counts.before:,} -> "
    above = f", above the {counts.limit:,} asked for: no collective takes less" if counts.after > counts.limit else ""
    took = f"about {format_time(counts.after_s * 1e9)} of ASTRA-sim's own time"
    return [("messages", f"{before}{counts.after:,} ({took}{above})")]


def _judge_rows(result: PlanResult) -> list[tuple[str, str]]:
    """The end of the run on each judge, where they may differ."""
    from astra_tacos.solver.judges import differ

    if not differ(tuple(judged.judge for judged in result.judged)):
        return []
    rows = []
    for judged in result.judged:
        times = ("does not end" if time is None else f"{time:,} ns" for time in (judged.before_ns, judged.after_ns))
        rows.append((judged.judge.label, f"{' -> '.join(times)} ({judged.judge.program})"))
    return rows


def _which(case: CaseFigures) -> str:
    """A case by its pattern, size, groups and nodes."""
    from astra_tacos.support.units import format_size

    ranks = ", ".join(map(str, case.first_group[:_MOST_RANKS])) + (", ..." if len(case.first_group) > _MOST_RANKS else "")
    more = f" and {case.groups - 1:,} more" if case.groups > 1 else ""
    rank, node = case.first_node
    nodes = f"{case.count * case.members:,} nodes, the first rank {rank}, node {node}"
    return f"{case.collective} of {format_size(case.size_bytes)}, group of ranks {ranks}{more} ({nodes})"


def _joint_row(joint: JointFigures) -> tuple[str, ...]:
    counts = joint.count, joint.chunks_per_npu, joint.predicted_ns, joint.apart_ns, joint.spent_ns
    return (", ".join(joint.collectives), str(len(joint.ranks)), *(f"{each:,}" for each in counts))


def _row(case: CaseFigures) -> tuple[str, ...]:
    from astra_tacos.support.units import format_size

    def number(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    return (
        f"{case.collective} {format_size(case.size_bytes)}",
        str(case.members),
        str(case.groups),
        f"{case.count:,}",
        f"{case.algorithm} x{case.chunks_per_npu}" if case.chunks_per_npu else case.algorithm,
        number(case.predicted_ns) + ("" if case.exact or case.predicted_ns is None else " ~"),
        number(case.together_ns),
        number(case.bound_ns),
        number(case.spent_before_ns),
        number(case.spent_after_ns),
        f"{case.share:.1%}",
    )
