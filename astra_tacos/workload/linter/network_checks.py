"""Checks N: networks that the backend refuses, or models differently from what their file says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.run import NATIVE
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.workload.linter.durations import (
    EXACT_NS,
    access_ns,
    first_issued,
    first_sends,
    longest_latency_ns,
    roofline_ns,
    serialisation_ns,
    shortest_ns,
    shortest_rank_ns,
)
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.finding import Check, Found, FoundRows, Severity


def ring_of_two(facts: Facts) -> Iterator[Found]:
    """A Ring has two NPUs, which the backend refuses.

    The congestion-aware backend connects each NPU with the next one in both directions. For two NPUs this makes the same link
    twice, and ASTRA-sim aborts: `Assertion 'connected' failed` (`congestion_aware/network/Device.cpp`, `connect`). The
    congestion-unaware backend accepts such a ring.

    Remedy: use FullyConnected, which for two NPUs is the same network.
    """
    network, backend = facts.inputs.network, facts.inputs.backend
    fault = backend.aborted_by(network) if network else None
    if network and fault:
        message = f"a {fault.block} of {fault.size} NPUs aborts the {backend} backend"
        yield Found(message, f"use {fault.building_block.aware_substitute(fault.size)}", network.source)


def several_dimensions(facts: Facts) -> Iterator[Found]:
    """The network has more dimensions than ASTRA-sim's backend accepts.

    ASTRA-sim's congestion-aware backend accepts one dimension only, and exits with `only support 1-dim topology`
    (`congestion_aware/api/Helper.cpp`). The replay of this project accepts more: each dimension has its own links, and routes
    cross the dimensions in order, lowest first.

    Remedy: use the congestion-unaware backend (`--backend congestion-unaware`) to run the network in ASTRA-sim.
    """
    network, backend = facts.inputs.network, facts.inputs.backend
    if network and not backend.takes_dimensions(network):
        message = f"{len(network.dimensions)} dimensions: ASTRA-sim's {backend} backend takes {backend.most_dimensions}"
        others = " or ".join(other.name for other in BACKENDS.values() if other.takes_dimensions(network))
        yield Found(f"{message}, only this project's replay more", f"use {others} for ASTRA-sim", network.source)


def beyond_astra_sim(facts: Facts) -> Iterator[Found]:
    """The network has the key `astra_tacos`, which only this project reads.

    ASTRA-sim ignores the key: failed links work, and overridden links have the bandwidth and latency of their dimension. It
    cannot run networks that are a list of links, or have building blocks that ASTRA-sim lacks.

    Remedy: run `astra-tacos replay`, or let `astra-tacos synthesize` export a network that ASTRA-sim models alike.
    """
    network = facts.inputs.network
    if network is None:
        return
    for what in _extensions(network):
        yield Found(f"{what}, which ASTRA-sim does not know", "replay it with this project only", network.source)


def _extensions(network: NetworkConfig) -> Iterator[str]:
    if network.links:
        yield f"the network is a list of {len(network.links):,} links"
    others = sorted({dimension.block for dimension in network.dimensions if not dimension.building_block.is_in_astra_sim})
    if others:
        yield f"a dimension is a {' and a '.join(others)}"
    if network.failed_links:
        yield f"{len(network.failed_links):,} links have failed"
    if network.link_overrides:
        yield f"{len(network.link_overrides):,} links have a bandwidth or latency of their own"


def instant_at_start(facts: Facts) -> Iterator[FoundRows]:
    """A node or message that takes less than 1 ns starts at time 0.

    ASTRA-sim's event queue asserts that its first event lies after time 0: `Assertion 'current_event_list.get_event_time() >
    current_time' failed` (`common/event-queue/EventQueue.cpp`, `proceed`). Four things make an event at time 0: a send whose link
    time (congestion-aware) or travel time (congestion-unaware) rounds down to 0 ns, if it is issued before anything else has
    happened; a native collective with an `endpoint-delay` of 0; a compute node of less than 1 ns under the roofline; a load or
    store of 0 ns. The same nodes do no harm later.

    Remedy: let the node depend on a COMP node, which takes at least 1 ns.
    """
    workload = facts.communicating
    remedy = "let it wait for a COMP node"
    first = first_issued(workload)
    sends = np.flatnonzero(first & workload.rows(NodeType.COMM_SEND) & (workload.trace.size_bytes > 0))
    short = sends[shortest_ns(facts, workload, sends) < 1]
    yield workload.each(short, "sends {size}, in less than 1 ns, at time 0", remedy)
    for number, rows in first_sends(facts, first).items():
        view = facts.custom[number]
        short = rows[shortest_ns(facts, view, rows) < 1]
        yield view.each(short, "sends {size}, in less than 1 ns, at time 0", remedy)
    if facts.system.endpoint_delay_ns == 0:
        whole = facts.spans_network(facts.collectives.group)  # smaller groups have another delay
        native = facts.collectives.row[(facts.collectives.run == NATIVE) & whole]
        yield workload.each(native[first[native]], "{kind} at time 0 with an endpoint-delay of 0", "set endpoint-delay to 1")
    computes = np.flatnonzero(first & workload.rows(NodeType.COMP))
    short = computes[roofline_ns(facts, workload, computes) < 1]
    yield workload.each(short, "computes for less than 1 ns by the roofline, at time 0", "give it more operations")
    accesses = np.flatnonzero(first & workload.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE))
    short = accesses[access_ns(facts, workload, accesses) < 1]
    yield workload.each(short, "{kind} takes less than 1 ns, at time 0", "give the remote memory a latency")


def instant_link(facts: Facts) -> Iterator[FoundRows]:
    """Messages are so small that they hold a link for less than 1 ns, on a backend with queues.

    ASTRA-sim truncates link times to whole nanoseconds, here to 0 (`congestion_aware/network/Link.cpp`, `serialization_delay`).
    Any number of such messages crosses a link at once, so that the result is faster than the network.

    Remedy: send larger messages.
    """
    if not facts.queues or facts.inputs.network is None or not facts.communicates:
        return
    for view in facts.views:
        rows = np.flatnonzero(view.rows(NodeType.COMM_SEND) & (view.trace.size_bytes > 0))
        rows = rows[serialisation_ns(facts, view, rows) < 1]
        yield view.each(rows, "{size} take a link no time", "send more at once")


def beyond_exact_time(facts: Facts) -> Iterator[Found]:
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
    view, network = facts.workload, facts.inputs.network
    if facts.system.replay_only:
        return
    remedy = "latency counts in ns"
    shortest = shortest_rank_ns(facts, view)
    if shortest.max(initial=0.0) >= EXACT_NS:
        rank = int(shortest.argmax())
        message = f"rank {rank} takes {shortest[rank]:.3g} ns or more: past 2**53 ns ASTRA-sim loses events, or rounds times"
        yield Found(message, remedy, view.files.file(rank), rank)
    elif network is not None and (longest := longest_latency_ns(facts, view)) >= EXACT_NS:
        message = f"latencies may come to {longest:.3g} ns: past 2**53 ns ASTRA-sim loses events, or rounds times"
        yield Found(message, remedy, network.source, severity=Severity.WARNING)


CHECKS = (
    Check("N01", Severity.ERROR, "ring of two NPUs", ring_of_two),
    Check("N02", Severity.WARNING, "more dimensions than the backend takes", several_dimensions),
    Check("N03", Severity.WARNING, "network beyond ASTRA-sim", beyond_astra_sim),
    Check("N04", Severity.ERROR, "less than 1 ns at time 0", instant_at_start),
    Check("N05", Severity.WARNING, "messages that take a link no time", instant_link),
    Check("N06", Severity.ERROR, "time beyond 2**53 ns", beyond_exact_time),
)
