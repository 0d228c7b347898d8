"""Collectives of fewer bytes than NPUs: ASTRA-sim runs them as a byte for each NPU."""

from __future__ import annotations

import itertools

import pytest
from helpers.command import answer, read_json, run
from helpers.examples import some_of

RING = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
FABRIC = "npus_count: [ 4 ]\nastra_tacos: { links: links.csv, switches: 1 }\n"


FEW = ("all-reduce", "reduce-scatter", "all-to-all", "all-gather", "broadcast")


@pytest.mark.parametrize(("network", "collective"), some_of([*itertools.product((RING, FABRIC), FEW)], 5))
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


def test_the_answer_says_what_a_byte_is_run_as(tmp_path):
    (tmp_path / "n.yml").write_text(RING)
    about = "--network n.yml --collective all-reduce"
    said = "1 B is run as a byte for each NPU, as ASTRA-sim does"
    shown = run(f"synthesize {about} --size 1B --output out", cwd=tmp_path).stdout
    assert "  size           4 B" in shown and said in shown
    assert read_json(tmp_path / "out/result.json")["asked_bytes"] == 1
    assert "asked_bytes" not in answer(f"synthesize {about} --size 4B", tmp_path)
    compared = f"compare {about} --sizes 1B,4B --synthesizers direct"
    assert f"run as 4 B: {said}\n" in run(compared, cwd=tmp_path).stdout
    assert answer(compared, tmp_path)["run_as_bytes"] == {"1": 4}
    assert answer(f"{compared} --chunks-per-npu 1", tmp_path)["run_as_bytes"] == {}
