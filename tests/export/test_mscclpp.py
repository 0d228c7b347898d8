"""MSCCL++ plans of schedules: read back, they are proven, and move the chunks of the schedule."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from helpers.networks import dgx1, topology
from helpers.schedules import schedule

from astra_tacos.export.candidate import convert
from astra_tacos.export.exporter import export_schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.program import prove
from astra_tacos.verifier.schedule_oracle import verify

NETWORKS = {
    "ring": topology("Ring 6"),
    "full": topology("FullyConnected 4"),
    "dgx1": dgx1(),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_round_trip(name, collective, tmp_path):
    of = schedule(NETWORKS[name], collective, 1 << 16, 2, synthesizer="routed")
    path = tmp_path / "plan.json"
    export_schedule(of, path, "mscclpp")
    proven = prove(path)
    again = convert(proven, of.topology, of.collective.size_bytes, of.timing.link_model).schedule
    assert not verify(again)
    crossed = [Counter(zip(each.chunk.tolist(), each.channel.tolist(), strict=True)) for each in (of, again)]
    assert crossed[0] == crossed[1]


def test_many_chunks_share_thread_blocks(tmp_path):
    of = schedule(topology("FullyConnected 4"), "all-gather", 1 << 16, 40, synthesizer="direct")
    export_schedule(of, tmp_path / "plan.json", "mscclpp")
    blocks = json.loads((tmp_path / "plan.json").read_text())["gpus"][0]["threadblocks"]
    assert len(blocks) < 160 and all(len(block["ops"]) <= 64 for block in blocks)
    assert prove(tmp_path / "plan.json").collective == "all-gather"


def test_what_plans_cannot_say_is_refused(tmp_path):
    of = schedule(topology("FullyConnected 4"), "broadcast", 1 << 16, 2)
    with pytest.raises(ConfigError, match="the format has no broadcast"):
        export_schedule(of, tmp_path / "plan.json", "mscclpp")
    of = schedule(topology("FullyConnected 20"), "all-gather", 1 << 16, 1, synthesizer="direct")
    with pytest.raises(ConfigError, match="with 19 peers in a thread block, the executor has 64 and 16"):
        export_schedule(of, tmp_path / "plan.json", "mscclpp")
    assert not list(tmp_path.iterdir())
