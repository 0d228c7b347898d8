"""`plan --schedule` as users call it."""

from __future__ import annotations

import json

from helpers.command import read_json
from helpers.command import run as command
from helpers.generated import small_model, write_network
from helpers.plans import generated_run, options_of

from astra_tacos import Parallelism, Step

QUICK = ("--no-cache", "--synthesizer", "ring", "--threads", "1")


def _run_of_two_steps(folder):
    """Files of a data-parallel run, as options."""
    network = write_network(folder / "n.yml", ("Ring", 4), bandwidth=5)
    step = Step(small_model(hidden=256, ffn=1024, layers=2), Parallelism(dp=4), batch=8, steps=2)
    return options_of(generated_run(folder, step, network))


def test_a_run_is_scheduled_and_planned(tmp_path):
    given = _run_of_two_steps(tmp_path)
    done = command("plan", *given, "--output", "out", "--schedule", "dear:cap=1MB", "--verbose", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = read_json(tmp_path / "out" / "plan.json")
    assert result["schedule"]["policies"] in ("fuse:cap=1000000,decouple", "as-is")
    assert result["time_ns"] <= result["schedule"].get("as_is_planned_ns", result["time_ns"])
    kept = command("plan", *given, "--output", "kept", "--schedule", "priority", "--keep-collectives", cwd=tmp_path)
    assert kept.returncode == 0, kept.stderr
    assert "exposed communication" in kept.stdout
    assert command("verify", "kept", "--before", "run/workload/w", cwd=tmp_path).returncode == 0
    told = read_json(tmp_path / "kept" / "plan.json")["schedule"]
    shown = command("report", "kept", "-o", "kept.html", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "kept.html").read_text()
    assert "Scheduled training run" in page
    assert f"{told['as_is_ns']:,} → {told['after_ns']:,} ns" in page
    refused = command("plan", *given, "--output", "x", "--schedule", "faster", cwd=tmp_path)
    assert refused.returncode == 2
    assert "expected as-is, search" in refused.stderr


def test_the_plan_of_a_scheduled_run_says_what_it_begins_with(tmp_path):
    given = _run_of_two_steps(tmp_path)
    judged = command("replay", *given, "--json", cwd=tmp_path)
    end_ns = max(json.loads(judged.stdout)["finish_ns"])
    done = command("plan", *given, "--output", "out", "--schedule", "decouple", "--verbose", *QUICK, cwd=tmp_path)
    result = read_json(tmp_path / "out" / "plan.json")
    schedule = result["schedule"]
    assert (schedule["policies"], schedule["kept_as_is"], schedule["before_ns"]) == ("decouple", False, end_ns)
    assert result["before_ns"] == end_ns
    told = " ".join(done.stdout.split())
    assert f"before {end_ns:,} ns {end_ns / result['time_ns']:.3f} times as long" in told
    chain = f"{result['best_native_ns']:,} best native -> {result['moved_ns']:,} the same collectives, moved in time"
    assert f"{chain} -> {result['time_ns']:,} with synthesized collectives" in told
    for before in ((), ("--before", "run"), ("--before", "run/workload/w")):
        verified = command("verify", "out", *before, cwd=tmp_path)
        assert verified.returncode == 0, verified.stdout
        assert ("made a Reduce-Scatter and an All-Gather" in verified.stdout) == bool(before)
