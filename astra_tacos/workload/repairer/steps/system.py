"""A network and a system JSON with which ASTRA-sim runs the workload."""

from __future__ import annotations

from dataclasses import replace

from astra_tacos.network.network_config import Dimension
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import COMM_KEYS, IGNORED_KEYS, READ_KEYS
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.reading import network_of


def mend_network(draft: Draft, log: Log) -> None:
    """Replace a dimension at which the congestion-aware backend aborts by the one that has the same links.

    It makes the links of a ring of two NPUs twice. Other networks that stock ASTRA-sim does not run are refused.
    """
    fault = draft.backend.aborted_by(draft.network)
    if fault is not None and len(draft.backend.refusals(draft.network)) == 1:
        _substitute(draft, log, fault)
    refusals = draft.backend.refusals(draft.network)
    if refusals:
        others = [other.name for other in BACKENDS.values() if not other.refusals(draft.network)]
        hint = f" (--backend {others[0]} does)" if others else ""
        raise ConfigError(f"{draft.network.source}: stock ASTRA-sim does not run this network: {refusals[0]}{hint}")


def _substitute(draft: Draft, log: Log, fault: Dimension) -> None:
    other = fault.building_block.aware_substitute(fault.size)
    dims = [replace(dim, block=other) if dim is fault and other else dim for dim in draft.network.dimensions]
    columns: dict[str, list[object]] = {
        "topology": [dim.block for dim in dims],
        "npus_count": [dim.size for dim in dims],
        "bandwidth": [dim.bandwidth_gibps for dim in dims],
        "latency": [dim.latency_ns for dim in dims],
    }
    draft.network_text = "".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in columns.items())
    draft.network = replace(network_of(draft.network_text), source=draft.network.source)
    reason = f"ASTRA-sim's {draft.backend} backend makes its links twice, and aborts"
    log.add(f"{fault.block} of {fault.size} became {other}", reason)


_RING = "ring"


def mend_system(draft: Draft, log: Log) -> None:
    """Fill in keys of the system JSON without which ASTRA-sim crashes, and correct values with which it stalls.

    Algorithms: a pattern that is used and has none runs rings; lists get an entry per dimension; one that does not run on so
    many ranks becomes a ring. Keys that ASTRA-sim does not read are left out.
    """
    system = draft.system
    for key in [key for key in system if key not in READ_KEYS]:
        why = "a key of ASTRA-sim 1.0" if key in IGNORED_KEYS else "a key that ASTRA-sim does not know"
        log.add(f"{key} left out", f"{why}: it has no effect")
        del system[key]
    splits = system.get("preferred-dataset-splits", 0)
    if splits < 1 or (draft.custom and splits != 1):
        reason = "custom collectives stall with another number" if splits > 1 else "ASTRA-sim crashes without it"
        _set(draft, log, "preferred-dataset-splits", 1, reason)
    if system.get("active-chunks-per-dimension", 1) < 1:
        _set(draft, log, "active-chunks-per-dimension", 1, "no collective ever starts otherwise")
    if "scheduling-policy" not in system:
        _set(draft, log, "scheduling-policy", "LIFO", "ASTRA-sim reads memory that it never set, which is LIFO as a rule")
    if "collective-optimization" not in system:
        _set(draft, log, "collective-optimization", "baseline", "ASTRA-sim reads memory that it never set")
    _algorithms(draft, log)
    if system.get("track-local-mem") and draft.found("S16"):
        _set(draft, log, "track-local-mem", 0, "nodes lack the attributes inputs and outputs, without which it aborts")
    ids = {node.id for node in draft.collectives()} if draft.per_node else set()
    for node_id in [node_id for node_id in draft.per_node if node_id not in ids]:
        log.add(f"per-node collective of node {node_id} left out", "no rank has a collective node of that id")
        del draft.per_node[node_id]


def _set(draft: Draft, log: Log, key: str, value: object, reason: str) -> None:
    log.add(f"{key}: {draft.system.get(key, 'absent')} became {value}", reason)
    draft.system[key] = value


def _algorithms(draft: Draft, log: Log) -> None:
    count = max(len(draft.network.dimensions), 1)
    run = {node.pattern for node in draft.collectives()}
    used = {key for pattern, key in PATTERN_KEYS.items() if pattern in run}
    for pattern in COMM_KEYS:
        key = f"{pattern}-implementation"
        names = draft.system.get(key)
        if names is None:
            if pattern in used and f"{key}-custom" not in draft.system:
                _set(draft, log, key, [_RING] * count, "nodes run this pattern, and ASTRA-sim crashes without an algorithm")
        elif len(names) != count:
            _set(draft, log, key, [*names, *names[-1:] * count][:count], f"the network has {count} dimensions")
    if not draft.found("S14"):
        return
    for pattern in COMM_KEYS:
        key = f"{pattern}-implementation"
        names = draft.system.get(key, [])
        if any(name != _RING for name in names):
            before = dict(draft.system)
            count_before = draft.report().errors.get("S14", 0)
            draft.system[key] = [_RING] * count
            draft.changed()
            if draft.report().errors.get("S14", 0) == count_before:
                draft.system = before  # another pattern's algorithm is at fault
                draft.changed()
            else:
                log.add(f"{key}: {names} became {[_RING] * count}", "the algorithm does not run on so many ranks")
