"""Schedules that the oracle refuses: a plan drops them, says so, and goes on."""

from __future__ import annotations

from dataclasses import replace

from helpers.command import read_json
from helpers.lint_runs import RunFiles, coll
from helpers.plans import lint_plan, planned, written
from helpers.schedules import changed, columns

from astra_tacos import SYNTHESIZERS, CommType, SearchOptions
from astra_tacos.synthesizer import auto_synthesizers

HALVES = {"1": [0, 2, 4], "2": [1, 3, 5]}
ONE_TRIAL = SearchOptions(chunks_per_npu="auto", trials=1, budget=300_000)


def break_synthesizer(monkeypatch, name):
    """Schedules of this synthesizer lack the second half of their sends, which makes them fast."""
    entry = SYNTHESIZERS[name]

    def faulty(*arguments):
        whole = entry.make(*arguments)
        return changed(whole, **{name: column[: whole.num_sends // 2] for name, column in columns(whole).items()})

    monkeypatch.setitem(SYNTHESIZERS, name, replace(entry, make=faulty))


def all_gathers(groups=None):
    """Six ranks in a ring gather in groups, or all together."""
    group = {rank: int(name) for name, ranks in (groups or {}).items() for rank in ranks}
    ranks = [[coll(0, (), CommType.ALL_GATHER, 1 << 18, group.get(rank))] for rank in range(6)]
    return RunFiles(ranks=ranks, groups=groups, topology=("Ring",), npus=(6,))


def test_the_next_best_schedule_is_taken(tmp_path, monkeypatch):
    # After which nothing else would be tried.
    monkeypatch.setitem(SYNTHESIZERS, "symmetric", replace(SYNTHESIZERS["symmetric"], in_auto=False))
    break_synthesizer(monkeypatch, "tacos")
    result, after = planned(written(tmp_path, all_gathers()), tmp_path / "plan", options=ONE_TRIAL, cache=tmp_path / "cache")
    assert lint_plan(after).findings == ()
    (case,) = result.cases
    assert case.algorithm in set(auto_synthesizers()) - {"tacos"}
    note = result.notes[0]
    assert note.startswith("DEFECT of astra_tacos, please report it: the oracle refused a schedule of tacos for all_gather_")
    assert "incomplete: " in note
    assert read_json(tmp_path / "plan" / "plan.json")["notes"] == list(result.notes)
    assert not list((tmp_path / "cache").rglob("*.npz"))  # another plan tells of it, too


def test_nodes_stay_as_they_are_if_nothing_else_is_left(tmp_path, monkeypatch):
    break_synthesizer(monkeypatch, "tacos")
    options = replace(ONE_TRIAL, synthesizer="tacos")
    result, after = planned(written(tmp_path, all_gathers()), tmp_path / "plan", options=options)
    assert lint_plan(after).findings == ()
    (case,) = result.cases
    assert (case.algorithm, case.reason) == ("native", "no candidate can run there: the oracle refused all schedules")
    assert result.notes[0].startswith("DEFECT of astra_tacos")
