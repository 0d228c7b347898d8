"""The summary of a run's report: its main figures and their assumptions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from astra_tacos.report.html.page import escape
from astra_tacos.run.recording import RecordedReplay, Recording
from astra_tacos.support.units import format_size

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "\N{MICRO SIGN}s"), (1, "ns"))

_IMPOSSIBLE = (("the run before", "before_impossible"), ("the planned run", "after_impossible"))
"""Keys of plan.json with the reason why no network lets these runs end so early."""


def plan_facts(result: dict[str, Any], recording: Recording) -> str:
    """Markup of the summary of a plan, from the object in `plan.json`."""
    before, after = result["before_ns"], result["after_ns"]
    exposed_share = f"{result['exposed_after_ns'] / max(after, 1):.0%}"
    if before is not None:
        exposed_share = f"{result['exposed_before_ns'] / max(before, 1):.0%} → {exposed_share}"
    facts = [("End of the run", _change(before, after), _exact_ns(before, after))]
    if before is not None:
        facts.append(("Speed-up", f"{result['speed_up']:.3f}x", _gain(before, after)))
    exposed = _change(result["exposed_before_ns"], result["exposed_after_ns"])
    facts.append(("Exposed communication", exposed, f"the most of a rank: {exposed_share} of the run"))
    facts.append(
        ("Collectives", f"{result['num_collectives']:,}", f"{counted(len(result['cases']), 'case')}, each synthesized once")
    )
    kept = [case["reason"] for case in result["cases"] if case["reason"]]
    pairs = [
        ("Judged by", f"the embedded replay, {result['backend']}"),
        ("Before", _before(result)),
        *((f"Not possible: {run}", result[key]) for run, key in _IMPOSSIBLE if result.get(key)),
        *_best_native(result),
        *_common(recording),
        *((("Left as it was", "; ".join(dict.fromkeys(kept))),) if kept else ()),
    ]
    return _facts(facts) + _pairs(pairs)


def schedule_facts(schedule: dict[str, Any], recording: Recording) -> str:
    """Markup of the summary of a run that was only scheduled, from the entry `schedule` of `plan.json`."""
    before, after = schedule["as_is_ns"], schedule["after_ns"]
    was, now = schedule["exposed_as_is_ns"], schedule["exposed_after_ns"]
    facts = [
        ("End of the run", _change(before, after), _exact_ns(before, after)),
        ("Speed-up", f"{schedule['speed_up']:.3f}x", _gain(before, after)),
        (
            "Exposed communication",
            _change(was, now),
            f"the most of a rank: {was / max(before, 1):.0%} → {now / max(after, 1):.0%} of the run",
        ),
    ]
    pairs = [
        ("Policies", schedule["policies"]),
        ("Judged by", f"the embedded replay, {schedule['backend']}"),
        ("Before", "the run as it was, with the same collective algorithms"),
        *_common(recording),
        *((("Notes", "; ".join(schedule["notes"])),) if schedule["notes"] else ()),
    ]
    return _facts(facts) + _pairs(pairs)


def _before(result: dict[str, Any]) -> str:
    if result["before_ns"] is None:
        return f"the run did not end: {result['before_reason']}"
    schedule = result.get("schedule")
    if schedule is not None and schedule["policies"] != "as-is" and not schedule.get("kept_as_is"):
        end = schedule.get("before_ns")
        own = "" if end is None else f"; as its files say, it ends at {end:,} ns"
        return f"the scheduled run, with its own collectives{own}"
    return f"native {result['baseline']} everywhere" if result["baseline"] else "the run as it was"


def _best_native(result: dict[str, Any]) -> list[tuple[str, str]]:
    """The fastest native configuration; nothing for plans that know of none."""
    best = result.get("best_native")
    if best is None:
        return []
    end = f"{result['best_native_ns']:,} ns: {best['name']}"
    return [("Best native", f"{end}; this run is {result['speed_up_over_best_native']:.3f}x as fast")]


def replay_facts(result: dict[str, Any], recording: Recording) -> str:
    """Markup of the summary of a replay, from the object in `replay.json`."""
    finish, exposed = result["finish_ns"], result["exposed_comm_ns"]
    end = max(finish)
    worst = exposed.index(max(exposed))
    facts = [
        ("End of the run", _change(None, end), f"{end:,} ns, rank {finish.index(end)}"),
        (
            "Exposed communication",
            _change(None, max(exposed)),
            f"the most of a rank ({worst}): {max(exposed) / max(end, 1):.0%} of the run",
        ),
        (
            "Compute",
            _change(None, max(result["compute_ns"])),
            f"the most of a rank; the least {_change(None, min(result['compute_ns']))}",
        ),
        ("Sent", format_size(sum(result["sent_bytes"])), f"by {counted(len(finish), 'rank')} together"),
    ]
    findings = Counter((finding["severity"], finding["code"]) for finding in result["findings"])
    listed = ", ".join(
        f"{code} ({severity}{f', {count:,} times' if count > 1 else ''})" for (severity, code), count in sorted(findings.items())
    )
    pairs = [("Backend", result["backend"]), *_common(recording)]
    if result["beyond_astra_sim"]:
        pairs.append(("Not in stock ASTRA-sim", "; ".join(result["beyond_astra_sim"])))
    if result["replaced"]:
        pairs.append(("Ran another's collective", f"{counted(len(result['replaced']), 'node')}: cached by their group"))
    pairs.append(("Lint", listed or "nothing to say"))
    return _facts(facts) + _pairs(pairs)


def _common(recording: Recording) -> list[tuple[str, str]]:
    """Labels and values that plans and replays have in common: exactness, bytes sent, and network."""
    replays = (
        [("", recording.after)] if recording.before is None else [("before: ", recording.before), ("after: ", recording.after)]
    )
    exactness = {_exactness(replay) for _, replay in replays}
    sent = " → ".join(format_size(int(replay.sent_bytes.sum())) for _, replay in replays)
    return [
        (
            "Exactness",
            exactness.pop() if len(exactness) == 1 else "; ".join(f"{when}{_exactness(replay)}" for when, replay in replays),
        ),
        ("Sent by all ranks", sent),
        ("Network", f"{recording.network}: {recording.shape or 'a graph'}, {recording.num_npus:,} NPUs"),
    ]


def _exactness(replay: RecordedReplay) -> str:
    if not replay.approximate:
        return "exact, to the nanosecond as ASTRA-sim"
    return f"approximate, as it has {', '.join(replay.approximate)}"


def _change(before: int | None, after: int) -> str:
    """One or two times as text, such as `2.44 → 1.34 ms`, with three digits in the unit of the longer one."""
    times = [after] if before is None else [before, after]
    scale, unit = next((entry for entry in _UNITS if max(times) >= entry[0]), _UNITS[-1])
    longest = max(times) / scale
    digits = 0 if scale == 1 or longest >= 100 else 1 if longest >= 10 else 2
    return " → ".join(f"{time / scale:,.{digits}f}" for time in times) + f" {unit}"


def _exact_ns(before: int | None, after: int) -> str:
    return f"{after:,} ns" if before is None else f"{before:,} → {after:,} ns"


def _gain(before: int, after: int) -> str:
    if before == after:
        return "as long as before"
    return f"{abs(before - after) / max(before, 1):.1%} {'less' if after < before else 'more'} time"


def counted(count: int, what: str) -> str:
    """A count with its noun in singular or plural: `1 rank`, `2 ranks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _facts(facts: list[tuple[str, str, str]]) -> str:
    parts = (
        f'<div class="fact"><dt>{escape(label)}</dt><dd>{escape(value)}<span class="more">{escape(more)}</span></dd></div>'
        for label, value, more in facts
    )
    return f'<dl class="facts{" four" if len(facts) == 4 else ""}">{"".join(parts)}</dl>'


def _pairs(pairs: list[tuple[str, str]]) -> str:
    parts = (f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in pairs)
    return f'<dl class="pairs">{"".join(parts)}</dl>'
