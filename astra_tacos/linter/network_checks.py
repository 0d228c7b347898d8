"""Checks N: networks that the backend refuses, or does not model as they are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.config.network import NetworkConfig
from astra_tacos.linter.check import Check
from astra_tacos.linter.facts import Facts
from astra_tacos.linter.finding import Found, FoundRows, Severity
from astra_tacos.linter.run_length import EXACT_NS, longest_latency_ns, shortest_rank_ns
from astra_tacos.linter.zero_time import access_ns, first_issued, first_sends, roofline_ns, serialisation_ns, shortest_ns
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.run import NATIVE
from astra_tacos.trace.schema import NodeType


def ring_of_two(facts: Facts) -> Iterator[Found]:
    """A Ring of two NPUs on a backend that refuses one.

    The congestion-aware backend connects each NPU with the next one in both directions, which for two NPUs makes the same link
    twice, and aborts: `Assertion 'connected' failed` (`congestion_aware/network/Device.cpp`, `connect`). The congestion-unaware
    backend takes such a ring.

    Remedy: FullyConnected is the same network for two NPUs.
    """
    network, backend = facts.inputs.network, facts.inputs.backend
    fault = backend.aborted_by(network) if network else None
    if network and fault:
        message = f"a {fault.block} of {fault.size} NPUs aborts the {backend} backend"
        yield Found(message, f"use {fault.building_block.aware_substitute(fault.size)}", network.source)


def several_dimensions(facts: Facts) -> Iterator[Found]:
    """A network of more dimensions than ASTRA-sim's backend takes.

    Its congestion-aware one takes one, and exits: `only support 1-dim topology` (`congestion_aware/api/Helper.cpp`). The replay
    of this project takes more: links of each dimension, routes in order of dimension, the lowest first.

    Remedy: `--backend congestion-unaware` to run it in ASTRA-sim.
    """
    network, backend = facts.inputs.network, facts.inputs.backend
    if network and not backend.takes_dimensions(network):
        message = f"{len(network.dimensions)} dimensions: ASTRA-sim's {backend} backend takes {backend.most_dimensions}"
        others = " or ".join(other.name for other in BACKENDS.values() if other.takes_dimensions(network))
        yield Found(f"{message}, only this project's replay more", f"use {others} for ASTRA-sim", network.source)


def beyond_astra_sim(facts: Facts) -> Iterator[Found]:
    """The network holds what only this project reads: the key `astra_tacos`.

    ASTRA-sim ignores it: failed links work there, overridden links have the bandwidth and latency of their dimension, and
    networks that are a list of links, or have blocks that ASTRA-sim lacks, cannot be run at all.

    Remedy: replay it here, or export a network that ASTRA-sim models alike (see `astra-tacos synthesize`).
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
    """Something that takes less than 1 ns happens at time 0.

    ASTRA-sim's event queue asserts that its first event lies after time 0: `Assertion 'current_event_list.get_event_time() >
    current_time' failed` (`common/event-queue/EventQueue.cpp`, `proceed`). Such an event comes of a send whose link time (aware)
    or travel time (unaware) rounds down to 0 ns, if it is issued before anything else has happened; of a native collective
    where `endpoint-delay` is 0; of a compute node that the roofline gives less than 1 ns, and of a load or store of 0 ns. Later
    ones do no harm.

    Remedy: let it depend on a COMP node, which takes 1 ns at least.
    """
    workload = facts.workload
    if workload is None or not facts.communicates:
        return
    remedy = "let it wait for a COMP node"
    first = first_issued(workload)
    sends = np.flatnonzero(first & workload.rows(NodeType.COMM_SEND) & (workload.trace.size_bytes > 0))
    short = sends[shortest_ns(facts, workload, sends) < 1]
    yield workload.each(short, "sends {size}, in less than 1 ns, at time 0", remedy)
    for number, rows in first_sends(facts, first).items():
        view = facts.custom[number]
        short = rows[shortest_ns(facts, view, rows) < 1]
        yield view.each(short, "sends {size}, in less than 1 ns, at time 0", remedy)
    if facts.collectives is not None and facts.system.endpoint_delay_ns == 0:
        whole = facts.spans_network(facts.collectives.group)  # smaller groups have a delay of their own
        native = facts.collectives.row[(facts.collectives.run == NATIVE) & whole]
        yield workload.each(native[first[native]], "{kind} at time 0 with an endpoint-delay of 0", "set endpoint-delay to 1")
    computes = np.flatnonzero(first & workload.rows(NodeType.COMP))
    short = computes[roofline_ns(facts, workload, computes) < 1]
    yield workload.each(short, "computes for less than 1 ns by the roofline, at time 0", "give it more operations")
    accesses = np.flatnonzero(first & workload.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE))
    short = accesses[access_ns(facts, workload, accesses) < 1]
    yield workload.each(short, "{kind} takes less than 1 ns, at time 0", "give the remote memory a latency")


def instant_link(facts: Facts) -> Iterator[FoundRows]:
    """Messages so small that they hold a link for less than 1 ns, on a backend with queues.

    Link time is cut off to whole nanoseconds, here to 0 (`congestion_aware/network/Link.cpp`, `serialization_delay`): any number
    of such messages passes a link at once, so the result is faster than the network.

    Remedy: send larger messages.
    """
    if not facts.queues or facts.inputs.network is None or not facts.communicates:
        return
    for view in facts.views:
        rows = np.flatnonzero(view.rows(NodeType.COMM_SEND) & (view.trace.size_bytes > 0))
        rows = rows[serialisation_ns(facts, view, rows) < 1]
        yield view.each(rows, "{size} take a link no time", "send more at once")


def beyond_exact_time(facts: Facts) -> Iterator[Found]:
    """Latencies take the run past 2**53 ns, some 104 days, from where ASTRA-sim loses events.

    Its clock counts in integers of 64 bits, but what its system layer asks for is a double, which has no odd numbers from 2**53
    on (`network_frontend/analytical/common/CommonNetworkApi.cc`, `sim_get_time`). An event is looked up by a time that differs
    from the one it was kept under, so that it never happens (`system/Sys.cc`, `call_events`): native collectives stall without a
    word, and so do COMP nodes that end at a time which no double has. Sends and receives alone run to the end, at times that are
    off by some ns. A latency of 2**64 ns or more becomes 0, which aborts a send at time 0 and makes a collective run as if there
    were no latency; a sum of that much aborts (`EventQueue.cpp`, `schedule_event`). It is an error where latencies alone come to
    2**53 ns on some rank, and a warning where they may. (A06 is the same for durations.)

    Remedy: give latencies in nanoseconds.
    """
    view, network = facts.workload, facts.inputs.network
    if view is None or facts.system.replay_only:
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
