"""Checks N: networks that the backend refuses or models differently, and times that ASTRA-sim does not represent."""

from __future__ import annotations

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.backend import BACKENDS, EXACT_NS
from astra_tacos.run.groups import sorted_position
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import bytes_per_ns


@rule("N01", "ring of two NPUs")
def ring_of_two(facts: Facts) -> Findings:
    """A Ring has two NPUs, which the backend refuses.

    The congestion-aware backend connects each NPU with the next one in both directions. For two NPUs this makes the same link
    twice, and ASTRA-sim aborts: `Assertion 'connected' failed` (`congestion_aware/network/Device.cpp`, `connect`). The
    congestion-unaware backend accepts such a ring.

    Remedy: use FullyConnected, which for two NPUs is the same network.
    """
    network, backend = facts.network, facts.inputs.backend
    fault = backend.aborted_by(network)
    if fault:
        message = f"a {fault.block} of {fault.size} NPUs aborts the {backend} backend"
        yield Found(message, f"use {fault.building_block.aware_substitute(fault.size)}", network.source)


@rule("N02", "more dimensions than the backend takes", Severity.WARNING)
def several_dimensions(facts: Facts) -> Findings:
    """The network has more dimensions than ASTRA-sim's backend accepts.

    ASTRA-sim's congestion-aware backend accepts one dimension only, and exits with `only support 1-dim topology`
    (`congestion_aware/api/Helper.cpp`). The replay of this project accepts more: each dimension has its own links, and routes
    cross the dimensions in order, lowest first.

    Remedy: use the congestion-unaware backend (`--backend congestion-unaware`) to run the network in ASTRA-sim.
    """
    network, backend = facts.network, facts.inputs.backend
    if not backend.takes_dimensions(network):
        message = f"{len(network.dimensions)} dimensions: ASTRA-sim's {backend} backend takes {backend.most_dimensions}"
        others = " or ".join(other.name for other in BACKENDS.values() if other.takes_dimensions(network))
        yield Found(f"{message}, only this project's replay more", f"use {others} for ASTRA-sim", network.source)


@rule("N03", "network that ASTRA-sim does not know", Severity.WARNING)
def beyond_astra_sim(facts: Facts) -> Findings:
    """The network has the key `astra_tacos`, which only this project reads.

    ASTRA-sim ignores the key: failed links work, and overridden links have the bandwidth and latency of their dimension. It
    cannot run networks that are a list of links, or have building blocks that ASTRA-sim lacks.

    Remedy: run `astra-tacos replay`, or let `astra-tacos synthesize` export a network that ASTRA-sim models alike.
    """
    network = facts.network
    others = sorted({dimension.block for dimension in network.dimensions if not dimension.building_block.is_in_astra_sim})
    for feature, is_so in (
        (f"the network is a list of {len(network.links):,} links", network.links),
        (f"a dimension is a {' and a '.join(others)}", others),
        (f"{len(network.failed_links):,} links have failed", network.failed_links),
        (f"{len(network.link_overrides):,} links have a bandwidth or latency of their own", network.link_overrides),
    ):
        if is_so:
            yield Found(
                f"{feature}, which ASTRA-sim does not know", "use `astra-tacos replay`, or another network", network.source
            )


@rule("N04", "first event less than 1 ns after time 0")
def instant_at_start(facts: Facts) -> Findings:
    """A node or message that takes less than 1 ns starts at time 0.

    ASTRA-sim's event queue asserts that its first event lies after time 0: `Assertion 'current_event_list.get_event_time() >
    current_time' failed` (`common/event-queue/EventQueue.cpp`, `proceed`). Four things make an event at time 0: a send whose link
    time (congestion-aware) or travel time (congestion-unaware) rounds down to 0 ns, if it is issued before anything else has
    happened; a native collective with an `endpoint-delay` of 0; a compute node of less than 1 ns under the roofline; a load or
    store of 0 ns. The same nodes do no harm later.

    Remedy: let the node depend on a COMP node, which takes at least 1 ns.
    """
    workload = facts.communicating
    remedy = "let the node wait for a COMP node"
    first = first_issued(workload)
    sends = np.flatnonzero(first & workload.rows(NodeType.COMM_SEND) & (workload.trace.size_bytes > 0))
    of_custom = ((facts.custom[number], rows) for number, rows in first_sends(facts, first).items())
    for view, rows in ((workload, sends), *of_custom):
        short = rows[shortest_ns(facts, view.trace.size_bytes[rows]) < 1]
        yield view.each(short, "sends {size}, in less than 1 ns, at time 0", remedy)
    if facts.system.endpoint_delay_ns == 0:
        spans_network = facts.spans_network(facts.collectives.group)  # smaller groups have another delay
        native = facts.collectives.row[(facts.collectives.run == NATIVE) & spans_network]
        yield workload.each(native[first[native]], "{kind} at time 0 with an endpoint-delay of 0", "set endpoint-delay to 1")
    computes = np.flatnonzero(first & workload.rows(NodeType.COMP))
    short = computes[roofline_ns(facts, workload, computes) < 1]
    yield workload.each(short, "computes for less than 1 ns by the roofline, at time 0", "give the node more operations")
    accesses = np.flatnonzero(first & workload.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE))
    short = accesses[access_ns(facts, workload, accesses) < 1]
    yield workload.each(short, "{kind} takes less than 1 ns, at time 0", "give the remote memory a latency")


@rule("N05", "messages that a link sends in 0 ns", Severity.WARNING)
def instant_link(facts: Facts) -> Findings:
    """Messages are so small that they hold a link for less than 1 ns, on a backend with queues.

    ASTRA-sim truncates link times to whole nanoseconds, here to 0 (`congestion_aware/network/Link.cpp`, `serialization_delay`).
    Any number of such messages crosses a link at once, so that the result is faster than the network.

    Remedy: send larger messages.
    """
    for view in facts.communicating_views if facts.queues and facts.network else ():
        rows = np.flatnonzero(view.rows(NodeType.COMM_SEND) & (view.trace.size_bytes > 0))
        rows = rows[serialisation_ns(facts, view.trace.size_bytes[rows]) < 1]
        yield view.each(rows, "{size} take a link no time", "send more at once")


@rule("N06", "time beyond 2**53 ns")
def beyond_exact_time(facts: Facts) -> Findings:
    """Latencies take the run past 2**53 ns, about 104 days, from where ASTRA-sim loses events.

    ASTRA-sim's clock counts in 64-bit integers, but its system layer reads it as a double, which has no odd numbers above 2**53
    (`network_frontend/analytical/common/CommonNetworkApi.cc`, `sim_get_time`). The system layer then looks up an event by a time
    that differs from the one under which it was stored, and the event never happens (`system/Sys.cc`, `call_events`): native
    collectives stall silently, and so do COMP nodes that end at a time which no double represents. Runs of sends and receives
    only do end, at times that are off by some ns. A latency of 2**64 ns or more becomes 0, which aborts a send at time 0 and
    makes a collective run as if there were no latency; a sum of 2**64 ns or more aborts (`EventQueue.cpp`, `schedule_event`).
    This is an error if latencies are certain to reach 2**53 ns on some rank, and a warning if they may. A06 is the same for
    durations.

    Remedy: write latencies in nanoseconds.
    """
    view, network = facts.communicating, facts.network
    latencies = [link.latency_ns for link in (*network.links, *network.link_overrides) if link.latency_ns is not None]
    latency_ns = [*(dimension.latency_ns for dimension in network.dimensions), *latencies]
    if not latency_ns:
        return
    remedy = "latency counts in ns"
    shortest = shortest_rank_ns(facts, min(latency_ns))
    if shortest.max(initial=0.0) >= EXACT_NS:
        rank = int(shortest.argmax())
        message = f"rank {rank} takes {shortest[rank]:.3g} ns or more: past 2**53 ns ASTRA-sim loses events, or rounds times"
        yield Found(message, remedy, view.files.file(rank), rank)
    elif (longest := longest_latency_ns(facts, max(latency_ns))) >= EXACT_NS:
        message = f"latencies may come to {longest:.3g} ns: past 2**53 ns ASTRA-sim loses events, or rounds times"
        yield Found(message, remedy, network.source, severity=Severity.WARNING)


def shortest_rank_ns(facts: Facts, least_ns: float) -> Floats:
    """float64[num_ranks], lower bound on the time of each rank, in ns, where no latency is less than `least_ns`.

    A rank runs one collective or send at a time (`workload/HardwareResource.cc`), so that their latencies add up.
    """
    view, collectives, ranks = facts.workload, facts.collectives, facts.workload.trace.num_ranks
    steps = np.zeros(len(collectives.row))
    for pattern, key in PATTERN_KEYS.items():
        given = facts.system.native.get(key, ())
        native = (collectives.comm_type == pattern) & (collectives.run == NATIVE)
        for group in np.unique(collectives.group[native]).tolist() if given else ():
            size, names = facts.group_size(group), given
            sizes = [dimension.size for dimension in facts.network.dimensions]
            if size < facts.num_npus or not sizes:  # some of the network's NPUs are one dimension
                sizes, names = [size], names if len(names) == 1 else ("ring",)
            number = sum(_steps(name, pattern, count) for name, count in zip(names, sizes, strict=False))
            steps[native & (collectives.group == group)] = max(number, 1)
    chooses_dimensions = view.columns.involved_count[collectives.row] > 0
    steps[chooses_dimensions & (steps > 1)] = 1
    sends = np.bincount(view.rank[view.rows(NodeType.COMM_SEND) & view.runs], minlength=ranks)
    return np.asarray(least_ns * (sends + np.bincount(collectives.rank, steps, ranks)), np.float64)


def longest_latency_ns(facts: Facts, most_ns: float) -> float:
    """Upper bound on the sum of a run's latencies, in ns: every message in sequence, every collective a ring over all NPUs."""
    view = facts.workload
    messages = view.rows(NodeType.COMM_SEND).sum() + 2 * facts.num_npus * view.rows(NodeType.COMM_COLL).sum()
    messages += sum(custom.rows(NodeType.COMM_SEND).sum() for custom in facts.custom.values())
    return float(messages * most_ns)


def _steps(name: str, pattern: int, count: int) -> int:
    """Lower bound on the number of messages in sequence in a dimension of `count` NPUs; 1 for an unknown algorithm."""
    halves = max(count - 1, 1).bit_length()
    phases = 2 if pattern == CommType.ALL_REDUCE else 1
    if pattern == CommType.ALL_TO_ALL:
        return 1
    return phases * {"ring": count - 1, "halvingDoubling": halves, "doubleBinaryTree": 1}.get(name.rstrip("0123456789"), 1)


def first_issued(view: TraceView) -> Bools:
    """bool[num_nodes], compute nodes, collectives, sends and accesses of the workload that are certainly issued at time 0.

    Of each rank's nodes without dependencies, these are the lowest id of each slot (`workload/HardwareResource.cc`).
    """
    ready = ~view.depends & view.runs & ~view.columns.is_cpu_op
    first = np.zeros(view.trace.num_nodes, np.bool_)
    network = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.MEM_LOAD, NodeType.MEM_STORE)
    for kinds in ((NodeType.COMP,), network):
        rows = np.flatnonzero(ready & view.rows(*kinds))
        rows = rows[np.lexsort((view.trace.node_id[rows], view.rank[rows]))]
        _, lowest = np.unique(view.rank[rows], return_index=True)
        first[rows[lowest]] = True
    return first


def first_sends(facts: Facts, first: Bools) -> dict[int, Ints]:
    """Rows of sends of custom traces that are certainly issued at time 0, by the trace's place among the prefixes."""
    collectives = facts.collectives
    sends_of: dict[int, Ints] = {}
    started = first[collectives.row] & (collectives.run != NATIVE)
    for number in np.unique(collectives.run[started]).tolist():
        if number not in facts.custom:
            continue
        view = facts.custom[number]
        chosen = started & (collectives.run == number)
        positions = {
            sorted_position(collectives.members[group], np.array([rank]))[0]
            for group, rank in zip(collectives.group[chosen].tolist(), collectives.rank[chosen].tolist(), strict=True)
        }
        sends = view.rows(NodeType.COMM_SEND) & ~view.depends & np.isin(view.rank, sorted(positions))
        sends_of[number] = np.flatnonzero(sends & (view.trace.size_bytes > 0))
    return sends_of


def serialisation_ns(facts: Facts, size: Ints) -> Floats:
    """float64[len(size)], ns that messages of some sizes hold a link, the slowest of all dimensions; NaN without dimensions."""
    network = facts.inputs.network
    if network is None or not network.dimensions:
        return np.full(len(size), np.nan)
    rates = bytes_per_ns(np.array([dimension.bandwidth_gibps for dimension in network.dimensions]))
    times: Floats = size / rates.min()
    return times


def shortest_ns(facts: Facts, size: Ints) -> Floats:
    """float64[len(size)], ns until the first event of a send: it frees its link, or arrives if the model has no links."""
    network = facts.inputs.network
    if facts.queues or network is None or not network.dimensions:
        return serialisation_ns(facts, size)
    times = [
        dimension.building_block.fewest_crossed(dimension.size) * dimension.latency_ns
        + size / bytes_per_ns(np.array([dimension.bandwidth_gibps]))[0]
        for dimension in network.dimensions
    ]
    longest: Floats = np.max(times, axis=0)
    return longest


def roofline_ns(facts: Facts, view: TraceView, rows: Ints) -> Floats:
    """float64[len(rows)], ns of compute nodes under the roofline (`workload/Workload.cc`, `issue_comp`); NaN without it."""
    system, columns = facts.system, view.columns
    ops, size = columns.num_ops[rows].astype(np.float64), columns.tensor_size[rows].astype(np.float64)
    applies = (ops > 0) & (size > 0) & ~columns.is_cpu_op[rows]
    if not system.roofline_enabled or system.peak_perf_tflops == 0 or system.local_mem_bw_gbps == 0:
        return np.full(len(rows), np.nan)
    size[~applies] = ops[~applies] = np.nan
    rate = np.minimum(system.peak_perf_tflops * 1e12, ops / size * system.local_mem_bw_gbps * 1e9)
    times: Floats = ops / rate * 1e9
    return times


def access_ns(facts: Facts, view: TraceView, rows: Ints) -> Floats:
    """float64[len(rows)], ns of loads and stores (`AnalyticalRemoteMemory.cc`); NaN without remote memory or bandwidth."""
    memory = facts.inputs.remote_memory
    if memory is None or memory.kind == "none" or memory.bytes_per_ns == 0:
        return np.full(len(rows), np.nan)
    times: Floats = memory.latency_ns + view.columns.tensor_size[rows] / memory.bytes_per_ns
    return times
