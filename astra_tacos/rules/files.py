"""Checks F: files that are missing, damaged or not where ASTRA-sim looks for them."""

from __future__ import annotations

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import listed
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.run import why_not_found
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.rows import Severity


@rule("F01", "network file unusable")
def network_file(facts: Facts) -> Findings:
    """The network YAML cannot be read, so nothing that depends on the network was checked.

    ASTRA-sim exits if it cannot open the file, and aborts in its YAML parser at scalars instead of lists, at words such as `tbd`
    and at lists of different lengths (`common/network-parser/NetworkParser.cpp`).

    Remedy: write `topology`, `npus_count`, `bandwidth` and `latency` as lists of one entry per dimension.
    """
    yield from facts.problems("network", "write four lists with one entry per dimension")


@rule("F02", "system file unusable")
def system_file(facts: Facts) -> Findings:
    """The system JSON cannot be read, so nothing that depends on it was checked.

    ASTRA-sim aborts at a value of a wrong type (`nlohmann::json`, type_error) and exits at an unknown name. lint refuses two
    mistakes that ASTRA-sim accepts silently: of a key that is given twice it uses the last one, and `"roofline-enabled": false`
    turns the roofline on, as it tests whether the value differs from the number 0 (`system/Sys.cc`, `initialize_sys`).

    Remedy: correct the key; the message names it and the expected value.
    """
    yield from facts.problems("system", "correct the value")


@rule("F03", "communicator group file unusable")
def group_file(facts: Facts) -> Findings:
    """The communicator group JSON cannot be read.

    ASTRA-sim aborts when it parses the file; a missing file is a parse error, too, at the end of input (`workload/Workload.cc`,
    `initialize_comm_groups`).

    Remedy: write one object, such as `{"1": [0, 1], "2": [2, 3]}`.
    """
    yield from facts.problems("groups", 'write {"<id>": [ranks], ...}')


@rule("F04", "remote memory file unusable")
def memory_file(facts: Facts) -> Findings:
    """The remote memory JSON cannot be read.

    ASTRA-sim exits if it cannot open the file or does not know the memory type; without `memory-type` it reads uninitialised
    memory (`AnalyticalRemoteMemory.cc`).

    Remedy: write `{"memory-type": "NO_MEMORY_EXPANSION"}` if no node loads or stores.
    """
    yield from facts.problems("remote_memory", "correct the value")


@rule("F05", "per-node collective file unusable")
def per_node_file(facts: Facts) -> Findings:
    """The YAML of per-node collectives cannot be read.

    ASTRA-sim opens the path in `per-node-custom-implementation` from the directory it is started in, not from that of the system
    JSON. It aborts if there is no such file, or if a key is not a number (`CollectiveImplLookup.cc`, `parse_per_node_yaml_file`).

    Remedy: start ASTRA-sim in the directory that the path is relative to (lint's option `--directory`), or write an absolute
    path.
    """
    yield from facts.problems("per_node", "give a path from the directory ASTRA-sim is started in (--directory)")


@rule("F06", "no workload file for an NPU")
def rank_file_missing(facts: Facts) -> Findings:
    """There are fewer workload files than NPUs.

    ASTRA-sim opens `PREFIX.<rank>.et` for every NPU of the network and exits at the first missing file (`workload/Workload.cc`).

    Remedy: write a file per NPU, or use a network with one NPU per file.
    """
    files = facts.inputs.workload
    missing = sorted(set(range(facts.num_npus)) - set(files.ranks))
    if not files.ranks:
        yield Found("no such file, and no file of another rank", "check the prefix: files are PREFIX.<rank>.et", files.file(0))
    elif missing:
        count = f"there are files of {len(files.ranks):,} ranks for {facts.num_npus:,} NPUs"
        message = f"no such file; {count}, none of rank {listed(missing)}"
        yield Found(message, "write a file per NPU, or make the network fit", files.file(missing[0]), missing[0])


@rule("F07", "workload files beyond the network", Severity.WARNING)
def rank_file_surplus(facts: Facts) -> Findings:
    """There are more workload files than NPUs.

    ASTRA-sim never opens the files of ranks beyond the network (`workload/Workload.cc`). If other ranks wait for them the run
    stalls; otherwise it ends, but lacks these ranks.

    Remedy: use a network with one NPU per file.
    """
    files = facts.inputs.workload
    beyond = [rank for rank in files.ranks if rank >= facts.num_npus]
    if beyond:
        message = f"the network has {facts.num_npus:,} NPUs: files of rank {listed(beyond)} are never read"
        yield Found(message, "make the network fit the workload", files.file(beyond[0]), beyond[0])


@rule("F08", "damaged trace")
def trace_unreadable(facts: Facts) -> Findings:
    """A trace is damaged, empty, not a Chakra trace, has no nodes, or two of its nodes have the same id.

    ASTRA-sim runs whatever it can parse: it uses a truncated last node as it is and continues silently; of two nodes with one id
    it keeps the last one with the dependencies of both; it throws `No dependancy free nodes found` for a file without nodes
    (Chakra `feeder_v3/protobuf_util.h`, `et_feeder.cpp`). Nothing else about the file was checked.

    Remedy: write the file again.
    """
    for files in (facts.inputs.workload, *facts.custom_files):
        for rank, message in files.unreadable.items():
            yield Found(message, "write the file again", files.file(rank), rank)


@rule("F09", "compressed trace")
def trace_compressed(facts: Facts) -> Findings:
    """A trace is compressed by gzip.

    ASTRA-sim reads the compressed bytes as nodes: by chance, it aborts or prints `finished, 0 cycles` for the rank.

    Remedy: decompress the file with gunzip. (For the other checks, lint has read its decompressed contents.)
    """
    for files in (facts.inputs.workload, *facts.custom_files):
        for rank in files.compressed:
            yield Found("compressed by gzip, which ASTRA-sim cannot read", "gunzip it", files.file(rank), rank)


@rule("F10", "custom collective not found")
def custom_path(facts: Facts) -> Findings:
    """A custom collective has no trace at the path where ASTRA-sim looks for it.

    ASTRA-sim opens the prefixes in the system JSON and in the per-node YAML from the directory it is started in, not from those
    of these files. It exits with `Cannot access et file for collective algorithm` when a rank first runs such a collective
    (`CustomAlgorithm.cc`).

    Remedy: start ASTRA-sim in the directory that the path is relative to (lint's option `--directory`), or write an absolute
    path.
    """
    for files in facts.custom_files:
        if not files.ranks:
            problem = why_not_found(files.prefix, facts.inputs.directory, facts.inputs.system_path)
            yield Found(problem, "write a path relative to that directory, or an absolute path", files.file(0))


@rule("F11", 'group file with "empty" in its path')
def groups_ignored(facts: NodeFacts) -> Findings:
    """The path of the communicator groups contains the word "empty".

    ASTRA-sim reads no groups from a path that contains this word, whatever the file contains (`workload/Workload.cc`,
    `initialize_comm_groups`). Nodes that name a group then end the run with `communicator group not found`. The finding is a
    warning if no node names a group.

    Remedy: rename the file or directory.
    """
    if facts.groups.is_ignored:
        view, path = next(iter(facts.views), None), facts.groups.source
        used = view is None or bool((view.rows(NodeType.COMM_COLL) & (view.group != ALL_RANKS)).any() and facts.communicates)
        severity = Severity.ERROR if used else Severity.WARNING
        message = 'its path holds "empty": ASTRA-sim reads no groups at all'
        yield Found(message, "rename the file or directory", path, severity=severity)
