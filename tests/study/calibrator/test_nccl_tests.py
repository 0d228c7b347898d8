"""Files of nccl-tests and rccl-tests as people have them: read whatever stands around, refused where they are no measurement."""

from __future__ import annotations

import json
import math

import pytest
from helpers.command import answer, run
from helpers.examples import examples, refused
from helpers.peers import peers
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.study.calibrator.collective_times import Reading, read_collectives
from astra_tacos.study.calibrator.machine import read_measurements

REPORTS, WHY_NONE = peers("reports/*.log", "reports/*.json")
BY_NAME = {path.name: path for path in REPORTS}
HOLDS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}
"""How often each rank but one counts in the bus bandwidth, by tests; 1 for others."""


def bandwidths(test, ranks, size, time):
    algbw = size / time / 1e3
    return algbw, algbw * (HOLDS[test] * (ranks - 1) / ranks if test in HOLDS else 1)


def table(test, nodes, gpus, times, starting="# Collective test starting: {}_perf\n", wrong="0"):
    """A log: times by size, out of place and in place."""
    ranks = [
        f"#  Rank {rank:2} Group  0 Pid  7 on  host{rank // gpus} device {rank % gpus:2} [0x1d] GPU"
        for rank in range(nodes * gpus)
    ]
    both = "    time   algbw   busbw #wrong" * 2
    rows = []
    for size, pair in times.items():
        cells = [
            f"{time:8.2f} {algbw:7.2f} {busbw:7.2f} {wrong:>6}"
            for time in pair
            for algbw, busbw in [bandwidths(test, nodes * gpus, size, time)]
        ]
        rows.append(f"{size:12} {size // 4:12}     float     sum      -1 {' '.join(cells)}")
    head = [starting.format(test) + "# nThread 1 nGpus 1", "# Using devices", *ranks, "#", "#     out-of-place      in-place"]
    units = "#        (B)    (elements)        (us)  (GB/s)  (GB/s)     (us)  (GB/s)  (GB/s)"
    end = ["# Out of bounds values : 0 OK", f"# Collective test concluded: {test}_perf"]
    return "\n".join([*head, f"#  size  count  type  redop  root{both}", units, *rows, *end]).splitlines()


def read(folder, text, name="times.log", **reading):
    (folder / name).write_text(text)
    return read_collectives([folder / name], Reading(**reading))


def short(found):
    return [(row.collective, row.nodes, row.gpus, row.size_bytes, round(row.time_us, 2)) for row in found.rows]


PREFIXES = [
    "[1,0]<stdout>:", "3: ", "2025-03-04T05:06:07.890123Z ", "[2025-03-04 05:06:07] ", "05:06:07.123 ", "worker-0 | ", "> ",
    "Tue Mar  4 05:06:07 2025<stdout>:", "[pod/nccl-0/main] ", "\x1b[32m[INFO]\x1b[0m 4:", "(worker pid=123, ip=10.0.0.1) ",
]  # fmt: skip
NOISE = [
    "",
    "h:21:21 [0] NCCL INFO Channel 00/02 : 0 1",
    "```",
    "```text",
    "NCCL version 2.26.6+cuda12.8",
    "| a | b, c |",
    "0 1 via P2P",
    "[0]",
]
TIMES = {1 << 20: (100.25, 90.5), 1 << 24: (800.0, 801.0)}


@given(
    st.lists(st.sampled_from(PREFIXES), max_size=2),
    st.lists(st.sampled_from(NOISE), max_size=6),
    st.randoms(use_true_random=False),
    st.sampled_from([*HOLDS, "broadcast", "reduce", "sendrecv"]),
    st.sampled_from([(1, 2), (1, 8), (2, 4), (16, 8)]),
)
@examples(60)
def test_lines_around_and_before_change_nothing(tmp_path_factory, prefixes, noise, random, test, shape):
    """Tags, times of the day, lines of other programs, tests that no model has: the same times as of the bare log."""
    folder = tmp_path_factory.mktemp("log")
    bare = table(test, *shape, TIMES)
    lines = [*table("scatter", *shape, TIMES), *bare, *table("hypercube", *shape, TIMES)]
    for line in noise:
        lines.insert(random.randrange(len(lines) + 1), line)
    found = read(folder, "\n".join("".join(prefixes) + line for line in lines))
    assert short(found) == short(read(folder, "\n".join(bare))) and len(found.rows) == 4
    notes = "\n".join(found.notes)
    assert "times left out: 4 of scatter" in notes and "times left out: 4 of hypercube" in notes


@given(st.data(), st.sampled_from(list(HOLDS)), st.sampled_from([(1, 4), (2, 4), (3, 3)]))
@examples(30)
def test_a_log_that_lacks_a_rank_is_refused(tmp_path_factory, data, test, shape):
    """Also the last one, whose loss leaves no gap: busbw / algbw says how many ranks there were."""
    nodes, gpus = shape
    lines = table(test, nodes, gpus, {1 << 30: (9000.0, 9100.0)})
    lost = data.draw(st.integers(0, nodes * gpus - 1))
    lines = [line for line in lines if f"Rank {lost:2} " not in line]
    if nodes > 1 and data.draw(st.booleans()):
        lines = [line for line in lines if f"on  host{nodes - 1} " not in line]
    with refused("is not among the|expected as many on each|busbw / algbw is"):
        read(tmp_path_factory.mktemp("log"), "\n".join(lines))


@pytest.mark.parametrize("wrong", ["1", "512", "1.2e+06", "3*"])
def test_a_log_of_wrong_results_is_refused(tmp_path, wrong):
    with refused(r"times.log:\d+: .* results are wrong"):
        read(tmp_path, "\n".join(table("all_reduce", 1, 4, TIMES, wrong=wrong)))
    good = "\n".join(table("all_reduce", 1, 4, TIMES))
    with refused(r"38 sizes have wrong results \(out of bounds: FAILED\)"):
        read(tmp_path, good.replace("values : 0 OK", "values : 38 FAILED"))
    slow = good.replace("# Collective test concluded", "# Avg bus bandwidth    : 37.0601 FAILED\n# Collective test concluded")
    assert "bandwidth is too low" in read(tmp_path, slow).notes[0]
    (tmp_path / "t.csv").write_text(f"size,time,wrong\n1024,3,{wrong}\n")
    for name, text in (
        ("t.csv", f"size,time,wrong\n1024,3,{wrong}\n"),
        ("t.log", "\n".join(table("all_reduce", 1, 4, TIMES, wrong=wrong))),
    ):
        (tmp_path / name).write_text(text)
        with refused(r"results are wrong"):
            read_measurements(tmp_path / name)


def as_nccl(test, nodes, gpus, times):
    """What nccl-tests writes as JSON: a device is the first of its process."""

    def entry(size, time):
        algbw, busbw = bandwidths(test, nodes * gpus, size, time)
        return {"time": time, "alg_bw": round(algbw, 6), "bus_bw": round(busbw, 6), "nwrong": 0.0}

    devices = [{"rank": node * gpus, "group": 0, "pid": 1, "hostname": f"h{node}", "device": 0} for node in range(nodes)]
    return json.dumps(
        {
            "version": 3,
            "args": [f"./build/{test}_perf_mpi", "-b", "8"],
            "config": {"nthreads": 1, "ngpus": gpus, "devices": devices},
            "results": [
                {"size": size, "count": 1, "type": "float", "out_of_place": entry(size, a), "in_place": entry(size, b)}
                for size, (a, b) in times.items()
            ],
            "out_of_bounds": {"count": 0, "okay": "true"},
        },
        indent=2,
    )  # fmt: skip


NAMES = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "alltoall": "AlltoAll",
    "sendrecv": "SendRecv",
}


def as_rccl(test, nodes, gpus, times, wrong='"0"'):
    """The lines that rccl-tests writes."""
    lines = []
    for size, pair in times.items():
        for in_place, time in enumerate(pair):
            algbw, busbw = bandwidths(test, nodes * gpus, size, time)
            lines.append(
                f'{{"numCycle":0, "name":"{NAMES[test]}", "nodes":{nodes}, "ranks":{nodes * gpus}, "ranksPerNode":{gpus}, '
                f'"gpusPerRank":1, "size":{size}, "type":"float", "redop":"sum", "inPlace":{in_place}, "time":{time:f}, '
                f'"algBw":{algbw:f}, "busBw":{busbw:f}, "wrong":{wrong}}}'
            )
    return lines


@pytest.mark.parametrize("test", NAMES)
@pytest.mark.parametrize("shape", [(1, 4), (2, 8)])
def test_json_has_the_times_of_the_log(tmp_path, test, shape):
    expected = short(read(tmp_path, "\n".join(table(test, *shape, TIMES))))
    lines = as_rccl(test, *shape, TIMES)
    for text in (
        as_nccl(test, *shape, TIMES),
        "\n".join(lines),
        "[\n" + ",\n".join(lines) + "\n]\n",
        "RCCL version 2\n" + "\n".join(lines),
    ):
        found = read(tmp_path, text, "times.json")
        assert short(found) == expected
        assert [row.placement for row in found.rows] == [False, True] * 2
        assert len(read(tmp_path, text, "times.json", place=True).rows) == 2


WRONG_JSON = {
    "\n".join(as_rccl("all_reduce", 1, 4, TIMES, '"7"')): ":1: 7 results are wrong",
    "\n".join(as_rccl("all_reduce", 1, 4, TIMES)).replace('"ranks":4', '"ranks":3'): ":1: busbw / algbw is .* which fits 4 ranks",
    "\n".join(as_rccl("all_reduce", 1, 4, TIMES)).replace("100.250000", "nan"): ":1: not valid JSON|not valid JSON: line 1",
    "\n".join(as_rccl("all_reduce", 1, 4, TIMES)).replace('"ranks":4', '"ranks":4000000000'): "GPUs is|ranks is 4000000000",
    as_nccl("all_reduce", 2, 4, TIMES).replace('"rank": 4', '"rank": 5'): "rank 4 is not among",
    as_nccl("all_reduce", 2, 4, TIMES).replace('"okay": "true"', '"okay": "false"'): "have wrong results",
    as_nccl("all_reduce", 2, 4, TIMES).replace('"time"', '"cpu_time"'): "cpu_time",
    as_nccl("all_reduce", 2, 4, TIMES).replace('"results": [', '"results": [3, '): r"results\[0\] is 3, expected a mapping",
    '{"level": "info", "msg": "start"}\n{"level": "info", "msg": "end"}\n': "is JSON, a mapping of level, msg in line 1",
}


@pytest.mark.parametrize(("text", "message"), WRONG_JSON.items(), ids=range(len(WRONG_JSON)))
def test_json_that_is_no_measurement_is_refused(tmp_path, text, message):
    with refused(message):
        read(tmp_path, text, "times.json")


def test_what_the_file_does_not_say(tmp_path):
    """--collective and --place: the file's own word counts more, and a wrong one is refused by its bandwidths."""
    said, unsaid = (
        table("all_gather", 1, 4, TIMES, starting=starting) for starting in ("# Collective test starting: {}_perf\n", "")
    )
    assert short(read(tmp_path, "\n".join(unsaid), collective="all_gather")) == short(
        read(tmp_path, "\n".join(said), collective="reduce")
    )
    with refused("a time before a line that names the test, expected one: give --collective"):
        read(tmp_path, "\n".join(unsaid))
    with refused("another collective ran"):
        read(tmp_path, "\n".join(unsaid), collective="all_reduce")
    for place, at in ((False, 0), (True, 1)):
        found = read(tmp_path, "\n".join(said), place=place)
        assert [row.time_us for row in found.rows] == [
            pair[at] for pair in TIMES.values()
        ] and "times left out: 2, not" in found.notes[0]
    rows = "collective,size_bytes,time_us,nodes,gpus_per_node\nreduce,8,1,1,4\n"
    assert len(read(tmp_path, rows, "t.csv", place=False).rows) == 1
    assert short(read(tmp_path, "size_bytes,time_us,nodes,gpus_per_node\n8,1,1,4\n", "t.csv", collective="reduce")) == [
        ("reduce", 1, 4, 8, 1)
    ]
    with refused("has times out of place, expected some in place"):
        read(tmp_path, rows, "t.csv", place=True)


def test_a_column_of_the_cpu_and_columns_of_single_times(tmp_path):
    text = "\n".join(table("reduce", 1, 4, TIMES))
    with refused("column cputime"):
        read(tmp_path, text.replace(" time ", " cputime "))
    times = "\n".join(
        f"{line} 2025-01-02 03:04:05" if " sum " in line else line.replace("#wrong    time", "#wrong  time")
        for line in text.splitlines()
    )
    stamped = times.replace("busbw #wrong\n#        (B)", "busbw #wrong  timestamp\n#        (B)")
    assert short(read(tmp_path, stamped)) == short(read(tmp_path, text))


@pytest.mark.skipif(not REPORTS, reason=WHY_NONE)
def test_reports():
    """Public reports: what each is, by the command."""
    for name, message in (
        ("all_reduce_failed_check.log", "512 results are wrong"),
        ("all_reduce_missing_rank.log", "rank 0 is not among the 3 ranks"),
    ):
        done = run("calibrate", str(BY_NAME[name]))
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    efa = answer(f"calibrate '{BY_NAME['efa_tag_output_all_reduce.log']}'")
    assert (efa["nodes"], efa["gpus_per_node"], efa["times"]) == (2, 1, 14) and "lines of other programs left out: 2" in efa[
        "notes"
    ][1]
    mpi = read_collectives([BY_NAME["nccl_tests_perf_mpi.log"]], Reading())
    assert {(row.collective, row.nodes, row.gpus) for row in mpi.rows} == {("all_reduce", 1, 2)} and len(mpi.rows) == 8
    every = answer(f"calibrate '{BY_NAME['nccl_all_tests_one_log.log']}' --place out")
    assert every["times"] == 19 and "times left out: 38 of scatter" in every["notes"][0]
    path = [BY_NAME["nccl_tests_output.json"]]
    with refused("give --collective"):
        read_collectives(path, Reading())
    found = read_collectives(path, Reading(collective="all_gather", shape=(1, 8)))
    assert [(row.size_bytes, row.placement, math.floor(row.time_us)) for row in found.rows] == [
        (1 << 25, False, 1494),
        (1 << 25, True, 1459),
    ]
    with refused("which fits 8 ranks"):
        read_collectives(path, Reading(collective="all_gather", shape=(1, 4)))


def test_times_of_a_program_are_those_of_its_collective(tmp_path):
    """A log of several tests: the program of one collective takes the times of that test, and says what it left."""
    text = "\n".join([*table("all_gather", 1, 4, TIMES), *table("all_reduce", 1, 4, dict.fromkeys(TIMES, (7.0, 8.0)))])
    (tmp_path / "t.log").write_text(text)
    found = read_measurements(tmp_path / "t.log", "all_reduce")
    assert found.times_us == {False: dict.fromkeys(TIMES, 7.0), True: dict.fromkeys(TIMES, 8.0)}
    assert "times left out: 4 of all_gather, expected all_reduce" in found.notes[0]


def test_a_run_that_was_stopped_in_its_check(tmp_path):
    """Its last time, whose results were not checked to the end, is missing; so is one that was cut within its digits."""
    lines = table("all_reduce", 1, 4, TIMES)
    last = max(at for at, line in enumerate(lines) if " sum " in line)
    fields = lines[last].split()
    for cut in (" ".join(fields[:8]) + " host0: Test timeout", " ".join(fields[:5]) + " 80"):
        found = read(tmp_path, "\n".join([*lines[:last], cut]))
        assert [row.time_us for row in found.rows] == list(TIMES[1 << 20]) and "times missing: 1" in found.notes[0]
