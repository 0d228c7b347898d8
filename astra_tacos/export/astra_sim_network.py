"""The network and the backend of ASTRA-sim that represent a topology, and how exactly they do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_tacos.blocks.fully_connected import FULLY_CONNECTED
from astra_tacos.config.network import Dimension
from astra_tacos.errors import ConfigError
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE, Backend
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.topology.topology import Topology

_PORT_NOTE = (
    "chunks that reach a switch's port at the same instant may pass it in another order than predicted: "
    "ASTRA-sim's cycles may differ by a few percent"
)


@dataclass(frozen=True, slots=True)
class AstraSimNetwork:
    """A network file for stock ASTRA-sim.

    `dimensions`: what the file lists. `backend`: the network model to run it on. `is_exact`: whether it simulates
    this topology's links under the timing model exactly. `note`: what a reader of the results should know.
    """

    dimensions: tuple[Dimension, ...]
    backend: Backend
    is_exact: bool
    note: str

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


def astra_sim_network(topology: Topology, link_model: LinkModel) -> AstraSimNetwork:
    """The network and backend on which ASTRA-sim comes closest to a topology under a timing model.

    `blocking` traces wait for arrivals, so no two sends meet on a link, and the congestion-unaware backend, whose delay depends
    on nothing but the two ends, is exact in any number of dimensions. `pipelined` needs the congestion-aware backend, which has
    one dimension; a uniform direct-connect network of any shape is exact there on a FullyConnected network, where every pair has
    a link of its own and a schedule uses only those that exist. A Switch is not quite: traces order the sends of an NPU, but
    chunks of several NPUs that come to a port at one instant go in the order of ASTRA-sim's events.
    """
    if link_model == "blocking":
        return _blocking(topology)
    return _pipelined(topology)


def _blocking(topology: Topology) -> AstraSimNetwork:
    if not topology.dimensions:
        if topology.is_uniform:
            return AstraSimNetwork((_stand_in(topology),), CONGESTION_UNAWARE, True, _stand_in_note(topology))
        return _approximate(topology)
    dimensions = tuple(map(_stand_in_of, topology.dimensions))
    if not topology.is_regular:
        note = "ASTRA-sim has no links that differ within a dimension: it runs without the overrides"
        return AstraSimNetwork(dimensions, CONGESTION_UNAWARE, False, note)
    if topology.has_switches:
        note = "through switches ASTRA-sim may finish earlier than predicted, never later: it does not model contention there"
        return AstraSimNetwork(dimensions, CONGESTION_UNAWARE, False, note)
    pairs = zip(topology.dimensions, dimensions, strict=True)
    others = dict.fromkeys(f"{own.block} is written as {other.block}" for own, other in pairs if own != other)
    note = f"{', '.join(others)}: neighbours cost the same" if others else ""
    return AstraSimNetwork(dimensions, CONGESTION_UNAWARE, True, note)


def _pipelined(topology: Topology) -> AstraSimNetwork:
    if len(topology.dimensions) == 1 and topology.is_regular:
        dimension = topology.dimensions[0]
        block = dimension.building_block
        if block.is_in_astra_sim and block.aware_substitute(dimension.size) is None:
            note = _PORT_NOTE if topology.has_switches else ""
            return AstraSimNetwork(topology.dimensions, CONGESTION_AWARE, not topology.has_switches, note)
    if topology.is_uniform and not topology.has_switches:
        return AstraSimNetwork((_stand_in(topology),), CONGESTION_AWARE, True, _stand_in_note(topology))
    if not topology.dimensions:
        return _approximate(topology)
    note = "stock ASTRA-sim has no congestion-aware model of this network: its cycles will differ from the prediction"
    return AstraSimNetwork(tuple(map(_stand_in_of, topology.dimensions)), CONGESTION_UNAWARE, False, note)


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
