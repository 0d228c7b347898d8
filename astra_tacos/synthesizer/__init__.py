"""Synthesizers, by the names that the command line gives them."""

from __future__ import annotations

from functools import partial

from astra_tacos.collective import COLLECTIVES, PERSONALISED, UNEQUAL
from astra_tacos.synthesizer.algorithms.branchings import advise_chunks, branchings, refuse_too_many_flows
from astra_tacos.synthesizer.algorithms.column_generation import (
    advise_for_trees,
    column_generation,
    programme_work,
    refuse_dimensions,
)
from astra_tacos.synthesizer.algorithms.dimension_wise import (
    dimension_wise,
    least_mix_ns,
    mixes_on_fabrics,
    mixes_work,
    refuse_too_many_values,
)
from astra_tacos.synthesizer.algorithms.in_network import (
    advise_for_devices,
    in_network,
    parameter_server,
    refuse_without_devices,
    refuse_without_servers,
)
from astra_tacos.synthesizer.algorithms.over_dimensions import hierarchical, themis
from astra_tacos.synthesizer.algorithms.permutations import permutations, refuse_without_rails
from astra_tacos.synthesizer.algorithms.predefined import (
    bruck,
    direct,
    double_binary_tree,
    halving_doubling,
    refuse_other_than_powers_of_two,
    ring,
)
from astra_tacos.synthesizer.algorithms.routed import routed
from astra_tacos.synthesizer.algorithms.symmetric import refuse_asymmetric, symmetric, symmetric_optimum
from astra_tacos.synthesizer.algorithms.tacos import tacos
from astra_tacos.synthesizer.chunk_counts import advise_for_trips, most_promising
from astra_tacos.synthesizer.npu_networks import levels_or_pairs, network_of_levels
from astra_tacos.synthesizer.on_fabrics import on_fabrics
from astra_tacos.synthesizer.parts.dimension_order import refuse_without_dimensions
from astra_tacos.synthesizer.synthesizer import Synthesizer
from astra_tacos.synthesizer.work import (
    branch_work,
    device_work,
    dispatch_work,
    match_work,
    matched_work,
    route_work,
    tree_work,
    trip_work,
)

_ALL = frozenset(COLLECTIVES) - PERSONALISED
_OF_PARTS = PERSONALISED | frozenset(UNEQUAL)
_OF_SHARDS = frozenset({"all-gather", "reduce-scatter", "all-reduce"})
_ROOTED = frozenset({"broadcast", "reduce"})
_WHOLE = frozenset({"all-reduce"})
_TREES = frozenset({"all-reduce", "broadcast", "reduce"})
_over_levels = partial(on_fabrics, network=network_of_levels)
_over_devices = partial(Synthesizer, is_random=True, does_groups=True, does_forwarding=True, by_chunk=True)

SYNTHESIZERS: dict[str, Synthesizer] = {
    "symmetric": Synthesizer(
        symmetric,
        _OF_SHARDS | {"all-to-all"},
        refusal=refuse_asymmetric,
        work=tree_work,
        by_chunk=True,
        optimum=symmetric_optimum,
    ),
    "tacos": on_fabrics(
        Synthesizer(tacos, _ALL, is_random=True, advise=most_promising, work=matched_work, trial_work=match_work, by_chunk=True)
    ),
    "routed": on_fabrics(
        Synthesizer(
            routed, _ALL | _OF_PARTS, is_random=True, advise=most_promising, work=route_work, does_groups=True, by_chunk=True
        )
    ),
    "permutations": Synthesizer(
        permutations,
        frozenset(UNEQUAL),
        refusal=refuse_without_rails,
        cuts_itself=frozenset(UNEQUAL),
    ),
    "branchings": on_fabrics(
        Synthesizer(
            branchings,
            _ROOTED,
            refusal=refuse_too_many_flows,
            advise=advise_chunks,
            work=branch_work,
            by_chunk=True,
        )
    ),
    "column-generation": _over_devices(
        column_generation,
        _ALL | PERSONALISED,
        refusal=refuse_dimensions,
        advise=advise_for_trees,
        work=programme_work,
    ),
    "in-network": _over_devices(
        in_network,
        _ALL,
        refusal=refuse_without_devices,
        advise=advise_for_devices,
        work=device_work,
    ),
    "parameter-server": _over_devices(
        parameter_server,
        _ALL,
        refusal=refuse_without_servers,
        advise=advise_for_trips,
        work=trip_work,
    ),
    "ring": on_fabrics(Synthesizer(ring, _ALL)),
    "direct": on_fabrics(Synthesizer(direct, _ALL | _OF_PARTS)),
    "halving-doubling": on_fabrics(Synthesizer(halving_doubling, _OF_SHARDS, refusal=refuse_other_than_powers_of_two)),
    "double-binary-tree": on_fabrics(Synthesizer(double_binary_tree, _TREES)),
    "bruck": on_fabrics(Synthesizer(bruck, _OF_SHARDS | PERSONALISED)),
    "hierarchical": _over_levels(
        Synthesizer(
            hierarchical,
            _OF_SHARDS | PERSONALISED,
            refusal=refuse_without_dimensions,
            work=dispatch_work,
        )
    ),
    "dimension-wise": on_fabrics(
        Synthesizer(
            dimension_wise,
            _OF_SHARDS | {"all-to-all"},
            refusal=refuse_too_many_values,
            work=mixes_work,
            cuts_itself=_WHOLE,
            least_ns=least_mix_ns,
        ),
        mixes_on_fabrics,
        levels_or_pairs,
    ),
    "themis": _over_levels(Synthesizer(themis, _OF_SHARDS, refusal=refuse_without_dimensions, work=dispatch_work)),
}
"""Synthesizers by the name that the command line gives them, in the order in which `auto` prefers equal ones.

Examples
--------
>>> from astra_tacos import SYNTHESIZERS
>>> "tacos" in SYNTHESIZERS
True
"""
AUTO = "auto"
"""The portfolio: all synthesizers that do not opt out of it."""


def auto_synthesizers() -> tuple[str, ...]:
    """Names of the synthesizers that `auto` tries."""
    return tuple(name for name, entry in SYNTHESIZERS.items() if entry.in_auto)
