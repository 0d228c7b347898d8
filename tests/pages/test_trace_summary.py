"""What `inspect` says of traces, beside a count node by node."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.lint_runs import RunFiles, coll, comp, send
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import CommType, NodeType, read_trace
from astra_tacos.cli.inspect import inspect
from astra_tacos.pages._path_kernels import NO_CHAIN, longest_chains
from astra_tacos.pages.trace_summary import collective_rows, summarise_trace

AG = CommType.ALL_GATHER


def test_collectives_by_pattern_group_and_size(tmp_path):
    ranks = [
        [comp(0, us=5), coll(1, size=64, group=7), coll(2, size=64, pg_name="07"), coll(3, comm_type=AG, size=8, pg_name="0")],
        [comp(0, us=4), comp(9, us=2, is_cpu_op=True), coll(1, size=64, group=7), coll(5, comm_type=AG, size=8), send(6, 0)],
    ]
    ranks[0].append(coll(4, pg_name="dp"))
    ranks[0][-1].duration_micros = 3
    RunFiles(ranks).write(tmp_path)
    result = summarise_trace(read_trace(tmp_path / "workload" / "w", workload=True))
    entries = [tuple(entry.values()) for entry in result["collectives"]]
    assert entries == [
        ("ALL_REDUCE", "dp", 4096, 1, 1, {"least": 1, "most": 1}, 3),
        ("ALL_REDUCE", "7", 64, 2, 3, {"least": 1, "most": 2}, 0),
        ("ALL_GATHER", "all ranks", 8, 2, 2, {"least": 1, "most": 1}, 0),
    ]
    assert result["compute"] == {"nodes": 2, "total_us": 9, "most_us_of_a_rank": 5}
    assert result["cpu_compute"] == {"nodes": 1, "total_us": 2, "most_us_of_a_rank": 2}
    _, rows = collective_rows(result["collectives"], 20)
    assert rows[1] == ("ALL_REDUCE", "7", "64 B", "2", "3", "1 to 2", "0")
    shown = CliRunner().invoke(inspect, [str(tmp_path / "workload" / "w")])
    assert shown.exit_code == 0
    assert "ALL_GATHER all ranks 8 B 2 2 1 0" in " ".join(shown.output.split())


@pytest.mark.golden_cases("e2e_*", "multidim_native_*")
def test_counts_are_those_of_the_nodes(golden, golden_case):
    prefix = golden / golden_case / "workload" / "w"
    trace = read_trace(prefix, workload=True)
    counts: Counter[tuple[int, str, int]] = Counter()
    ranks: dict[tuple[int, str, int], set[int]] = defaultdict(set)
    for row in range(trace.num_nodes):
        if trace.kind[row] == NodeType.COMM_COLL:
            name = trace.workload.group_names[trace.workload.group[row]] if trace.workload.group[row] >= 0 else ""
            case = (
                int(trace.workload.comm_type[row]),
                name if name not in ("", "0") else "all ranks",
                int(trace.size_bytes[row]),
            )
            counts[case] += 1
            ranks[case].add(int(trace.rank[row]))
    done = CliRunner().invoke(inspect, [str(prefix), "--json"])
    found = json.loads(done.output)["collectives"]
    keys = [(CommType[entry["pattern"]].value, entry["group"], entry["size_bytes"]) for entry in found]
    assert dict(zip(keys, (entry["nodes"] for entry in found), strict=True)) == counts
    assert dict(zip(keys, (entry["ranks"] for entry in found), strict=True)) == {case: len(of) for case, of in ranks.items()}
    computes = trace.duration_us[(trace.kind == NodeType.COMP) & ~trace.workload.is_cpu_op]
    assert json.loads(done.output).get("compute", {"total_us": 0})["total_us"] == computes.sum()


@given(
    st.integers(1, 12).flatmap(
        lambda count: st.tuples(
            st.lists(st.lists(st.integers(-1, count - 1), max_size=3), min_size=count, max_size=count),
            st.lists(st.integers(0, 9), min_size=count, max_size=count),
        )
    )
)
def test_longest_chains_are_those_of_a_relaxation(graph):
    deps, duration = graph
    first = np.cumsum([0, *map(len, deps)]).astype(np.int64)
    entries = np.array([dep for own in deps for dep in own], np.int64)
    count = len(deps)
    chain = list(duration)
    for _ in range(count):
        chain = [duration[node] + max([chain[dep] for dep in deps[node] if dep >= 0], default=0) for node in range(count)]
    reaches = {node: {node} for node in range(count)}
    for _ in range(count):
        for node in range(count):
            reaches[node] |= {other for dep in deps[node] if dep >= 0 for other in reaches[dep]}
    circular = {node for node in range(count) if any(dep >= 0 and node in reaches[dep] for dep in deps[node])}
    expected = [NO_CHAIN if reaches[node] & circular else chain[node] for node in range(count)]
    assert longest_chains(first, entries, np.array(duration, np.int64)).tolist() == expected
