"""Checks F: files that are missing, damaged or not where ASTRA-sim looks for them."""

from __future__ import annotations

from collections.abc import Iterator

from astra_tacos.linter.check import Check
from astra_tacos.linter.facts import Facts
from astra_tacos.linter.finding import Found, Severity
from astra_tacos.linter.trace_files import TraceFiles
from astra_tacos.linter.trace_view import listed
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.trace.schema import NodeType


def _problems(facts: Facts, kind: str, remedy: str) -> Iterator[Found]:
    for problem in facts.inputs.problems.get(kind, ()):
        yield Found(problem.message, remedy, problem.file)


def network_file(facts: Facts) -> Iterator[Found]:
    """The network YAML cannot be read, so nothing that depends on the network was checked.

    ASTRA-sim exits where it cannot open the file, and aborts in its YAML parser for scalars instead of lists, for words such as
    `tbd` and for lists of different lengths (`common/network-parser/NetworkParser.cpp`).

    Remedy: `topology`, `npus_count`, `bandwidth` and `latency` are lists of one entry per dimension.
    """
    yield from _problems(facts, "network", "give four lists of one entry per dimension")


def system_file(facts: Facts) -> Iterator[Found]:
    """The system JSON cannot be read, so nothing that depends on it was checked.

    ASTRA-sim aborts at a value of a wrong type (`nlohmann::json`, type_error) and exits at an unknown name. Some mistakes pass
    silently there and are refused here: of a key that is given twice the last one counts, and `"roofline-enabled": false` turns
    the roofline on, as ASTRA-sim asks whether the value differs from the number 0 (`system/Sys.cc`, `initialize_sys`).

    Remedy: the message names the key and what it takes.
    """
    yield from _problems(facts, "system", "correct the value")


def group_file(facts: Facts) -> Iterator[Found]:
    """The communicator group JSON cannot be read.

    ASTRA-sim aborts when it parses it; a missing file is a parse error too, at the end of input (`workload/Workload.cc`,
    `initialize_comm_groups`).

    Remedy: one object, `{"1": [0, 1], "2": [2, 3]}`.
    """
    yield from _problems(facts, "groups", 'write {"<id>": [ranks], ...}')


def memory_file(facts: Facts) -> Iterator[Found]:
    """The remote memory JSON cannot be read.

    ASTRA-sim exits where it cannot open the file or does not know the memory type, and reads memory that was never set where
    `memory-type` is absent (`AnalyticalRemoteMemory.cc`).

    Remedy: `{"memory-type": "NO_MEMORY_EXPANSION"}` where no node loads or stores.
    """
    yield from _problems(facts, "remote_memory", "correct the value")


def per_node_file(facts: Facts) -> Iterator[Found]:
    """The YAML of per-node collectives cannot be read.

    ASTRA-sim opens the path in `per-node-custom-implementation` from the directory it is started in, not from the system JSON's,
    and aborts where there is no such file, or a key is no number (`CollectiveImplLookup.cc`, `parse_per_node_yaml_file`).

    Remedy: start ASTRA-sim where the path leads to the file (`--directory` tells lint so), or write an absolute path.
    """
    yield from _problems(facts, "per_node", "give a path from the directory ASTRA-sim is started in (--directory)")


def rank_file_missing(facts: Facts) -> Iterator[Found]:
    """There are fewer workload files than NPUs.

    ASTRA-sim opens `PREFIX.<rank>.et` for every NPU of the network and exits at the first one that is not there
    (`workload/Workload.cc`).

    Remedy: a file per NPU, or a network of as many NPUs as there are files.
    """
    files = facts.inputs.workload
    missing = sorted(set(range(facts.num_npus)) - set(files.ranks))
    if not files.ranks:
        yield Found("no such file, nor one of any other rank", "check the prefix: files are PREFIX.<rank>.et", files.file(0))
    elif missing:
        count = f"there are files of {len(files.ranks):,} ranks for {facts.num_npus:,} NPUs"
        message = f"no such file; {count}, none of rank {listed(missing)}"
        yield Found(message, "write a file per NPU, or make the network fit", files.file(missing[0]), missing[0])


def rank_file_surplus(facts: Facts) -> Iterator[Found]:
    """There are more workload files than NPUs.

    ASTRA-sim never opens the files of ranks beyond the network (`workload/Workload.cc`). Where other ranks wait for them the run
    stalls; else it only is not the run that was meant.

    Remedy: a network of as many NPUs as there are files.
    """
    files = facts.inputs.workload
    beyond = [rank for rank in files.ranks if rank >= facts.num_npus]
    if beyond:
        message = f"the network has {facts.num_npus:,} NPUs: files of rank {listed(beyond)} are never read"
        yield Found(message, "make the network fit the workload", files.file(beyond[0]), beyond[0])


def trace_unreadable(facts: Facts) -> Iterator[Found]:
    """A trace is damaged, empty, no Chakra trace, has no nodes, or two of its nodes have one id.

    ASTRA-sim takes whatever it can parse: a truncated last node counts as it is and the run goes on as if nothing had happened,
    of two nodes of one id the last one counts with the dependencies of both, and a file without nodes ends in `No dependancy free
    nodes found` (Chakra `feeder_v3/protobuf_util.h`, `et_feeder.cpp`). Nothing else about the file was checked.

    Remedy: write the file again.
    """
    for files in (facts.inputs.workload, *facts.custom_files):
        for rank, message in files.unreadable.items():
            yield Found(message, "write the file again", files.file(rank), rank)


def trace_compressed(facts: Facts) -> Iterator[Found]:
    """A trace is compressed by gzip.

    ASTRA-sim reads the compressed bytes as nodes: it prints `finished, 0 cycles` for a rank or aborts, by chance.

    Remedy: gunzip the file. (It was unpacked here for the other checks.)
    """
    for files in (facts.inputs.workload, *facts.custom_files):
        for rank in files.compressed:
            yield Found("compressed by gzip, which ASTRA-sim cannot read", "gunzip it", files.file(rank), rank)


def custom_path(facts: Facts) -> Iterator[Found]:
    """There is no trace where ASTRA-sim looks for a custom collective.

    It opens the prefixes in the system JSON and in the per-node YAML from the directory it is started in, whichever file names
    them, and exits with `Cannot access et file for collective algorithm` when a rank first runs such a collective
    (`CustomAlgorithm.cc`).

    Remedy: start ASTRA-sim where the path leads to the trace (`--directory` tells lint so), or write an absolute path.
    """
    for files in facts.custom_files:
        if not files.ranks:
            yield Found(f"no such file{_elsewhere(facts, files)}", "give a path from there, or an absolute one", files.file(0))


def _elsewhere(facts: Facts, files: TraceFiles) -> str:
    inputs = facts.inputs
    what = f" in {inputs.directory.resolve()}, where ASTRA-sim is started (--directory)"
    beside = inputs.system_path.parent
    if beside.resolve() != inputs.directory.resolve() and (beside / files.file(0)).is_file():
        what += f"; there is one in {beside}, where the system file is"
    return what


def groups_ignored(facts: Facts) -> Iterator[Found]:
    """The path of the communicator groups holds the word "empty".

    ASTRA-sim takes any path that holds it for "no groups", whatever the file holds (`workload/Workload.cc`,
    `initialize_comm_groups`). Nodes that name a group then end the run with `communicator group not found`.

    It is a warning where no node names a group.

    Remedy: rename the file or directory.
    """
    if facts.inputs.groups_ignored:
        view, path = facts.workload, str(facts.inputs.groups_path)
        used = view is None or bool((view.rows(NodeType.COMM_COLL) & (group_ids(view.columns) != ALL_RANKS)).any())
        severity = Severity.ERROR if used else Severity.WARNING
        message = 'its path holds "empty": ASTRA-sim reads no groups at all'
        yield Found(message, "rename the file or directory", path, severity=severity)


CHECKS = (
    Check("F01", Severity.ERROR, "network file unusable", network_file),
    Check("F02", Severity.ERROR, "system file unusable", system_file),
    Check("F03", Severity.ERROR, "communicator group file unusable", group_file),
    Check("F04", Severity.ERROR, "remote memory file unusable", memory_file),
    Check("F05", Severity.ERROR, "per-node collective file unusable", per_node_file),
    Check("F06", Severity.ERROR, "no workload file for an NPU", rank_file_missing),
    Check("F07", Severity.WARNING, "workload files beyond the network", rank_file_surplus),
    Check("F08", Severity.ERROR, "damaged trace", trace_unreadable),
    Check("F09", Severity.ERROR, "compressed trace", trace_compressed),
    Check("F10", Severity.ERROR, "custom collective not found", custom_path),
    Check("F11", Severity.ERROR, 'group file with "empty" in its path', groups_ignored),
)
