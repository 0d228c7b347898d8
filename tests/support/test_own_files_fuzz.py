"""Whatever is in a file that a command has written, the command that reads it back makes something of it, or says one line.

`FUZZ_EXAMPLES` says how many files are made of each.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.command import invoke
from helpers.generated import write_network
from helpers.mutated_json import mutated_json

from astra_tacos.study.calibrator.collective_model import PRIORS, CollectiveModel
from astra_tacos.study.calibrator.collective_times import CollectiveTime

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
SMALL = "--dp 2 --tp 2 --pp 2 --layers 2 --hidden 64 --heads 2 --sequence 64 --vocab 256 --network net.yml"
SWEEP = """name: x
point: { network: net.yml, collective: all-gather, size: 64KiB, synthesizer: ring, chunks_per_npu: 1 }
axes: [ { grid: { trials: [ 1, 2 ] } } ]
"""
COMMANDS = {
    "certificate": ("run/result.json", "report run --no-compare -o page.html", 1),
    "plan": ("plan/plan.json", "report plan -o page.html", 1),
    "policies": ("plan/plan.json", "report plan --kind policies -o x.svg", 1),
    "parts": ("plan/plan.json", "verify plan --before gen/workload/w", 1),
    "scheduled": ("scheduled/plan.json", "report scheduled -o page.html", 1),
    "replay": ("replayed/replay.json", "report replayed -o page.html", 1),
    "comparison": ("compared/compare.json", "report compared/compare.json -o page.html", 3),
    "machine": ("machine/calibration.json", "calibrate --check machine times.csv", 1),
    "ranks": ("classes/ranks.json", "export classes --format run -o out", 1),
    "sweep": ("sweep/rows", "sweep sweep.yml --output sweep", 12),
    "cache": ("cache", "plan gen --effort quick --cache cache --output again", 12),
}
"""By name: the file, the command that reads it, and by how much fewer examples there are as that takes longer."""


def write_times(folder: Path) -> None:
    model = CollectiveModel({name: typical for name, (typical, _, _) in PRIORS.items()}, np.zeros(1), np.zeros(1), True, False)
    rows = [
        CollectiveTime(collective, "", 4, 8, 1 << power, 1.0, "here")
        for collective in ("all_reduce", "all_gather", "all_to_all")
        for power in range(14, 30)
    ]
    times = model.predict(rows)[0].tolist()
    lines = [f"{row.collective},4,8,{row.size_bytes},{time}" for row, time in zip(rows, times, strict=True)]
    (folder / "times.csv").write_text("\n".join(["collective,nodes,gpus_per_node,size_bytes,time_us", *lines]), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of what all commands have written."""
    folder = tmp_path_factory.mktemp("own")
    write_network(folder / "net.yml", ("Ring", 2), ("Switch", 4), bandwidth=50.0, latency=500.0)
    (folder / "sweep.yml").write_text(SWEEP, encoding="utf-8")
    write_times(folder)
    for command in (
        "synthesize --network net.yml --collective all-reduce --size 64KiB --effort quick --output run",
        f"generate {SMALL} --output gen",
        f"generate {SMALL} --compact --output classes",
        "plan gen --effort quick --schedule fuse,priority --cache cache --output plan",
        "plan gen --schedule fuse,priority --keep-collectives --output scheduled",
        "replay gen --output replayed",
        "compare --network net.yml --collective all-gather --sizes 64KiB --synthesizers ring,direct --output compared",
        "calibrate times.csv --output machine",
        "sweep sweep.yml --output sweep",
    ):
        code, _, errors = invoke(command, folder)
        assert code == 0, f"{command}: {errors}"
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_changed_file_is_read_or_refused_in_one_line(name, made):
    place, command, fewer = COMMANDS[name]
    found = made / place
    path = found if found.suffix else min(found.rglob("*.json"))
    text = path.read_text(encoding="utf-8")
    kept = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file() and each != path}
    before = {each.name for each in made.iterdir()}
    try:
        for number in range(-(-EXAMPLES // fewer)):
            changed, said = mutated_json(text, Random(f"{name} {number}"))
            path.write_text(changed, encoding="utf-8")
            code, _, errors = invoke(command, made)
            new = {each.name for each in made.iterdir()} - before
            assert code in (0, 2) or (code == 1 and command.startswith("verify")), f"{said}: {errors}"
            if code == 2:
                assert errors.startswith("astra-tacos: error: ") and errors.count("\n") == 1, f"{said}: {errors}"
                assert len(errors) <= 601 and not new, f"{said}: {new} {errors}"
            for each in new:
                (shutil.rmtree if (made / each).is_dir() else os.remove)(made / each)
    finally:
        path.write_text(text, encoding="utf-8")
        for each, content in kept.items():
            each.write_bytes(content)
