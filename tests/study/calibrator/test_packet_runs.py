"""The configuration of ns-3, fitted to two runs: against recorded runs, and against ones of other configurations."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run as command
from helpers.runs import make_run

from astra_tacos import ConfigError, RunInputs, read_run, replay_run
from astra_tacos.network.network_config import configured
from astra_tacos.network.ns3 import Ns3Config, ns3_text, read_ns3_config
from astra_tacos.study.calibrator.calibration import MeasuredRun, fit_ns3, read_finish

VARIABLE = "ASTRA_TACOS_NS3_RUNS"
_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "golden_ns3"
RECORDED = Path(os.environ.get(VARIABLE) or _BESIDE)
FITTED_TO = ("ring8_tacos_1_blocking_1MiB", "torus4x4_tacos_1_blocking_1MiB")
NAMES = sorted(path.parent.name for path in RECORDED.glob("*/expected.json"))
GBPS_400 = 4e11 / 8 / 2**30
HIDDEN = [
    Ns3Config(payload_bytes=1733, has_window=0),
    Ns3Config(payload_bytes=650, cc_mode=3),
    Ns3Config(payload_bytes=4096),
]


def messages(folder, sizes, latency_ns=500.0):
    """One NPU sends messages of some sizes to another, each as soon as it can, which sends back as many."""
    from helpers.lint_runs import recv, send

    ranks = [
        [send(2 * tag, 1 - rank, size=size, tag=tag) for tag, size in enumerate(sizes)]
        + [recv(2 * tag + 1, 1 - rank, size=size, tag=tag) for tag, size in enumerate(sizes)]
        for rank in range(2)
    ]
    return make_run(folder, ranks, ("FullyConnected", 2, GBPS_400, latency_ns))


def measured(run, ns3, name):
    network = replace(run.network, ns3=ns3)
    return MeasuredRun(name, run, replay_run(replace(run, network=network), "packet").finish_ns)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_two_small_runs_tell_the_times_of_another(tmp_path, hidden):
    """Its payload may be another one that takes as long: times are what counts."""
    small = [((40_000, 3_333), 500.0), ((200_001,), 3_000.0)]
    runs = [measured(messages(tmp_path / str(i), *one), hidden, str(i)) for i, one in enumerate(small)]
    fitted = fit_ns3(runs)
    assert fitted.worst < 0.002 and set(fitted.errors) == {"0", "1"}
    other = measured(messages(tmp_path / "other", (1 << 20, 70_000, 1)), hidden, "other")
    assert other.error(fitted.ns3) < 0.01


@pytest.mark.skipif(not NAMES, reason=f"NOT TESTED against recorded runs of ns-3: set {VARIABLE} to a directory of them")
def test_two_recorded_runs_tell_all_others(tmp_path):
    """By the command, from logs as ASTRA-sim prints them: every rank of all other recorded runs to the nanosecond."""
    arguments: list[str] = []
    for name in FITTED_TO:
        finish = json.loads((RECORDED / name / "expected.json").read_text())["finish_ns"]
        log = tmp_path / f"{name}.log"
        lines = (f"sys[{rank}] finished, {time} cycles, exposed communication 0 cycles." for rank, time in enumerate(finish))
        log.write_text("[statistics] [info] \n".join(lines))
        arguments += [str(RECORDED / name), str(log)]
    done = command("calibrate", *arguments, "--output", "fitted", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["worst"] == 0 and result["ns3"]["payload_bytes"] == 1000 and result["notes"] == []
    wrong = tmp_path / "wrong.log"
    wrong.write_text("".join(f"sys[{rank}] finished, {rank + 9} cycles, exposed communication 0 cycles.\n" for rank in range(8)))
    refused = command("calibrate", arguments[0], str(wrong), "--output", "nothing", cwd=tmp_path)
    assert refused.returncode == 1 and "no configuration gives these times within 1%" in refused.stdout
    assert not (tmp_path / "nothing").exists()
    for name in sorted(set(NAMES) - set(FITTED_TO)):
        folder = RECORDED / name
        workload = next(folder.glob("workload/*.0.et")).with_suffix("").with_suffix("")
        run = read_run(RunInputs(workload, folder / "system.json", folder / "network.yml", directory=folder))
        run = replace(run, network=configured(run.network, tmp_path / "fitted" / "ns3_config.txt"))
        assert replay_run(run, "packet").finish_ns.tolist() == json.loads((folder / "expected.json").read_text())["finish_ns"]


def test_a_configuration_is_read_as_it_was_written(tmp_path):
    for ns3 in HIDDEN:
        (tmp_path / "ns3.txt").write_text(ns3_text(ns3))
        assert replace(read_ns3_config(tmp_path / "ns3.txt"), source=ns3.source) == ns3


def test_what_cannot_be_fitted_is_said(tmp_path):
    log = tmp_path / "log"
    log.write_text("sys[0] finished, 10 cycles, exposed communication 0 cycles.\n")
    with pytest.raises(ConfigError, match="no time at which rank 1 finished"):
        read_finish(log, 2)
    log.write_text("".join(f"sys[{rank}] finished, 10 cycles, exposed communication 0 cycles.\n" for rank in range(3)))
    with pytest.raises(ConfigError, match="rank 2 finished, expected the log of a run of 2 ranks"):
        read_finish(log, 2)
    with pytest.raises(ConfigError, match="no run"):
        fit_ns3([])
    run = messages(tmp_path / "run", (1 << 31,))
    with pytest.raises(ConfigError, match="a message of 2,147,483,648 bytes"):
        fit_ns3([MeasuredRun("large", run, np.ones(2, np.int64))])
    nothing = command("calibrate", str(tmp_path), str(log), cwd=tmp_path)
    assert nothing.returncode == 2 and "0 files workload/*.0.et, expected one run" in nothing.stderr
    mixed = command("calibrate", str(tmp_path), str(log), str(log), str(log), cwd=tmp_path)
    assert mixed.returncode == 2 and "expected one kind of them" in mixed.stderr
