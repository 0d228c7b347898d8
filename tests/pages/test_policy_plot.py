"""Bars of scheduling policies, as a figure and as a section of a report."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from helpers.figures import check_same_bytes

from astra_tacos import ConfigError
from astra_tacos.pages.html.run_bars import schedule_section
from astra_tacos.pages.policy_times import AS_IS, draw_policies, policy_times


def tried(name, *uses, end_ns, exposed_ns=10):
    figures = {"end_ns": end_ns, "iteration_ns": None, "compute_ns": 60, "exposed_ns": exposed_ns, "note": ""}
    return {"policies": name, "uses": list(uses)} | figures


PLAN = {
    "schedule": {
        "policies": "fuse,priority",
        "collectives": "native",
        "backend": "congestion-aware",
        "as_is": {"end_ns": 100, "compute_ns": 60, "exposed_ns": 30},
        "tried": [
            tried("fifo", end_ns=99),
            tried("fuse:cap=5,first=1", "fuse", end_ns=90),
            tried("fuse", "fuse", end_ns=95),
            tried("decouple", "decouple", end_ns=None),
            tried("split", "split", end_ns=105, exposed_ns=45),
            tried("split,priority", "split", "priority", end_ns=82),
            tried("fuse,priority", "fuse", "priority", end_ns=80, exposed_ns=5),
        ],
        "layers": [{"collective": "one", "kind": "grad <b>", "exposed_as_is_ns": 30, "exposed_after_ns": 5}],
    }
}


def test_rows_are_policies_alone_and_what_was_written():
    rows = policy_times(PLAN, "plan.json", 12)
    assert [row.name for row in rows] == [AS_IS, "split", "fifo", "fuse:cap=5,first=1", "fuse,priority"]
    assert [row.is_chosen for row in rows] == [False] * 4 + [True]
    assert [(row.compute_ns, row.exposed_ns, row.idle_ns) for row in rows[:2]] == [(60, 30, 10), (60, 45, 0)]
    assert len(policy_times(PLAN, "plan.json", 2)) == 2


def test_a_plan_without_a_schedule_is_refused():
    with pytest.raises(ConfigError, match=r"plan\.json: no schedule of communication"):
        policy_times({}, "plan.json", 12)


def test_figures_are_the_same_bytes(tmp_path):
    times = policy_times(PLAN, "plan.json", 12)
    check_same_bytes(tmp_path, draw_policies, times, "single", "a run")


def test_names_of_several_lines_do_not_overlap():
    long = "reorder:share=50,fuse:cap=5242880,split:partition=4720640,decouple:barrier=no,priority:first=all-to-all"
    plan = {"schedule": PLAN["schedule"] | {"tried": [*PLAN["schedule"]["tried"], tried(long, end_ns=99)], "policies": long}}
    figure = draw_policies(policy_times(plan, "plan.json", 12), "double", "")
    figure.draw_without_rendering()
    labels = figure.axes[0].get_yticklabels()
    assert any(label.get_text().count("\n") > 1 for label in labels)
    boxes = sorted((box.y0, box.y1) for box in (label.get_window_extent() for label in labels))
    assert all(top <= bottom for (_, top), (bottom, _) in pairwise(boxes))


def test_the_section_shows_policies_and_collectives():
    assert schedule_section({}) is None
    section = schedule_section(PLAN)
    assert "<b>fuse,<wbr>priority</b>" in section.html and "grad &lt;b&gt;" in section.html
    assert section.html.count("<svg") == 5 + 2


def layer(name, kind, before, after):
    return {"collective": name, "kind": kind, "exposed_as_is_ns": before, "exposed_after_ns": after}


def test_exposed_communication_is_grouped_by_kind():
    """Every nanosecond of every collective is in one of at most twelve bars."""
    names = ["all-reduce", "all-gather", "all-to-all", "broadcast", "reduce", "reduce-scatter", "gather", "scatter"]
    layers = [layer(f"{kind} {which}", kind, 1000 >> at, 500 >> at) for at, kind in enumerate(names) for which in range(30)]
    bars = schedule_section({"schedule": PLAN["schedule"] | {"layers": layers}}).html.split("<h3>")[1]
    assert bars.count("<svg") == 12
    rows = re.findall(r'<td class="wrap">(.*?)</td>.*?<td>([\d,]+)</td><td>([\d,]+)</td>', bars)
    assert [name for name, _, _ in rows] == [f"{kind} (30)" for kind in names[:5]] + ["other kinds (90)"]
    for which, time in ((1, "exposed_as_is_ns"), (2, "exposed_after_ns")):
        assert sum(int(row[which].replace(",", "")) for row in rows) == sum(one[time] for one in layers)


def test_policies_have_twelve_bars_at_most():
    many = [tried(f"fuse{which}", f"fuse{which}", end_ns=90 + which) for which in range(20)]
    plan = PLAN["schedule"] | {"tried": [*PLAN["schedule"]["tried"], *many], "layers": []}
    assert schedule_section({"schedule": plan}).html.count("<svg") == 12
