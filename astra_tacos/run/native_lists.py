"""Lists of native algorithms in a system JSON, one per dimension: whether a collective of all NPUs reaches them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.run.groups import used_groups
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError

_ONE_PREFIX = "one"


def spans_all(name: str) -> bool:
    """Whether an algorithm runs over all NPUs as one dimension: oneRing, oneDirect, oneHalvingDoubling."""
    return name.startswith(_ONE_PREFIX)


def leaves_out(names: Sequence[str], num_dims: int) -> bool:
    """Whether a collective of all NPUs leaves dimensions out, as the list names fewer (`GeneralComplexTopology.cc`)."""
    return 0 < len(names) < num_dims and not any(map(spans_all, names))


def check_dimensions(run: Run) -> None:
    """Check that no native collective of all NPUs leaves dimensions out: NPUs that differ in these never exchange data.

    Such a run ends too early, so nothing can be compared with it.

    Raises
    ------
    ConfigError
        If there is one.
    """
    trace, num_dims = run.workload, len(run.network.dimensions)
    for pattern, key in PATTERN_KEYS.items():
        names = run.system.native.get(key, ())
        if not leaves_out(names, num_dims):
            continue
        is_native = (trace.kind == NodeType.COMM_COLL) & (run.implementation == NATIVE) & (run.columns.comm_type == pattern)
        used = used_groups(run, np.flatnonzero(is_native))
        if any(len(set(used.members[group])) == run.network.num_npus for group in np.unique(used.group).tolist()):
            raise ConfigError(
                f"{run.system.source}: {key}-implementation has {len(names)} of {num_dims} dimensions, expected one entry each: "
                f"{pattern_name(pattern)} leaves the others out (`generate --network` writes lists that fit, `lint --fix` mends "
                "other runs)"
            )
