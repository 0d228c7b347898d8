"""Traces of real training that others published become runs that end; the cycles are those of a real ASTRA-sim."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers.peers import peers

from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.workload.importer.import_run import import_run
from astra_tacos.workload.importer.summary import summarise_files

_HOST, _WHY_NOT = peers("traces/pytorch_host_et/*.json.gz")
_DLRM, _ = peers("traces/dlrm_8gpu/*.tar.gz")
pytestmark = pytest.mark.skipif(not (_HOST and len(_DLRM) == 2), reason=_WHY_NOT or "NOT TESTED on dlrm_8gpu: not there")


def collectives(folder, rank):
    nodes = [node for node in read_messages(folder / f"workload/w.{rank}.et")[1] if node.type == NodeType.COMM_COLL]
    kinds = (next(entry.int64_val for entry in node.attr if entry.name == "comm_type") for node in nodes)
    return Counter(CommType(kind).name for kind in kinds)


def test_dlrm_on_eight_gpus(tmp_path):
    """5 All-to-All and 3 All-Reduce a rank; the profiler's windows are 12.6 to 20.0 ms, as ranks begin at different times."""
    result = import_run(_DLRM, tmp_path / "out")
    assert all(collectives(tmp_path / "out", rank) == {"ALL_TO_ALL": 5, "ALL_REDUCE": 3} for rank in range(8))
    assert result.compute_us[0] == result.compute_us[1]
    assert result.outcome.end_ns == 14_592_994


def test_dlrm_without_times(tmp_path):
    host = next(path for path in _DLRM if "pytorch_et" in path.name)
    result = import_run([host], tmp_path / "out")
    assert all(collectives(tmp_path / "out", rank) == {"ALL_TO_ALL": 5, "ALL_REDUCE": 3} for rank in range(8))
    assert result.outcome.finish_ns.tolist() == [178_034] * 8


def test_resnet_on_two_gpus(tmp_path):
    """One rank's host trace, which says that there are two."""
    result = import_run(_HOST, tmp_path / "out")
    assert result.outcome.finish_ns.tolist() == [5_736_945] * 2
    assert collectives(tmp_path / "out", 1)["ALL_REDUCE"] > 0


def test_no_chain_of_dlrm_takes_longer_than_was_measured():
    """What has to wait for what is consistent with the measurement: the windows of ranks 1 and 3 are 19,951 and 19,362 us."""
    kineto = next(path for path in _DLRM if "kineto" in path.name)
    summary = summarise_files([kineto])
    assert summary["critical_path"] == {"us": 19_692, "rank": 1}
    assert summary["compute"] == {"nodes": 2_180, "total_us": 9_034, "most_us_of_a_rank": 1_268}
    sizes = {(entry["pattern"], entry["size_bytes"]): entry["nodes"] for entry in summary["collectives"]}
    assert sizes["ALL_TO_ALL", 24_576] == 16 and sizes["ALL_REDUCE", 1_576_964] == 8 and sum(sizes.values()) == 64
