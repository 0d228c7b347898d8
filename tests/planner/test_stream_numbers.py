"""Native collectives of all ranks carry the number of what a rank has begun before: planned, these numbers have to be equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import attributes, lint_plan, messages, planned, same_or_faster, written

from astra_tacos import CommType, SearchOptions

STAYS = CommType.ALL_TO_ALL
"""What `tacos` does not do."""
OPTIONS = SearchOptions("tacos", trials=1)
HALVES = {"1": [0, 1], "2": [2, 3]}


def make(folder, ranks, groups, splits=1):
    """A plan on a ring, which has to be sound, and to be left as it is by a second one."""
    system = {"preferred-dataset-splits": splits}
    inputs = written(folder, RunFiles(ranks=ranks, groups=groups, topology=("Ring",), system=system))
    result, after = planned(inputs, folder / "plan", options=OPTIONS)
    assert lint_plan(after).errors == {}
    same_or_faster(result, after, folder, OPTIONS)
    return result, after


def groups_of(after, id):
    """The group that a node names on each rank, "" for all ranks."""
    return [attributes(node).get("pg_name", "") for nodes in messages(after) for node in nodes if node.id == id]


def test_a_group_of_all_ranks_where_numbers_differ(tmp_path):
    """Ranks 0 and 1 have begun a collective before, ranks 2 and 3 have not: in ASTRA-sim the run before never ends."""
    ranks = [[coll(7, [3], STAYS)] for _ in range(4)]
    for rank in range(4):
        ranks[rank].insert(0, coll(3, size=1 << 20, group=1) if rank < 2 else comp(3))
    result, after = make(tmp_path, ranks, {"1": [0, 1]})
    assert result.before_ns is None
    assert "never meet" in result.before_reason
    assert groups_of(after, 7) == ["2"] * 4
    assert '"2": [0, 1, 2, 3]' in (tmp_path / "plan" / "comm_group.json").read_text()


def test_nothing_changes_where_numbers_are_equal(tmp_path):
    ranks = [[coll(3, size=1 << 20, group=1 + rank // 2), coll(7, [3], STAYS)] for rank in range(4)]
    _, after = make(tmp_path, ranks, HALVES)
    assert groups_of(after, 7) == [""] * 4
    for rank in range(4):
        assert Path(f"{after.workload}.{rank}.et").read_bytes() == (tmp_path / "workload" / f"w.{rank}.et").read_bytes()


def test_an_order_that_makes_numbers_differ(tmp_path):
    """Before, ids begin with the collective of all ranks; planned, what a long computation waits for goes first."""
    ranks = [[coll(3, comm_type=STAYS)] for _ in range(4)]
    for rank in range(2):
        ranks[rank] += [coll(7, size=1 << 20, group=1), comp(8, [7], us=5000)]
    result, after = make(tmp_path, ranks, {"1": [0, 1]})
    assert result.time_ns < result.before_ns
    assert list(messages(after)[0][0].ctrl_deps) == [7]
    assert groups_of(after, 3) == ["2"] * 4


@pytest.mark.parametrize(("splits", "group"), [(1, ""), (4, "3")])
def test_every_chunk_has_a_number(tmp_path, splits, group):
    """In 4 parts, 4,096 bytes are 4 chunks, but 4,099 bytes 5, the last of which is mostly empty. The halves do not meet."""
    sizes = (4096, 4099)
    ranks = [
        [comp(2, us=1 + 100 * (rank // 2)), coll(3, [2], STAYS, sizes[rank // 2], group=1 + rank // 2), coll(7, [3], STAYS)]
        for rank in range(4)
    ]
    result, after = make(tmp_path, ranks, HALVES, splits)
    assert (result.before_ns is None) == (splits > 1)
    assert groups_of(after, 7) == [group] * 4


def test_no_number_is_sure_beside_a_group_of_one(tmp_path):
    """Such a collective may run before the others or after them."""
    ranks = [[coll(3, size=1 << 20), coll(7, [3], STAYS)] for _ in range(4)]
    ranks[0].append(coll(8, group=1))
    _, after = make(tmp_path, ranks, {"1": [0]})
    assert groups_of(after, 7) == ["2"] * 4
