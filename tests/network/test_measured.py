"""Networks of what was measured between hosts: levels that were planted are found, orders are the best, bad files are refused."""

from __future__ import annotations

import json
import math
from itertools import permutations

import numpy as np
import pytest
from helpers.command import run
from helpers.examples import examples, refused
from helpers.peers import peers
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.fabric.host_levels import (
    HostMatrix,
    as_dimensions,
    find_levels,
    find_order,
    halving_doubling_ns,
    in_parts,
    is_contiguous,
    read_host_matrix,
    ring_ns,
)
from astra_tacos.network.network_config import read_network


def matrix_of(latency_ns, bandwidth_gbps):
    count = len(latency_ns)
    rate = np.full((count, count), bandwidth_gbps) if np.isscalar(bandwidth_gbps) else np.array(bandwidth_gbps)
    np.fill_diagonal(rate, np.inf)
    return HostMatrix("m", tuple(f"h{host}" for host in range(count)), np.array(latency_ns, float), rate)


def racks(inside, across):
    """Eight hosts in two racks, those of one rack with numbers of one parity."""
    rack = np.arange(8) % 2
    cost = np.where(rack[:, None] == rack[None, :], inside, across)
    np.fill_diagonal(cost, 0)
    return cost


def test_costs_of_all_orders_of_eight_hosts_in_two_racks():
    """Best and worst of all 40,320: rings 14 and 32 by latency, 4 and 4 by bandwidth; halving-doubling 1.25 S and 3.5 S."""
    by_latency = matrix_of(racks(1, 4), 1e12)
    by_bandwidth = matrix_of(np.full((8, 8), 1e-12), 1 / np.where(racks(1, 4) > 0, racks(1, 4), 1))
    size = 1 << 20
    sums, slowest, halving = set(), set(), set()
    for order in permutations(range(8)):
        if order[0]:
            break
        sums.add(round(ring_ns(by_latency, np.array(order), size) * 8 / 14, 3))
        slowest.add(round(ring_ns(by_bandwidth, np.array(order), size) / 14 / (size / 8), 6))
        halving.add(round((halving_doubling_ns(by_bandwidth, np.array(order), size) or 0) / 2 / size, 6))
    assert (min(sums), max(sums)) == pytest.approx((14, 32), rel=1e-4)
    assert slowest == {4.0}
    assert (min(halving), max(halving)) == (1.25, 3.5)
    for matrix, algorithm, figure in ((by_latency, "ring", 14 * 14 / 8), (by_bandwidth, "halving-doubling", 2.5 * size)):
        found = find_order(matrix, algorithm, size, find_levels(matrix))
        cost = ring_ns if algorithm == "ring" else halving_doubling_ns
        assert found.is_best and cost(matrix, found.order, size) == pytest.approx(figure, rel=1e-4)


@examples(20)
@given(seed=st.integers(0, 1 << 20), count=st.integers(3, 7))
def test_a_ring_takes_per_step_what_its_recurrence_does(seed, count):
    """Sends of a pair follow one another, and a host passes on what it has: many steps one by one."""
    random = np.random.default_rng(seed)
    matrix = matrix_of(random.uniform(1, 50, (count, count)), random.uniform(1, 20, (count, count)))
    size = int(random.integers(1, 2000)) * count
    order = random.permutation(count)
    edges = [(order[at], order[(at + 1) % count]) for at in range(count)]
    held = [size / count / matrix.bandwidth_gbps[edge] for edge in edges]
    delay = [matrix.latency_ns[edge] for edge in edges]
    free, has = [0.0] * count, [0.0] * count
    steps, middle = 40 * count, 0.0
    for step in range(2 * steps):
        middle = max(has) if step == steps else middle
        begin = [max(free[at], has[at]) for at in range(count)]
        free = [begin[at] + held[at] for at in range(count)]
        has = [free[at - 1] + delay[at - 1] for at in range(count)]
    rate = (max(has) - middle) / (steps - 1)
    assert ring_ns(matrix, order, size) / (2 * (count - 1)) == pytest.approx(rate, rel=0.05)


@st.composite
def planted(draw):
    """Hosts in racks in rows, in random order, with noise that is far below the distance of levels."""
    sizes = draw(st.sampled_from([(2, 4), (4, 2), (3, 3), (2, 2, 3), (4, 2, 2)]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    by_bandwidth = draw(st.booleans())
    count = math.prod(sizes)
    names = random.permutation(count)
    level = np.zeros((count, count), np.int64)
    for at in range(len(sizes)):
        width = math.prod(sizes[: at + 1])
        level += names[:, None] // width != names[None, :] // width
    noise = random.uniform(0.98, 1.02, (count, count))
    latency = (1000.0 if by_bandwidth else 1000.0 * 2**level) * noise
    rate = (100.0 / 2**level if by_bandwidth else 50.0) * random.uniform(0.98, 1.02, (count, count))
    return matrix_of(latency, rate), list(sizes), names


@examples(30)
@given(case=planted())
def test_planted_levels_are_found(case):
    matrix, sizes, names = case
    levels = find_levels(matrix)
    assert [level.num_parts for level in levels] == [matrix.num_hosts // math.prod(sizes[: at + 1]) for at in range(len(sizes))]
    for at, level in enumerate(levels):
        width = math.prod(sizes[: at + 1])
        assert len(set(zip(level.part.tolist(), (names // width).tolist(), strict=True))) == level.num_parts
    order = in_parts(levels, matrix.num_hosts)
    assert is_contiguous(levels, order) and sorted(order.tolist()) == list(range(matrix.num_hosts))
    assert [dimension.size for dimension in as_dimensions(matrix, levels).dimensions] == sizes


@examples(3)
@given(seed=st.integers(0, 1 << 20), algorithm=st.sampled_from(["ring", "halving-doubling"]))
def test_searches_keep_to_parts_and_are_no_worse_than_their_start(seed, algorithm):
    random = np.random.default_rng(seed)
    part = random.permutation(16) // 4
    latency = np.where(part[:, None] == part[None, :], 100.0, 900.0) * random.uniform(0.9, 1.1, (16, 16))
    matrix = matrix_of(latency, random.uniform(10, 20, (16, 16)))
    levels = find_levels(matrix)
    start = in_parts(levels, 16)
    found = find_order(matrix, algorithm, 4096, levels)
    cost = ring_ns if algorithm == "ring" else halving_doubling_ns
    assert sorted(found.order.tolist()) == list(range(16)) and is_contiguous(levels, found.order) and not found.is_best
    after, before = cost(matrix, found.order, 4096), cost(matrix, start, 4096)
    assert after is not None and before is not None and after <= before


def measured(latency, bandwidth, folder, more="GB/s --output out"):
    files = f"--latency '{latency}' --latency-unit us --bandwidth '{bandwidth}'"
    return run(f"network measured {files} --bandwidth-unit {more}", cwd=folder)


GOOD = "host,a,b,c\na,0,1,2\nb,1,,2\nc,2,2.5,nan\n"
BAD = [
    ("", "file is empty, expected a matrix"),
    ("host,a\na,1\n", "1 hosts in the first line, expected 2 to 128"),
    ("host,a,a\n", "host 'a' in the first line, expected names, each once"),
    (GOOD.replace("a,0,1,2", "a,0,-1,2"), ":2: a to b: '-1', expected a number above 0"),
    (GOOD.replace("a,0,1,2", "a,0,1"), ":2: 2 entries, expected 3, one for each host"),
    (GOOD.replace("a,0,1,2", "d,0,1,2"), ":2: row of 'd', expected one of the columns' hosts"),
    (GOOD + "a,0,1,2\n", ":5: row of 'a', expected each host once"),
    ("host,a,b\na,0,1\n", "no row of 'b', expected one for each host"),
]


@pytest.mark.parametrize("text, message", BAD)
def test_bad_matrices_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "bad.csv").write_text(text)
    done = measured("good.csv", "bad.csv", tmp_path)
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert done.stderr.count("\n") == 1 and "bad.csv" in done.stderr and message in done.stderr


@pytest.mark.parametrize("number", ["1e-320", "5e-324", "1e300", "1e-30"])
@pytest.mark.parametrize("which", [0, 1])
def test_numbers_that_no_network_holds_are_refused(tmp_path, number, which):
    for name, text in (("good.csv", GOOD), ("bad.csv", GOOD.replace("a,0,1,2", f"a,0,{number},2"))):
        (tmp_path / name).write_text(text)
    done = measured(*(("bad.csv", "good.csv") if which else ("good.csv", "bad.csv")), tmp_path, "GB/s --json --output out")
    assert done.returncode == 2 and not done.stdout and not (tmp_path / "out").exists()
    assert done.stderr.count("\n") == 1 and f"bad.csv:2: a to b: '{number}' {'us' if which else 'GB/s'}, expected" in done.stderr


def test_names_of_hosts_are_no_formulas(tmp_path):
    """A spreadsheet would evaluate them: as in all tables here, an apostrophe goes before such a name."""
    (tmp_path / "m.csv").write_text("host,=cmd()|x,@b,-c\n=cmd()|x,0,1,1\n@b,1,0,1\n-c,1,1,0\n")
    for _ in range(2):  # the second time into its own output
        done = measured("m.csv", "m.csv", tmp_path)
        assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "hosts.csv").read_text().splitlines()
    assert lines[0] == "npu,host" and sorted(line[2:] for line in lines[1:]) == ["'-c", "'=cmd()|x", "'@b"]


def test_the_order_of_rows_does_not_matter_and_units_do(tmp_path):
    (tmp_path / "one.csv").write_text(GOOD)
    (tmp_path / "other.csv").write_text("host,c,a,b\nb,2,1,\na,2,0,1\nc,nan,2,2.5\n")
    matrix = read_host_matrix(tmp_path / "one.csv", "us", tmp_path / "other.csv", "Gb/s")
    assert matrix.latency_ns[0].tolist() == [0, 1000, 2000]
    assert matrix.bandwidth_gbps[2].tolist() == [0.25, 0.3125, math.inf]
    (tmp_path / "other.csv").write_text("host,c,a\nc,1,1\na,1,1\n")
    with refused(r"other.csv: host 'b' is missing, expected the same hosts in both files"):
        read_host_matrix(tmp_path / "one.csv", "us", tmp_path / "other.csv", "Gb/s")


@pytest.mark.parametrize("sizes, dimensions", [((3, 2), [5]), ((2, 2, 3, 1), [8]), ((2, 2), [2, 2])])
def test_parts_of_unequal_size_are_a_level_and_no_dimension(sizes, dimensions, tmp_path):
    """Parts that have one host are no level."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    cost = np.where(part[:, None] == part[None, :], 100, 900)
    names = [f"h{number}" for number in range(len(part))]
    for name, values in (("m.csv", cost), ("b.csv", np.full(cost.shape, 50))):
        rows = [["host", *names], *([host, *map(str, row)] for host, row in zip(names, values.tolist(), strict=True))]
        (tmp_path / name).write_text("\n".join(map(",".join, rows)))
    done = measured("m.csv", "b.csv", tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("hosts, so no dimension" in " ".join(done.stdout.split())) == (sizes == (3, 2))
    assert [each.size for each in read_network(tmp_path / "out" / "network.yml").dimensions] == dimensions


def test_what_was_measured_on_two_hosts_of_eight_cards(tmp_path):
    found, missing = peers("measured_rccl_8/ib_let.csv", "measured_rccl_8/ib_bw.csv")
    if not found:
        pytest.skip(missing)
    bandwidth, latency = found
    done = measured(latency, bandwidth, tmp_path, "MB/s --json --output net")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [level["parts"] for level in result["levels"]] == [8, 1]
    hosts = [line.split(",")[1] for line in (tmp_path / "net" / "hosts.csv").read_text().splitlines()[1:]]
    assert hosts == result["order"] and len(set(hosts)) == 16
    for one, other in zip(hosts[::2], hosts[1::2], strict=True):
        assert {one[:-1], other[:-1]} == {"Local_mlx5_", "Remote_mlx5_"} and one[-1] == other[-1]
    assert result["ring_ns"] < result["ring_before_ns"]
    assert [dimension.size for dimension in read_network(tmp_path / "net" / "network.yml").dimensions] == [2, 8]
    done = run("synthesize --network net/network.yml --size 1MiB --synthesizer symmetric --output s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
