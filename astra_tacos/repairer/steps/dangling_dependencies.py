"""Dependencies on nodes that exist."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step

_SHOWN = 4


def drop_dangling(draft: Draft, log: Log) -> None:
    """Remove dependencies on ids that no node of the rank has.

    Converters leave nodes out (of threads, of operators without kernels) and keep the ids of those that others waited for. What
    a missing node waited for is not in the file.
    """
    for rank, nodes in enumerate(draft.ranks):
        find = nodes.finder()
        for node in nodes.dangling():
            missing = {dep: None for dep in node.deps if find(dep) is None}
            if missing:
                listed = ", ".join(map(str, list(missing)[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
                what = f"no longer depends on {listed}"
                log.add(what, "no node of the rank has that id", rank, node.id)
                node.replace_deps(lambda dep, gone=missing: () if dep in gone else (dep,))


STEP = Step("dangling-dependencies", ("D01",), drop_dangling)
