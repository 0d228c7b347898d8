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
from astra_tacos.support.units import format_size, format_time

if TYPE_CHECKING:
    from astra_tacos.planner.compact.plan import CompactPlan
    from astra_tacos.planner.endpoint.endpoint import Divided, EndpointResult
    from astra_tacos.planner.place import PlaceResult
    from astra_tacos.planner.plan_result import CaseFigures, JointFigures, PlanResult
    from astra_tacos.planner.retime.make_plan import Plan
    from astra_tacos.planner.retime.schedule_run import ScheduleResult
    from astra_tacos.run.backend import Backend

_MOST_TRIED = 12
_MOST_PLACED = 10
_MOST_ROWS = 12
_MOST_LAYERS = 8
_MOST_CASES = 4
_MOST_RANKS = 8
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
            ("judged by", f"the embedded replay, {result.backend}, {_WITH[result.collectives]}"),
            *_iteration(result),
            ("end of the run", f"{result.as_is_ns:,} ns (as it is) -> {result.after_ns:,} ns"),
            ("exposed communication", f"up to {result.exposed_as_is_ns:,} ns -> {result.exposed_after_ns:,} ns"),
            ("speed-up", f"{result.speed_up:.3f}"),
            *(("note", note) for note in result.notes),
        ]
    )
    if len(result.tried) > 1:
        ended = sorted((one for one in result.tried if one.end_ns is not None), key=lambda one: one.end_ns or 0)
        shown = ended[:_MOST_TRIED]
        title = f"policies ({len(shown)} of {len(result.tried)} that were tried; plan.json has all)"
        rows = [(one.name, f"{one.end_ns:,}", f"{result.as_is_ns / (one.end_ns or 1):.3f}") for one in shown]
        print_table(title, ("policies", "end ns", "speed-up"), rows)
    exposed = sorted((one for one in result.layers if max(one[1:]) > 0), key=lambda one: -max(one[1:]))[:_MOST_LAYERS]
    if exposed:
        rows = [(name, f"{was:,}", f"{now:,}") for name, was, now in exposed]
        title = "exposed communication by collective (mean of its ranks; the largest)"
        print_table(title, ("collective", "before ns", "after ns"), rows)


def _files_of_run(output: Path, backend: Backend) -> list[tuple[str, str]]:
    """Where the files are, and how to run them, if a version of ASTRA-sim has such a network."""
    start = _start(output, backend)
    return [("files", str(output)), *([("run", start)] if start else [])]


def _start(output: Path, backend: Backend) -> str:
    """How to start ASTRA-sim on a written run; "" if no version of it has such a network."""
    script = output / ("run_astra_sim.sh" if backend.is_analytical else "run_ns3.sh")
    return f"ASTRA_SIM_BIN=... {shlex.quote(str(script))}" if script.exists() else ""


def _measured_rows(measured: dict[str, Any]) -> list[tuple[str, str]]:
    """What ASTRA-sim itself took, where it was run."""
    cycles = {when: measured[when] for when in ("before", "after") if when in measured}
    return [(f"ASTRA-sim, {when}", "stalls" if took is None else f"{took:,} cycles") for when, took in cycles.items()]


def _print_plan(result: PlanResult, output: Path, measured: dict[str, Any], scheduled: ScheduleResult | None = None) -> None:
    """Print what a plan made of a run."""
    rows = [
        ("planned", f"{result.num_collectives:,} collectives of {result.num_ranks:,} ranks, {len(result.cases):,} distinct"),
        ("judged by", f"the embedded replay, {result.backend}"),
    ]
    if result.placement is not None:
        rows.append(("placement", result.placement.name))
    if result.before_ns is None:
        rows += [
            ("before", f"does not end: {result.before_reason}"),
            ("end of the run", f"{result.after_ns:,} ns"),
            ("exposed communication", f"up to {result.exposed_after_ns:,} ns"),
        ]
    else:
        own = what = "native " + result.baseline if result.baseline else "as it was"
        own_ns = _own_before_ns(result, scheduled)
        if scheduled is not None and scheduled.plan_starts_scheduled:
            what = "scheduled, with its own collectives"
        elif result.placement is not None and not result.placement.kept_as_is:
            what = f"placed, {'with its own collectives' if own == 'as it was' else own}"
        if own_ns is not None:
            gain = own_ns / max(result.after_ns, 1)
            rows.append(("in all", f"{own_ns:,} ns ({own}) -> {result.after_ns:,} ns, speed-up {gain:.3f}"))
        rows += [
            ("end of the run", f"{result.before_ns:,} ns ({what}) -> {result.after_ns:,} ns"),
            ("exposed communication", f"up to {result.exposed_before_ns:,} ns -> {result.exposed_after_ns:,} ns"),
            ("speed-up", f"{result.speed_up:.3f}"),
        ]
    rows += [
        (name, f"not physically possible: {end.impossible}")
        for name, end in (("the run before", result.before_end), ("the planned run", result.after_end))
        if end is not None and end.impossible
    ]
    rows += [
        *_native_rows(result),
        *_bound_rows(result),
        _message_row(result),
        *_judge_rows(result),
        *_measured_rows(measured),
        *(("note", note) for note in result.notes),
    ]
    print_rows(rows + _files_of_run(output, result.backend))
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


def print_planned(planned: Plan, output: Path, measured: dict[str, Any], *, verbose: bool, error: float | None = None) -> None:
    """Print what `plan` made: the answer in one screen, or everything.

    `measured` is what ASTRA-sim itself took, `error` what the network file carries.
    """
    result, scheduled = planned.result, planned.scheduled
    if result is not None and not verbose:
        _print_answer(result, output, measured, scheduled, error)
        return
    if scheduled is not None:
        _print_schedule(scheduled)
        if result is None:
            print_rows(_files_of_run(output, scheduled.backend))
        else:
            echo("")
    if result is not None:
        _print_plan(result, output, measured, scheduled)
    if error is not None:
        echo(f"times of the network: {plus_or_minus(error)}")


def _print_answer(
    result: PlanResult, output: Path, measured: dict[str, Any], scheduled: ScheduleResult | None, error: float | None
) -> None:
    """Print what a plan made of a run, in one screen."""
    title = f"{result.num_collectives:,} collectives of {result.num_ranks:,} ranks, {len(result.cases):,} distinct"
    rows = [("end of the run", f"{result.after_ns:,} ns", _over_before(result, scheduled))]
    best_ns = result.best_native_ns
    ratio = result.speed_up_over_best_native
    if best_ns is not None and ratio is not None:
        alike = ", in the same schedule" if scheduled is not None and scheduled.plan_starts_scheduled else ""
        rows.append(("best native", f"{best_ns:,} ns", f"{ratio:.3f} times as long{alike}"))
    rows += [
        (
            "but",
            f"{judged.native_ns:,} ns",
            f"takes the best native run on {judged.judge.label}: plan with --backend {judged.judge.backend}",
        )
        for judged in result.judged
        if judged.loses_to_native
    ]
    share = "" if result.efficiency is None else f"{result.efficiency:.1%} of the end of the run"
    rows.append(("at least", f"{result.bound.end_ns:,} ns", share))
    before = "" if result.exposed_before_ns is None else f"{result.exposed_before_ns:,} ns before"
    rows.append(("exposed", f"{result.exposed_after_ns:,} ns", before))
    if result.after_end.impossible:
        rows.append(("not possible", "", "links cannot carry the run in this time: --verbose says why"))
    if scheduled is not None:
        rows.append(("schedule", "", scheduled.name))
    if result.placement is not None:
        rows.append(("placement", "", result.placement.name))
    rows += [(label, cycles, "") for label, cycles in _measured_rows(measured)]
    files = file_rows(output, _start(output, result.backend))
    print_answer(f"{title}, judged by {result.backend}", [*with_error(rows, error), *files])
    header = ("collective", "groups", "count", "algorithm", "before ns", "after ns", "share")
    shown = result.cases[:_MOST_CASES]
    cells = [(row[0], row[2], row[3], row[4], *row[8:]) for row in map(_row, shown)]
    print_table(f"where the time goes ({len(shown)} of {len(result.cases)})", header, cells)
    print_notes(result.notes)


def print_compact_plan(result: CompactPlan, output: Path, *, verbose: bool) -> None:
    """Print what a plan made of a compact run."""
    title = f"{result.num_ranks:,} ranks of {result.num_classes:,} classes, judged by {result.backend}"
    before, native, bound, after = result.before, result.native, result.bound, result.after.counted_ns
    gain = "the run before cannot be replayed"
    if before is not None and result.speed_up is not None:
        gain = f"{result.speed_up:.3f} times as fast as before ({before.counted_ns:,} ns)"
    rows = [("end of the run", f"{after:,} ns", gain)]
    if native is not None and result.speed_up_over_best_native is not None:
        rows.append(("best native", f"{native.counted_ns:,} ns", f"{result.speed_up_over_best_native:.3f} times as long"))
        rows.append(("", "", result.native_name))
    rows.append(("at least", f"{bound.end_ns:,} ns", f"{bound.end_ns / max(after, 1):.1%} of the end of the run"))
    if bound.in_step_ns is not None:
        share = f"{bound.in_step_ns / max(after, 1):.1%}, if members of a collective keep in step"
        rows.append(("in step", f"{bound.in_step_ns:,} ns", share))
    rows.append(("exposed", f"{result.exposed_ns:,} ns", ""))
    if result.after.impossible:
        rows.append(("replayed", f"{result.after.end_ns:,} ns", "without queues, which no network can do"))
    replay = f"astra-tacos replay {shlex.quote(str(output))} --backend {result.backend}"
    start = _start(output / "ordinary", result.backend)
    print_answer(title, [*rows, *file_rows(output, start), ("replay", replay, "")])
    header = ("collective", "ranks", "count", "algorithm", "before ns", "after ns", "bound ns")
    shown = result.cases if verbose else result.cases[:_MOST_CASES]
    cells = []
    for case in shown:
        chunks = f", {case['chunks_per_npu']} chunk{'s' * (case['chunks_per_npu'] > 1)}" if case["chunks_per_npu"] else ""
        each = [case[name] for name in ("spent_before_ns", "spent_after_ns", "bound_ns")]
        if each[2] is not None and each[1] is not None and each[1] < each[2]:
            each[2] = None  # a bound of networks with queues, on a judge without
        times = map(_number, each)
        what = f"{case['collective']} {format_size(case['size_bytes'])}"
        cells.append((what, f"{case['members']:,}", f"{case['count']:,}", f"{case['algorithm']}{chunks}", *times))
    print_table(f"where the time goes ({len(shown)} of {len(result.cases)})", header, cells)
    print_notes(result.notes, verbose=verbose)


def _over_before(result: PlanResult, scheduled: ScheduleResult | None) -> str:
    """How many times as fast as the run before the planned one is."""
    if result.before_ns is None:
        return "the run before does not end: --verbose says why"
    own_ns = _own_before_ns(result, scheduled)
    before_ns = result.before_ns if own_ns is None else own_ns
    gain = result.speed_up if own_ns is None else own_ns / max(result.after_ns, 1)
    what = f", native {result.baseline}" if result.baseline else ""
    return f"{gain:.3f} times as fast as before ({before_ns:,} ns{what})"


def _own_before_ns(result: PlanResult, scheduled: ScheduleResult | None) -> int | None:
    """When the run as its files say ends, where the plan began with its ranks or its communication moved; None elsewhere."""
    if scheduled is not None and scheduled.plan_starts_scheduled:
        return scheduled.before_ns
    if result.placement is not None and not result.placement.kept_as_is:
        return result.placement.before_ns
    return None


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


def _message_row(result: PlanResult) -> tuple[str, str]:
    """What the planned run costs the simulator."""
    counts = result.messages
    before = "" if counts.before is None else f"{counts.before:,} -> "
    above = f", above the {counts.limit:,} asked for: no collective takes less" if counts.after > counts.limit else ""
    took = f"about {format_time(counts.after_s * 1e9)} of ASTRA-sim's own time"
    return "messages", f"{before}{counts.after:,} ({took}{above})"


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
    print_answer(f"ranks placed, judged by {result.backend}, with the run's own collectives", rows)
    shown = [
        (describe(each.matrix, result.axes), f"{each.score_ns:,.0f}", _number(each.end_ns))
        for each in result.tried[:_MOST_PLACED]
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
