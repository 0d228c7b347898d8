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
        ids = {node.id for node in nodes}
        for node in nodes:
            missing = [dep for dep in dict.fromkeys(node.deps) if dep not in ids]
            if missing:
                listed = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
                what = f"no longer depends on {listed}"
                log.add(what, "no node of the rank has that id", rank, node.id)
                node.replace_deps(lambda dep, ids=ids: (dep,) if dep in ids else ())


STEP = Step("dangling-dependencies", ("D01",), drop_dangling)
