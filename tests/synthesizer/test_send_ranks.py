"""What ranks the sends of trees, and reductions in the matcher."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.networks import topology
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.network_config import LinkSpec
from astra_tacos.synthesizer.parts._tree_kernels import Hops, hops_to_come
from astra_tacos.verifier.schedule_oracle import verify


@given(st.randoms(use_true_random=False), st.integers(2, 7), st.integers(1, 3))
def test_hops_to_come(random, num_npus, num_chunks):
    root = np.array([random.randrange(num_npus) for _ in range(num_chunks)], np.int32)
    trees = []
    for _ in range(2):
        edges = []
        for chunk in range(num_chunks):
            reached = [int(root[chunk])]
            for npu in random.sample([n for n in range(num_npus) if n != root[chunk]], num_npus - 1):
                edges.append((chunk, random.choice(reached), npu))
                reached.append(npu)
        trees.append(edges)
    upwards, downwards = trees

    def below(chunk, npu):
        return max((1 + below(c, child) for c, parent, child in downwards if (c, parent) == (chunk, npu)), default=0)

    def above(chunk, npu):
        if npu == root[chunk]:
            return below(chunk, npu)
        return 1 + next(above(c, parent) for c, parent, child in upwards if (c, child) == (chunk, npu))

    columns = [np.array(column, np.int32) for edges in trees for column in zip(*edges, strict=True)]
    sum_hops, copy_hops = np.empty((2, len(upwards)), np.int32)
    up_chunk, up_parent, up_child, down_chunk, down_parent, down_child = columns
    sums, copies = Hops(up_chunk, up_child, up_parent, sum_hops), Hops(down_chunk, down_parent, down_child, copy_hops)
    hops_to_come(root, sums, copies, num_npus)
    assert sum_hops.tolist() == [above(chunk, parent) for chunk, parent, _ in upwards]
    assert copy_hops.tolist() == [below(chunk, child) for chunk, _, child in downwards]


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-reduce"])
def test_patience_counts_reductions_as_the_matcher_does(collective):
    """A reduction that takes longer than a send made every link seem slow, and nothing could be brought."""
    network = topology("Ring 2 12.5 0, Ring 2 12.5 30", link_overrides=(LinkSpec(0, 1, 5.0, None),))
    for seed in (1, 3):
        of = schedule(
            network, collective, 50_000, link_model="blocking", reduce_bandwidth_gbps=1.0, seed=seed, synthesizer="tacos"
        )
        assert verify(of) == ()
