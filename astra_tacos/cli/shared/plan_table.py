"""What `plan` prints: of a planned run, its schedule of communication, its placement, or what divides its NPUs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.cli.shared.console import (
    echo,
    file_rows,
    plus_or_minus,
    print_answer,
    print_notes,
    print_rows,
    print_table,
    with_error,
)
from astra_tacos.report.prints import prints_text
from astra_tacos.support.units import format_size, format_time

if TYPE_CHECKING:
    from astra_tacos.network.network_config import NetworkConfig
    from astra_tacos.planner.endpoint.endpoint import Divided, EndpointResult
    from astra_tacos.planner.place import PlaceResult
    from astra_tacos.planner.plan import Plan
    from astra_tacos.planner.plan_result import CaseFigures, JointFigures, PlanResult
    from astra_tacos.planner.retime.schedule_run import ScheduleResult
    from astra_tacos.run.backend import Backend

_MOST_ROWS = 12
"""Of a table without --verbose; plan.json has all."""
_MOST_CASES = 4
"""Cases without --verbose, of several lines each."""
_MOST_RANKS = 8
"""Ranks of a group that are listed."""
_WITH = {"native": "with the run's own collectives", "synthesized": "with synthesized collectives"}


def _iteration(result: ScheduleResult) -> list[tuple[str, str]]:
    """The row of an iteration, if it was to be short."""
    before, after = result.iteration_as_is_ns, result.iteration_ns
    if before is None or after is None:
        return []
    return [("iteration", f"{before:,} ns (as it is) -> {after:,} ns, {before / max(after, 1):.3f} times as fast")]


def _print_schedule(result: ScheduleResult) -> None:
    """Print what scheduling did to a run."""
    print_rows(
        [
            ("schedule", result.name),
            ("on", f"the {result.backend} model, {_WITH[result.collectives]}"),
            *_iteration(result),
            ("end of the run", f"{result.as_is_ns:,} ns (as it is) -> {result.after_ns:,} ns"),
            ("exposed communication", f"up to {result.exposed_as_is_ns:,} ns -> {result.exposed_after_ns:,} ns"),
            ("speed-up", f"{result.speed_up:.3f}"),
            *(("note", note) for note in result.notes),
        ]
    )
    if len(result.tried) > 1:
        ended = sorted((one for one in result.tried if one.end_ns is not None), key=lambda one: one.end_ns or 0)
        shown = ended[:_MOST_ROWS]
        title = f"policies ({len(shown)} of {len(result.tried)} that were tried; plan.json has all)"
        rows = [(one.name, f"{one.end_ns:,}", f"{result.as_is_ns / (one.end_ns or 1):.3f}") for one in shown]
        print_table(title, ("policies", "end ns", "speed-up"), rows)
    exposed = sorted((one for one in result.layers if max(one[1:]) > 0), key=lambda one: -max(one[1:]))[:_MOST_ROWS]
    if exposed:
        rows = [(name, f"{was:,}", f"{now:,}") for name, was, now in exposed]
        title = "exposed communication by collective (mean of its ranks; the largest)"
        print_table(title, ("collective", "before ns", "after ns"), rows)


def _start(output: Path, network: NetworkConfig, clock: Backend) -> str:
    """How to start ASTRA-sim on a written run; "" if no version of it has such a network."""
    from astra_tacos.export.run_directory import start_command

    script = output / ("run_astra_sim.sh" if clock.is_analytical else "run_ns3.sh")
    if not script.exists():
        return ""
    if clock.is_analytical:
        return start_command(script, network, clock)
    return f"ASTRA_SIM_BIN=.../{clock.binary} {shlex.quote(str(script))}"


def _measured_rows(measured: dict[str, Any]) -> list[tuple[str, str]]:
    """What ASTRA-sim itself took, where it was run."""
    cycles = {when: measured[when] for when in ("before", "after") if when in measured}
    return [(f"ASTRA-sim, {when}", "stalls" if took is None else f"{took:,} cycles") for when, took in cycles.items()]


def _print_plan(
    result: PlanResult, output: Path, network: NetworkConfig, measured: dict[str, Any], scheduled: ScheduleResult | None = None
) -> None:
    """Print all that there is to say of a plan."""
    print_answer(_title(result), _answer_rows(result, scheduled))
    rows = [
        ("native space", f"{result.native.num_replays} tried of: {_space(result)}"),
        *_bound_rows(result),
        _message_row(result),
        *_measured_rows(measured),
        *(("note", note) for note in result.notes),
    ]
    start = _start(_ordinary(output, result), network, result.clock)
    print_rows([("", ""), *rows, ("files", str(output)), *([("start", start)] if start else [])])
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
        echo(f"not synthesized, algorithm {case.algorithm}: {_which(case)}: {case.reason}")


def print_planned(planned: Plan, output: Path, network: NetworkConfig, measured: dict[str, Any], *, verbose: bool) -> None:
    """Print what `plan` made: the answer in one screen, or everything; `measured` is what ASTRA-sim itself took."""
    result, scheduled, error = planned.result, planned.scheduled, network.error
    if result is not None and not verbose:
        _print_answer(result, output, network, measured, scheduled)
        return
    if scheduled is not None:
        _print_schedule(scheduled)
        if result is None:
            start = _start(output, network, scheduled.backend)
            print_rows([("files", str(output)), *([("start", start)] if start else [])])
        else:
            echo("")
    if result is not None:
        _print_plan(result, output, network, measured, scheduled)
    if error is not None:
        echo(f"times of the network: {plus_or_minus(error)}")


def _print_answer(
    result: PlanResult, output: Path, network: NetworkConfig, measured: dict[str, Any], scheduled: ScheduleResult | None
) -> None:
    """Print what a plan made of a run, in one screen."""
    rows = with_error(_answer_rows(result, scheduled), network.error)
    rows += [(label, cycles, "") for label, cycles in _measured_rows(measured)]
    files = file_rows(output, _start(_ordinary(output, result), network, result.clock))
    print_answer(_title(result), [*rows, *files, _next(output, result.clock)])
    header = ("collective", "groups", "count", "algorithm", "before ns", "after ns", "share")
    shown = result.cases[:_MOST_CASES]
    cells = [(row[0], row[2], row[3], row[4], *row[8:]) for row in map(_row, shown)]
    print_table(f"where the time goes ({len(shown)} of {len(result.cases)})", header, cells)
    print_notes(result.notes)


def _title(result: PlanResult) -> str:
    count = result.num_classes
    classes = "" if count is None else f" of {count:,} class{'es' * (count != 1)}"
    ranks = f"{result.num_collectives:,} collectives of {result.num_ranks:,} ranks{classes}"
    return f"{ranks}, {len(result.cases):,} distinct, on the {result.clock} model"


def _ordinary(output: Path, result: PlanResult) -> Path:
    """The directory of a plan with which ASTRA-sim runs."""
    from astra_tacos.planner.run_files import ORDINARY

    return output if result.num_classes is None else output / ORDINARY


def _next(output: Path, clock: Backend) -> tuple[str, str, str]:
    """What to do next with a planned run: replay it on its clock."""
    from astra_tacos.run.backend import choose_backend

    option = "" if clock == choose_backend(None) else f" --backend {clock}"
    return "next", f"astra-tacos replay {shlex.quote(str(output))}{option}", ""


def _answer_rows(result: PlanResult, scheduled: ScheduleResult | None = None) -> list[tuple[str, ...]]:
    """The times of a plan on its clock: labels, figures and remarks."""
    rows: list[tuple[str, ...]] = [("end of the run", f"{result.time_ns:,} ns", result.why_no_gain)]
    if result.before_ns is None:
        rows.append(("before", "-", "the run before does not end: --verbose says why"))
    else:
        what = f", native {result.baseline}" if result.baseline else ""
        rows.append(("before", f"{result.before_ns:,} ns", f"{_times(result.before_ns, result)} times as long{what}"))
    best_ns = result.best_native_ns
    if best_ns is not None:
        tried = f"the best of {result.num_tried:,} configurations"
        rows.append(("best native", f"{best_ns:,} ns", f"{_times(best_ns, result)} times as long, {tried}"))
        if result.moved_ns is not None:
            how = "moved in time" if scheduled is not None else "with its ranks placed"
            chain = f"{best_ns:,} best native -> {result.moved_ns:,} the same collectives, {how} -> {result.time_ns:,}"
            rows.append(("in steps", "", f"{chain} with synthesized collectives: {_times(best_ns, result)} times"))
    if result.clock.models_congestion:
        share = f"{result.bound_ns / max(result.time_ns, 1):.1%} of the end of the run"
    else:
        share = "compute and latencies alone: links carry any number of messages on this model, and no network is so fast"
    rows.append(("at least", f"{result.bound_ns:,} ns", share))
    before = "" if result.exposed_before_ns is None else f"{result.exposed_before_ns:,} ns before"
    rows.append(("exposed", f"{result.exposed_ns:,} ns", before))
    if scheduled is not None:
        rows.append(("schedule", "", scheduled.name))
    if result.placement is not None:
        rows.append(("placement", "", result.placement.name))
    printed = prints_text([each.to_json() for each in result.prints], result.clock.name)
    return [*rows, *([("prints", "", printed)] if printed else [])]


def _times(other_ns: int, result: PlanResult) -> str:
    """How many times as long as the planned run something takes."""
    return f"{other_ns / max(result.time_ns, 1):.3f}"


def _space(result: PlanResult) -> str:
    name = f"; the best: {result.native.best.name}" if result.native.best else f"; {result.native.refusal}"
    return f"{result.native.space}{name}"


def _bound_rows(result: PlanResult) -> list[tuple[str, str]]:
    """What makes the bound so long, and how close the run is if the members of collectives keep in step."""
    rows = [("bound", f"{result.bound_ns:,} ns: {result.bound.where}")]
    in_step_ns = result.bound.in_step_ns
    if in_step_ns is not None:
        is_met = in_step_ns <= result.time_ns
        share = f"{in_step_ns / max(result.time_ns, 1):.1%} of the end of the run" if is_met else "this run takes less"
        what = "the least if the members of collectives begin and end together and nobody relays"
        rows.append(("in step", f"{in_step_ns:,} ns: {what} ({share})"))
    return rows


def _message_row(result: PlanResult) -> tuple[str, str]:
    """What the planned run costs the simulator."""
    counts = result.messages
    before = "" if counts.before is None else f"{counts.before:,} -> "
    is_above = counts.limit is not None and counts.after > counts.limit
    above = f", above the {counts.limit:,} asked for: no collective takes less" if is_above else ""
    took = f"about {format_time(counts.after_s * 1e9)} of ASTRA-sim's own time"
    return "messages", f"{before}{counts.after:,} ({took}{above})"


def _which(case: CaseFigures) -> str:
    """A case by its pattern, size, groups and nodes."""
    ranks = ", ".join(map(str, case.first_group[:_MOST_RANKS])) + (", ..." if len(case.first_group) > _MOST_RANKS else "")
    more = f" and {case.groups - 1:,} more" if case.groups > 1 else ""
    rank, node = case.first_node
    nodes = f"{case.count * case.members:,} nodes, the first rank {rank}, node {node}"
    return f"{case.collective} of {format_size(case.size_bytes)}, group of ranks {ranks}{more} ({nodes})"


def _joint_row(joint: JointFigures) -> tuple[str, ...]:
    counts = joint.count, joint.chunks_per_npu, joint.predicted_ns, joint.apart_ns, joint.spent_ns
    return (", ".join(joint.collectives), str(len(joint.ranks)), *(f"{each:,}" for each in counts))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _row(case: CaseFigures) -> tuple[str, ...]:
    return (
        f"{case.collective} {format_size(case.size_bytes)}",
        str(case.members),
        str(case.groups),
        f"{case.count:,}",
        f"{case.algorithm} x{case.chunks_per_npu}" if case.chunks_per_npu else case.algorithm,
        _number(case.predicted_ns) + ("" if case.exact or case.predicted_ns is None else " ~"),
        *map(_number, (case.together_ns, case.bound_ns, case.spent_before_ns, case.spent_after_ns)),
        f"{case.share:.1%}",
    )


def print_placed(result: PlaceResult, output: Path) -> None:
    """Print where ranks were put."""
    from astra_tacos.planner.place import describe

    axes = ", ".join(f"{axis.name} {axis.size}" for axis in result.axes)
    levels = " x ".join(map(str, result.levels))
    before, after = ("does not end" if each.end_ns is None else f"{each.end_ns:,} ns" for each in (result.own, result.best))
    gain = "" if result.speed_up is None else f"{result.speed_up:.3f} times as fast as before ({before})"
    rows: list[tuple[str, ...]] = [("end of the run", after, gain or f"before: {before}"), ("placement", "", result.name)]
    rows.append(("axes", "", axes or "none: the groups are no products of axes"))
    rows += [("levels", levels, "outermost first"), ("files", str(output))]
    print_answer(f"ranks placed, on the {result.backend} model, with the run's own collectives", rows)
    shown = [
        (describe(each.matrix, result.axes), f"{each.score_ns:,.0f}", _number(each.end_ns)) for each in result.tried[:_MOST_ROWS]
    ]
    title = f"the best of {len(result.tried):,} placements by score (parts of each axis within each level, outermost first)"
    print_table(title, ("placement", "score ns", "end of the run ns"), shown)


def print_divided(result: EndpointResult, output: Path) -> None:
    """Print how NPUs were divided between compute and communication."""
    from astra_tacos.planner.endpoint.npu import Mode

    best = result.written
    ideal = result.tried[-1]
    reads = {mode: result.traffic.read_per_sent_byte(mode) for mode in (Mode.HOST, Mode.ACE)}
    memory = ", ".join(f"{value * result.links_gbps:,.1f} GB/s ({mode})" for mode, value in reads.items())
    answer = [
        ("end of the run", f"{best.end_ns:,} ns", "always divided"),
        ("ideal endpoint", f"{ideal.end_ns:,} ns", "communication takes nothing of the NPU"),
        ("never overlapping", f"{result.in_turn_ns:,} ns", "with all resources in turn"),
        ("links driven", f"{best.network_gbps:,.1f} GB/s", f"of {result.links_gbps:,.1f} GB/s of an NPU"),
        ("reads per byte sent", "", ", ".join(f"{value:.3f} ({mode})" for mode, value in reads.items())),
        ("memory for all links", "", memory),
        ("files", str(output)),
    ]
    print_answer(f"{best.mode}: {best.partition}", answer)
    rows = sorted(result.tried, key=lambda one: one.end_ns)
    shown = [*rows[:_MOST_ROWS], *(one for one in rows[_MOST_ROWS:] if one is best)]
    header = ("endpoint", "cores", "memory GB/s", "network GB/s", "end ns", "exposed ns", "network use")
    print_table(f"partitions ({len(shown)} of {len(rows)}; plan.json has all)", header, map(_divided_row, shown))


def _divided_row(one: Divided) -> tuple[str, ...]:
    return (
        str(one.mode),
        str(one.partition.cores),
        f"{one.partition.memory_gbps:,.1f}",
        f"{one.network_gbps:,.1f}",
        f"{one.end_ns:,}",
        f"{one.exposed_ns:,}",
        f"{one.network_use:.1%}",
    )
