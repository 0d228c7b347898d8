"""Ranks, coordinates and groups; and the order of micro-batches in a pipeline."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.parallelism import AXES, GroupKind, Parallelism, axis_order, number_groups
from astra_tacos.workload.generator.pipeline import PIPELINE_SCHEDULES, Pass


def test_the_first_axis_varies_fastest():
    split = Parallelism(dp=4, tp=2, pp=2, ep=2)
    assert split.coordinate("tp").tolist() == [0, 1] * 8
    assert split.coordinate("ep").tolist() == [0, 0, 1, 1] * 4
    assert split.coordinate("dp").tolist() == ([0] * 4 + [1] * 4) * 2
    assert split.coordinate("pp").tolist() == [0] * 8 + [1] * 8
    other = Parallelism(dp=4, tp=2, pp=2, order=axis_order("dp, TP,pp"))
    assert other.order == ("ep", "dp", "tp", "pp")


@given(st.tuples(*[st.integers(1, 4)] * 3), st.permutations(AXES), st.integers(1, 4))
def test_groups_part_the_ranks(degrees, order, ep):
    dp, tp, pp = degrees
    if dp * tp * pp == 1 or dp % ep:
        return
    split = Parallelism(dp, tp, pp, ep, tuple(order))
    coordinates = list(zip(*(split.coordinate(axis).tolist() for axis in AXES), strict=True))
    assert len(set(coordinates)) == split.num_ranks
    varying = {GroupKind.TENSOR: {0}, GroupKind.DATA: {1, 2}, GroupKind.EXPERT: {1}, GroupKind.EXPERT_DATA: {2}}
    for kind, axes in varying.items():
        groups = split.groups_of(kind)
        assert sorted(itertools.chain(*groups)) == list(range(split.num_ranks))
        for ranks in groups:
            assert len(ranks) == split.group_size(kind) and ranks == sorted(ranks)
            fixed = {tuple(value for axis, value in enumerate(coordinates[rank]) if axis not in axes) for rank in ranks}
            assert len(fixed) == 1
    numbered = number_groups(split, {GroupKind.DATA, GroupKind.EXPERT})
    assert sorted(numbered.members) == list(range(1, len(numbered.members) + 1))
    assert len({tuple(ranks) for ranks in numbered.members.values()}) == len(numbered.members)
    for rank in range(split.num_ranks):
        assert rank in numbered.members[numbered.of_rank[GroupKind.EXPERT, rank]]
        assert numbered.of_rank[GroupKind.TENSOR, rank] == 0
    lane, stage = split.lane().tolist(), split.coordinate("pp").tolist()
    assert sorted(zip(stage, lane, strict=True)) == list(itertools.product(range(pp), range(dp * tp)))
    for rank in range(split.num_ranks - split.stride["pp"]):
        if stage[rank] < pp - 1:
            assert lane[rank + split.stride["pp"]] == lane[rank]


def test_no_ranks_are_refused():
    with pytest.raises(ConfigError):
        Parallelism(dp=0, tp=2)


@given(st.sampled_from(sorted(PIPELINE_SCHEDULES)), st.integers(1, 6), st.integers(1, 12))
def test_every_micro_batch_goes_forward_then_backward(name, num_stages, micro_batches):
    for stage in range(num_stages):
        passes = list(PIPELINE_SCHEDULES[name](stage, num_stages, micro_batches))
        assert sorted(passes) == sorted(Pass(way, number) for way in (True, False) for number in range(micro_batches))
        held: set[int] = set()
        most = 0
        for one in passes:
            if one.is_forward:
                held.add(one.micro_batch)
            else:
                held.remove(one.micro_batch)
            most = max(most, len(held))
        assert most == (min(num_stages - stage, micro_batches) if name == "1f1b" else micro_batches)
