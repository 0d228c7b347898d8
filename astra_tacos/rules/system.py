"""Checks S: settings of the system that stall or abort a run, or have no effect; and the native algorithms that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import listed
from astra_tacos.run.chunks import count_chunks, why_not_split
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.patterns import leaves_out, pattern_name, spans_all
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import IGNORED_KEYS, READ_KEYS
from astra_tacos.run.trace.node_bytes import load_rank
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.formats.values import describe
from astra_tacos.support.rows import Severity


def _where(facts: Facts) -> str:
    return str(facts.inputs.system_path)


@rule("S01", "no preferred-dataset-splits")
def splits_absent(facts: NodeFacts) -> Findings:
    """`preferred-dataset-splits` is absent, 0 or negative, and there are collectives.

    ASTRA-sim divides the size of every collective, also of custom ones, by this number. If it is absent or 0 the run ends in
    SIGFPE, exit status 136 (`system/Sys.cc`, `determine_chunk_size`); if it is negative the run aborts or stalls.

    Remedy: set it to 1.
    """
    why = why_not_split(facts.stated_system)
    if why and len(facts.collective_rows):
        yield Found(why, "set it to 1", facts.stated_system.source)


@rule("S02", "preferred-dataset-splits with custom collectives")
def splits_custom(facts: NodeFacts) -> Findings:
    """`preferred-dataset-splits` is not 1, and there are custom collectives.

    ASTRA-sim makes one stream of a custom collective but waits for one stream per split: no rank ever finishes. It reports
    nothing, and its exit status is 0 (`system/Sys.cc`, `generate_collective`).

    Remedy: set it to 1, and split native collectives in the traces instead.
    """
    splits = facts.system.preferred_dataset_splits
    prefixes = facts.custom_names if splits is not None and splits > 1 and facts.communicates else []
    if prefixes:
        message = f"preferred-dataset-splits is {splits}: the custom collectives ({', '.join(prefixes[:3])}) never finish"
        yield Found(message, "set it to 1", facts.system.source, waits=True)


@rule("S03", "no active chunks")
def no_active_chunks(facts: NodeFacts) -> Findings:
    """`active-chunks-per-dimension` is below 1, and there are collectives.

    No collective, native or custom, ever starts: all ranks stall (`system/Sys.cc`, `SchedulerUnit`, queue_threshold).

    Remedy: set it to 1 or more.
    """
    why = why_none_starts(facts.system.active_chunks_per_dimension)
    if why and len(facts.collective_rows):
        yield Found(why, "set it to 1", facts.system.source)


def why_none_starts(active_chunks: int) -> str | None:
    """Why no collective starts with so many active chunks; None where collectives start."""
    return f"active-chunks-per-dimension is {active_chunks}: no collective ever starts" if active_chunks < 1 else None


@rule("S08", "no scheduling-policy", Severity.WARNING)
def policy_absent(facts: Facts) -> Findings:
    """`scheduling-policy` is absent.

    ASTRA-sim uses uninitialised memory, which usually happens to mean LIFO (`system/Sys.hh`, scheduling_policy).

    Remedy: set it to LIFO, FIFO or EXPLICIT.
    """
    if "scheduling-policy" not in facts.stated_system.keys:
        yield Found("scheduling-policy is absent, and ASTRA-sim has no default", 'set it to "FIFO"', _where(facts))


@rule("S09", "key that has no effect", Severity.WARNING)
def ignored_keys(facts: Facts) -> Findings:
    """The file has a key that ASTRA-sim 2.0 does not read, although files for ASTRA-sim 1.0 and its own examples have it.

    boost-mode, intra-dimension-scheduling and inter-dimension-scheduling have no effect (`system/Sys.cc`, `initialize_sys`):
    scheduling is FIFO within a dimension, and ascending across dimensions.

    Remedy: remove these keys, so that nobody relies on them.
    """
    ignored = [key for key in IGNORED_KEYS if key in facts.system.keys]
    if ignored:
        yield Found(f"{' and '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect", "take it out", _where(facts))


@rule("S10", "unknown key", Severity.WARNING)
def unknown_keys(facts: Facts) -> Findings:
    """The file has a key that ASTRA-sim does not know, maybe a misspelt one.

    ASTRA-sim ignores unknown keys, so that a misspelt setting silently keeps its default (`system/Sys.cc`, `initialize_sys`).

    Remedy: correct the key or remove it.
    """
    for key in sorted(facts.system.keys - set(READ_KEYS) - set(IGNORED_KEYS)):
        near = get_close_matches(key, READ_KEYS, 1)
        yield Found(f"ASTRA-sim does not read {describe(key)}", f"{near[0]}?" if near else "take it out", _where(facts))


@rule("S11", "operations without the roofline", Severity.WARNING)
def roofline_off(facts: Facts) -> Findings:
    """Compute nodes state their operations but no duration, and the roofline is off.

    Each such node takes 1 ns: without `roofline-enabled` only `duration_micros` counts, and a duration of 0 means 1 ns
    (`workload/Workload.cc`, `issue_replay`).

    Remedy: set `"roofline-enabled": 1`, peak-perf and local-mem-bw.
    """
    view, system = facts.workload, facts.stated_system
    if system.roofline_enabled or system.replay_only:
        return
    rows = view.computes_on_gpu & (view.trace.duration_us == 0) & (view.columns.num_ops > 0)
    if rows.any():
        message = f"{rows.sum():,} compute nodes have num_ops and no duration: each takes 1 ns, as the roofline is off"
        yield Found(message, 'set "roofline-enabled" to 1', _where(facts))


@rule("S12", "roofline without rates")
def roofline_of_nothing(facts: NodeFacts) -> Findings:
    """The roofline is on, but peak-perf or local-mem-bw is absent or 0.

    Compute nodes then take an infinite time, which ASTRA-sim converts to a time in the past or far in the future: it aborts or
    stalls (`workload/Workload.cc`, `issue_comp`; `system/Roofline.cc`).

    Remedy: set peak-perf in TFLOP/s and local-mem-bw in decimal GB/s.
    """
    view, system = facts.workload, facts.system
    if not system.roofline_enabled or system.replay_only:
        return
    rows = view.computes_on_gpu
    rates = (("peak-perf", system.peak_perf_tflops), ("local-mem-bw", system.local_mem_bw_gbps))
    zero = [key for key, value in rates if value == 0]
    if zero and rows.any():
        message = f"roofline-enabled, but {' and '.join(zero)} {'is' if len(zero) == 1 else 'are'} 0 or absent"
        yield Found(message, "set both", system.source)


@rule("S13", "replay-only, so that nothing is sent", Severity.WARNING)
def replay_only(facts: Facts) -> Findings:
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
        message = f"replay-only: {rows.sum():,} communication nodes take their duration and send nothing"
        yield Found(message, "set it to 0", _where(facts))


@rule("S16", "memory tracking without tensors")
def memory_tracking(facts: Facts) -> Findings:
    """`track-local-mem` is on, and nodes lack the attributes `inputs` and `outputs`.

    ASTRA-sim throws when such a node ends, so that the rank stalls or the run aborts (`LocalMemUsageTracker.cc`, `recordReads`).

    Remedy: set `"track-local-mem": 0`, or write lists of tensor names and sizes at every node.
    """
    view = facts.workload
    if not facts.system.track_local_mem:
        return
    for rank in range(view.trace.num_ranks):
        nodes = view.trace.rank_first[rank + 1] - view.trace.rank_first[rank]
        if not nodes or rank in view.files.compressed:
            continue
        data = load_rank(view.trace, rank)
        # An attribute of a name begins with the tag of field 1, the length and the text.
        lacking = [name for name in ("inputs", "outputs") if data.count(bytes((1 << 3 | 2, len(name))) + name.encode()) < nodes]
        if lacking:
            message = f"track-local-mem is on, but not every node has {' and '.join(lacking)}: such a node stalls its rank"
            yield Found(message, "set track-local-mem to 0", view.files.file(rank), rank)


@rule("S17", "per-node id of no node", Severity.WARNING)
def unused_per_node(facts: Facts) -> Findings:
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


@rule("S18", "remote memory that cannot serve the nodes")
def memory_rates(facts: NodeFacts) -> Findings:
    """The remote memory cannot serve the nodes that use it.

    With NO_MEMORY_EXPANSION, or without a file, ASTRA-sim exits at the first load or store. With PER_NODE_MEMORY_EXPANSION it
    divides the rank by `num-npus-per-node` (SIGFPE if 0) and indexes `num-nodes` nodes without a bounds check (a crash if there
    are too few). With a bandwidth of 0, transfers take no time (`AnalyticalRemoteMemory.cc`).

    Remedy: set memory type, bandwidth and latency, and num-nodes x num-npus-per-node to the number of NPUs or more.
    """
    view, memory = facts.communicating, facts.remote_memory
    rows = np.flatnonzero(view.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE))
    if not len(rows):
        return
    if memory is None or memory.kind == "none":
        problem = "there is no remote memory (--remote-memory)" if memory is None else "memory-type is NO_MEMORY_EXPANSION"
        message = f"{problem}: the first of {len(rows):,} loads and stores ends ASTRA-sim"
        yield view.at(rows[0], message, "give a remote memory of another type")
        return
    if memory.kind == "per-node" and memory.num_nodes * memory.npus_per_node < facts.num_npus:
        problem = f"num-nodes is {memory.num_nodes} and num-npus-per-node {memory.npus_per_node}, for {facts.num_npus:,} NPUs"
        yield Found(f"{problem}: ASTRA-sim crashes", "make them cover all NPUs", memory.source)
    if memory.bytes_per_ns == 0:
        message = "remote-mem-bw is 0 or absent: transfers take no time"
        yield Found(message, "set it", memory.source, severity=Severity.WARNING)


def _native(facts: NodeFacts) -> Iterator[tuple[int, str, tuple[str, ...], Ints]]:
    """For each pattern that some node runs natively: the pattern, its key, its algorithms, and the rows of its nodes."""
    native, rows = facts.stated_system.native, facts.native_rows
    pattern_of = facts.communicating.columns.comm_type[rows]
    for pattern, key in PATTERN_KEYS.items():
        nodes = rows[pattern_of == pattern]
        if len(nodes):
            yield pattern, key, native.get(key, ()), nodes


@rule("S04", "no implementation of a pattern")
def no_implementation(facts: NodeFacts) -> Findings:
    """A pattern is used for which the system names neither a native nor a custom implementation.

    ASTRA-sim throws `No collective implementation found`. At time 0 it aborts; later it only logs the exception, and the rank
    stalls (`CollectiveImplLookup.cc`; `system/Sys.cc`, `call_events`).

    Remedy: name an algorithm per dimension, for example `"all-reduce-implementation": ["ring"]` for one dimension.
    """
    for pattern, key, _, nodes in _native(facts):
        if key not in facts.system.native:
            message = f"no implementation of {pattern_name(pattern)}, which {len(nodes):,} nodes run"
            yield facts.workload.at(nodes[0], message, f'add "{key}-implementation" to {facts.system.source}')


@rule("S05", "more algorithms than dimensions")
def too_many_algorithms(facts: NodeFacts) -> Findings:
    """A list of native algorithms has more entries than the network has dimensions.

    ASTRA-sim aborts with a failed assertion, whether or not the pattern is used (`GeneralComplexTopology.cc`).

    Remedy: write one entry per dimension.
    """
    count = len(facts.dimensions)
    for key, names in facts.system.native.items():
        if len(names) > count > 0:
            yield Found(more_entries(key, names, count), "one entry per dimension", facts.system.source)


def more_entries(key: str, names: Sequence[str], count: int) -> str:
    """Says that a list of native algorithms has more entries than so many dimensions."""
    return f"{key}-implementation has {len(names)} entries, the network {count} dimension{'s' * (count > 1)}"


@rule("S06", "fewer algorithms than dimensions")
def too_few_algorithms(facts: NodeFacts) -> Findings:
    """A list of native algorithms has fewer entries than the network has dimensions.

    The collective then runs in the first dimensions only: NPUs that differ in the remaining dimensions never exchange data, and
    the collective ends too early (`GeneralComplexTopology.cc`). The algorithms oneRing, oneDirect and oneHalvingDoubling span all
    dimensions with one entry.

    Remedy: write one entry per dimension.
    """
    count = len(facts.dimensions)
    for pattern, key, names, nodes in _native(facts):
        if leaves_out(names, count) and facts.spans_network(facts.workload.group[nodes]).any():
            message = f"{key}-implementation has {len(names)} of {count} dimensions: {pattern_name(pattern)}"
            yield Found(f"{message} leaves out the other dimensions", "write one entry per dimension", facts.system.source)


@rule("S07", "no collective-optimization")
def optimization_absent(facts: Facts) -> Findings:
    """`collective-optimization` is absent, and a native All-Reduce runs in several dimensions.

    ASTRA-sim then decides by uninitialised memory whether to reduce and gather dimension by dimension (`system/Sys.hh`,
    collectiveOptimization). Such runs were observed to stall silently.

    Remedy: set it to "localBWAware" or "baseline".
    """
    several = len(facts.network.dimensions) > 1 and facts.stated_system.collective_optimization is None
    for pattern, _, names, _ in _native(facts):
        if several and pattern == CommType.ALL_REDUCE and len(names) > 1:
            message = "collective-optimization is absent: All-Reduces in several dimensions run by chance, or stall"
            yield Found(message, 'set it to "localBWAware" or "baseline"', _where(facts))


@rule("S14", "native algorithm that does not fit")
def unfit_algorithm(facts: Facts) -> Findings:
    """A native algorithm does not run on this number of ranks, or not for this pattern.

    halvingDoubling halves the number of ranks at each step: if that is not a power of two it stalls or leaves ranks out, and for
    All-to-All it crashes. doubleBinaryTree crashes if the size of a dimension is not a power of two, and in every communicator
    group smaller than the network; it runs an All-Reduce for every pattern (`HalvingDoubling.cc`, `DoubleBinaryTreeTopology.cc`,
    `CommunicatorGroup.cc`).

    Remedy: use ring or direct.
    """
    for pattern, key, names, nodes in _native(facts):
        group_of = facts.workload.group[nodes]
        if all(name.rstrip("0123456789") in ("ring", "oneRing", "direct", "oneDirect") for name in names):
            continue
        for group in np.unique(group_of).tolist():
            size = facts.group_size(group)
            sizes = [dimension.size for dimension in facts.network.dimensions]
            spans_network = size == facts.num_npus
            if not spans_network:
                if len(names) != 1:
                    continue
                sizes = [size]
            for name, count in zip(names, sizes, strict=False):
                misfit = _misfit(name, pattern, size if spans_all(name) else count, spans_network)
                if misfit:
                    row = nodes[group_of == group][0]
                    place = "" if group == ALL_RANKS else f" of group {group}"
                    yield facts.workload.at(row, f"{pattern_name(pattern)}{place}: {misfit}", f"use ring or direct in {key}")
                    break


def _misfit(name: str, pattern: int, count: int, spans_network: bool) -> str | None:
    power_of_two = count & (count - 1) == 0
    if name in ("halvingDoubling", "oneHalvingDoubling"):
        if pattern == CommType.ALL_TO_ALL:
            return f"{name} crashes for this pattern"
        return None if power_of_two else f"{name} on {count} ranks, not a power of two: stalls or leaves out ranks"
    if name == "doubleBinaryTree":
        if not spans_network:
            return "doubleBinaryTree crashes in a group smaller than the network"
        if not power_of_two:
            return f"doubleBinaryTree on {count} ranks, not a power of two: crashes"
        if pattern != CommType.ALL_REDUCE:
            return "doubleBinaryTree runs an All-Reduce instead"
    return None


@rule("S15", "ring in place of the named algorithms", Severity.WARNING)
def ring_instead(facts: Facts) -> Findings:
    """A communicator group smaller than the network runs ring, although the system names other algorithms.

    Dimensions have no meaning in a part of the network. ASTRA-sim therefore replaces a list of several algorithms by one ring
    over the group's ranks (`CommunicatorGroup.cc`, `get_collective_plan`).

    Remedy: none if a ring is acceptable; else use a custom collective.
    """
    for pattern, _, names, nodes in _native(facts):
        if len(names) < 2 or all(name in ("ring", "oneRing") for name in names):
            continue
        groups = np.unique(facts.workload.group[nodes]).tolist()
        small = [group for group in groups if facts.group_size(group) < facts.num_npus]
        if small:
            message = f"{pattern_name(pattern)} runs as a ring in group {listed(small)}, not as {', '.join(names)}"
            yield Found(message, "accept this, or use a custom collective", _where(facts))


@rule("S19", "chunks that may wait for one another", Severity.WARNING, left_to_timing=True)
def chunks_in_a_cycle(facts: Facts) -> Findings:
    """Chunks of an All-Reduce in several dimensions may wait for one another.

    Under localBWAware a chunk passes every dimension but the last twice, for its Reduce-Scatter and for its All-Gather. A
    dimension admits `active-chunks-per-dimension` chunks at a time (`system/Sys.cc`, `generate_collective`, `SchedulerUnit`).
    NPUs whose ranks start at different times admit chunks in different orders. Each may then occupy a dimension with a chunk that
    another NPU holds up in the next dimension: all ranks stall. In three or more dimensions the analytical backends do so at any
    latencies: on 2 x 2 x 2 NPUs two chunks suffice, and one rank that computes for 50 us longer. In two dimensions they were not
    observed to stall, but the ns-3 backend was, on a torus whose wrap-around links have other latencies
    (https://github.com/astra-sim/astra-sim/issues/370). `astra-tacos replay` stalls in the same runs as the analytical backends.

    Remedy: set active-chunks-per-dimension to the number of chunks (preferred-dataset-splits, or one more) or higher, or set
    collective-optimization to baseline.
    """
    network, system = facts.network, facts.system
    if system.collective_optimization != "localBWAware":
        return
    latencies = {dimension.latency_ns for dimension in network.dimensions}
    latencies |= {link.latency_ns for link in network.link_overrides if link.latency_ns is not None}
    num_dimensions, active = len(network.dimensions), system.active_chunks_per_dimension
    for pattern, key, names, nodes in _native(facts):
        num_rings = names[:num_dimensions].count("ring")
        is_unequal = num_rings == 2 and len(latencies) > 1
        if pattern != CommType.ALL_REDUCE or not (is_unequal or num_dimensions > 2):
            continue
        sizes = facts.workload.trace.size_bytes[nodes][facts.spans_network(facts.workload.group[nodes])]
        chunks = count_chunks(key, sizes, facts.num_npus, system).max(initial=0)
        if 0 < active < chunks:
            where = f"{num_dimensions} dimensions" if num_dimensions > 2 else "2 rings of unequal latency"
            collective_text = f"{pattern_name(pattern)} over {where} in {chunks} chunks, {active} at a time"
            yield Found(
                f"{collective_text}: they may wait for one another", f"set active-chunks-per-dimension to {chunks}", _where(facts)
            )
