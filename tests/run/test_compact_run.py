"""Compact runs: which ranks do the same at translated places, and what breaks the symmetry."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from helpers.compact_runs import random_compact_run
from helpers.damage import refusal
from helpers.examples import some_of
from helpers.generated import small_model, write_network
from helpers.networks import config

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.compact_run import compact, expand
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

COLUMNS = ("rank_first", "node_id", "kind", "duration_us", "size_bytes", "peer", "tag", "dep_first", "dep")


def members(run):
    """The group of each node."""
    everyone = tuple(range(run.network.num_npus))
    return [everyone if number == ALL_RANKS else run.groups.members[number] for number in group_ids(run.columns).tolist()]


def is_equal(one, other):
    same = all(np.array_equal(getattr(one.workload, name), getattr(other.workload, name)) for name in COLUMNS)
    same &= np.array_equal(one.columns.comm_type, other.columns.comm_type)
    return same and one.classes == other.classes and members(one) == members(other)


@pytest.mark.parametrize("seed", some_of(range(60), 20))
def test_the_compact_run_of_an_expanded_one_is_the_same(seed):
    made = random_compact_run(seed)
    try:
        found = compact(expand(made))
    except ConfigError as error:
        assert "an algorithm such as halvingDoubling gives each rank a part by its number" in str(
            error
        ) and "halvingDoubling" in str(made.system.native)
        return
    assert is_equal(compact(expand(found)), found)
    # Dimensions in which groups are not turned into themselves in order are left as they are.
    assert all(turn % least == 0 or turn < least for turn, least in zip(found.lattice.period, made.lattice.period, strict=True))


def changed(run, row, other, what):
    """A run in which a node of one rank has something else."""
    trace = run.workload
    if what == "size":
        size = trace.size_bytes.copy()
        size[row] += 1
        return replace(run, workload=replace(trace, size_bytes=size))
    if what == "duration":
        duration = trace.duration_us.copy()
        duration[row] += 1
        return replace(run, workload=replace(trace, duration_us=duration))
    if what == "order":
        number = trace.node_id.copy()
        number[[row, other]] = number[[other, row]]
        return replace(run, workload=replace(trace, node_id=number))
    group = run.columns.group.copy()
    group[row] = -1 if group[row] >= 0 else 0
    return replace(run, workload=replace(trace, workload=replace(run.columns, group=group)))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("what", ["size", "duration", "group", "order"])
def test_one_rank_that_differs_is_found(seed, what):
    """Also where the run is known that was changed: plans change some arrays of a run (`plan --endpoint`: durations)."""
    run = expand(random_compact_run(seed))
    with suppress(ConfigError):
        compact(run)
    trace = run.workload
    rank = seed % trace.num_ranks
    rows = np.arange(trace.rank_first[rank], trace.rank_first[rank + 1])
    if what == "group":
        rows = rows[trace.kind[rows] == NodeType.COMM_COLL] if run.groups.members else rows[:0]
        known = run.groups.members
        rows = rows[[known.get(int(number), ()) != tuple(range(trace.num_ranks)) for number in group_ids(run.columns)[rows]]]
        if len(rows) and min(map(len, known.values())) == trace.num_ranks:
            rows = rows[:0]
    if not len(rows):
        return
    row = int(rows[seed % len(rows)])
    other = int(rows[(seed + 1) % len(rows)])
    said = refusal(compact, changed(run, row, other, what))
    assert f"rank {rank}, node" in said or f"that of rank {rank}," in said
    assert what == "order" or f"node {trace.node_id[row]} differs" in said


def test_algorithms_that_depend_on_numbers_are_not_turned():
    made = next(
        some
        for some in map(random_compact_run, range(200))
        if len(some.lattice.size) == 1 and len(some.lattice.representatives) == 1 and some.columns.comm_type.max() >= 0
    )
    native = dict.fromkeys(made.system.native, ("doubleBinaryTree",))
    run = expand(replace(made, system=replace(made.system, native=native)))
    run = replace(run, prefixes=(), collectives=(), implementation=np.full_like(run.implementation, -1))
    with pytest.raises(
        ConfigError, match="an algorithm such as halvingDoubling gives each rank a part by its number, expected ring or direct"
    ):
        compact(run)


def test_a_network_that_does_not_look_the_same_is_refused():
    run = expand(random_compact_run(1))
    broken = replace(run, network=replace(run.network, failed_links=((0, 1),)))
    with pytest.raises(ConfigError, match="the network does not look the same from every NPU"):
        compact(broken)


def test_a_mesh_is_not_turned():
    run = expand(random_compact_run(3))
    meshes = config(*(("Mesh", each.size, each.bandwidth_gibps, each.latency_ns) for each in run.network.dimensions))
    with pytest.raises(ConfigError, match="no dimension looks the same after a turn"):
        compact(replace(run, network=meshes))


def test_a_run_of_too_many_ranks_is_not_expanded():
    some = random_compact_run(0)
    network = config(("Switch", 1 << 15, 25.0, 100.0))
    large = replace(some, network=network, classes=Lattice((1 << 15,), (1,)))
    with pytest.raises(ConfigError, match="found 32,768 ranks, expected at most 16,384"):
        expand(large)


def test_groups_that_translations_move_to_one_another_are_one_orbit():
    lattice = Lattice((4, 6), (1, 2))
    row = np.arange(4)
    assert lattice.orbits([row, row + 4, row + 8, row + 20]).tolist() == [0, 1, 0, 1]
    assert lattice.representatives.tolist() == [0, 4]
    assert [part.tolist() for part in lattice.canonical(np.array([11]), np.array([3]))] == [[0], [16]]
    with pytest.raises(ConfigError, match="group 0 has ranks 0, 1, 4, expected a product of coordinates"):
        lattice.orbits([np.array([0, 1, 4])])


@pytest.mark.parametrize(
    "shape", some_of([("Ring 8", "Switch 4"), ("FullyConnected 2", "Ring 4", "Switch 4")], 1), ids=" x ".join
)
def test_the_classes_of_an_ordinary_run_are_written_and_end_as_its_ranks_do(shape, tmp_path):
    network = tmp_path / "n.yml"
    write_network(network, *shape)
    folder = generate(Step(small_model(), Parallelism(4, 2, 4), 4), tmp_path / "ranks", network=network).path
    whole = read_run(replace(RunInputs.in_folder(folder, "w"), network=network))
    some = compact(whole)
    (tmp_path / "classes").mkdir()
    again = some.write(tmp_path / "classes")
    assert again.classes == some.classes and len(list((tmp_path / "classes/classes").iterdir())) < whole.workload.num_ranks
    for backend in BACKENDS.values():
        assert replay_run(expand(again), backend).end_ns == replay_run(whole, backend).end_ns


def test_a_collective_of_all_positions_is_not_written_for_classes(tmp_path):
    made = next(some for some in map(random_compact_run, range(200)) if some.prefixes)
    some = replace(made, collectives=expand(made).collectives)
    with pytest.raises(ConfigError, match="a collective of all positions in a run with classes, expected the ordinary run"):
        some.write(tmp_path)
