"""Placed runs: ranks are where a matrix of axes over the levels of the network puts them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.command import read_json
from helpers.command import run as command
from helpers.generated import write_network
from helpers.plans import attributes, messages

from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.run.run import RunInputs
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.parallelism import GroupKind, Parallelism, number_groups

DEGREES = ["--dp", "4", "--tp", "2", "--pp", "2"]
SIZES = [*DEGREES, "--layers", "2", "--hidden", "64", "--heads", "4", "--sequence", "32", "--vocab", "128", "--durations"]
ROWS = "tp:2x1,dp:2x2,pp:1x2"


def generated(folder, *options):
    done = command("generate", "--output", str(folder), *SIZES, *options, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return RunInputs(
        folder / "workload/w", folder / "system.json", folder.parent / "network.yml", folder / "comm_group.json", None, folder
    )


def test_a_placed_run_is_the_same_run_elsewhere(tmp_path):
    write_network(tmp_path / "network.yml", "Ring 4", "Ring 4")
    own, placed = generated(tmp_path / "own"), generated(tmp_path / "placed", "--placement", ROWS)
    npu = Parallelism(4, 2, 2, 1, placement=read_placement(ROWS)).npu
    assert sorted(npu.tolist()) == list(range(16))
    assert not np.array_equal(npu, np.arange(16))
    groups = [read_json(tmp_path / name / "comm_group.json") for name in ("own", "placed")]
    assert groups[1] == {group: sorted(npu[ranks].tolist()) for group, ranks in groups[0].items()}
    old, new = messages(own), messages(placed)
    for rank in range(16):
        for one, other in zip(old[rank], new[npu[rank]], strict=True):
            before, now = attributes(one), attributes(other)
            for name in ("comm_src", "comm_dst"):
                if name in before:
                    assert now.pop(name) == npu[before.pop(name)]
            assert (one.id, one.name, one.type, before) == (other.id, other.name, other.type, now)


def test_groups_lie_in_the_levels_that_the_matrix_says():
    split = Parallelism(dp=4, tp=2, pp=2, placement=read_placement("tp:2x1,dp:2x2,pp:1x2"))
    assert split.levels == (4, 4)
    groups = number_groups(split, {GroupKind.TENSOR, GroupKind.DATA})
    for kind, inside in ((GroupKind.TENSOR, 1), (GroupKind.DATA, 2)):
        for group in set(groups.of_rank[kind].tolist()):
            blocks = [npu // 4 for npu in groups.members[group]]
            assert {blocks.count(block) for block in blocks} == {inside}


@pytest.mark.parametrize("text", ["tp:1x2", "tp:1x2,dp:2x2,pp:3x1", "tp:1x2,dp:4,pp:2x1", "tp:1x2,dp:2x2,pp:2x1,xp:1x1"])
def test_matrices_of_other_degrees_are_refused(text):
    with pytest.raises(ConfigError, match="placement: found"):
        Parallelism(dp=4, tp=2, pp=2, placement=read_placement(text))


def test_bad_placements_are_one_line(tmp_path):
    write_network(tmp_path / "network.yml", "Ring 2", "Ring 8")
    for text, found in (("tp=2", "expected an axis and its parts"), (ROWS, "levels of 4 x 4, outermost first, expected 8 x 2")):
        options = ["--output", "run", *SIZES, "--network", "network.yml", "--placement", text]
        done = command("generate", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert found in done.stderr
        assert not (tmp_path / "run").exists()
