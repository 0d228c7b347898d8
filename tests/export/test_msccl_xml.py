"""MSCCL XML: what is written, in which order, and what is warned about."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import ALL, FULL, RING8, TORUS, topology
from helpers.schedules import schedule, schedules
from hypothesis import given

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED
from astra_tacos.export.msccl_xml import export_msccl_xml, why_no_msccl_xml
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.program import verify_msccl_xml


@pytest.mark.parametrize("chunks", (1, 2, 3))
@pytest.mark.parametrize("collective", sorted(set(COLLECTIVES) - ROOTED - PERSONALISED))
@pytest.mark.parametrize("network", sorted(ALL))
def test_every_schedule_verifies_as_a_program(tmp_path, network, collective, chunks):
    of = topology(network)
    made = schedule(of, collective, of.num_npus * 6000, chunks)
    for dialect in ("executor", "msccl"):
        path = tmp_path / f"{dialect}.xml"
        report = export_msccl_xml(made, path, dialect)
        verdict = verify_msccl_xml(path, collective, of)
        assert report.warnings == ()
        assert verdict.proven and verdict.num_messages == made.num_sends


@examples(15)
@given(of=schedules(most_npus=16))
def test_any_schedule_verifies_as_a_program(of, tmp_path_factory):
    path = tmp_path_factory.mktemp("xml") / "a.xml"
    reason = why_no_msccl_xml(of)
    assert (reason is None) == (of.collective.name not in ROOTED | PERSONALISED)
    if reason is not None:
        with pytest.raises(ConfigError, match=f"found a {of.collective.name}, but {reason}"):
            export_msccl_xml(of, path)
        assert not path.exists()
        return
    export_msccl_xml(of, path)
    verdict = verify_msccl_xml(path, of.collective.name, of.topology)
    assert verdict.proven


def steps(path):
    return list(ElementTree.parse(path).iter("step"))


@pytest.mark.parametrize("collective", sorted(set(COLLECTIVES) - ROOTED - PERSONALISED))
def test_sends_and_receives_are_those_of_the_schedule_in_link_order(tmp_path, collective):
    of = schedule(topology(*TORUS), collective, 120_000, 2)
    export_msccl_xml(of, tmp_path / "a.xml")
    expected: dict[tuple[int, int], list[int]] = {}
    for src, dst, chunk in zip(of.src.tolist(), of.dst.tolist(), of.chunk.tolist(), strict=True):
        expected.setdefault((src, dst), []).append(chunk)
    sent, received, kinds = {}, {}, Counter()
    for gpu in ElementTree.parse(tmp_path / "a.xml").iter("gpu"):
        npu = int(gpu.attrib["id"])
        for tb in gpu.iter("tb"):
            rows = [step for step in tb.iter("step") if step.attrib["type"] != "nop"]
            kinds.update(step.attrib["type"] for step in rows)
            peer = int(tb.attrib["send"])
            where = (npu, peer) if peer >= 0 else (int(tb.attrib["recv"]), npu)
            (sent if peer >= 0 else received)[where] = [int(step.attrib["srcoff"]) for step in rows]
    assert sent == expected and received == expected
    assert kinds["rrc"] == int(of.reduces.sum()) and kinds["s"] == of.num_sends


@pytest.mark.parametrize("collective, buffer, counts", (("all-gather", "o", ("0", "8")), ("all-reduce", "i", ("8", "0"))))
def test_all_chunks_stay_at_their_place_in_one_buffer(tmp_path, collective, buffer, counts):
    export_msccl_xml(schedule(topology(*RING8), collective, 8000), tmp_path / "a.xml")
    for step in steps(tmp_path / "a.xml"):
        assert step.attrib["srcbuf"] == step.attrib["dstbuf"] == buffer
        assert step.attrib["srcoff"] == step.attrib["dstoff"] and step.attrib["cnt"] == "1"
    for gpu in ElementTree.parse(tmp_path / "a.xml").iter("gpu"):
        assert (gpu.attrib["i_chunks"], gpu.attrib["o_chunks"]) == counts


def test_the_dialects_differ_in_the_head_only(tmp_path):
    of = schedule(topology(*RING8), "reduce-scatter", 8000)
    export_msccl_xml(of, tmp_path / "executor.xml", min_bytes=1024, max_bytes=1 << 20)
    export_msccl_xml(of, tmp_path / "msccl.xml", "msccl", "LL128")
    head, *body = (tmp_path / "executor.xml").read_text().splitlines()
    other, *same = (tmp_path / "msccl.xml").read_text().splitlines()
    assert body == same
    assert 'coll="reducescatter"' in head and 'outofplace="0" minBytes="1024" maxBytes="1048576"' in head
    assert 'coll="reduce_scatter"' in other and "minBytes" not in other and 'proto="LL128"' in other


def test_a_long_connection_goes_on_in_the_next_channel(tmp_path):
    of = schedule(topology("Ring 4"), "all-reduce", 4 * 60_000, 60)
    report = export_msccl_xml(of, tmp_path / "a.xml")
    assert report.num_channels == 3 and report.max_steps <= 64 and report.warnings == ()
    assert any(step.attrib["type"] == "nop" for step in steps(tmp_path / "a.xml"))
    assert verify_msccl_xml(tmp_path / "a.xml").violations == ()
    assert export_msccl_xml(of, tmp_path / "b.xml", "msccl").num_channels == 1
    assert verify_msccl_xml(tmp_path / "b.xml").violations == ()


def test_many_peers_are_spread_over_channels(tmp_path):
    of = schedule(topology("FullyConnected 40"), "all-gather", 1000)
    report = export_msccl_xml(of, tmp_path / "a.xml")
    assert report.num_channels > 1
    assert report.warnings == ("NPU 0 has 78 thread blocks, RCCL: at most 64 (40 NPUs are above)",)
    assert {violation.code for violation in verify_msccl_xml(tmp_path / "a.xml").violations} == {"limit-thread-blocks"}


def test_what_exceeds_a_limit_is_said(tmp_path):
    of = schedule(topology(*RING8), "all-reduce", 8 * 300 * 100, 300)
    report = export_msccl_xml(of, tmp_path / "a.xml")
    found = " ".join(report.warnings)
    assert len(report.warnings) == 4
    assert all(what in found for what in ("thread blocks", "to depend on", "XML nodes to read", "the program has 34 channels"))
    codes = {violation.code for violation in verify_msccl_xml(tmp_path / "a.xml").violations}
    assert codes == {"limit-thread-blocks", "limit-depid", "limit-xml-nodes", "limit-channels"}


def test_unequal_chunks_are_said(tmp_path):
    report = export_msccl_xml(schedule(topology(*RING8), "all-reduce", 8001), tmp_path / "a.xml")
    expected = "chunks are 1000 and 1001 bytes, MSCCL XML has equal chunks only: use a buffer of a multiple of 8 bytes"
    assert report.warnings == (expected,)


def test_an_exchange_in_place_does_not_overwrite_what_is_still_to_be_sent(tmp_path):
    """Two NPUs send each other the same chunks at once; each must have sent its own before it reduces the other's into it."""
    of = schedule(topology("Ring 2 50 0"), "all-reduce", 2000)
    channel = np.array([0, 1, 0, 1], np.int32)
    chunk = np.array([0, 0, 1, 1], np.int32)
    start = np.array([0, 0, 100, 100], np.int64)
    exchange = replace(of, chunk=chunk, channel=channel, reduces=np.ones(4, bool), start_ns=start, end_ns=start + 50)
    export_msccl_xml(exchange, tmp_path / "a.xml")
    verdict = verify_msccl_xml(tmp_path / "a.xml", "all-reduce")
    assert verdict.proven


@pytest.mark.parametrize(
    "options", ({"dialect": "nccl"}, {"protocol": "ll"}, {"min_bytes": -1}, {"min_bytes": 2, "max_bytes": 1})
)
def test_wrong_options_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match="MSCCL XML"):
        export_msccl_xml(schedule(topology(*FULL), "all-gather"), tmp_path / "a.xml", **options)
