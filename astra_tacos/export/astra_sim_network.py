"""The network and the backend of ASTRA-sim that represent a topology, and how exactly they do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_tacos.network.blocks.fully_connected import FULLY_CONNECTED
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import CONGESTION_UNAWARE, Backend, backend_of_model
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.errors import ConfigError

_PORT_NOTE = (
    "chunks that reach a switch's port at the same instant may pass the port in another order than predicted: "
    "ASTRA-sim's cycles may differ by a few percent"
)


@dataclass(frozen=True, slots=True)
class AstraSimNetwork:
    """A network file for ASTRA-sim.

    `dimensions`: what the file lists. `backend`: the network model to run it on. `is_exact`: whether it simulates
    this topology's links under the timing model exactly. `note`: what a reader of the results should know.
    """

    dimensions: tuple[Dimension, ...]
    backend: Backend
    is_exact: bool
    note: str

    @property
    def needs(self) -> str | None:
        """What ASTRA-sim has to be built with to run it; None for stock ASTRA-sim."""
        return self.backend.needs(len(self.dimensions))

    def to_config(self) -> NetworkConfig:
        """The network file as it is read."""
        return NetworkConfig("network.yml", self.dimensions)

    def to_yaml(self) -> str:
        """The text of the network file."""
        columns = {
            "topology": [dimension.block for dimension in self.dimensions],
            "npus_count": [str(dimension.size) for dimension in self.dimensions],
            "bandwidth": [repr(dimension.bandwidth_gibps) for dimension in self.dimensions],
            "latency": [repr(dimension.latency_ns) for dimension in self.dimensions],
        }
        units = {"bandwidth": "  # GB/s", "latency": "  # ns"}
        return "".join(f"{key}: [ {', '.join(values)} ]{units.get(key, '')}\n" for key, values in columns.items())


def astra_sim_network(topology: Topology, link_model: LinkModel, backend: Backend | None = None) -> AstraSimNetwork:
    """The network and backend on which ASTRA-sim comes closest to a topology under a timing model.

    `blocking` traces wait for arrivals, so no two sends meet on a link, and the congestion-unaware backend, whose delay depends
    on nothing but the two ends, is exact in any number of dimensions. `pipelined` needs the congestion-aware backend, of which
    stock ASTRA-sim has one dimension; a uniform direct-connect network of any shape is exact there on a FullyConnected network,
    where every pair has a link of its own and a schedule uses only those that exist. Other networks of several dimensions need a
    branch of the backend (`AstraSimNetwork.needs`). A Switch is not quite exact: traces order the sends of an NPU, but chunks of
    several NPUs that come to a port at one instant go in the order of ASTRA-sim's events.

    Parameters
    ----------
    backend
        The network model to come close on; None, and one that is not analytical, take the one for which schedules are timed so.

    Raises
    ------
    ConfigError
        If no network of ASTRA-sim stands for a dimension, or devices only forward.
    """
    if topology.forwarding:
        raise ConfigError(f"{topology.name}: no network of ASTRA-sim has devices that only forward")
    chosen = backend if backend is not None and backend.is_analytical else backend_of_model(link_model)
    if chosen.models_congestion:
        return _with_queues(topology, chosen)
    network = _without_queues(topology, chosen)
    if link_model == "blocking":
        return network
    return replace(network, is_exact=False, note=f"{chosen} has no queues, in which pipelined sends wait: its cycles will differ")


def _without_queues(topology: Topology, backend: Backend) -> AstraSimNetwork:
    if not topology.dimensions:
        if topology.is_uniform:
            return AstraSimNetwork((_stand_in(topology),), backend, True, _stand_in_note(topology))
        return _approximate(topology)
    dimensions = tuple(map(_stand_in_of, topology.dimensions))
    if not topology.is_regular:
        note = "ASTRA-sim has no links that differ within a dimension: it runs without the overrides"
        return AstraSimNetwork(dimensions, backend, False, note)
    if topology.has_switches:
        note = "through switches ASTRA-sim may finish earlier than predicted, never later: it does not model contention there"
        return AstraSimNetwork(dimensions, backend, False, note)
    pairs = zip(topology.dimensions, dimensions, strict=True)
    others = dict.fromkeys(f"{block.block} is written as {other.block}" for block, other in pairs if block != other)
    note = f"{', '.join(others)}: neighbours cost the same" if others else ""
    return AstraSimNetwork(dimensions, backend, True, note)


def _with_queues(topology: Topology, backend: Backend) -> AstraSimNetwork:
    own_dimensions = topology.dimensions
    stand_ins = tuple(map(_queued_stand_in_of, own_dimensions))
    is_alike = topology.is_regular and None not in stand_ins
    is_own = stand_ins == own_dimensions and backend.aborted_by(NetworkConfig(topology.name, own_dimensions)) is None
    if is_alike and len(own_dimensions) == 1 and is_own:
        return AstraSimNetwork(own_dimensions, backend, not topology.has_switches, _PORT_NOTE if topology.has_switches else "")
    if topology.is_uniform and not topology.has_switches:
        return AstraSimNetwork((_stand_in(topology),), backend, True, _stand_in_note(topology))
    if not own_dimensions:
        return _approximate(topology)
    if is_alike:
        dimensions = tuple(dimension for dimension in stand_ins if dimension is not None)
        notes = [f"stock ASTRA-sim has no {backend} model of this network: it runs on {backend.needs(len(own_dimensions))}"]
        notes += [_PORT_NOTE] if topology.has_switches else []
        return AstraSimNetwork(dimensions, backend, not topology.has_switches, "; ".join(notes))
    note = f"no version of ASTRA-sim has a {backend} model of this network: its cycles will differ from the prediction"
    return AstraSimNetwork(tuple(map(_stand_in_of, own_dimensions)), CONGESTION_UNAWARE, False, note)


def _approximate(topology: Topology) -> AstraSimNetwork:
    note = "ASTRA-sim has no graphs of unequal links: it runs on a FullyConnected network of the slowest link's kind"
    return AstraSimNetwork((_stand_in(topology),), CONGESTION_UNAWARE, False, note)


def _stand_in(topology: Topology) -> Dimension:
    bandwidth, latency = float(topology.link_bandwidth_gibps.min()), float(topology.link_latency_ns.max())
    return Dimension(FULLY_CONNECTED.name, topology.num_npus, bandwidth, latency)


def _stand_in_note(topology: Topology) -> str:
    shape = f"{FULLY_CONNECTED.name} {topology.num_npus}"
    return f"network.yml is {shape}, an exact stand-in: the traces use only links of {topology.name}"


def _stand_in_of(dimension: Dimension) -> Dimension:
    block = dimension.building_block.unaware_substitute(dimension.size)
    if block is None:
        raise ConfigError(f"{dimension.block} {dimension.size}: ASTRA-sim has no network that stands for it")
    return replace(dimension, block=block)


def _queued_stand_in_of(dimension: Dimension) -> Dimension | None:
    """The dimension in which sends between neighbours meet the same queues; None if ASTRA-sim has none."""
    block = dimension.building_block
    if block.is_in_astra_sim:
        return dimension
    return None if block.num_switches(dimension.size) else replace(dimension, block=FULLY_CONNECTED.name)
