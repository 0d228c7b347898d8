"""The oracle for programs: what it accepts, and that it objects to every broken one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import networkx
import numpy as np
import pytest
from helpers.examples import examples, refused, rows
from helpers.msccl_interpreter import computes_its_collective
from helpers.msccl_mutants import KINDS, mutate
from helpers.networks import MIXED, RING8, TORUS, topology
from helpers.schedules import codes, schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED
from astra_tacos.export.chakra import export_chakra
from astra_tacos.export.msccl_xml import export_msccl_xml
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, ChunkColumns
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by
from astra_tacos.verifier.chakra_program import chakra_program
from astra_tacos.verifier.msccl_file import read_msccl_xml
from astra_tacos.verifier.msccl_places import lay_out
from astra_tacos.verifier.msccl_program import msccl_program
from astra_tacos.verifier.program import ProgramVerdict, verify_msccl_xml, verify_trace
from astra_tacos.verifier.program_order import Order

NETWORKS = {"ring": RING8, "torus": TORUS, "mixed": MIXED}
CASES = [(network, collective) for network in NETWORKS for collective in COLLECTIVES]
XML_CASES = [case for case in CASES if case[1] not in ROOTED | PERSONALISED]


@cache
def made(network, collective):
    of = topology(*NETWORKS[network])
    return schedule(of, collective, of.num_npus * 6000, 2, seed=3)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A directory with the programs of all cases: `<network>-<collective>.xml` and the same with `.<npu>.et`."""
    directory = tmp_path_factory.mktemp("programs")
    for network, collective in CASES:
        if collective not in ROOTED | PERSONALISED:
            export_msccl_xml(made(network, collective), directory / f"{network}-{collective}.xml")
        export_chakra(made(network, collective), directory / f"{network}-{collective}", "serial")
    return directory


# Traces


@examples(10)
@given(of=schedules(most_npus=16))
def test_any_schedule_verifies_as_a_trace(of, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("et") / "a"
    export_chakra(of, prefix)
    verdict = verify_trace(read_trace(prefix), None, of.topology)
    assert verdict.proven
    assert verdict.collective == of.collective.name or (of.topology.num_npus == 2 and of.collective.is_personalised)


@pytest.mark.golden_cases("*")
def test_recorded_traces_are_sound(golden, golden_case):
    prefixes = {path.parent / path.name.split(".")[0] for path in (golden / golden_case).rglob("*.0.et")}
    assert prefixes
    for prefix in prefixes:
        assert verify_trace(read_trace(prefix)).violations == ()


@pytest.mark.parametrize("collective", sorted(ROOTED))
def test_a_trace_has_the_root_that_is_asked_for(tmp_path, collective):
    export_chakra(schedule(topology(*RING8), collective, 8000, 3, root=5), tmp_path / "a")
    trace = read_trace(tmp_path / "a")
    for root in (None, 5):
        assert verify_trace(trace, collective, root=root).violations == ()
    assert codes(verify_trace(trace, collective, root=4)) & {"chunk-absent", "chunk-missing", "chunk-incomplete"}
    assert verify_trace(trace, None).collective == collective
    assert verify_trace(trace, "all-reduce").violations != ()


def test_traces_without_chunks_are_checked_structurally_only(files):
    trace = read_trace(files / "ring-all-reduce")
    none = np.full(trace.num_nodes, ABSENT)
    bare = replace(trace, chunks=ChunkColumns(none, none, none, trace.chunks.reduces))
    untold = "it does not name the chunks that it moves"
    assert verify_trace(bare) == ProgramVerdict(None, 8, made("ring", "all-reduce").num_sends, untold, ())
    assert not verify_trace(bare).proven
    assert verify_trace(without_edge(bare, 0)).unchecked is not None


def test_the_trace_that_ships_with_astra_sim_is_sound(astra_sim_inputs):
    folder = astra_sim_inputs / "custom_ring_allreduce_8npus_1MB"
    verdict = verify_trace(read_trace(folder / "custom_allreduce"), "all-reduce", topology(*RING8))
    assert verdict.violations == () and verdict.num_messages == 8 * 14 and verdict.unchecked is not None
    verdict = verify_msccl_xml(folder / "custom_allreduce.xml", "all-reduce", topology(*RING8))
    assert verdict == ProgramVerdict("all-reduce", 8, 8 * 14, None, ())


def without_edge(trace, edge):
    node = int(np.searchsorted(trace.dep_first, edge, side="right")) - 1
    first = trace.dep_first.copy()
    first[node + 1 :] -= 1
    return replace(trace, dep=np.delete(trace.dep, edge), dep_first=first)


def with_edge(trace, before, after):
    first = trace.dep_first.copy()
    first[after + 1 :] += 1
    return replace(trace, dep=np.insert(trace.dep, trace.dep_first[after], before), dep_first=first)


def without_node(trace, row):
    """The trace without a node and all dependencies on it."""
    while row in trace.dep:
        trace = without_edge(trace, int(np.flatnonzero(trace.dep == row)[0]))
    while trace.dep_first[row + 1] > trace.dep_first[row]:
        trace = without_edge(trace, int(trace.dep_first[row]))
    columns = {
        name: np.delete(getattr(trace, name), row) for name in ("node_id", "kind", "duration_us", "size_bytes", "peer", "tag")
    }
    assert not len(trace.chunks.chunk_lists.node) and not len(trace.chunks.place_lists.node)
    named = ("chunk", "num_chunks", "total_chunks", "reduces")
    chunks = replace(trace.chunks, **{name: np.delete(getattr(trace.chunks, name), row) for name in named})
    rank_first = trace.rank_first - (trace.rank_first > row)
    dep_first = np.delete(trace.dep_first, row)
    return replace(trace, dep=trace.dep - (trace.dep > row), rank_first=rank_first, dep_first=dep_first, chunks=chunks, **columns)


def with_value(columns, column, row, value):
    values = getattr(columns, column).copy()
    values[row] = value
    return replace(columns, **{column: values})


def with_chunks_value(trace, column, row, value):
    return replace(trace, chunks=with_value(trace.chunks, column, row, value))


def has_path(program, before, after):
    """The slow twin of the oracle's search."""
    graph = networkx.DiGraph(zip(program.before.tolist(), program.after.tolist(), strict=True))
    ends = (program.action_op[program.message_send].tolist(), program.action_op[program.message_recv].tolist())
    graph.add_edges_from(zip(*ends, strict=True))
    return before in graph and after in graph and networkx.has_path(graph, before, after)


def changed_trace(trace, kind, draw):
    messages = np.flatnonzero(np.isin(trace.kind, (NodeType.COMM_SEND, NodeType.COMM_RECV)))
    row = int(messages[draw(len(messages))])
    total = int(trace.chunks.total_chunks.max())
    match kind:
        case "tag":
            return with_value(trace, "tag", row, int(trace.tag.max()) + 1)
        case "size":
            return with_value(trace, "size_bytes", row, int(trace.size_bytes[row]) + 1)
        case "peer":
            return with_value(trace, "peer", row, (int(trace.peer[row]) + 1) % trace.num_ranks)
        case "chunk":
            return with_chunks_value(trace, "chunk", row, (int(trace.chunks.chunk[row]) + 1 + draw(total - 1)) % total)
        case "reduces":
            recvs = np.flatnonzero(trace.kind == NodeType.COMM_RECV)
            recv = int(recvs[draw(len(recvs))])
            return with_chunks_value(trace, "reduces", recv, not trace.chunks.reduces[recv])
        case "node":
            return without_node(trace, draw(trace.num_nodes))
        case "dangling":
            return with_value(trace, "dep", draw(len(trace.dep)), DANGLING)
        case _:
            edges = np.flatnonzero(trace.kind[trace.dep] != NodeType.COMM_SEND)
            edge = int(edges[draw(len(edges))])
            after = int(np.searchsorted(trace.dep_first, edge, side="right")) - 1
            return with_edge(without_edge(trace, edge), after, int(trace.dep[edge]))


@pytest.mark.parametrize("kind", ("tag", "size", "peer", "chunk", "reduces", "node", "dangling", "reversed edge"))
@given(case=st.sampled_from(CASES), data=st.data())
def test_a_changed_trace_is_objected_to(files, kind, case, data):
    trace = read_trace(files / "-".join(case))
    changed = changed_trace(trace, kind, lambda below: data.draw(st.integers(0, below - 1)))
    assert verify_trace(changed, case[1]).violations != ()


@examples(20)
@given(case=st.sampled_from(CASES), data=st.data())
def test_a_dependency_of_a_trace_may_go_only_if_others_imply_it(files, case, data):
    trace = read_trace(files / "-".join(case))
    # Dependencies on sends keep the order of links, which is no matter of being right.
    edge = data.draw(st.sampled_from(np.flatnonzero(trace.kind[trace.dep] != NodeType.COMM_SEND).tolist()))
    before, after = int(trace.dep[edge]), int(np.searchsorted(trace.dep_first, edge, side="right")) - 1
    changed = without_edge(trace, edge)
    program, _ = chakra_program(changed)
    assert (verify_trace(changed, case[1]).violations == ()) == has_path(program, before, after)


def test_messages_that_could_be_taken_for_each_other_are_objected_to(files):
    trace = read_trace(files / "ring-all-gather")
    sends = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & (trace.rank == 0) & (trace.peer == 1))
    for row in np.flatnonzero(np.isin(trace.tag, trace.tag[sends[:2]]) & (trace.tag != ABSENT)):
        trace = with_value(trace, "tag", int(row), int(trace.tag[sends[0]]))
    # Sends of a link follow one another here, but nothing orders its receives.
    assert codes(verify_trace(trace)) == {"duplicate-tag"}


def test_messages_need_a_channel(files):
    trace = read_trace(files / "ring-all-gather")
    line = topology("Mesh 8")
    assert codes(verify_trace(trace, None, line)) == {"no-channel"}
    assert codes(verify_trace(trace, None, topology("Ring 4"))) == {"rank-count"}
    assert codes(verify_msccl_xml(files / "ring-all-gather.xml", None, line)) == {"no-channel"}


def test_the_wrong_collective_is_objected_to(files):
    trace = read_trace(files / "ring-reduce-scatter")
    assert codes(verify_trace(trace, "all-reduce")) == {"chunk-incomplete"}
    assert codes(verify_trace(read_trace(files / "ring-all-reduce"), "all-gather")) != set()
    assert "wrong-collective" in codes(verify_msccl_xml(files / "ring-reduce-scatter.xml", "all-reduce"))
    with refused("expected one of"):
        verify_trace(trace, "all-to-nothing")


# MSCCL XML


@pytest.mark.parametrize("kind", KINDS)
@given(case=st.sampled_from(XML_CASES), data=st.data())
def test_a_changed_xml_is_objected_to(files, kind, case, data):
    root = ElementTree.parse(files / f"{'-'.join(case)}.xml").getroot()
    if mutate(root, kind, lambda below: data.draw(st.integers(0, below - 1))) and not codes(verify_msccl_xml(saved(root, files))):
        # What others imply: an order of steps, or the numbers of thread blocks.
        assert kind.startswith("swapped") or kind.endswith(" dependency")
        assert computes_its_collective(files / "changed.xml", 1)


@examples(20)
@given(case=st.sampled_from(XML_CASES), data=st.data())
def test_a_dependency_of_an_xml_may_go_only_if_others_imply_it(files, case, data):
    root = ElementTree.parse(files / f"{'-'.join(case)}.xml").getroot()
    rows = [
        (gpu, step)
        for gpu in root
        for tb in gpu
        for at, step in enumerate(tb)
        if "nop" not in (step.get("type"), at and tb[at - 1].get("type")) and step.get("depid") != "-1"
    ]
    gpu, step = rows[data.draw(st.integers(0, len(rows) - 1))]
    every = list(root.iter("step"))
    before, after = every.index(gpu[int(step.attrib["depid"])][int(step.attrib["deps"])]), every.index(step)
    step.attrib.update(depid="-1", deps="-1")
    path = saved(root, files)
    file = read_msccl_xml(path)
    program, _ = msccl_program(file, lay_out(file, in_place=True))
    assert (verify_msccl_xml(path).violations == ()) == has_path(program, before, after)


def saved(root, files):
    path = files / "changed.xml"
    path.write_bytes(ElementTree.tostring(root))
    return path


ALGO = '<algo name="a" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="2" coll="{coll}" inplace="{inplace}">'


def program_of(tmp_path, *blocks, coll="allreduce", inplace=1, chunks=2):
    """A file for two GPUs; an argument is a GPU's thread blocks, a step `type srcbuf srcoff dstbuf dstoff depid deps hasdep`."""
    lines = [ALGO.format(coll=coll, inplace=inplace, chunks=chunks)]
    for npu, steps_of in enumerate(blocks):
        own = chunks // 2 if coll == "allgather" else chunks
        lines.append(f'<gpu id="{npu}" i_chunks="{own}" o_chunks="{chunks}" s_chunks="2">')
        for number, text in enumerate(steps_of):
            peer = 1 - npu
            lines.append(f'<tb id="{number}" send="{peer}" recv="{peer}" chan="{number}">')
            for s, step in enumerate(text.split(";")):
                kind, srcbuf, srcoff, dstbuf, dstoff, depid, deps, hasdep = step.split()
                lines.append(
                    f'<step s="{s}" type="{kind}" srcbuf="{srcbuf}" srcoff="{srcoff}" dstbuf="{dstbuf}" dstoff="{dstoff}" '
                    f'cnt="1" depid="{depid}" deps="{deps}" hasdep="{hasdep}"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    path = tmp_path / "program.xml"
    path.write_text("\n".join((*lines, "</algo>")))
    return path


def test_every_step_type_is_followed(tmp_path):
    free = "-1 -1 0"
    first = f"s i 0 i 0 {free};rrc i 1 i 1 {free};s i 1 i 1 {free};r i 0 i 0 {free}"
    second = f"s i 1 i 1 {free};rrcs i 0 i 0 {free};r i 1 i 1 {free}"
    assert verify_msccl_xml(program_of(tmp_path, (first,), (second,))) == ProgramVerdict("all-reduce", 2, 4, None, ())
    scratch = f"s i 1 i 1 {free};r s 0 s 0 {free};re s 0 i 0 {free};s i 0 i 0 {free};r i 1 i 1 {free}"
    other = f"s i 0 i 0 {free};rrs i 1 i 1 {free};r i 0 i 0 {free};r i 1 i 1 {free}"
    wrong = verify_msccl_xml(program_of(tmp_path, (scratch,), (other,)))
    assert codes(wrong) == {"unmatched-recv", "chunk-missing"}  # rrs forwards the sum, but does not keep it
    gather = "cpy i 0 o {0} " + free + ";s o {0} o {0} " + free + ";r o {1} o {1} " + free
    path = program_of(tmp_path, (gather.format(0, 1),), (gather.format(1, 0),), coll="allgather", inplace=0)
    assert verify_msccl_xml(path) == ProgramVerdict("all-gather", 2, 2, None, ())


def test_races_deadlocks_and_double_reductions_are_told_apart(tmp_path):
    free = "-1 -1 0"
    race = (f"s i 0 i 0 {free}", f"rrc i 0 i 0 {free}")
    assert "race" in codes(verify_msccl_xml(program_of(tmp_path, race, (f"rrc i 0 i 0 {free}", f"s i 0 i 0 {free}"))))
    waits = f"r i 0 i 0 {free};s i 0 i 0 {free}"
    verdict = verify_msccl_xml(program_of(tmp_path, (waits,), (waits,)))
    assert codes(verdict) == {"deadlock"} and verdict.unchecked is not None
    twice = f"s i 0 i 0 {free};s i 0 i 0 {free}"
    verdict = verify_msccl_xml(program_of(tmp_path, (twice,), (f"rrc i 0 i 0 {free};rrc i 0 i 0 {free}",)))
    assert "contribution-twice" in codes(verdict)
    mixed = verify_msccl_xml(program_of(tmp_path, (f"s i 0 i 0 {free}",), (f"rrc i 1 i 1 {free}",)))
    assert "chunk-mixed" in codes(mixed)


@pytest.mark.parametrize(
    "steps, code",
    [
        *rows(
            """
    nop i 0 i 0 -1 -1 0;s i 0 i 0 -1 -1 0 | nop-without-dependency
    s i 0 i 0 -1 -1 0;nop i 0 i 0 0 0 0 | nop-without-step
    s i 0 i 0 -1 -1 1;nop i 0 i 0 0 0 1;s i 0 i 0 0 1 0 | depends-on-nop
    s i 0 i 0 0 7 0 | dangling-dependency
    s i 0 i 0 -1 -1 0;s i 0 i 0 0 0 0 | missing-hasdep
    s i 2 i 2 -1 -1 0 | chunk-range
    s i 0 i 0 200 0 0 | limit-depid
    s i 0 i 0 -1 -1 7 | bad-hasdep
    """
        ),
        (";".join(["s i 0 i 0 -1 -1 0"] * 257), "limit-steps"),
    ],
)
def test_the_parsers_rules(tmp_path, steps, code):
    assert code in codes(verify_msccl_xml(program_of(tmp_path, (steps,), ("s i 0 i 0 -1 -1 0",))))


@pytest.mark.parametrize(
    "change, code",
    (
        (('<tb id="0"', '<tb id="4"'), "thread-block-ids"),
        (('chan="0"', 'chan="9"'), "bad-channel"),
        (('nchannels="1"', 'nchannels="129"'), "limit-channels"),
        ((' minBytes="0"', ""), "missing-attribute"),
        (('cnt="1"', 'cnt="72"'), "limit-count"),
        (('cnt="1"', 'cnt="0"'), "bad-count"),
        ((' s="0"', ' s="1"'), "step-ids"),
        (('send="-1" recv="1"', 'send="-1" recv="-1"'), "bad-peer"),
        (('recv="7"', 'recv="0"'), "bad-peer"),
        (('<tb id="1" send="-1" recv="7"', '<tb id="1" send="-1" recv="1"'), "duplicate-connection"),
    ),
)
def test_the_rules_for_elements(files, change, code):
    text = (files / "ring-all-reduce.xml").read_text()
    assert change[0] in text
    (files / "changed.xml").write_text(text.replace(*change, 1))
    assert code in codes(verify_msccl_xml(files / "changed.xml"))


BOMB = '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><algo name="&c;"/>'


@pytest.mark.parametrize(
    "old, new, message",
    [
        *rows(
            """
    coll="allreduce" | coll="sum" | coll is 'sum'
    ngpus="8" | ngpus="9" | found 8 gpu elements, ngpus is 9
    ngpus="8" | ngpus="2000000000" | expected at most
    nchunksperloop="16" | nchunksperloop="-16" | nchunksperloop is '-16'
    <gpu id="1" | <gpu id="0" | found gpu id 0
    chan="0" |  | gpu 0, tb: tb: chan is missing
    type="rrc" | type="rrq" | type is 'rrq'
    srcbuf="i" | srcbuf="x" | srcbuf is 'x'
    cnt="1" | cnt="1.5" | gpu 0, tb 0, step 0: step: cnt is '1.5'
    """
        ),
        (None, BOMB, "document type or entities"),
        (None, "<algo", "not XML"),
        (None, "<other/>", "found element 'other', expected 'algo'"),
        ("<gpu ", "<cpu/><gpu ", "found element 'cpu'"),
        ('cnt="1"', 'cnt="٣"', "cnt is"),
    ],
)
def test_what_is_no_msccl_xml_is_refused_in_one_line(files, old, new, message):
    text = (files / "ring-all-reduce.xml").read_text()
    assert old is None or old in text
    path = files / "changed.xml"
    path.write_text(new if old is None else text.replace(old, new, 1))
    with pytest.raises(ConfigError) as raised:
        verify_msccl_xml(path)
    assert message in str(raised.value) and str(raised.value).startswith(str(path)) and "\n" not in str(raised.value)


def test_a_missing_file_is_refused(tmp_path):
    with refused("cannot be read"):
        verify_msccl_xml(tmp_path / "none.xml")


# Order


@examples(20)
@given(data=st.data(), size=st.integers(1, 150))
def test_the_search_for_paths_matches_its_slow_twin(data, size):
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    ends = np.sort(random.integers(0, size, (data.draw(st.integers(0, 3 * size)), 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    first, predecessor = group_by(ends[:, 1], ends[:, 0], size)
    graph = networkx.DiGraph(ends.tolist())
    graph.add_nodes_from(range(size))
    closure = networkx.transitive_closure(graph)
    earlier, later = np.triu_indices(size, 1)
    found = Order(np.arange(size), first, predecessor).comes_before(earlier, later)
    assert found.tolist() == [closure.has_edge(*pair) for pair in zip(earlier.tolist(), later.tolist(), strict=True)]
