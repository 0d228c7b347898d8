"""Random runs, planned: they end, lint finds no error that was not there, nothing is slower, and a plan of a plan is the same."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from helpers.examples import examples
from helpers.plans import golden_inputs, lint_plan, planned, same_or_faster
from helpers.runs import ONE_DIMENSION, SEVERAL_DIMENSIONS, Tastes, random_run, write_run
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tacos import ConfigError, SearchOptions, read_run
from astra_tacos.replayer.run_replay import try_replay
from astra_tacos.run.backend import CONGESTION_AWARE

TASTES = Tastes(lost=0, empty=0, replay_only=0, same_tag=0, broadcast=0, invalid=0, roofline=0, cycle=0, instant=0)
"""Nothing that would make ASTRA-sim itself stall, whatever its collectives, and no Broadcast, in which it only waits."""
QUICK = SearchOptions("tacos", trials=1)
REFUSED = ("where ASTRA-sim stops",)
"""What the run before does as well."""


@given(st.integers(0, 1 << 32))
@example(seed=147)  # a native collective of all ranks, before which ranks begin unequal numbers of others
@examples(10)
def test_a_plan_of_a_random_run(seed: int) -> None:
    rng = random.Random(seed)
    dimensions = rng.choice((*ONE_DIMENSION, *SEVERAL_DIMENSIONS))
    files = random_run(rng, dimensions, rng.randint(2, 14), TASTES).files
    files.system = {key: value for key, value in files.system.items() if "custom" not in key}
    files.per_node, files.collectives = None, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_run(folder, files, dimensions)
        inputs = golden_inputs(folder)
        try:
            result, after = planned(inputs, folder / "plan", options=QUICK)
        except ConfigError as error:
            assert any(text in str(error) for text in REFUSED), error
            return
        # What was only a warning in a run that never gets there is an error in one that ends.
        assert set(lint_plan(after).errors) <= {finding.code for finding in lint_plan(inputs).findings}
        if result.before_ns is not None:
            assert result.after_ns <= result.before_ns
        same_or_faster(result, after, folder, QUICK)
        # Nothing beats the bound where messages queue, but for delays that ASTRA-sim truncates.
        for run in (read_run(inputs), read_run(after)):
            end_ns = try_replay(run, CONGESTION_AWARE).end_ns
            assert end_ns is None or end_ns * 1.01 + 100 >= result.bound.end_ns
