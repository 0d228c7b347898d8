"""What the outcome of a replay says of itself."""

from __future__ import annotations

from helpers.lint_runs import RunFiles, coll, comp
from helpers.runs import load_run, write_run

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import CONGESTION_AWARE


def test_an_outcome_has_rows(tmp_path):
    ranks = [[comp(0, us=1 + rank), coll(1, size=1 << 20, deps=[0])] for rank in range(4)]
    outcome = replay_run(load_run(write_run(tmp_path / "run", RunFiles(ranks=ranks))), CONGESTION_AWARE)
    rows = {row.name: row for row in outcome.rows()}
    assert rows["end of the run"].value == max(outcome.finish_ns) and rows["compute"].value == 4000
    assert rows["exposed"].value == max(outcome.finish_ns - outcome.compute_ns)
    assert rows["messages"].value == outcome.num_messages > 0
    assert rows["busiest link"].value == max(outcome.link_busy_ns)
    assert rows["exposed"].note in outcome._repr_html_() and "4 ranks" in outcome.title()
