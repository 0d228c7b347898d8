"""Chakra traces of collectives without sizes, as converters of MSCCL XML write them, become schedules of any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.networks import topology
from helpers.schedules import schedule

from astra_tacos.collective import COLLECTIVES, ROOTED
from astra_tacos.export import chakra
from astra_tacos.export.candidate import convert, read_candidate
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, write_trace
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.schedule_oracle import verify


def without_sizes(table):
    """The same nodes without `comm_size`."""
    keep = table.attr_key != ATTRIBUTE_KEYS["comm_size"]
    first = np.concatenate(([0], np.cumsum(keep)))[table.attr_first]
    return replace(table, attr_first=first, attr_key=table.attr_key[keep], attr_value=table.attr_value[keep])


def write(of, prefix):
    nodes = chakra.nodes_of(of)
    table, first = without_sizes(nodes.table()), nodes.npu_first
    for npu in range(of.topology.num_npus):
        write_trace(Path(f"{prefix}.{npu}.et"), table, int(first[npu]), int(first[npu + 1]))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_they_become_schedules(collective, tmp_path):
    network = topology("FullyConnected 4")
    of = schedule(network, collective, 1 << 16, 2, root=1 if collective in ROOTED else None)
    write(of, tmp_path / "t")
    candidate = read_candidate(tmp_path / "t", collective)
    assert candidate.proven.collective == collective and candidate.proven.root == of.collective.root
    again = convert(candidate.proven, network, of.collective.size_bytes, of.timing.link_model).schedule
    assert not verify(again)
    assert again.collective.num_chunks == of.collective.num_chunks
    assert again.collective_time_ns <= of.collective_time_ns * 1.5


def test_messages_of_several_chunks_stay_messages(tmp_path):
    network = topology("Ring 4")
    of = schedule(network, "all-reduce", 1 << 12, 1, synthesizer="auto")
    write(of, tmp_path / "t")
    again = convert(read_candidate(tmp_path / "t").proven, network, 1 << 12, of.timing.link_model).schedule
    assert not verify(again) and again.num_messages == of.num_messages


def test_wrong_ones_are_refused(tmp_path):
    of = schedule(topology("FullyConnected 4"), "all-gather", 1 << 16, 1)
    write(of, tmp_path / "t")
    (tmp_path / "t.0.et").write_bytes((tmp_path / "t.1.et").read_bytes())
    with pytest.raises(VerificationError):
        read_candidate(tmp_path / "t")
