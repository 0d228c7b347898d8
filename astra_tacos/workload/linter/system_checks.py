"""Checks S: settings of the system that stall or abort a run, or have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import numpy as np

from astra_tacos.run.system import IGNORED_KEYS, READ_KEYS
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.text_files import describe
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.finding import Check, Found, Severity
from astra_tacos.workload.linter.trace_view import listed


def _where(facts: Facts) -> str:
    return str(facts.inputs.system_path)


def splits_absent(facts: Facts) -> Iterator[Found]:
    """`preferred-dataset-splits` is absent, 0 or negative, and there are collectives.

    ASTRA-sim divides the size of every collective, also of custom ones, by this number. If it is absent or 0 the run ends in
    SIGFPE, exit status 136 (`system/Sys.cc`, `determine_chunk_size`); if it is negative the run aborts or stalls.

    Remedy: set it to 1.
    """
    system, collectives = facts.inputs.system, facts.collectives
    if system is None or not len(collectives.row):
        return
    splits = system.preferred_dataset_splits
    if splits is None or splits < 1:
        found = "is absent" if splits is None else f"is {splits}"
        yield Found(f"preferred-dataset-splits {found}: the first collective ends ASTRA-sim", "set it to 1", _where(facts))


def splits_custom(facts: Facts) -> Iterator[Found]:
    """`preferred-dataset-splits` is not 1, and there are custom collectives.

    ASTRA-sim makes one stream of a custom collective but waits for one stream per split: no rank ever finishes. It reports
    nothing, and its exit status is 0 (`system/Sys.cc`, `generate_collective`).

    Remedy: set it to 1, and split native collectives in the traces instead.
    """
    splits = facts.system.preferred_dataset_splits
    if splits is not None and splits > 1 and facts.uses:
        prefixes = [facts.implementations[0][number] for number in facts.uses]
        message = f"preferred-dataset-splits is {splits}: the custom collectives ({', '.join(prefixes[:3])}) never finish"
        yield Found(message, "set it to 1", _where(facts))


def no_active_chunks(facts: Facts) -> Iterator[Found]:
    """`active-chunks-per-dimension` is below 1, and there are collectives.

    No collective, native or custom, ever starts: all ranks stall (`system/Sys.cc`, `SchedulerUnit`, queue_threshold).

    Remedy: set it to 1 or more.
    """
    collectives = facts.collectives
    chunks = facts.system.active_chunks_per_dimension
    if chunks < 1 and len(collectives.row):
        yield Found(f"active-chunks-per-dimension is {chunks}: no collective ever starts", "set it to 1", _where(facts))


def policy_absent(facts: Facts) -> Iterator[Found]:
    """`scheduling-policy` is absent.

    ASTRA-sim uses uninitialised memory, which usually happens to mean LIFO (`system/Sys.hh`, scheduling_policy).

    Remedy: set it to LIFO, FIFO or EXPLICIT.
    """
    if facts.inputs.system is not None and "scheduling-policy" not in facts.system.keys:
        yield Found("scheduling-policy is absent, and ASTRA-sim has no default", 'set it to "FIFO"', _where(facts))


def ignored_keys(facts: Facts) -> Iterator[Found]:
    """The file has a key that ASTRA-sim 2.0 does not read, although files for ASTRA-sim 1.0 and its own examples have it.

    boost-mode, intra-dimension-scheduling and inter-dimension-scheduling have no effect (`system/Sys.cc`, `initialize_sys`):
    scheduling is FIFO within a dimension, and ascending across dimensions.

    Remedy: remove these keys, so that nobody relies on them.
    """
    found = [key for key in IGNORED_KEYS if key in facts.system.keys]
    if found:
        yield Found(f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} no effect", "take it out", _where(facts))


def unknown_keys(facts: Facts) -> Iterator[Found]:
    """The file has a key that ASTRA-sim does not know, maybe a misspelt one.

    ASTRA-sim ignores unknown keys, so that a misspelt setting silently keeps its default (`system/Sys.cc`, `initialize_sys`).

    Remedy: correct the key or remove it.
    """
    for key in sorted(facts.system.keys - set(READ_KEYS) - set(IGNORED_KEYS)):
        near = get_close_matches(key, READ_KEYS, 1)
        yield Found(f"nobody reads {describe(key)}", f"{near[0]}?" if near else "take it out", _where(facts))


def roofline_off(facts: Facts) -> Iterator[Found]:
    """Compute nodes state their operations but no duration, and the roofline is off.

    Each such node takes 1 ns: without `roofline-enabled` only `duration_micros` counts, and a duration of 0 means 1 ns
    (`workload/Workload.cc`, `issue_replay`).

    Remedy: set `"roofline-enabled": 1`, peak-perf and local-mem-bw.
    """
    view, system = facts.workload, facts.inputs.system
    if system is None or system.roofline_enabled or system.replay_only:
        return
    rows = view.rows(NodeType.COMP) & (view.trace.duration_us == 0) & (view.columns.num_ops > 0) & ~view.columns.is_cpu_op
    if rows.any():
        message = f"{int(rows.sum()):,} compute nodes have num_ops and no duration: each takes 1 ns, as the roofline is off"
        yield Found(message, 'set "roofline-enabled" to 1', _where(facts))


def roofline_of_nothing(facts: Facts) -> Iterator[Found]:
    """The roofline is on, but peak-perf or local-mem-bw is absent or 0.

    Compute nodes then take an infinite time, which ASTRA-sim converts to a time in the past or far in the future: it aborts or
    stalls (`workload/Workload.cc`, `issue_comp`; `system/Roofline.cc`).

    Remedy: set peak-perf in TFLOP/s and local-mem-bw in decimal GB/s.
    """
    view, system = facts.workload, facts.system
    if not system.roofline_enabled or system.replay_only:
        return
    rows = view.rows(NodeType.COMP) & ~view.columns.is_cpu_op
    rates = (("peak-perf", system.peak_perf_tflops), ("local-mem-bw", system.local_mem_bw_gbps))
    zero = [key for key, value in rates if value == 0]
    if zero and rows.any():
        message = f"roofline-enabled, but {' and '.join(zero)} {'is' if len(zero) == 1 else 'are'} 0 or absent"
        yield Found(message, "set both", _where(facts))


def replay_only(facts: Facts) -> Iterator[Found]:
    """`replay-only` is on, and the workload communicates.

    Every node, also of communication, then only takes its `duration_micros`, and 1 ns if that is 0. Nothing is sent, and no rank
    waits for another one (`workload/Workload.cc`, `issue`).

    Remedy: set it to 0, unless this is intended.
    """
    view = facts.workload
    if not facts.system.replay_only:
        return
    rows = view.rows(NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
    if rows.any():
        message = f"replay-only: {int(rows.sum()):,} communication nodes take their duration and send nothing"
        yield Found(message, "set it to 0", _where(facts))


def memory_tracking(facts: Facts) -> Iterator[Found]:
    """`track-local-mem` is on, and nodes lack the attributes `inputs` and `outputs`.

    ASTRA-sim throws when such a node ends, so that the rank stalls or the run aborts (`LocalMemUsageTracker.cc`, `recordReads`).

    Remedy: set `"track-local-mem": 0`, or write lists of tensor names and sizes at every node.
    """
    view = facts.workload
    if not facts.system.track_local_mem:
        return
    for rank in range(view.trace.num_ranks):
        nodes = int(view.trace.rank_first[rank + 1] - view.trace.rank_first[rank])
        if not nodes or rank in view.files.compressed:
            continue
        data = view.files.path.with_name(f"{view.files.path.name}.{rank}.et").read_bytes()
        lacking = [name for name in ("inputs", "outputs") if data.count(_attribute_name(name)) < nodes]
        if lacking:
            message = f"track-local-mem is on, but not every node has {' and '.join(lacking)}: such a node stalls its rank"
            yield Found(message, "set track-local-mem to 0", view.files.file(rank), rank)


def _attribute_name(name: str) -> bytes:
    """The bytes with which an attribute of this name begins in a file: tag of field 1, length, text."""
    return bytes((1 << 3 | 2, len(name))) + name.encode()


def unused_per_node(facts: Facts) -> Iterator[Found]:
    """The per-node YAML names ids that no collective node has.

    ASTRA-sim ignores these ids. The nodes that were meant run the implementation that the system names for their pattern
    (`CollectiveImplLookup.cc`, `get_collective_impl`). An id in the YAML applies to the nodes of this id on every rank.

    Remedy: correct the ids.
    """
    view = facts.workload
    if not facts.system.per_node:
        return
    ids = set(np.unique(view.trace.node_id[view.rows(NodeType.COMM_COLL)]).tolist())
    unused = sorted(node for node in facts.system.per_node if node not in ids)
    if unused:
        message = f"no rank has a collective node of id {listed(unused)}"
        yield Found(message, "correct the ids", facts.system.per_node_source)


def memory_rates(facts: Facts) -> Iterator[Found]:
    """The remote memory cannot serve the nodes that use it.

    With NO_MEMORY_EXPANSION, or without a file, ASTRA-sim exits at the first load or store. With PER_NODE_MEMORY_EXPANSION it
    divides the rank by `num-npus-per-node` (SIGFPE if 0) and indexes `num-nodes` nodes without a bounds check (a crash if there
    are too few). With a bandwidth of 0, transfers take no time (`AnalyticalRemoteMemory.cc`).

    Remedy: set memory type, bandwidth and latency, and num-nodes x num-npus-per-node to the number of NPUs or more.
    """
    view, memory = facts.workload, facts.inputs.remote_memory
    if facts.system.replay_only or "remote_memory" in facts.inputs.problems:
        return
    rows = np.flatnonzero(view.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE))
    if not len(rows):
        return
    if memory is None or memory.kind == "none":
        what = "there is no remote memory (--remote-memory)" if memory is None else "memory-type is NO_MEMORY_EXPANSION"
        message = f"{what}: the first of {len(rows):,} loads and stores ends ASTRA-sim"
        yield view.at(int(rows[0]), message, "give a remote memory of another type")
        return
    if memory.kind == "per-node" and memory.num_nodes * memory.npus_per_node < facts.num_npus:
        what = f"num-nodes is {memory.num_nodes} and num-npus-per-node {memory.npus_per_node}, for {facts.num_npus:,} NPUs"
        yield Found(f"{what}: ASTRA-sim crashes", "make them cover all NPUs", memory.source)
    if memory.bytes_per_ns == 0:
        message = "remote-mem-bw is 0 or absent: transfers take no time"
        yield Found(message, "set it", memory.source, severity=Severity.WARNING)


CHECKS = (
    Check("S01", Severity.ERROR, "no preferred-dataset-splits", splits_absent),
    Check("S02", Severity.ERROR, "preferred-dataset-splits with custom collectives", splits_custom),
    Check("S03", Severity.ERROR, "no active chunks", no_active_chunks),
    Check("S08", Severity.WARNING, "no scheduling-policy", policy_absent),
    Check("S09", Severity.WARNING, "key without effect", ignored_keys),
    Check("S10", Severity.WARNING, "unknown key", unknown_keys),
    Check("S11", Severity.WARNING, "operations, but no roofline", roofline_off),
    Check("S12", Severity.ERROR, "roofline without rates", roofline_of_nothing),
    Check("S13", Severity.WARNING, "replay-only", replay_only),
    Check("S16", Severity.ERROR, "memory tracking without tensors", memory_tracking),
    Check("S17", Severity.WARNING, "per-node id of no node", unused_per_node),
    Check("S18", Severity.ERROR, "remote memory that does not serve", memory_rates),
)
