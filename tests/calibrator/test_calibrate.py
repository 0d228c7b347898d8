"""Constants of machines: those that made the times are found again, and measured machines are met."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from helpers.command import run
from helpers.msccl_programs import direct_program, ring_all_reduce
from helpers.peers import peers

from astra_tacos.calibrator.machine import Constants, Errors, Point, cross_validated, errors_of, fit, load_of, points_of
from astra_tacos.calibrator.measurements import read_measurements
from astra_tacos.config.network import read_network
from astra_tacos.errors import ConfigError

TIMES, WHY_NONE = peers("measured_rccl_8/time/ar_*simple*.csv")
SIZES = [1 << power for power in range(14, 30, 2)]
MACHINE = Constants(12.0, 9.0, 1 << 20, 20.0, 80.0)


def programs(folder: Path) -> list[Path]:
    texts = {
        "ring": ring_all_reduce(4),
        "gather": direct_program("allgather", 4, 4, in_place=True),
        "all": direct_program("alltoall", 4, 2, in_place=False),
        "root": direct_program("allreduce", 4, 4, in_place=True),
    }
    for name, text in texts.items():
        (folder / f"{name}.xml").write_text(text)
    return [folder / f"{name}.xml" for name in texts]


def test_what_a_program_does(tmp_path: Path) -> None:
    """A ring of 4: every link carries 6 quarters of the buffer, in messages of a quarter, 6 after one another."""
    load = load_of(programs(tmp_path)[0])
    assert (load.num_npus, load.collective, load.link, load.message, load.depth) == (4, "all-reduce", 1.5, 0.25, 6)
    assert load.block == 0.5


def test_constants_are_found_again(tmp_path: Path) -> None:
    noise = Random(1)
    loads = [load_of(path) for path in programs(tmp_path)]
    points = [Point(load, size, MACHINE.time_us(load, size) * noise.uniform(0.99, 1.01)) for load in loads for size in SIZES]
    found = fit(points)
    assert found.launch_us == pytest.approx(MACHINE.launch_us, rel=0.05)
    assert found.block_gbps == pytest.approx(MACHINE.block_gbps, rel=0.1)
    assert found.link_gbps == pytest.approx(MACHINE.link_gbps, rel=0.1)
    assert max(errors_of(found, points)) < 0.05
    half = cross_validated(points)
    assert half is not None and Errors.of(half).median < 0.05
    assert cross_validated([point for point in points if point.load.name == "ring.xml"]) is None


def test_tables_and_logs(tmp_path: Path) -> None:
    log = "# nThread 1\n#  size count type redop root  time algbw busbw\n  1024  256 float sum -1  12.5 0.1 0.1 0\n"
    (tmp_path / "log").write_text(log + "  2048  512 float sum -1  Test timeout\n garbage\n")
    (tmp_path / "csv").write_text("time,size\n12.5,1024\n,2048\n13,1024\n")
    for name in ("log", "csv"):
        found = read_measurements(tmp_path / name)
        assert (found.sizes, found.times_us, found.skipped) == ((1024,), (12.5,), 1)
    (tmp_path / "none").write_text("nothing\n")
    with pytest.raises(ConfigError, match="has no line with a size and a time"):
        read_measurements(tmp_path / "none")


def test_the_command(tmp_path: Path) -> None:
    arguments = []
    for path in programs(tmp_path):
        load = load_of(path)
        rows = "\n".join(f"{size},{MACHINE.time_us(load, size)}" for size in SIZES)
        path.with_suffix(".csv").write_text(f"size,time\n{rows}\n")
        arguments += [path.name, path.with_suffix(".csv").name]
    left = run("calibrate", *arguments, "--from", "16KiB", "--output", "out", "--json", cwd=tmp_path)
    result = json.loads(left.stdout)
    assert result["errors"]["worst"] < 0.02 and result == json.loads((tmp_path / "out" / "calibration.json").read_text())
    for row in result["protocols"]:
        network = read_network(tmp_path / "out" / f"network_{row['protocol']}.yml")
        assert network.num_npus == 4
    assert run("calibrate", *arguments, cwd=tmp_path).returncode == 0
    assert "Expected pairs" in run("calibrate", *arguments[:1], cwd=tmp_path).stderr
    assert run("calibrate", *arguments, "--output", "out", cwd=tmp_path).returncode == 2


@pytest.mark.skipif(not TIMES, reason=WHY_NONE)
def test_a_measured_machine() -> None:
    """Median 3%, nine tenths within 10%, all within 20%, also for programs that were not fitted."""
    points: dict[str, list[Point]] = {}
    for path in TIMES:
        load = load_of(path.parents[1] / "xml" / path.name.replace("_in_place.csv", ".xml"))
        points.setdefault(load.protocol, []).extend(points_of(load, read_measurements(path), 1 << 16))
    assert set(points) == {"Simple"}  # make bench-calibrate takes all
    own = [error for each in points.values() for error in errors_of(fit(each), each)]
    others = [error for each in points.values() for error in cross_validated(each) or []]
    for errors in (Errors.of(own), Errors.of(others)):
        assert errors.count == 46
        assert errors.median <= 0.03 and errors.p90 <= 0.1 and errors.worst <= 0.2
