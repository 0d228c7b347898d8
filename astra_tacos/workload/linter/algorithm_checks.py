"""Checks S: the native algorithms that the system file names (`system_checks` has its other settings)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.chunks import count_chunks
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.patterns import leaves_out, pattern_name, spans_all
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.linter.collectives import Collectives
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.finding import Check, Found, FoundRows, Severity
from astra_tacos.workload.linter.trace_view import listed


def _where(facts: Facts) -> str:
    return str(facts.inputs.system_path)


def _native(facts: Facts) -> Iterator[tuple[Collectives, int, str, NDArray[np.bool_]]]:
    """For each pattern that some node runs natively: all collectives, the pattern, its key, and a mask of its collectives."""
    collectives = facts.collectives
    if facts.inputs.system is None:
        return
    for pattern, key in PATTERN_KEYS.items():
        nodes = (collectives.comm_type == pattern) & (collectives.run == NATIVE)
        if nodes.any():
            yield collectives, int(pattern), key, nodes


def no_implementation(facts: Facts) -> Iterator[Found]:
    """A pattern is used for which the system names neither a native nor a custom implementation.

    ASTRA-sim throws `No collective implementation found`. At time 0 it aborts; later it only logs the exception, and the rank
    stalls (`CollectiveImplLookup.cc`; `system/Sys.cc`, `call_events`).

    Remedy: name an algorithm per dimension, for example `"all-reduce-implementation": ["ring"]` for one dimension.
    """
    for collectives, pattern, key, nodes in _native(facts):
        if key not in facts.system.native:
            row = int(collectives.row[nodes][0])
            message = f"no implementation of {pattern_name(pattern)}, which {int(nodes.sum()):,} nodes run"
            yield facts.workload.at(row, message, f'add "{key}-implementation" to {_where(facts)}')


def too_many_algorithms(facts: Facts) -> Iterator[Found]:
    """A list of native algorithms has more entries than the network has dimensions.

    ASTRA-sim aborts with a failed assertion, whether or not the pattern is used (`GeneralComplexTopology.cc`).

    Remedy: write one entry per dimension.
    """
    network = facts.inputs.network
    for key, names in facts.system.native.items():
        if network is not None and len(names) > len(network.dimensions) > 0:
            count = len(network.dimensions)
            message = f"{key}-implementation has {len(names)} entries, the network {count} dimension{'s' * (count > 1)}"
            yield Found(message, "one entry per dimension", _where(facts))


def too_few_algorithms(facts: Facts) -> Iterator[Found]:
    """A list of native algorithms has fewer entries than the network has dimensions.

    The collective then runs in the first dimensions only: NPUs that differ in the remaining dimensions never exchange data, and
    the collective ends too early (`GeneralComplexTopology.cc`). The algorithms oneRing, oneDirect and oneHalvingDoubling span all
    dimensions with one entry.

    Remedy: write one entry per dimension.
    """
    network = facts.inputs.network
    if network is None:
        return
    for collectives, pattern, key, nodes in _native(facts):
        names = facts.system.native.get(key, ())
        if not leaves_out(names, len(network.dimensions)):
            continue
        if facts.spans_network(collectives.group[nodes]).any():
            message = f"{key}-implementation has {len(names)} of {len(network.dimensions)} dimensions: {pattern_name(pattern)}"
            yield Found(f"{message} leaves the others out", "one entry per dimension", _where(facts))


def optimization_absent(facts: Facts) -> Iterator[Found]:
    """`collective-optimization` is absent, and a native All-Reduce runs in several dimensions.

    ASTRA-sim then decides by uninitialised memory whether to reduce and gather dimension by dimension (`system/Sys.hh`,
    collectiveOptimization). Such runs were observed to stall silently.

    Remedy: set it to "localBWAware" or "baseline".
    """
    network, system = facts.inputs.network, facts.inputs.system
    if network is None or system is None or system.collective_optimization is not None:
        return
    for _, pattern, key, _ in _native(facts):
        if pattern == CommType.ALL_REDUCE and len(system.native.get(key, ())) > 1 and len(network.dimensions) > 1:
            message = "collective-optimization is absent: All-Reduces in several dimensions run by chance, or stall"
            yield Found(message, 'set it to "localBWAware" or "baseline"', _where(facts))


def unfit_algorithm(facts: Facts) -> Iterator[FoundRows | Found]:
    """A native algorithm does not run on this number of ranks, or not for this pattern.

    halvingDoubling halves the number of ranks at each step: if that is not a power of two it stalls or leaves ranks out, and for
    All-to-All it crashes. doubleBinaryTree crashes if the size of a dimension is not a power of two, and in every communicator
    group smaller than the network; it runs an All-Reduce for every pattern (`HalvingDoubling.cc`, `DoubleBinaryTreeTopology.cc`,
    `CommunicatorGroup.cc`).

    Remedy: use ring or direct.
    """
    network = facts.inputs.network
    if network is None:
        return
    for collectives, pattern, key, nodes in _native(facts):
        names = facts.system.native.get(key, ())
        if all(name.rstrip("0123456789") in ("ring", "oneRing", "direct", "oneDirect") for name in names):
            continue
        for group in np.unique(collectives.group[nodes]).tolist():
            size = facts.group_size(group)
            sizes = [dimension.size for dimension in network.dimensions]
            whole = size == facts.num_npus
            if not whole:
                if len(names) != 1:
                    continue
                sizes = [size]
            for name, count in zip(names, sizes, strict=False):
                what = _misfit(name, pattern, size if spans_all(name) else count, whole)
                if what:
                    row = int(collectives.row[nodes & (collectives.group == group)][0])
                    place = "" if group == ALL_RANKS else f" of group {group}"
                    yield facts.workload.at(row, f"{pattern_name(pattern)}{place}: {what}", f"use ring or direct in {key}")
                    break


def _misfit(name: str, pattern: int, count: int, whole: bool) -> str | None:
    power_of_two = count & (count - 1) == 0
    if name in ("halvingDoubling", "oneHalvingDoubling"):
        if pattern == CommType.ALL_TO_ALL:
            return f"{name} crashes for this pattern"
        return None if power_of_two else f"{name} on {count} ranks, which are no power of two, stalls or leaves some out"
    if name == "doubleBinaryTree":
        if not whole:
            return "doubleBinaryTree crashes in a group smaller than the network"
        if not power_of_two:
            return f"doubleBinaryTree on {count} ranks, which are no power of two, crashes"
        if pattern != CommType.ALL_REDUCE:
            return "doubleBinaryTree runs an All-Reduce instead"
    return None


def ring_instead(facts: Facts) -> Iterator[Found]:
    """A communicator group smaller than the network runs ring, although the system names other algorithms.

    Dimensions have no meaning in a part of the network. ASTRA-sim therefore replaces a list of several algorithms by one ring
    over the group's ranks (`CommunicatorGroup.cc`, `get_collective_plan`).

    Remedy: none if a ring is acceptable; else use a custom collective.
    """
    for collectives, pattern, key, nodes in _native(facts):
        names = facts.system.native.get(key, ())
        if len(names) < 2 or all(name in ("ring", "oneRing") for name in names):
            continue
        groups = np.unique(collectives.group[nodes]).tolist()
        small = [group for group in groups if facts.group_size(group) < facts.num_npus]
        if small:
            message = f"{pattern_name(pattern)} runs as a ring in group {listed(small)}, not as {', '.join(names)}"
            yield Found(message, "expect it, or give a custom collective", _where(facts))


def chunks_in_a_circle(facts: Facts) -> Iterator[Found]:
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
    network, system = facts.inputs.network, facts.system
    if network is None or system.collective_optimization != "localBWAware":
        return
    latencies = {dimension.latency_ns for dimension in network.dimensions}
    latencies |= {link.latency_ns for link in network.link_overrides if link.latency_ns is not None}
    num_dimensions, active = len(network.dimensions), system.active_chunks_per_dimension
    for collectives, pattern, key, nodes in _native(facts):
        num_rings = sum(name == "ring" for name in system.native.get(key, ())[:num_dimensions])
        is_unequal = num_rings == 2 and len(latencies) > 1
        if pattern != CommType.ALL_REDUCE or not (is_unequal or num_dimensions > 2):
            continue
        sizes = collectives.size_bytes[nodes][facts.spans_network(collectives.group[nodes])]
        chunks = int(count_chunks(key, sizes, facts.num_npus, system).max(initial=0))
        if 0 < active < chunks:
            where = f"{num_dimensions} dimensions" if num_dimensions > 2 else "2 rings of unequal latency"
            what = f"{pattern_name(pattern)} over {where} in {chunks} chunks, {active} at a time"
            yield Found(f"{what}: they may wait for one another", f"set active-chunks-per-dimension to {chunks}", _where(facts))


CHECKS = (
    Check("S04", Severity.ERROR, "no implementation of a pattern", no_implementation),
    Check("S05", Severity.ERROR, "more algorithms than dimensions", too_many_algorithms),
    Check("S06", Severity.ERROR, "fewer algorithms than dimensions", too_few_algorithms),
    Check("S07", Severity.ERROR, "no collective-optimization", optimization_absent),
    Check("S14", Severity.ERROR, "native algorithm that does not fit", unfit_algorithm),
    Check("S15", Severity.WARNING, "ring instead of other algorithms", ring_instead),
    Check("S19", Severity.WARNING, "chunks that may wait for one another", chunks_in_a_circle),
)
