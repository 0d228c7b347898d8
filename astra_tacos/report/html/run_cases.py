"""Data of the collectives of a run for a page, by column, with one entry per distinct collective."""

from __future__ import annotations

from typing import Any

from astra_tacos.support.units import format_size


def plan_cases(result: dict[str, Any]) -> dict[str, Any]:
    """Data of the distinct collectives of a plan, from the object in `plan.json`."""
    cases = result["cases"]
    columns = {
        "collective": [case["collective"] for case in cases],
        "size_bytes": [case["size_bytes"] for case in cases],
        "members": [case["members"] for case in cases],
        "groups": [case["groups"] for case in cases],
        "count": [case["count"] for case in cases],
        "algorithm": [_algorithm(case) for case in cases],
        "predicted_ns": [case["predicted_ns"] for case in cases],
        "bound_ns": [case["bound_ns"] for case in cases],
        "before_ns": [case["spent_before_ns"] for case in cases],
        "after_ns": [case["spent_after_ns"] for case in cases],
        "share": [case["share"] for case in cases],
        "note": [_note(case) for case in cases],
    }
    says = (
        "Nodes of one pattern and size whose groups see the same network are one case, which is synthesized once. Before and "
        "after: the most time that a rank spends in its collectives, overlapped or not; share: of the run after. Predicted and "
        "bound: of one group alone; ~ marks an estimate."
    )
    labels = [f"{case['collective']} {format_size(case['size_bytes'])}, {case['members']} members" for case in cases]
    return {"kind": "plan", "says": says, "labels": labels, "exact": [case["exact"] for case in cases], "columns": columns}


def _algorithm(case: dict[str, Any]) -> str:
    return f"{case['algorithm']} x{case['chunks_per_npu']}" if case["chunks_per_npu"] else str(case["algorithm"])


def _note(case: dict[str, Any]) -> str:
    notes = [case["reason"]] if case["reason"] else []
    if case["was_cut_off"]:
        notes.append("the search was cut off by its budget")
    if case.get("ran_out_of_time"):
        notes.append("the search was cut off by its time limit: the result depends on the machine")
    return "; ".join(notes)


def replay_cases(result: dict[str, Any]) -> dict[str, Any]:
    """Data of the collectives of a replay, from the object in `replay.json`."""
    found = result["collectives"]
    longest = [max(entry["total_ns"], default=0) for entry in found]
    names = [entry["pattern"].lower().replace("_", "-") for entry in found]
    columns = {
        "collective": names,
        "size_bytes": [entry["size_bytes"] for entry in found],
        "count": [entry["nodes"] for entry in found],
        "algorithm": [entry["algorithm"] for entry in found],
        "after_ns": longest,
        "share": [time / max(result["end_ns"], 1) for time in longest],
    }
    says = "Nodes of one pattern, size and algorithm together; time: the most that a rank spends in them, overlapped or not."
    labels = [
        f"{name} {format_size(entry['size_bytes'])}, {entry['algorithm']}" for name, entry in zip(names, found, strict=True)
    ]
    return {"kind": "replay", "says": says, "labels": labels, "exact": [True] * len(found), "columns": columns}
