"""Any run that can be written is linted without an exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.random_runs import broken_runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.run.run import RunInputs
from astra_tacos.workload.lint import lint


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(run=broken_runs(), backend=st.sampled_from((None, "congestion-aware", "congestion-unaware")))
def test_lint_never_raises(run, backend):
    with tempfile.TemporaryDirectory() as folder:
        report = lint(RunInputs(**run.write(Path(folder))), backend=backend)
    assert len(report.findings) == sum(report.errors.values()) + sum(report.warnings.values())
    assert all("\n" not in finding.message for finding in report.findings)
