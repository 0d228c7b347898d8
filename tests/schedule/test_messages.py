"""Messages of several chunks and partial sums, random ones: everything that takes a schedule says the same of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
from helpers.examples import examples, refused
from helpers.messages import grouped_schedules, one_shot, summed_schedules
from helpers.naive_schedule import computes_collective, naive_dependencies, naive_times, sums_up, value_time
from helpers.networks import topology
from helpers.schedules import check, codes, schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.certificate import certify
from astra_tacos.export.chakra import export_chakra, schedule_trace
from astra_tacos.export.chrome_trace import EXPORTER as TIMELINE
from astra_tacos.export.msccl_xml import export_msccl_xml, why_no_msccl_xml
from astra_tacos.export.send_rows import EXPORTER as ROWS
from astra_tacos.pages.html.synthesis_data import arrivals, collect
from astra_tacos.pages.links_over_time import bars_of, link_rows, sends_of_chunk
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.verifier.program import verify_msccl_xml, verify_trace
from astra_tacos.verifier.schedule_oracle import verify
from astra_tacos.verifier.trace_conditions import shortest_message

GROUPED = grouped_schedules()
ANY = st.one_of(GROUPED, summed_schedules())


@examples(20)
@given(ANY)
def test_times_are_those_of_the_slow_twin(of):
    check(of)
    start, end = naive_times(of, naive_dependencies(of) if of.sums is None else [])
    assert (of.start_ns.tolist(), of.end_ns.tolist()) == (start, end)
    assert computes_collective(of) if of.sums is None else sums_up(of)
    assert replay_schedule(of).link_busy_ns.tolist() == of.link_busy_ns.tolist()


@examples(20)
@given(of=ANY, link_order=st.sampled_from((None, "serial", "tokens")))
def test_traces_are_proven_alone(tmp_path_factory, of, link_order):
    prefix = tmp_path_factory.mktemp("et") / "a"
    export_chakra(of, prefix, link_order)
    trace = read_trace(prefix)
    verdict = verify_trace(trace, None, of.topology)
    assert verdict.proven, verdict.violations
    assert verdict.num_messages == of.num_messages
    if of.topology.num_npus > 2:
        assert verdict.collective == of.collective.name
    assert verify_trace(trace, of.collective.name, of.topology, of.collective.root).proven


@examples(20)
@given(of=ANY)
def test_programs_for_gpus_are_proven_or_refused(tmp_path_factory, of):
    path = tmp_path_factory.mktemp("xml") / "a.xml"
    if why_no_msccl_xml(of) is not None:
        with refused("MSCCL XML"):
            export_msccl_xml(of, path)
        assert not path.exists()
        return
    export_msccl_xml(of, path)
    verdict = verify_msccl_xml(path, of.collective.name, of.topology)
    assert codes(verdict) <= {"limit-steps", "limit-depid"}
    assert verdict.unchecked is None


def test_neighbouring_chunks_of_a_message_are_one_step(tmp_path):
    of = schedule(topology("Switch 8"), "all-gather", 1 << 20, 1, synthesizer="halving-doubling")
    export_msccl_xml(of, tmp_path / "a.xml")
    text = (tmp_path / "a.xml").read_text()
    counts = [int(step.split('cnt="')[1].split('"')[0]) for step in text.split('type="s"')[1:]]
    assert len(counts) == of.num_messages < of.num_sends
    assert sum(counts) == of.num_sends and max(counts) == 4
    assert verify_msccl_xml(tmp_path / "a.xml").proven


def write(exporter, of, path):
    exporter.write(of, path)
    return path


@given(of=ANY)
def test_tables_and_timelines(tmp_path_factory, of):
    folder = tmp_path_factory.mktemp("out")
    rows = list(csv.DictReader(write(ROWS, of, folder / "a.csv").open()))
    assert [int(row["message"]) for row in rows] == of.message_of.tolist()
    assert [row["value"] for row in rows] == ([""] * of.num_sends if of.value is None else [str(v) for v in of.value])
    events = json.loads(write(TIMELINE, of, folder / "a.json").read_text())["traceEvents"]
    held = [event for event in events if event["ph"] == "X"]
    down = of.topology.channel_down_link[of.channel[of.message_row]]
    assert len(held) == of.num_messages + int((down >= 0).sum())
    assert sum(round(event["dur"] * 1000) for event in held) == of.link_busy_ns.sum()
    bars = bars_of(of, link_rows(of.topology, with_down_links=False))
    up = np.unique(of.topology.channel_link[of.channel])
    assert (bars.end_ns - bars.start_ns).sum() == of.link_busy_ns[up].sum()
    data = collect(of, certify(of))
    bytes_of = np.add.reduceat(of.size_bytes, of.message_row)
    assert bytes_of.tolist() == of.message_bytes.tolist()
    assert len(data["messages"]["class"]) == of.num_messages and len(data["bars"]["row"]) == len(held)


@examples(20)
@given(of=summed_schedules())
def test_a_chunk_has_arrived_when_its_sum_has(of):
    usable = {row: int(of.end_ns[row]) for row in of.message_row.tolist()}
    found = arrivals(of)
    needing = range(of.topology.num_npus) if of.collective.gathers else set(of.collective.chunk_owner.tolist())
    assert found.npu.tolist() == sorted(needing)
    for place, npu in enumerate(found.npu.tolist()):
        chunks = range(of.collective.num_chunks) if of.collective.gathers else np.flatnonzero(of.collective.chunk_owner == npu)
        expected = sorted(value_time(of, usable, npu, int(of.sums.total[chunk])) for chunk in chunks)
        own = slice(found.first[place], found.first[place + 1])
        assert np.repeat(found.time_ns[own], found.chunks[own]).tolist() == expected


@examples(20)
@given(of=ANY, data=st.data())
def test_the_tree_of_a_chunk_says_what_passes_on_what(of, data):
    chunk = data.draw(st.integers(0, of.collective.num_chunks - 1))
    found = sends_of_chunk(of, link_rows(of.topology, with_down_links=False), chunk)
    own = np.flatnonzero(of.chunk == chunk)
    assert found.bars.start_ns.tolist() == of.start_ns[own].tolist()
    assert (of.src[own[found.waits]] == of.dst[own[found.source]]).all()
    assert (of.start_ns[own[found.waits]] >= of.done_ns[own[found.source]]).all()
    if of.sums is None:
        place = {row: at for at, row in enumerate(own.tolist())}
        awaited = naive_dependencies(of)
        expected = {(place[row], place[other]) for row in own.tolist() for other in awaited[row]}
        assert set(zip(found.waits.tolist(), found.source.tolist(), strict=True)) == expected


@examples(20)
@given(of=ANY)
def test_what_is_stored_is_read_again(tmp_path_factory, of):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    save_schedule(of, path)
    read = load_schedule(path)
    assert read.message_of.tolist() == of.message_of.tolist()
    assert read.item.tolist() == of.item.tolist()
    assert check(read).npu_finish_ns.tolist() == of.npu_finish_ns.tolist()


@examples(20)
@given(of=GROUPED, data=st.data())
def test_a_message_that_leaves_before_its_chunks_are_there_is_objected_to(of, data):
    awaited = naive_dependencies(of)
    waiting = [row for row in of.message_row.tolist() if any(awaited[row:][: int((of.message_of == of.message_of[row]).sum())])]
    if not waiting:
        return
    message = of.message_of[data.draw(st.sampled_from(waiting))]
    rows = np.flatnonzero(of.message_of == message)
    last = max(int(of.done_ns[other]) for row in rows for other in awaited[row])
    early = int(of.start_ns[rows[0]]) - last + 1
    start, end = of.start_ns.copy(), of.end_ns.copy()
    start[rows], end[rows] = start[rows] - early, end[rows] - early
    # Objected to for the chunk that came last; a link may be in use then, too.
    found = codes(replace(of, start_ns=start, end_ns=end))
    assert found & {"chunk-absent", "incomplete", "overwrites", "counted-twice"}


@examples(20)
@given(of=summed_schedules(), data=st.data())
def test_sums_that_are_not_what_they_seem_are_objected_to(of, data):
    sums = of.sums
    match data.draw(st.sampled_from(("part", "early", "lost", "whose"))):
        case "part":  # one contribution twice, another one not at all
            part = sums.part.copy()
            at = data.draw(st.integers(0, len(part) - 1))
            whole = int(np.searchsorted(sums.part_first, at, side="right")) - 1
            others = [p for p in range(sums.num_values) if p != part[at] and p < whole and sums.chunk[p] == sums.chunk[whole]]
            if not others:
                return
            part[at] = data.draw(st.sampled_from(others))
            changed = replace(of, sums=replace(sums, part=part))
            assert codes(changed) & {"counted-twice", "incomplete", "chunk-absent"}
        case "early":
            usable = {row: int(of.end_ns[row]) for row in range(of.num_sends)}
            ready = [value_time(of, usable, int(of.src[row]), int(of.value[row])) for row in range(of.num_sends)]
            late = [row for row in range(of.num_sends) if ready[row] > 0]
            if not late:
                return
            row = data.draw(st.sampled_from(late))
            rows = np.flatnonzero(of.message_of == of.message_of[row])
            by = int(of.start_ns[row]) - int(ready[row]) + 1
            start, end = of.start_ns.copy(), of.end_ns.copy()
            start[rows], end[rows] = start[rows] - by, end[rows] - by
            assert "chunk-absent" in codes(replace(of, start_ns=start, end_ns=end))
        case "lost":
            if of.message_first is not None:
                return
            kept = np.delete(np.arange(of.num_sends), data.draw(st.integers(0, of.num_sends - 1)))
            columns = {name: getattr(of, name)[kept] for name in ("chunk", "channel", "reduces", "start_ns", "end_ns", "value")}
            less = replace(of, **columns)
            assert sums_up(less) == (codes(less) == set())
        case _:
            npu = sums.npu.copy()
            leaf = data.draw(st.sampled_from(np.flatnonzero(npu >= 0).tolist()))
            npu[leaf] = (npu[leaf] + 1) % of.topology.num_npus
            assert codes(replace(of, sums=replace(sums, npu=npu)))


# ---- Traces that are changed


def with_entry(trace, name, at, value):
    lists = getattr(trace.chunks, name)
    entry = lists.entry.copy()
    entry[at] = value
    return replace(trace, chunks=replace(trace.chunks, **{name: replace(lists, entry=entry)}))


@examples(20)
@given(of=ANY, data=st.data())
def test_a_trace_with_other_chunks_or_places_is_not_proven(of, data):
    trace = schedule_trace(of, "x")
    name = "chunk_lists" if of.sums is None else "place_lists"
    lists = getattr(trace.chunks, name)
    if not len(lists.entry):
        return
    at = data.draw(st.integers(0, len(lists.entry) - 1))
    old, total = int(lists.entry[at]), of.collective.num_chunks
    limit = total if of.sums is None else int(lists.entry.max()) + 2
    value = data.draw(st.integers(-1, limit - 1).filter(lambda number: number != old))
    changed = with_entry(trace, name, at, value)
    verdict = verify_trace(changed, of.collective.name, None, of.collective.root)
    if not verdict.proven:
        return
    assert of.sums is not None
    of_entry = np.repeat(lists.node, np.diff(lists.first))
    node = int(of_entry[at])
    # What a rank has in two places may be taken from either one, and what nothing reads may be put anywhere.
    used = (trace.rank[of_entry] == trace.rank[node]) & (lists.entry == old)
    assert int(trace.kind[node]) != 6 or (np.count_nonzero(used) == 1 and old not in of.sums.total)


@examples(20)
@given(of=ANY, data=st.data())
def test_a_trace_without_a_list_or_with_another_size_is_not_proven(of, data):
    trace = schedule_trace(of, "x")
    name = "chunk_lists" if of.sums is None else "place_lists"
    lists = getattr(trace.chunks, name)
    if not len(lists.node):
        return
    gone = data.draw(st.integers(0, len(lists.node) - 1))
    node = np.delete(lists.node, gone)
    lengths = np.delete(np.diff(lists.first), gone)
    entry = np.delete(lists.entry, slice(int(lists.first[gone]), int(lists.first[gone + 1])))
    fewer = replace(lists, node=node, first=np.concatenate(([0], np.cumsum(lengths))), entry=entry)
    is_reduction = of.sums is None and int(trace.kind[lists.node[gone]]) == 4  # found as the one after its receive
    lacking = replace(trace, chunks=replace(trace.chunks, **{name: fewer}))
    assert verify_trace(lacking, of.collective.name, None, of.collective.root).proven <= is_reduction
    size = trace.size_bytes.copy()
    of_message = np.flatnonzero(trace.tag == trace.tag[trace.tag >= 0][0])
    size[of_message] += 2 * of.collective.num_chunks + shortest_message(4096.0)  # the fastest link, as no network is given
    verdict = verify_trace(replace(trace, size_bytes=size), of.collective.name, None, of.collective.root)
    assert not verdict.proven or of.num_messages == 1


def test_one_shot_is_one_latency_and_one_addition():
    of = one_shot(topology("FullyConnected 4"), 1 << 10)
    assert verify(of) == () and len(of.additions) == 16
    assert of.collective_time_ns < 520
    verdict = verify_trace(schedule_trace(of, "x"))
    assert verdict.proven and verdict.collective == "all-reduce" and verdict.num_messages == 48
