"""The network models that a run can be replayed on: ASTRA-sim's analytical backends and its ns-3 backend, each one object.

A model's routes are in `replayer.routes`, by these objects. A real ASTRA-sim is no backend: it is a program that runs one
(`replayer.astra_sim`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.network.network_config import Dimension, NetworkConfig
    from astra_tacos.schedule.timing import LinkModel

STOCK = "ASTRA-sim"
EXACT_NS = 1 << 53
"""Time in ns up to which ASTRA-sim is exact, as it passes times as doubles (`CommonNetworkApi.cc`, `sim_get_time`)."""
NS3_VERSION = "8fd3604"
"""The commit of `astra-network-ns3` that the packet level equals."""
ASTRA_SIM, NS3 = "astra-sim", "ns-3"
"""Where a backend is asked for: the user's own ASTRA-sim, which is no network model but runs one; and the one with ns-3."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A network model that a run is replayed on: one of ASTRA-sim's backends.

    Parameters
    ----------
    name
        As users type it and files hold it.
    models_congestion
        Whether messages queue on links. Without it a message takes the same time whatever else is on its way.
    link_model
        How schedules that are made for it should be timed.
    binary
        ASTRA-sim's program for it.
    most_dimensions
        Dimensions of a network that stock ASTRA-sim takes, None for any number.
    branch
        The branch of ASTRA-sim that takes more dimensions than stock, and that the replay equals; None if there is none.
    branch_source
        The repository of that branch, "" if there is none.
    is_analytical
        Whether a message is one thing that takes links one after another; otherwise it is many packets.

    Examples
    --------
    >>> from astra_tacos import BACKENDS
    >>> BACKENDS["congestion-aware"].models_congestion
    True
    """

    name: str
    models_congestion: bool
    link_model: LinkModel
    binary: str
    most_dimensions: int | None = None
    branch: str | None = None
    branch_source: str = ""
    is_analytical: bool = True

    def __str__(self) -> str:
        return self.name

    def takes_dimensions(self, network: NetworkConfig) -> bool:
        """Whether stock ASTRA-sim takes so many dimensions."""
        return self.most_dimensions is None or len(network.dimensions) <= self.most_dimensions

    def aborted_by(self, network: NetworkConfig) -> Dimension | None:
        """The first dimension that stock ASTRA-sim aborts on; None if there is none, or it does not get as far as that."""
        if not self.is_analytical or not self.models_congestion or not self.takes_dimensions(network):
            return None
        return next((dim for dim in network.dimensions if dim.building_block.aware_substitute(dim.size) is not None), None)

    def refusals(self, network: NetworkConfig) -> tuple[str, ...]:
        """Why stock ASTRA-sim does not run this network, one reason each; empty where it does."""
        reasons: list[str] = []
        if not self.is_analytical:
            return ()
        if not self.takes_dimensions(network):
            count = "one dimension" if self.most_dimensions == 1 else f"{self.most_dimensions} dimensions"
            reasons.append(f"its {self.name} model takes {count}")
        fault = self.aborted_by(network)
        if fault is not None:
            reasons.append(f"its {self.name} model aborts on a {fault.block} of {fault.size}")
        others = {dim.block for dim in network.dimensions if not dim.building_block.is_in_astra_sim}
        reasons += [f"it has no {block}" for block in sorted(others)]
        if not network.dimensions or network.link_overrides or network.failed_links:
            reasons.append("this program takes no lists of links, failed links or links that differ")
        return tuple(reasons)

    def exact_to(self, network: NetworkConfig) -> str | None:
        """The version of ASTRA-sim whose times the replay gives on this network; None where no version is known to."""
        if not self.is_analytical:
            if network.forwarding:  # of several shortest ways ns-3 takes one by a hash
                return None
            return f"{STOCK}'s ns-3 backend ({NS3_VERSION})"
        refusals = self.refusals(network)
        if not refusals:
            return STOCK
        is_on_branch = self.branch is not None and len(refusals) == 1 and not self.takes_dimensions(network)
        return f"{STOCK}'s branch {self.branch}" if is_on_branch else None

    def needs(self, num_dimensions: int) -> str | None:
        """What ASTRA-sim has to be built with to run networks of so many dimensions; None where stock ASTRA-sim runs them."""
        if self.branch is None or self.most_dimensions is None or num_dimensions <= self.most_dimensions:
            return None
        return f"branch {self.branch} of {self.branch_source}"


CONGESTION_AWARE = Backend(
    name="congestion-aware",
    models_congestion=True,
    link_model="pipelined",
    binary="AstraSim_Analytical_Congestion_Aware",
    most_dimensions=1,
    branch="will/congestion-multidim",
    branch_source="https://github.com/astra-sim/astra-network-analytical",
)
CONGESTION_UNAWARE = Backend(
    name="congestion-unaware",
    models_congestion=False,
    link_model="blocking",
    binary="AstraSim_Analytical_Congestion_Unaware",
)
PACKET = Backend(
    name="packet",
    models_congestion=True,
    link_model="pipelined",
    binary="AstraSimNetwork",
    is_analytical=False,
)
BACKENDS = {backend.name: backend for backend in (CONGESTION_AWARE, CONGESTION_UNAWARE)}
"""ASTRA-sim's analytical backends by name: schedules are made for these.

Examples
--------
>>> from astra_tacos import BACKENDS
>>> sorted(BACKENDS)
['congestion-aware', 'congestion-unaware']
"""
MODELS = BACKENDS | {PACKET.name: PACKET}
"""All network models by name: runs are replayed on these."""


def stock_backend(network: NetworkConfig | None) -> Backend:
    """The model with queues where stock ASTRA-sim has it, in one dimension and for a list of links; else the one without.

    None stands for a network that cannot be read. Scripts, `lint` and `prints` ask for it; times of answers are of the clock.
    """
    return CONGESTION_AWARE if network is None or len(network.dimensions) <= 1 else CONGESTION_UNAWARE


def is_packet_level(backend: Backend | None) -> TypeGuard[Backend]:
    """Whether a network model was asked for on which a message is many packets."""
    return backend is not None and not backend.is_analytical


def backend_of_model(link_model: LinkModel) -> Backend:
    """The model for which schedules are timed so: the one of a schedule for which none is named."""
    return next(backend for backend in BACKENDS.values() if backend.link_model == link_model)


def choose_backend(backend: Backend | str | None) -> Backend:
    """The clock of an answer: the network model that a caller names, by itself or by name, else the one with queues.

    Raises
    ------
    ConfigError
        If no model has that name.
    """
    if backend is None:
        return CONGESTION_AWARE
    if isinstance(backend, Backend):
        return backend
    if backend not in MODELS:
        raise ConfigError(f"backend: found {backend!r}, expected {' or '.join(MODELS)}")
    return MODELS[backend]


@dataclass(frozen=True, slots=True)
class Binary:
    """A program of ASTRA-sim that runs a network file.

    Parameters
    ----------
    branch
        The branch of ASTRA-sim that it is built from; None for stock ASTRA-sim.
    """

    backend: Backend
    branch: str | None

    @property
    def label(self) -> str:
        """What answers call it."""
        return f"stock {STOCK}" if self.branch is None else f"{STOCK}'s branch {self.branch}"


def binaries_for(network: NetworkConfig) -> tuple[Binary, ...]:
    """The programs of ASTRA-sim with analytical models that run a network file, those of stock ASTRA-sim first."""
    stock = [Binary(backend, None) for backend in BACKENDS.values() if not backend.refusals(network)]
    branches = [
        Binary(backend, backend.branch)
        for backend in BACKENDS.values()
        if backend.branch and not backend.takes_dimensions(network) and len(backend.refusals(network)) == 1
    ]
    return (*stock, *branches)
