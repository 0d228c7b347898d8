"""The summary of a run's report: its figures at a glance, and what they rest on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from astra_tacos.report.html.page import escape
from astra_tacos.run.recording import RecordedReplay, Recording
from astra_tacos.units import format_size, format_time


def plan_facts(result: dict[str, Any], recording: Recording) -> str:
    """Markup for a `plan.json`."""
    end, exposed = format_time(result["after_ns"]), format_time(result["exposed_after_ns"])
    exposed_share = f"{result['exposed_after_ns'] / max(result['after_ns'], 1):.0%} of the run"
    if recording.before is not None:
        end = f"{format_time(result['before_ns'])} → {end}"
        exposed = f"{format_time(result['exposed_before_ns'])} → {exposed}"
        exposed_share = f"{result['exposed_before_ns'] / max(result['before_ns'], 1):.0%} of the run → {exposed_share}"
    facts = [("End of the run", end, _exact_ns(result["before_ns"], result["after_ns"]))]
    if result["speed_up"] is not None:
        facts.append(("Speed-up", f"{result['speed_up']:.3f}x", _gain(result["before_ns"], result["after_ns"])))
    facts.append(("Exposed communication", exposed, f"the most of a rank: {exposed_share}"))
    facts.append(
        ("Collectives", f"{result['num_collectives']:,}", f"{_counted(len(result['cases']), 'case')}, each synthesized once")
    )
    kept = [case["reason"] for case in result["cases"] if case["reason"]]
    pairs = [
        ("Judged by", f"the embedded replay, {result['backend']}"),
        ("Before", _before(result)),
        *_common(recording),
        *((("Left as it was", "; ".join(dict.fromkeys(kept))),) if kept else ()),
    ]
    return _facts(facts) + _pairs(pairs)


def _before(result: dict[str, Any]) -> str:
    if result["before_ns"] is None:
        return f"the run did not end: {result['before_reason']}"
    return f"native {result['baseline']} everywhere" if result["baseline"] else "the run as it was"


def replay_facts(result: dict[str, Any], recording: Recording) -> str:
    """Markup for a `replay.json`."""
    finish, exposed = result["finish_ns"], result["exposed_comm_ns"]
    end = max(finish)
    worst = exposed.index(max(exposed))
    facts = [
        ("End of the run", format_time(end), f"{end:,} ns, rank {finish.index(end)}"),
        (
            "Exposed communication",
            format_time(max(exposed)),
            f"the most of a rank ({worst}): {max(exposed) / max(end, 1):.0%} of the run",
        ),
        (
            "Compute",
            format_time(max(result["compute_ns"])),
            f"the most of a rank; the least {format_time(min(result['compute_ns']))}",
        ),
        ("Sent", format_size(sum(result["sent_bytes"])), f"by {_counted(len(finish), 'rank')} together"),
    ]
    findings = Counter((finding["severity"], finding["code"]) for finding in result["findings"])
    listed = ", ".join(
        f"{code} ({severity}{f', {count:,} times' if count > 1 else ''})" for (severity, code), count in sorted(findings.items())
    )
    pairs = [("Backend", result["backend"]), *_common(recording)]
    if result["beyond_astra_sim"]:
        pairs.append(("Not in stock ASTRA-sim", "; ".join(result["beyond_astra_sim"])))
    if result["replaced"]:
        pairs.append(("Ran another's collective", f"{_counted(len(result['replaced']), 'node')}: their group had cached it"))
    pairs.append(("Lint", listed or "nothing to say"))
    return _facts(facts) + _pairs(pairs)


def _common(recording: Recording) -> list[tuple[str, str]]:
    """What the figures of a replay rest on."""
    replays = (
        [("", recording.after)] if recording.before is None else [("before: ", recording.before), ("after: ", recording.after)]
    )
    sent = " → ".join(format_size(int(replay.sent_bytes.sum())) for _, replay in replays)
    return [
        ("Exactness", "; ".join(f"{when}{_exactness(replay)}" for when, replay in replays)),
        ("Sent by all ranks", sent),
        ("Network", f"{recording.network}: {recording.shape or 'a graph'}, {recording.num_npus:,} NPUs"),
    ]


def _exactness(replay: RecordedReplay) -> str:
    if not replay.approximate:
        return "exact, to the nanosecond as ASTRA-sim"
    return f"approximate, as it has {', '.join(replay.approximate)}"


def _exact_ns(before: int | None, after: int) -> str:
    return f"{after:,} ns" if before is None else f"{before:,} → {after:,} ns"


def _gain(before: int, after: int) -> str:
    if before == after:
        return "as long as before"
    return f"{abs(before - after) / max(before, 1):.1%} {'less' if after < before else 'more'} time"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _facts(facts: list[tuple[str, str, str]]) -> str:
    parts = (
        f'<div class="fact"><dt>{escape(label)}</dt><dd>{escape(value)}<span class="more">{escape(more)}</span></dd></div>'
        for label, value, more in facts
    )
    return f'<dl class="facts">{"".join(parts)}</dl>'


def _pairs(pairs: list[tuple[str, str]]) -> str:
    parts = (f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in pairs)
    return f'<dl class="pairs">{"".join(parts)}</dl>'
