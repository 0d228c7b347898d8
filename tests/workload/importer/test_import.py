"""Traces of PyTorch become runs that end: measured durations, order on streams, sizes, groups, messages."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from fractions import Fraction
from pathlib import Path

import pytest
from helpers.damage import refusal
from helpers.plans import attributes
from helpers.pytorch_traces import Kineto, host_trace, training_step
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.system import default_system
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import AstraTacosError, ConfigError, OutputError
from astra_tacos.workload.importer.documents import read_documents
from astra_tacos.workload.importer.import_run import ImportOptions, import_run
from astra_tacos.workload.importer.rank_nodes import find_ranks, rank_nodes
from astra_tacos.workload.importer.summary import summarise_files
from astra_tacos.workload.repairer.draft import Log
from astra_tacos.workload.repairer.reading import RepairInputs


def write(folder, **documents):
    paths = []
    for name, content in documents.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(content))
    return paths


def write_steps(folder):
    return write(folder, **{f"rank{rank}": training_step(rank).document() for rank in range(2)})


def nodes_of(folder, rank=0):
    """Nodes by their names' first words; of several of a name the last one."""
    return {node.name.split("(")[0]: node for node in read_messages(folder / f"workload/w.{rank}.et")[1]}


def test_kernels_keep_their_durations_and_order(tmp_path):
    files = write_steps(tmp_path)
    result = import_run(files, tmp_path / "out")
    nodes = nodes_of(tmp_path / "out")
    gemms = [nodes[f"gemm_{number}"] for number in (1, 2, 3, 4)]
    assert [node.duration_micros for node in gemms] == [10, 20, 5, 3]
    assert all(node.type == NodeType.COMP and not attributes(node)["is_cpu_op"] for node in gemms)
    reduce = nodes["allreduce"]
    assert reduce.type == NodeType.COMM_COLL and reduce.duration_micros == 8
    assert attributes(reduce) == {"is_cpu_op": False, "comm_type": CommType.ALL_REDUCE, "comm_size": 4096, "pg_name": "0"}
    first, second, third, _ = (node.id for node in gemms)
    assert first in reduce.data_deps, "a communication waits for the computation before it"
    assert first in nodes["gemm_2"].data_deps and reduce.id not in nodes["gemm_2"].data_deps, "they overlap"
    assert {second, reduce.id} <= set(nodes["gemm_3"].data_deps), "an event makes computation wait for communication"
    host = nodes["host"]
    assert host.id in nodes["gemm_4"].data_deps and third in host.data_deps, "the host waits where it synchronises"
    # From the first launch on: 10 + 20 + 5 us of kernels, the host's 5 us from the end of its wait to the last launch, 3 us.
    assert result.outcome.finish_ns.tolist() == [43_000] * 2
    assert result.compute_us[0] == result.compute_us[1] == 2 * (38 + 2 + 2 + 3 + 1 + 5)


@pytest.mark.parametrize("old", [False, True])
def test_a_host_trace_gives_sizes_that_kinetos_lacks(old, tmp_path):
    documents = {}
    for rank in range(2):
        step = Kineto(rank)
        step.operation("gemm", 1, 2, 10)
        step.annotation("nccl:all_to_all", 3, 4)
        step.operation("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 5, 12, 7, stream=20)
        documents[f"kineto_{rank}"] = step.document()
        documents[f"host_{rank}"] = host_trace([("all_to_allv", 512)], old=old, address=1000 + rank)
    import_run(write(tmp_path, **documents), tmp_path / "out")
    node = nodes_of(tmp_path / "out")["nccl:all_to_all"]
    assert attributes(node) == {"is_cpu_op": False, "comm_type": CommType.ALL_TO_ALL, "comm_size": 2048, "pg_name": "0"}
    assert node.duration_micros == 7


def test_messages_pair_by_groups_and_order(tmp_path):
    """Ranks of messages count within the group: 1 of the group (0, 2) is rank 2."""
    documents = {}
    for rank in range(3):
        step = Kineto(rank, 3)
        step.operation("gemm", 1, 2, 10)
        for number in range(2):
            args = {"In msg nelems": 256, "dtype": "Float", "Process Group Name": "5", "Process Group Ranks": "[0, 2]"}
            at = 20 + 10 * number
            if rank == 0:
                step.operation(
                    "ncclDevKernel_SendRecv(x)", at, at + 1, 3, 20, **args, **{"Collective name": "send", "Dst Rank": 1}
                )
            if rank == 2:
                step.operation(
                    "ncclDevKernel_SendRecv(x)", at, at + 1, 3, 20, **args, **{"Collective name": "recv", "Src Rank": 0}
                )
        documents[f"step_{rank}"] = step.document()
    import_run(write(tmp_path, **documents), tmp_path / "out")
    sends = [attributes(node) for node in read_messages(tmp_path / "out/workload/w.0.et")[1] if node.type == NodeType.COMM_SEND]
    receives = [
        attributes(node) for node in read_messages(tmp_path / "out/workload/w.2.et")[1] if node.type == NodeType.COMM_RECV
    ]
    assert [(node["comm_dst"], node["comm_size"], node["comm_tag"]) for node in sends] == [(2, 1024, 0), (2, 1024, 1)]
    assert [(node["comm_src"], node["comm_size"], node["comm_tag"]) for node in receives] == [(0, 1024, 0), (0, 1024, 1)]


def test_a_kernel_that_communicates_unknown_things_stays_compute(tmp_path):
    documents = {}
    for rank in range(2):
        step = Kineto(rank)
        step.operation("ncclDevKernel_SendRecv(x)", 1, 2, 9, 20)
        documents[f"step_{rank}"] = step.document()
    result = import_run(write(tmp_path, **documents), tmp_path / "out")
    assert [change.reason for change in result.changes] == ["it communicates, and nothing says what"] * 2
    assert result.outcome.end_ns == 9_000


def test_archives_and_compression_make_no_difference(tmp_path):
    documents = {f"rank{rank}.json": json.dumps(training_step(rank).document()).encode() for rank in range(2)}
    archive = tmp_path / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for number, (name, data) in enumerate(documents.items()):
            packed, stored = (gzip.compress(data), f"{name}.gz") if number else (data, name)
            member = tarfile.TarInfo(f"folder/{stored}")
            member.size = len(packed)
            tar.addfile(member, io.BytesIO(packed))
        tar.addfile(tarfile.TarInfo("folder/readme.txt"), io.BytesIO(b""))
    plain = [tmp_path / name for name in documents]
    for path, data in zip(plain, documents.values(), strict=True):
        path.write_bytes(data)
    import_run([archive], tmp_path / "packed")
    import_run(plain, tmp_path / "plain")
    for rank in range(2):
        file = f"workload/w.{rank}.et"
        assert (tmp_path / "packed" / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ({"a": {"x": 1}}, "neither nodes with a schema nor traceEvents"),
        ({"rank0": training_step(0).document(), "rank2": training_step(2).document()}, "there is none of rank 1"),
        ({"a": training_step(0).document(), "b": training_step(0).document()}, "a second trace of rank 0"),
        ({"a": Kineto().document()}, "no events of GPUs"),
        ({"a": host_trace([("wait", 4)])}, "found no GPU computation and no communication"),
        ({"a": {"schema": "1", "nodes": [3]}}, "nodes[0] has no id and name"),
        (
            {"rank0": training_step(0).document(), "rank1": Kineto(1, 8, training_step(1).events).document()},
            "traces of 2 of 8 ranks",
        ),
    ],
)
def test_what_is_no_set_of_traces_is_refused(documents, says, tmp_path):
    assert says in refusal(import_run, write(tmp_path, **documents), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_network_of_another_size_is_refused(tmp_path):
    network = tmp_path / "network.yml"
    network.write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n")
    files = write_steps(tmp_path)
    with pytest.raises(ConfigError, match="found 4 NPUs, but the traces are of 2 ranks"):
        import_run(files, tmp_path / "out", RepairInputs(Path("w"), network=network))


def test_errors_name_the_files_that_are_imported(tmp_path):
    documents = [training_step(rank) for rank in range(2)]
    for step in documents:
        step.world_size = 4
    files = write(tmp_path, **{f"rank{rank}": step.document() for rank, step in enumerate(documents)})
    with pytest.raises(ConfigError, match=f"^{files[0]} to {files[1]}: traces of 2 of 4 ranks"):
        import_run(files, tmp_path / "out")
    with pytest.raises(ConfigError, match=f"--ranks: found 3, but {files[0]} to {files[1]} are traces of 2"):
        import_run(files, tmp_path / "out", options=ImportOptions(num_ranks=3))
    files = write_steps(tmp_path)
    system = tmp_path / "system.json"
    system.write_text(json.dumps({**default_system(1), "all-reduce-implementation-custom": ["none"]}))
    with pytest.raises(ConfigError, match="none"):
        import_run(files, tmp_path / "out", RepairInputs(Path("w"), system))
    system.write_text(json.dumps({**default_system(1), "peak-perf": 0, "roofline-enabled": 1}))
    with pytest.raises(AstraTacosError, match=f"^{files[0]} and 1 more: cannot be repaired"):
        import_run(files, tmp_path / "out", RepairInputs(Path("w"), system), ImportOptions(without=("roofline", "system")))


def test_what_is_imported_is_not_replaced(tmp_path):
    files = write_steps(tmp_path)
    import_run(files, tmp_path / "out")
    (inside,) = write(tmp_path / "out/workload", rank0=training_step(0).document())
    with pytest.raises(OutputError, match=f"{inside.name} is inside"):
        import_run([inside], tmp_path / "out")


def test_damaged_archives_are_refused_in_one_line(tmp_path):
    whole = tmp_path / "whole.tar"
    with tarfile.open(whole, "w") as tar:
        member = tarfile.TarInfo("rank0.json")
        member.size = 4000
        tar.addfile(member, io.BytesIO(b"{" * 4000))
    (tmp_path / "cut.tar").write_bytes(whole.read_bytes()[:2000])
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    for name in ("whole.tar", "cut.tar", "text.json", "cut.json.gz", "none.json"):
        with pytest.raises(ConfigError) as caught:
            import_run([tmp_path / name], tmp_path / "out")
        assert "\n" not in str(caught.value) and name in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("SYMTYPE", "a link"),
        ("FIFOTYPE", "a pipe"),
    ],
)
def test_what_is_no_file_in_an_archive_is_named(tmp_path, kind, said):
    archive = tmp_path / "all.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("kineto_rank1.json")
        member.type, member.linkname = getattr(tarfile, kind), "kineto_rank0.json"
        tar.addfile(member)
    with pytest.raises(ConfigError, match=f"^{archive}: kineto_rank1.json is {said}, expected files and folders: "):
        read_documents([archive])


@given(
    st.lists(st.tuples(st.sampled_from((7, 24)), st.booleans(), st.integers(1, 9000)), min_size=1, max_size=60),
    st.sampled_from((0.0, 5.3e12, 1.694128201e15)),
)
def test_compute_time_is_the_sum_of_kernels(tmp_path_factory, kernels, begin):
    """To half a us of each stream, whenever the trace began: a float of Unix time has quarters of us."""
    folder = tmp_path_factory.mktemp("traces")
    step, at = Kineto(1, 2), begin
    for stream, communicates, thousandths in kernels:
        name = "ncclKernel_AllReduce_RING_LL_Sum_float(x)" if communicates else "gemm"
        step.operation(name, at, at + 1, thousandths / 1000, stream)
        at += 12
    source = find_ranks(read_documents(write(folder, trace=step.document())))[0]
    nodes = [node for node in rank_nodes(0, source, Log("import")) if node.kind == NodeType.COMP and not node.on_cpu]
    exact = sum(Fraction(thousandths, 1000) for _, communicates, thousandths in kernels if not communicates)
    assert len(nodes) == sum(not communicates for _, communicates, _ in kernels)
    assert abs(sum(node.duration_us for node in nodes) - exact) <= Fraction(1001, 1000)


def test_a_single_trace_has_the_rank_of_the_job(tmp_path):
    step = Kineto(1, 2)
    step.operation("gemm", 1, 2, 10)
    paths = write(tmp_path, rank7=step.document())
    result = import_run(paths, tmp_path / "out")
    assert result.notes[0] == f"rank 1 of the job, rank 0 of the run: {paths[0]}"
    assert summarise_files(paths)["critical_path"]["rank"] == 1
