"""Programs as schedules: the oracle accepts them, the replay takes the predicted time, and traces compute the collective."""

from __future__ import annotations

import pytest
from helpers.fabrics import TWO_LEVELS
from helpers.msccl_programs import direct_program, ring_all_reduce
from helpers.networks import topology
from helpers.peers import peers

from astra_tacos.collective import ROOTED
from astra_tacos.export.candidate import convert, read_candidate
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.verifier.program import prove_msccl_xml, verify_trace
from astra_tacos.verifier.schedule_oracle import verify

FILES, WHY_NONE = peers("msccl_xml/*/*.xml", "measured_rccl_8/xml/ar_*.xml")
NAMES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}


def check(schedule):
    assert not verify(schedule)
    assert replay_schedule(schedule).collective_time_ns == schedule.collective_time_ns
    collective = schedule.collective
    assert verify_trace(schedule_trace(schedule, "t"), collective.name, schedule.topology, collective.root).proven


@pytest.mark.parametrize("coll", NAMES)
@pytest.mark.parametrize("in_place", [False, True])
def test_direct_programs(coll, in_place, tmp_path):
    """On a network that connects all NPUs, and on one where messages have to be passed on."""
    root = 2 if NAMES[coll] in ROOTED else 0
    path = tmp_path / "p.xml"
    path.write_text(direct_program(coll, 4, 2, in_place=in_place, root=root))
    proven = prove_msccl_xml(path)
    assert (proven.collective, proven.root) == (NAMES[coll], 2 if NAMES[coll] in ROOTED else None)
    for block, model in {"FullyConnected": "pipelined", "Ring": "blocking", "Switch": "pipelined"}.items():
        check(convert(proven, topology((block, 4, 50.0, 500.0)), 1 << 20, model, 100.0).schedule)


@pytest.mark.parametrize("coll", NAMES)
def test_direct_programs_over_devices_that_forward(coll, tmp_path):
    """What ranks add up for themselves are partial sums, which trips carry."""
    path = tmp_path / "p.xml"
    path.write_text(direct_program(coll, 4, 2, in_place=False, root=2 if NAMES[coll] in ROOTED else 0))
    schedule = convert(prove_msccl_xml(path), TWO_LEVELS, 1 << 20, "pipelined", 100.0).schedule
    assert not verify(schedule)
    assert replay_schedule(schedule).collective_time_ns == schedule.collective_time_ns
    assert verify_trace(schedule_trace(between_npus(schedule), "t"), NAMES[coll], None, schedule.collective.root).proven


def test_a_ring_takes_what_a_ring_takes(tmp_path):
    """2 (N - 1) steps of one chunk each; thread blocks that have one thing to do at a time cost nothing."""
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(8))
    converted = convert(prove_msccl_xml(path), topology("Ring 8"), 8 << 20, "pipelined")
    check(converted.schedule)
    step = int(500 + (1 << 20) / (50 * (1 << 30) / 1e9))
    assert converted.in_blocks_ns == 14 * step
    assert 0 <= converted.schedule.collective_time_ns - 14 * step <= 7  # an NPU adds for 1 ns


def test_what_does_not_fit_is_refused_in_one_line(tmp_path):
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(4))
    with pytest.raises(ConfigError, match=r"has 4 ranks, .* has 8 NPUs"):
        convert(prove_msccl_xml(path), topology("Ring 8"), 1 << 20, "pipelined")
    path.write_text(ring_all_reduce(4).replace('type="rrcs"', 'type="rcs"'))
    with pytest.raises(VerificationError, match="violations, the first: "):
        read_candidate(path)
    path.write_text(ring_all_reduce(4).replace('coll="allreduce"', 'coll="custom"'))
    with pytest.raises(VerificationError, match="result not checked"):
        read_candidate(path)


@pytest.mark.skipif(not FILES, reason=WHY_NONE)
def test_files_of_others_run():
    """All that are proven; the search of deadlocks and wrong results is `test_msccl_collectives`'s."""
    done = 0
    for path in FILES:
        if path.stat().st_size > 200_000 or "nvswitch16" in path.name:
            continue
        proven = prove_msccl_xml(path)
        network = topology((("FullyConnected", "Ring")[done % 2], proven.num_ranks, 50.0, 500.0))
        check(convert(proven, network, 1 << 22, "pipelined").schedule)
        done += 1
    assert done >= 20
