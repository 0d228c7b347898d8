"""The route of a collective: paths, or trees, that share links evenly, and the sends along them.

See `paths` for the paths of personalised chunks, and `tree_growth` for the trees of chunks that several NPUs need or contribute
to; both may pass through NPUs that are no members of the collective. What only reduces is routed on the mirror image of the
network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.packing.pack import Packing
from astra_tacos.synthesizer.packing.tree_sends import send_graph_along_trees
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.routing.paths import Paths, find_paths, send_graph_along_paths
from astra_tacos.synthesizer.routing.tree_growth import grow_trees

BUSY_SHARE = 0.8
"""What routed sends are dispatched with, see `dispatch`."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Paths, or trees and the tree of each chunk; and the time for which each link is held."""

    paths: Paths | tuple[Packing, NDArray[np.int64]]

    @property
    def link_ns(self) -> NDArray[np.float64]:
        """float64[num_links], the time that chunks hold each link."""
        return self.paths.link_ns if isinstance(self.paths, Paths) else self.paths[0].link_ns


def find_route(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    seed: int,
    others_ns: NDArray[np.float64] | None = None,
    *,
    idle_roots: bool = False,
) -> Route:
    """Paths or trees for all chunks of a collective.

    Parameters
    ----------
    topology, collective, timing
        What to route, and over what.
    seed
        In which order chunks choose.
    others_ns
        float64[num_links], for how long others hold each link; they are counted in the result.
    idle_roots
        Whether trees may begin and end at NPUs that `may_have_idle_roots` names.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if collective.is_personalised:
        return Route(find_paths(topology, collective, timing, seed, others_ns))
    return Route(grow_trees(topology, collective, timing, seed, others_ns, idle_roots=idle_roots))


def send_graph_along_route(topology: Topology, collective: Collective, timing: Timing, route: Route) -> SendGraph:
    """The sends of a route.

    Parameters
    ----------
    topology, collective, timing
        What the route is of.
    route
        As `find_route` finds it.
    """
    if isinstance(route.paths, Paths):
        return send_graph_along_paths(topology, collective, timing, route.paths)
    return send_graph_along_trees(collective, *route.paths)
