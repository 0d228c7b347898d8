"""The search for the fastest native configuration: the same for a collective and a run; within its limits; of what moves all."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.examples import some_of
from helpers.networks import config

from astra_tacos import CommType, read_run, replay_run
from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import export_workload
from astra_tacos.network.network_config import write_network
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.run import PATTERN_KEYS, RunInputs
from astra_tacos.run.system import COMM_KEYS, parse_system
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.solver.native_search import NativeCollectives, NativeSearch, Reach, splits

REACHES = (Reach(1 << 22, 1 << 22), Reach(1 << 22, 1 << 22, rounds=1, splits_last=True))
PATTERNS = {key: pattern for pattern, key in PATTERN_KEYS.items()}


def in_memory(network, pattern, size):
    system = parse_system(Path("system"), {"scheduling-policy": "FIFO"})
    return single_collective_run(network, system, PATTERNS[pattern], size)


def searched(run, pattern, reach):
    """Of a run of which a replay takes ten messages, times the splits."""
    collectives = NativeCollectives(run, (pattern,), frozenset((pattern,)), lambda configuration: 10 * configuration.splits)
    search = NativeSearch(collectives, CONGESTION_AWARE, reach)
    search.climb()
    return search


@pytest.mark.parametrize(("pattern", "reach"), some_of([*itertools.product(COMM_KEYS, REACHES)], 4))
def test_a_collective_is_a_run_of_one_node(pattern, reach, tmp_path):
    network = config("Ring 4 50 500, Switch 2 25 1000, FullyConnected 2 100 500")
    export_workload(make_collective(pattern, 16, 1 << 20), tmp_path / "w")
    write_network(network, tmp_path / "network.yml")
    (tmp_path / "system.json").write_text(json.dumps({"scheduling-policy": "FIFO"}))
    read = read_run(RunInputs(tmp_path / "w", tmp_path / "system.json", tmp_path / "network.yml"))
    assert PATTERN_KEYS[CommType(int(read.columns.comm_type[0]))] == pattern
    of_files = searched(read, pattern, reach)
    ends = searched(in_memory(network, pattern, int(read.workload.size_bytes[0])), pattern, reach).ends
    assert ends and of_files.ends == ends
    for configuration in of_files.best(3):
        assert ends[configuration].end_ns == replay_run(configuration.run(read), CONGESTION_AWARE).end_ns


@pytest.mark.parametrize("reach", REACHES, ids=("rounds", "splits_last"))
def test_what_moves_too_little_takes_no_place_of_what_is_split(reach):
    """Mixes with trees are the three fastest unsplit, but move too little; one that moves all gains much by splits."""
    run = in_memory(config("Switch 4 50 500, FullyConnected 2 50 500, Ring 4 50 2000"), "all-gather", 1 << 16)
    search = searched(run, "all-gather", reach)
    best = search.best(1)[0]
    alike = [NativeConfiguration(((name,) * 3,) * 4, policy="FIFO") for name in NATIVE_ALGORITHMS]
    drawn = [split for each in [*alike, replace(best, splits=1, active_chunks=1)] for split in (each, *splits(each))]
    for configuration in drawn:
        run_of_it = configuration.run(run)
        if not why_incomplete(run_of_it):
            assert search.ends[best].end_ns <= replay_run(run_of_it, CONGESTION_AWARE).end_ns


def test_a_replay_of_too_many_messages_is_not_made():
    search = searched(in_memory(config("Ring 3 50 500, Switch 2 50 500"), "all-reduce", 1 << 20), "all-reduce", Reach(1000, 9))
    assert search.was_cut_off and search.num_replays == 0 and search.best(1) == []
    assert search.refusal == "about 10 messages are too many to replay"


@pytest.mark.parametrize("always", [0, 2])
def test_some_replays_are_made_even_where_one_takes_all_messages_of_a_search(always):
    run = in_memory(config("Ring 3 50 500, Switch 2 50 500"), "all-reduce", 1 << 20)
    search = searched(run, "all-reduce", Reach(9, 1000, always))
    assert search.was_cut_off and search.num_replays == always == len(search.ends)
    assert len(search.best(3)) == always


def test_a_configuration_in_words():
    ring, mixed = ("ring", "ring"), ("ring", "direct")
    configuration = NativeConfiguration((ring, mixed, ring, ring), 4, 2, "localBWAware", "FIFO")
    assert configuration.describe(("all-reduce",)) == "ring; localBWAware; 4 splits, 2 active; FIFO"
    text = "all-reduce ring; all-gather ring, direct; localBWAware; 4 splits, 2 active; FIFO"
    assert configuration.describe(("all-reduce", "all-gather")) == text
    assert list(configuration.keys(("all-gather",)))[:2] == ["all-gather-implementation", "preferred-dataset-splits"]
