"""A system JSON with which ASTRA-sim runs the workload."""

from __future__ import annotations

from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import COMM_KEYS, IGNORED_KEYS, READ_KEYS
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log

_RING = "ring"


@mend("system", "S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "S10", "S14", "S16", "S17")
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
    run = {kind.pattern for nodes in draft.ranks for kind in nodes.collective_kinds()}
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
