"""Algorithms with a name on tori: planted constants are found again, wrong files are refused, measured winners are predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from helpers.command import run
from helpers.peers import peers

from astra_tacos import ConfigError, read_network
from astra_tacos.study.calibrator.tori import (
    NamedTime,
    TorusModel,
    choices,
    described,
    fit_tori,
    read_named,
)
from astra_tacos.study.calibrator.torus_work import TorusWork, work_of

PEERS, WHY_NONE = peers("measured_fugaku/fugaku.csv")
PLANTED = {"launch": 3.0, "step": 2.0, "port": 0.5, "added": 5e-5, "copied": 2e-5}
MACHINE = {f"{library} {name}": value for library in ("mpi", "utofu") for name, value in PLANTED.items()} | {
    "hop": 0.1, "wire": 2e-4, "block": 0.02, "setup": 0.1, "ring_added": 1e-4,
}  # fmt: skip
ALGORITHMS = {
    "all_reduce": ("bucket", "recursive-doubling", "bine-l", "bine-b-cont", "ring"),
    "all_gather": ("bucket", "recursive-doubling", "bruck", "ring", "bine-cont-permute", "bine-blocks"),
    "broadcast": ("binomial", "binary-tree", "bine-binomial-tree", "bine-scatter-allgather", "pipeline"),
}


def measured(*shapes):
    """Times of a machine, off by up to 2%."""
    random = Random(5)
    rows = [
        NamedTime(dims, collective, algorithm + library, 1 << power, 0, 1, 1.0, "here")
        for dims in shapes
        for collective, names in ALGORITHMS.items()
        for algorithm in names
        for library in ("", "-UTOFU")
        for power in range(10, 30, 2)
    ]
    times = TorusModel(MACHINE, {}, 0.6).times(rows)
    return [replace(row, time_us=time * random.uniform(0.98, 1.02)) for row, time in zip(rows, times, strict=True)]


def csv_of(folder, rows):
    """A file of times."""
    path = folder / "times.csv"
    lines = [f"{row.point[0]},{row.collective},{row.algorithm},{row.size_bytes},{row.time_us}" for row in rows]
    path.write_text("\n".join(["shape,collective,algorithm,size_bytes,time_us", *lines]) + "\n", encoding="utf-8")
    return path


def test_planted_constants_are_found_again():
    """The fold, link and step, and nearly all winners of a shape that was not fitted."""
    model = fit_tori(measured((4, 4), (16, 16)))
    assert model.fold == 0.6
    for name in ("wire", "mpi step", "utofu step"):
        assert model.constants[name] == pytest.approx(MACHINE[name], rel=0.1)
    made = choices(model, measured((8, 8, 8)))
    assert len(made) == 30 and sum(choice["is_right"] for choice in made) >= 28


def test_work_is_counted():
    """A bucket All-Gather moves (n - 1) / n of the data over as many links as it has ports; doubling exchanges in log n steps."""
    one, four = (work_of("all_gather", "bucket", TorusWork((4, 4), ports, 1.0), 0, 1 << 20) for ports in (1, 4))
    assert one["wire"] == pytest.approx(15 / 16 * (1 << 20)) and four["wire"] == pytest.approx(one["wire"] / 4)
    doubling = work_of("all_reduce", "recursive doubling", TorusWork((4, 4), 1, 1.0), 0, 1)
    assert doubling["step"] == 4 and doubling["wire"] == 2 * (1 + 2)
    assert work_of("all_reduce", "trix6", TorusWork((4, 4), 1, 1.0), 0, 1) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("4x4,all_gather,ring,1024,", "time_us is '', expected microseconds"),
        ("4x4,all_gather,ring,0,3", "size_bytes is 0 and ports is 1, expected 1 or more of both"),
        ("4x4,all_gather,ring,-64,3", "size_bytes is '-64', expected a whole number"),
        ("4x5,all_gather,ring,1024,3", "powers of two"),
        ("4x4,all_gather,ring,1024", "other columns"),
        ("4x4,all_gather,ring,1024,3,9", "other columns"),
    ],
)
def test_wrong_lines_are_refused(line, why, tmp_path):
    """With their number."""
    path = tmp_path / "times.csv"
    path.write_text(f"shape,collective,algorithm,size_bytes,time_us\n4x4,all_gather,ring,64,3\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=why) as refused:
        read_named(path, {})
    assert f"{path}:3" in str(refused.value)


def test_calibrate_writes_what_check_reads(tmp_path):
    """Constants, a network for each shape, and the share of right choices on other times."""
    path = csv_of(tmp_path, measured((4, 4), (8, 8)))
    made = run("calibrate", str(path), "--output", "machine", cwd=tmp_path)
    assert made.returncode == 0 and "right choices" in made.stdout and "without 4x4" in made.stdout, made.stderr
    network = read_network(tmp_path / "machine" / "network_8x8.yml")
    assert network.num_npus == 64 and network.dimensions[0].bandwidth_gibps == pytest.approx(1e-3 / 2e-4 * 1e9 / 2**30, rel=0.1)
    checked = run("calibrate", "--check", "machine", str(path), "--limit", "10", "--json", cwd=tmp_path)
    found = json.loads(checked.stdout)
    assert checked.returncode == 0 and found["share"] >= 0.9 and found["by"]["8x8"]["count"] == 30
    assert len(found["rows"]) == found["count"] == 60
    none = run("calibrate", "--check", "machine", str(path), "--where", "algorithm=ring", cwd=tmp_path)
    assert none.returncode != 0 and "two algorithms" in none.stderr


@pytest.mark.skipif(not PEERS, reason=WHY_NONE)
def test_measured_winners_of_other_shapes():
    """Fitted to two shapes of tori, the fastest algorithm of two others, or one within 10% of it, in 80% of all cases."""
    every = read_named(PEERS[0], {})
    rows, why = described(every, fit_tori(described(every)[0]).constants["wire"])
    assert {"all_gather default-linear", "broadcast default-basic-linear"} < set(why)
    fitted = {(2, 2, 2), (64, 64)}
    made = choices(fit_tori([row for row in rows if row.dims in fitted]), [row for row in rows if row.dims not in fitted])
    assert len(made) == 80 and sum(choice["is_right"] for choice in made) >= 64


def test_one_algorithm_alone_is_fitted_without_choices(tmp_path):
    rows = "".join(f"4x4,all_gather,ring,{1 << size},{3 + 2**size / 1e3}\n" for size in range(6, 22))
    (tmp_path / "times.csv").write_text("shape,collective,algorithm,size_bytes,time_us\n" + rows)
    made = run("calibrate times.csv --output machine", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert "right choices  none" in made.stdout and "no two of the algorithms compete at a size" in made.stdout
