"""Collectives of fewer bytes than NPUs: ASTRA-sim runs them as a byte for each NPU."""

from __future__ import annotations

import pytest
from helpers.command import answer

RING = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
FABRIC = "npus_count: [ 4 ]\nastra_tacos: { links: links.csv, switches: 1 }\n"


@pytest.mark.parametrize("network", [RING, FABRIC], ids=["ring", "fabric"])
@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-to-all", "all-gather", "broadcast"])
def test_a_few_bytes_are_synthesized_and_compared(tmp_path, network, collective):
    links = "".join(f"{npu},4,50,500\n4,{npu},50,500\n" for npu in range(4))
    (tmp_path / "links.csv").write_text("src,dst,bandwidth,latency\n" + links)
    (tmp_path / "n.yml").write_text(network)
    about = f"--network n.yml --collective {collective}"
    one, four = (answer(f"synthesize {about} --size {size}B", tmp_path) for size in (1, 4))
    is_shared = collective not in ("all-gather", "broadcast")
    assert one["size_bytes"] == (4 if is_shared else 1)
    assert not is_shared or one["time_ns"] == four["time_ns"]
    rows = answer(f"compare {about} --sizes 1B --synthesizers auto", tmp_path)["rows"]
    assert {row["size_bytes"] for row in rows} == {1} and rows[0]["time_ns"] is not None
