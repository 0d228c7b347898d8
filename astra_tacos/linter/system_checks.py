"""Checks S: settings of the system that stall or abort a run, or have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import numpy as np

from astra_tacos.config.system import IGNORED_KEYS, READ_KEYS
from astra_tacos.config.yaml_text import describe
from astra_tacos.linter.check import Check
from astra_tacos.linter.facts import Facts
from astra_tacos.linter.finding import Found, Severity
from astra_tacos.linter.trace_view import listed
from astra_tacos.trace.schema import NodeType


def _where(facts: Facts) -> str:
    return str(facts.inputs.system_path)


def splits_absent(facts: Facts) -> Iterator[Found]:
    """`preferred-dataset-splits` is absent, 0 or negative, and there are collectives.

    ASTRA-sim divides the size of every collective by it, custom ones too: absent and 0 end in SIGFPE, exit status 136
    (`system/Sys.cc`, `determine_chunk_size`); a negative number aborts or stalls.

    Remedy: 1.
    """
    system, collectives = facts.inputs.system, facts.collectives
    if system is None or collectives is None or not len(collectives.row):
        return
    splits = system.preferred_dataset_splits
    if splits is None or splits < 1:
        found = "is absent" if splits is None else f"is {splits}"
        yield Found(f"preferred-dataset-splits {found}: the first collective ends ASTRA-sim", "set it to 1", _where(facts))


def splits_custom(facts: Facts) -> Iterator[Found]:
    """`preferred-dataset-splits` is not 1, and there are custom collectives.

    ASTRA-sim makes one stream of a custom collective but waits for as many as there are splits: no rank ever finishes, without a
    word and with exit status 0 (`system/Sys.cc`, `generate_collective`).

    Remedy: 1. Split native collectives in the traces instead.
    """
    splits = facts.system.preferred_dataset_splits
    if splits is not None and splits > 1 and facts.uses:
        prefixes = [facts.implementations[0][number] for number in facts.uses]
        message = f"preferred-dataset-splits is {splits}: the custom collectives ({', '.join(prefixes[:3])}) never finish"
        yield Found(message, "set it to 1", _where(facts))


def no_active_chunks(facts: Facts) -> Iterator[Found]:
    """`active-chunks-per-dimension` is below 1, and there are collectives.

    No collective, native or custom, ever starts: all ranks stall (`system/Sys.cc`, `SchedulerUnit`, queue_threshold).

    Remedy: 1 or more.
    """
    collectives = facts.collectives
    chunks = facts.system.active_chunks_per_dimension
    if chunks < 1 and collectives is not None and len(collectives.row):
        yield Found(f"active-chunks-per-dimension is {chunks}: no collective ever starts", "set it to 1", _where(facts))


def policy_absent(facts: Facts) -> Iterator[Found]:
    """`scheduling-policy` is absent.

    ASTRA-sim uses memory it never set, which happens to mean LIFO as a rule (`system/Sys.hh`, scheduling_policy).

    Remedy: name one: LIFO, FIFO or EXPLICIT.
    """
    if facts.inputs.system is not None and "scheduling-policy" not in facts.system.keys:
        yield Found("scheduling-policy is absent, and ASTRA-sim has no default", 'set it to "FIFO"', _where(facts))


def ignored_keys(facts: Facts) -> Iterator[Found]:
    """A key that ASTRA-sim 2.0 does not read, although files written for ASTRA-sim 1.0 and its own examples hold it.

    boost-mode, intra-dimension-scheduling and inter-dimension-scheduling have no effect (`system/Sys.cc`, `initialize_sys`):
    scheduling is FIFO within a dimension and ascending across them.

    Remedy: take them out, so that nobody relies on them.
    """
    found = [key for key in IGNORED_KEYS if key in facts.system.keys]
    if found:
        yield Found(f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} no effect", "take it out", _where(facts))


def unknown_keys(facts: Facts) -> Iterator[Found]:
    """A key that nobody reads, maybe a misspelt one.

    ASTRA-sim passes over unknown keys, so that a misspelt setting silently keeps its default (`system/Sys.cc`, `initialize_sys`).

    Remedy: correct it or take it out.
    """
    for key in sorted(facts.system.keys - set(READ_KEYS) - set(IGNORED_KEYS)):
        near = get_close_matches(key, READ_KEYS, 1)
        yield Found(f"nobody reads {describe(key)}", f"{near[0]}?" if near else "take it out", _where(facts))


def roofline_off(facts: Facts) -> Iterator[Found]:
    """Compute nodes say how much they compute but not how long, and the roofline is off.

    Each takes 1 ns then: without `roofline-enabled` only `duration_micros` counts, and 0 of them is 1 ns (`workload/Workload.cc`,
    `issue_replay`).

    Remedy: `"roofline-enabled": 1` with peak-perf and local-mem-bw.
    """
    view, system = facts.workload, facts.inputs.system
    if view is None or system is None or system.roofline_enabled or system.replay_only:
        return
    rows = view.rows(NodeType.COMP) & (view.trace.duration_us == 0) & (view.columns.num_ops > 0) & ~view.columns.is_cpu_op
    if rows.any():
        message = f"{int(rows.sum()):,} compute nodes have num_ops and no duration: each takes 1 ns, as the roofline is off"
        yield Found(message, 'set "roofline-enabled" to 1', _where(facts))


def roofline_of_nothing(facts: Facts) -> Iterator[Found]:
    """The roofline is on, but peak-perf or local-mem-bw is absent or 0.

    Compute nodes then take an infinite time, which ASTRA-sim turns into a time before the present or far away: it aborts or
    stalls (`workload/Workload.cc`, `issue_comp`; `system/Roofline.cc`).

    Remedy: peak-perf in TFLOP/s and local-mem-bw in (decimal) GB/s.
    """
    view, system = facts.workload, facts.system
    if view is None or not system.roofline_enabled or system.replay_only:
        return
    rows = view.rows(NodeType.COMP) & ~view.columns.is_cpu_op
    rates = (("peak-perf", system.peak_perf_tflops), ("local-mem-bw", system.local_mem_bw_gbps))
    zero = [key for key, value in rates if value == 0]
    if zero and rows.any():
        message = f"roofline-enabled, but {' and '.join(zero)} {'is' if len(zero) == 1 else 'are'} 0 or absent"
        yield Found(message, "set both", _where(facts))


def replay_only(facts: Facts) -> Iterator[Found]:
    """`replay-only` is on, and the workload communicates.

    Every node, communication too, then only takes its `duration_micros`, 1 ns for 0: nothing is sent, and no rank waits for
    another one (`workload/Workload.cc`, `issue`).

    Remedy: 0, unless that is what you want.
    """
    view = facts.workload
    if view is None or not facts.system.replay_only:
        return
    rows = view.rows(NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
    if rows.any():
        message = f"replay-only: {int(rows.sum()):,} communication nodes take their duration and send nothing"
        yield Found(message, "set it to 0", _where(facts))


def memory_tracking(facts: Facts) -> Iterator[Found]:
    """`track-local-mem` is on, and nodes lack the attributes `inputs` and `outputs`.

    ASTRA-sim throws when such a node ends, so that the rank stalls or everything aborts (`LocalMemUsageTracker.cc`,
    `recordReads`).

    Remedy: `"track-local-mem": 0`, or lists of tensor names and sizes at every node.
    """
    view = facts.workload
    if view is None or not facts.system.track_local_mem:
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
    """How an attribute of this name begins in a file: field 1, length, text."""
    return bytes((1 << 3 | 2, len(name))) + name.encode()


def unused_per_node(facts: Facts) -> Iterator[Found]:
    """The per-node YAML names ids that no collective node has.

    ASTRA-sim passes over them, and the nodes that were meant run what the system names for their pattern
    (`CollectiveImplLookup.cc`, `get_collective_impl`). Ids are those of the workload's files, the same on every rank.

    Remedy: correct the ids.
    """
    view = facts.workload
    if view is None or not facts.system.per_node:
        return
    ids = set(np.unique(view.trace.node_id[view.rows(NodeType.COMM_COLL)]).tolist())
    unused = sorted(node for node in facts.system.per_node if node not in ids)
    if unused:
        message = f"no rank has a collective node of id {listed(unused)}"
        yield Found(message, "correct the ids", facts.system.per_node_source)


def memory_rates(facts: Facts) -> Iterator[Found]:
    """The remote memory cannot serve the nodes that use it.

    With NO_MEMORY_EXPANSION, or no file, ASTRA-sim exits at the first load or store. PER_NODE_MEMORY_EXPANSION divides the rank
    by `num-npus-per-node` (0: SIGFPE) and indexes `num-nodes` nodes without looking (too few: a crash). A bandwidth of 0 makes
    transfers take no time (`AnalyticalRemoteMemory.cc`).

    Remedy: a memory type, bandwidth and latency; num-nodes x num-npus-per-node of all NPUs at least.
    """
    view, memory = facts.workload, facts.inputs.remote_memory
    if view is None or facts.system.replay_only or "remote_memory" in facts.inputs.problems:
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
