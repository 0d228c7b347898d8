"""Runs side by side on one network: each ends as it does alone, unless they share links; groups, peers and roots stay apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import attributes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.import_run import ImportOptions, import_run
from astra_tacos.workload.lint import lint
from astra_tacos.workload.repairer.reading import RepairInputs

RANKS = 4
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("compute"), st.integers(1, 20)),
        st.tuples(st.sampled_from(("all", "pairs")), st.integers(1, 64)),
        st.tuples(st.just("next"), st.integers(1, 64)),
    ),
    min_size=1,
    max_size=6,
)


def trace(rank, steps):
    """The nodes of a rank that takes some steps in turn: computation, collectives of all or of pairs, messages to the next."""
    nodes, last = [], ()
    for number, (kind, value) in enumerate(steps):
        first = 10 * number
        if kind == "compute":
            nodes.append(comp(first, last, us=value))
        elif kind == "next":
            nodes.append(send(first + 1, (rank + 1) % RANKS, last, size=value << 10, tag=number))
            nodes.append(recv(first, (rank - 1) % RANKS, last, size=value << 10, tag=number))
        else:
            nodes.append(coll(first, last, size=value << 12, group=None if kind == "all" else 1 + rank // 2))
        last = (first,)
    return nodes


def job(folder, steps, **changes):
    """A run of four ranks on a ring of its own."""
    files = {"topology": ("Ring",), "groups": {"1": [0, 1], "2": [2, 3]}} | changes
    RunFiles([trace(rank, steps) for rank in range(RANKS)], **files).write(folder)
    return folder


def network(folder, topology, *sizes):
    path = folder / "joint.yml"
    values = {"topology": topology, "npus_count": sizes, "bandwidth": [50.0] * len(sizes), "latency": [500.0] * len(sizes)}
    path.write_text("".join(f"{key}: {json.dumps(list(value))}\n" for key, value in values.items()))
    return path


def finish(folder, backend):
    return replay_run(read_run(RunInputs.in_folder(folder, "w")), backend).finish_ns.tolist()


@given(st.lists(STEPS, min_size=2, max_size=3))
@pytest.mark.parametrize("backend", ["congestion-unaware", "congestion-aware"])
def test_jobs_without_shared_links_end_as_they_do_alone(tmp_path_factory, backend, jobs):
    """A ring for each job, and switches that no job uses between the rings."""
    folder = tmp_path_factory.mktemp("jobs")
    folders = [job(folder / f"job{number}", steps) for number, steps in enumerate(jobs)]
    joint = RepairInputs(network=network(folder, ("Ring", "Switch"), RANKS, len(jobs)))
    import_run(folders, folder / "out", joint)
    alone = [time for own in folders for time in finish(own, backend)]
    assert finish(folder / "out", backend) == alone
    assert not lint(RunInputs.in_folder(folder / "out", "w")).errors


@given(st.integers(1, 1 << 22), st.integers(0, 20), st.sampled_from((1 << 10, 1 << 16, 1 << 22)))
def test_jobs_that_share_links_end_later_or_at_the_same_time(tmp_path_factory, size, us, other):
    """On a ring of seven, the first job's message from rank 4 to rank 0 passes ranks 5 and 6, which are the second job."""
    folder = tmp_path_factory.mktemp("shared")
    ends = [[comp(0)] for _ in range(5)]
    ends[4] += [comp(1, (0,), us=us), send(2, 0, (1,), size=size)]
    ends[0] += [recv(1, 4, (0,), size=size)]
    RunFiles(ends, topology=("Ring",)).write(folder / "first")
    for name, bytes_ in (("quiet", 0), ("loud", other)):
        message = [[send(1, 1, (0,), size=bytes_)], [recv(1, 0, (0,), size=bytes_)]] if bytes_ else [[], []]
        RunFiles([[comp(0), *nodes] for nodes in message], topology=("Ring",)).write(folder / name)
    joint = RepairInputs(network=network(folder, ("Ring",), 7))
    finished = {}
    for name in ("quiet", "loud"):
        import_run([folder / "first", folder / name], folder / f"with_{name}", joint)
        finished[name] = finish(folder / f"with_{name}", "congestion-aware")
    assert all(late >= soon for late, soon in zip(finished["loud"], finished["quiet"], strict=True))
    if us == 0 and other == 1 << 22:  # the second job holds the link from rank 5 to rank 6 before the first one's message comes
        assert finished["loud"][0] > finished["quiet"][0]


def test_groups_peers_and_roots_are_those_of_the_network(tmp_path):
    """Groups get new numbers; a collective of all ranks becomes one of a group; a node keeps what names no rank."""
    steps = [("all", 1), ("pairs", 1), ("next", 1)]
    first = job(tmp_path / "first", steps)
    second = job(tmp_path / "second", steps)
    rooted = [[*trace(rank, steps), coll(90, (20,), CommType.BROADCAST, root=1, note=1)] for rank in range(RANKS)]
    RunFiles(rooted, topology=("Ring",), groups={"1": [0, 1], "2": [2, 3]}, system={}).write(tmp_path / "second")
    result = import_run([first, second], tmp_path / "out", RepairInputs(network=network(tmp_path, ("Ring", "Switch"), 4, 2)))
    groups = json.loads((tmp_path / "out/comm_group.json").read_text())
    members = {name: tuple(ranks) for name, ranks in groups.items()}
    assert set(members.values()) == {(0, 1), (2, 3), (0, 1, 2, 3), (4, 5), (6, 7), (4, 5, 6, 7)}
    for rank in range(8):
        base = rank - rank % 4
        old = {
            node.id: attributes(node)
            for node in read_messages(tmp_path / f"{'second' if base else 'first'}/workload/w.{rank - base}.et")[1]
        }
        for node in read_messages(tmp_path / f"out/workload/w.{rank}.et")[1]:
            after, before = attributes(node), old[node.id]
            if node.type == NodeType.COMM_COLL:
                own = {"1": (base, base + 1), "2": (base + 2, base + 3)}.get(before.get("pg_name"), tuple(range(base, base + 4)))
                assert members[after.pop("pg_name")] == own
                before.pop("pg_name", None)
                if "root" in before:
                    assert after["root"] == before["root"] + base
                    continue  # ASTRA-sim runs no Broadcast: it becomes another collective
            for end in {"comm_src", "comm_dst"} & before.keys():
                before[end] += base
            assert after == before
    assert result.notes == (
        f"ranks 0 to 3: {first}, all of them group 3",
        f"ranks 4 to 7: {second}, all of them group 6",
    )


def refused(tmp_path, *runs, options=None, **files):
    with pytest.raises(ConfigError) as found:
        import_run(runs, tmp_path / "out", RepairInputs(**files), options or ImportOptions())
    assert "\n" not in str(found.value) and not (tmp_path / "out").exists()
    return str(found.value)


def test_what_is_refused(tmp_path):
    steps = [("pairs", 1)]
    first, second = (job(tmp_path / name, steps) for name in ("first", "second"))
    eight = network(tmp_path, ("Ring", "Switch"), 4, 2)
    assert "one run, expected two or more" in refused(tmp_path, first, network=eight)
    assert "not a directory, expected only run directories" in refused(tmp_path, first, eight, network=eight)
    assert "expected no --ranks" in refused(tmp_path, first, second, network=eight, options=ImportOptions(num_ranks=8))
    seven = network(tmp_path, ("Ring",), 7)
    assert "found 7 NPUs, but the 2 runs have 8 ranks" in refused(tmp_path, first, second, network=seven)
    other = job(tmp_path / "other", steps, system={"scheduling-policy": "LIFO", "endpoint-delay": 5})
    eight = network(tmp_path, ("Ring", "Switch"), 4, 2)
    message = refused(tmp_path, first, other, network=eight)
    assert (
        message
        == f"{other}: endpoint-delay, scheduling-policy differ from {first}, expected the same, or --system FILE for all runs"
    )
    import_run([first, other], tmp_path / "given", RepairInputs(network=eight, system=first / "system.json"))
    assert json.loads(Path(tmp_path / "given/system.json").read_text())["scheduling-policy"] == "FIFO"
    lacking = job(tmp_path / "lacking", steps, groups={"1": [0, 1]})
    assert "w.2.et node 0: group '2' is not in comm_group.json" in refused(tmp_path, first, lacking, network=eight)
    partly = RunFiles([[coll(0, involved_dim=[True, False])] for _ in range(4)], topology=("Ring", "Ring"), npus=(2, 2))
    partly.write(tmp_path / "partly")
    assert "involved_dim leaves out dimensions" in refused(tmp_path, first, tmp_path / "partly", network=eight)
    custom = {"all-reduce-implementation-custom": ["collectives/c"]}
    traces = {"collectives/c": "4 * comp 0"}
    RunFiles("4 * coll 0", system=custom, collectives=traces).write(tmp_path / "planned")
    assert "custom collective 'collectives/c', expected the run before" in refused(
        tmp_path, first, tmp_path / "planned", network=eight
    )
