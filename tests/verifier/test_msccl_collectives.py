"""Every collective that MSCCL XML names, by data: the oracle beside an interpreter that runs files with numbers."""

from __future__ import annotations

import re
from random import Random
from xml.etree import ElementTree

import pytest
from helpers.examples import examples, refused, rows
from helpers.msccl_interpreter import computes_its_collective
from helpers.msccl_mutants import KINDS, mutate
from helpers.msccl_programs import COLLS, direct_program, ring_all_reduce
from helpers.peers import peers
from helpers.schedules import codes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.msccl_file import read_msccl_xml
from astra_tacos.verifier.program import ProgramVerdict, verify_msccl_xml

NAMES = {
    "allgather": "all-gather",
    "allreduce": "all-reduce",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("coll", COLLS)
def test_a_right_program_is_proven(tmp_path, coll, in_place):
    for ngpus, part, root in ((2, 1, 1), (3, 2, 2), (5, 3, 0)):
        path = written(tmp_path / "a.xml", direct_program(coll, ngpus, part, in_place=in_place, root=root))
        verdict = verify_msccl_xml(path)
        assert (verdict.violations, verdict.collective) == ((), NAMES.get(coll, coll))
        assert verdict.proven and computes_its_collective(path, 1, root)
        assert verify_msccl_xml(path, NAMES.get(coll, coll)).proven


@pytest.mark.parametrize("ngpus", (3, 4, 6))
def test_fused_steps_that_store_nothing_need_no_places_of_others(tmp_path, ngpus):
    """The sum of an `rrs` step has a place of its own; counted over all steps, it was one of the next GPU's chunks: a race."""
    path = written(tmp_path / "a.xml", ring_all_reduce(ngpus))
    assert computes_its_collective(path, 1)
    assert verify_msccl_xml(path) == ProgramVerdict("all-reduce", ngpus, 2 * ngpus * (ngpus - 1), None, ())


@pytest.mark.parametrize("coll", COLLS)
@examples(20)
@given(data=st.data())
def test_a_changed_program_is_proven_only_if_it_still_computes_its_collective(tmp_path_factory, coll, data):
    ngpus, part, in_place = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3)), data.draw(st.booleans())
    text = direct_program(coll, ngpus, part, in_place=in_place, root=ngpus - 1)
    algo = ElementTree.fromstring(text)
    if not mutate(algo, data.draw(st.sampled_from(KINDS)), lambda below: data.draw(st.integers(0, below - 1))):
        return
    path = written(tmp_path_factory.mktemp("xml") / "a.xml", ElementTree.tostring(algo, encoding="unicode"))
    if verify_msccl_xml(path).proven:
        roots = range(ngpus) if coll in ROOTED else (0,)
        assert any(all(computes_its_collective(path, seed, root) for seed in range(4)) for root in roots)


@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("coll", COLLS)
def test_a_program_under_another_name_is_wrong(tmp_path, coll, in_place):
    ngpus, part = 3, 2
    for name in COLLS:
        path = written(tmp_path / "a.xml", direct_program(coll, ngpus, part, in_place=in_place, name=name))
        roots = range(ngpus) if name in ROOTED else (0,)
        right = any(all(computes_its_collective(path, seed, root) for seed in range(4)) for root in roots)
        verdict = verify_msccl_xml(path)
        # The only right ones that may be objected to use the output buffers of ranks that have none.
        assert verdict.proven == right or (right and codes(verdict) == {"absent-buffer"})


def test_parts_need_not_be_a_whole_number_of_chunks(tmp_path):
    """Of 3 chunks on 2 GPUs, the middle one belongs to both. An All-Reduce in place does what a Reduce-Scatter has to."""
    text = direct_program("allreduce", 2, 3, in_place=True, name="reducescatter").replace('buf="o"', 'buf="i"')
    path = written(tmp_path / "a.xml", text)
    assert computes_its_collective(path, 1) and verify_msccl_xml(path).proven
    # Chunks of an All-Gather that cut parts arrive half empty.
    path = written(tmp_path / "b.xml", direct_program("broadcast", 2, 3, in_place=True, name="allgather"))
    verdict = verify_msccl_xml(path)
    assert not computes_its_collective(path, 1) and codes(verdict) >= {"chunk-range"}
    text = direct_program("broadcast", 2, 3, in_place=True, name="allgather").replace('buf="i"', 'buf="o"')
    verdict = verify_msccl_xml(written(path, text))
    assert {"chunk-absent", "chunk-missing"} <= codes(verdict)
    assert "chunk 1 (part 2 of 2), where no data has arrived" in " ".join(map(str, verdict.violations))


@pytest.mark.parametrize("coll", ("custom", "alltoallv", "send", "recv"))
def test_what_cannot_be_checked_is_not_proven(tmp_path, coll):
    path = written(tmp_path / "a.xml", direct_program("broadcast", 3, 2, in_place=False, name=coll))
    verdict = verify_msccl_xml(path)
    assert verdict.violations == () and not verdict.proven
    assert verdict.unchecked is not None and "the file does not say" in verdict.unchecked
    if coll == "custom":
        assert verify_msccl_xml(path, "broadcast").proven
        assert codes(verify_msccl_xml(path, "all-reduce")) == {"chunk-incomplete"}
    else:
        assert codes(verify_msccl_xml(path, "broadcast")) == {"wrong-collective"}


def test_a_race_shows_even_where_the_collective_is_unknown(tmp_path):
    text = direct_program("alltoall", 3, 1, in_place=True, name="custom")
    assert verify_msccl_xml(written(tmp_path / "a.xml", text)).violations == ()
    algo = ElementTree.fromstring(text)
    for step in algo.iter("step"):
        if step.attrib["type"] == "cpy":
            step.set("depid", "-1")
            step.set("deps", "-1")
    for tb in algo.iter("tb"):
        for step in [step for step in tb if step.attrib["type"] == "nop"]:
            tb.remove(step)
        for number, step in enumerate(tb):
            step.set("s", str(number))
    path = written(tmp_path / "b.xml", ElementTree.tostring(algo, encoding="unicode"))
    assert "race" in codes(verify_msccl_xml(path))


# `copy` elements


def with_copies(text, npu_offsets):
    for npu, (i_off, o_off) in npu_offsets.items():
        text = re.sub(rf'<gpu id="{npu}"[^>]*>', rf'\g<0><copy i_off="{i_off}" o_off="{o_off}"/>', text)
    return text


def test_copy_elements_are_remarks_in_place_and_skipped_elsewhere(tmp_path):
    every = {npu: (0, npu) for npu in range(3)}
    text = direct_program("allgather", 3, 1, in_place=True)
    assert verify_msccl_xml(written(tmp_path / "a.xml", with_copies(text, every))).proven
    moved = verify_msccl_xml(written(tmp_path / "b.xml", with_copies(text, {1: (0, 2)})))
    assert "copy-skipped" in codes(moved)
    # What TACCL writes for out-of-place buffers: the copy would do it, but no executor carries it out.
    text = direct_program("allgather", 3, 1, in_place=False)
    algo = ElementTree.fromstring(with_copies(text, every))
    for tb in algo.iter("tb"):
        for step in [step for step in tb if step.attrib["type"] == "cpy"]:
            tb.remove(step)
    path = written(tmp_path / "c.xml", ElementTree.tostring(algo, encoding="unicode"))
    verdict = verify_msccl_xml(path)
    assert codes(verdict) == {"copy-skipped"} and len(verdict.violations) == 3
    assert not computes_its_collective(path, 1)


@pytest.mark.parametrize(
    "copy, message",
    (
        ('<copy i_off="0"/>', "gpu 0: copy: o_off is missing"),
        ("<move/>", "found element 'move', expected 'tb' or 'copy'"),
    ),
)
def test_a_malformed_copy_is_refused(tmp_path, copy, message):
    text = direct_program("allgather", 3, 1, in_place=True).replace("<tb", copy + "<tb", 1)
    with refused(message):
        verify_msccl_xml(written(tmp_path / "a.xml", text))


def test_a_copy_past_the_end_is_objected_to(tmp_path):
    text = with_copies(direct_program("allgather", 3, 1, in_place=True), {1: (7, 1)})
    assert "chunk-range" in codes(verify_msccl_xml(written(tmp_path / "a.xml", text)))


# Rules


@pytest.mark.parametrize(
    "coll, old, new, code",
    rows(
        """
    allreduce | proto="Simple" | proto="Fast" | bad-protocol
    allreduce | outofplace="1" | outofplace="0" | no-placement
    allreduce | minBytes="0" maxBytes="0" | minBytes="9" maxBytes="8" | size-range
    allgather | nchunksperloop="6" | nchunksperloop="3" | chunk-range
    allgather | type="cpy" srcbuf="i" srcoff="0" | type="cpy" srcbuf="o" srcoff="1" | overlap
    """
    ),
)
def test_rules_for_all_files(tmp_path, coll, old, new, code):
    text = direct_program(coll, 3, 2, in_place=False)
    assert old in text
    assert code in codes(verify_msccl_xml(written(tmp_path / "a.xml", text.replace(old, new))))


def test_the_original_runtime_compares_buffers_with_chunks(tmp_path):
    text = direct_program("allgather", 3, 1, in_place=False).replace(' outofplace="1" minBytes="0" maxBytes="0"', "")
    verdict = verify_msccl_xml(written(tmp_path / "a.xml", text))
    assert codes(verdict) == {"buffer-size"} and "i_chunks is 3, nchunksperloop asks for 1 or 0" in str(verdict.violations[0])
    assert verify_msccl_xml(written(tmp_path / "b.xml", text.replace('i_chunks="3"', 'i_chunks="1"'))).proven


@pytest.mark.parametrize("kept", ['minBytes="0"', 'maxBytes="0"', 'minBytes="0" maxBytes="0"'])
def test_the_original_runtime_takes_a_range_of_sizes(tmp_path, kept):
    """It never reads outofplace, and minBytes and maxBytes only where they are."""
    text = direct_program("allreduce", 3, 1, in_place=True).replace('outofplace="0" minBytes="0" maxBytes="0"', kept)
    assert kept in text and "outofplace" not in text
    assert read_msccl_xml(written(tmp_path / "a.xml", text)).original
    assert verify_msccl_xml(tmp_path / "a.xml").proven


def test_reductions_that_executors_fuse_need_one_count(tmp_path):
    text = direct_program("allreduce", 2, 3, in_place=True)
    chain = "".join(
        f'<step s="{s}" type="re" srcbuf="s" srcoff="{s}" dstbuf="i" dstoff="0" cnt="{s + 1}" depid="-1" deps="-1" hasdep="0"/>'
        for s in range(2)
    )
    verdict = verify_msccl_xml(written(tmp_path / "a.xml", text.replace('chan="0">', 'chan="0">' + chain, 1)))
    assert "fused-count" in codes(verdict)


def test_buffers_that_only_the_root_has(tmp_path):
    """A Reduce by way of every rank's output buffer is right where all ranks have one, but they need not."""
    path = written(tmp_path / "a.xml", direct_program("allreduce", 3, 1, in_place=False, root=2, name="reduce"))
    assert computes_its_collective(path, 1, 2) and codes(verify_msccl_xml(path)) == {"absent-buffer"}


# Hostile files


@pytest.mark.parametrize(
    "old, new, message",
    [
        *rows(
            """
    nchunksperloop="3" | nchunksperloop="8000000" | chunks in all, expected at most
    s_chunks="3" | s_chunks="2000000000" | expected at most
    maxBytes="0" | maxBytes="99999999999999999999" | maxBytes is '99999999999999999999'
    """
        ),
        ('deps="-1"', f'deps="{"1" * 4000}"', "deps is '1111"),
        ('coll="allreduce"', f'coll="{"x" * 100_000}"', "coll is 'xxxx"),
    ],
)
def test_hostile_numbers_and_names_get_one_line(tmp_path, old, new, message):
    text = direct_program("allreduce", 2, 3, in_place=True)
    assert old in text
    with pytest.raises(ConfigError) as raised:
        verify_msccl_xml(written(tmp_path / "a.xml", text.replace(old, new, 1)))
    assert message in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 1000


def test_steps_that_move_more_than_can_be_followed_are_refused(tmp_path):
    text = direct_program("broadcast", 2, 1, in_place=True)
    text = (
        text.replace('nchunksperloop="1"', 'nchunksperloop="1000000"')
        .replace('_chunks="1"', '_chunks="1000000"')
        .replace('cnt="1"', 'cnt="1000000"')
    )
    algo = ElementTree.fromstring(text)
    for tb in algo.iter("tb"):
        for step in list(tb):
            for number in range(1, 40):
                tb.append(ElementTree.Element("step", {**step.attrib, "s": str(number)}))
    path = written(tmp_path / "a.xml", ElementTree.tostring(algo, encoding="unicode"))
    with refused(r"steps move \d+ chunks in all, expected at most"):
        verify_msccl_xml(path)


def test_a_small_file_with_very_many_chunks_gets_one_violation(tmp_path):
    text = direct_program("allreduce", 2, 3, in_place=True).replace('nchunksperloop="3"', 'nchunksperloop="2000000"')
    verdict = verify_msccl_xml(written(tmp_path / "a.xml", text))
    message = "chunk-missing: all-reduce: steps write 6 chunks, but 2000000 or more have to be written"
    assert [str(violation) for violation in verdict.violations] == [message]


def test_circular_dependencies_deadlock(tmp_path):
    text = direct_program("broadcast", 2, 1, in_place=True).replace(
        'depid="-1" deps="-1" hasdep="0"', 'depid="1" deps="0" hasdep="1"'
    )
    verdict = verify_msccl_xml(written(tmp_path / "a.xml", text))
    assert codes(verdict) == {"deadlock"} and not verdict.proven


FILES, WHY_NONE = peers("msccl_xml/*/*.xml", "msccl_xml_minbytes/*.xml", "measured_rccl_8/xml/*.xml")
BY_NAME = {path.name: path for path in FILES}
WRONG = {
    # Benchmarks of links that call themselves allgather: 14 or 2 chunks do not hold what 8 GPUs gather.
    **{name: {"chunk-absent", "chunk-missing", "chunk-wrong"} for name in ("all2all.xml", "all2one.xml", "peer2peer.xml")},
    # Both ends of every connection receive first and send then.
    "output_nvswitch16_AllGather_Fast_64MB_msccl_annotated.xml": {"deadlock"},
    "output_nvswitch16_AllGather_Fast_64MB_msccl_strict.xml": {"deadlock"},
}
MUTATED = (
    "ncv4_ag_hier_4_LL.xml",
    "ncv4_ar_hier_12_Simple.xml",
    "ncv4_ar_tree_12_LL.xml",
    "ndv4_a2a2ll.xml",
    "ndv4_r48ll.xml",
    "test.xml",
)
"""All step types, buffers and collectives that these files have, in small ones."""

EQUIVALENT = ("dropped dependency", "earlier dependency", "other dependency", "swapped", "swapped blocks", "type")
"""Kinds of changes that may change nothing: an order that others imply, like transfers in turn, what nothing reads."""

with_peers = pytest.mark.skipif(not FILES, reason=WHY_NONE)


@with_peers
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_each_file_is_proven_or_wrong_as_a_run_with_numbers_is(name):
    verdict = verify_msccl_xml(BY_NAME[name])
    coll = ElementTree.parse(BY_NAME[name]).getroot().attrib["coll"]
    assert verdict.collective == NAMES[coll]
    assert {violation.code for violation in verdict.violations} == WRONG.get(name, set())
    assert verdict.proven == (name not in WRONG) == computes_its_collective(BY_NAME[name], seed=1)


@with_peers
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_proven_only_if_it_still_computes_its_collective(tmp_path, kind):
    random = Random(kind)
    proven = changed = 0
    for name in MUTATED:
        for _ in range(2):
            root = ElementTree.parse(BY_NAME[name]).getroot()
            if not mutate(root, kind, random.randrange):
                break
            changed += 1
            path = tmp_path / name
            path.write_bytes(ElementTree.tostring(root))
            if verify_msccl_xml(path).proven:
                proven += 1
                assert all(computes_its_collective(path, seed) for seed in range(4)), f"{name}, {kind}"
    assert changed > 0
    assert proven == 0 or kind in EQUIVALENT
