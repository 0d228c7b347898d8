"""Sums of hosts against sums of devices, over numbers of NPUs and sizes of an All-Reduce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from astra_tacos.bounds import lower_bound
from astra_tacos.collective import make_collective
from astra_tacos.network.composition import first_npus
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.schedule_check import check_schedule
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

HOST, NETWORK = "column-generation", "in-network"


@dataclass(frozen=True, slots=True)
class OffloadRow:
    """One number of NPUs and one size; times in ns.

    `host_ns`, `network_ns`: the best schedules without and with devices that add; `host_bound_ns`, `network_bound_ns`: no
    algorithm is faster there. `refusal`: why there is no schedule.
    """

    npus: int
    size_bytes: int
    host_ns: int | None = None
    network_ns: int | None = None
    host_bound_ns: int | None = None
    network_bound_ns: int | None = None
    refusal: str = ""

    @property
    def gain(self) -> float | None:
        """How many times as fast it is with devices."""
        return None if self.host_ns is None or self.network_ns is None else self.host_ns / self.network_ns

    @property
    def bound_gain(self) -> float | None:
        """The same for the bounds."""
        if self.host_bound_ns is None or self.network_bound_ns is None:
            return None
        return self.host_bound_ns / self.network_bound_ns


def offload_rows(
    topology: Topology, collective: str, npus: Sequence[int], sizes: Sequence[int], options: SearchOptions
) -> Iterator[OffloadRow]:
    """A row for each number of NPUs and each size.

    Parameters
    ----------
    topology
        A network with devices that add.
    collective
        Its name.
    npus
        How many NPUs there are: those of the lowest ids, without the others.
    sizes
        Bytes, as `make_collective` takes them.
    options
        What is asked of searches; the synthesizer does not count.

    Raises
    ------
    ConfigError
        If no device adds, or there are not so many NPUs, or they are not connected without the others.
    """
    if not topology.reducing:
        raise ConfigError(f"{topology.name}: no device adds, expected astra_tacos: reducing in the network file")
    outside = [count for count in npus if not 2 <= count <= topology.num_endpoints]
    if outside:
        raise ConfigError(f"{topology.name}: found {outside[0]} NPUs to take part, expected 2 to {topology.num_endpoints}")
    for count in npus:
        among = topology if count == topology.num_endpoints else first_npus(topology, count)
        without = replace(among, reducing=())
        for size in sizes:
            try:
                host, host_bound = _best(without, collective, size, replace(options, synthesizer=HOST))
                network, bound = _best(among, collective, size, replace(options, synthesizer=NETWORK))
            except (ConfigError, SynthesisError) as error:
                yield OffloadRow(count, size, refusal=str(error))
                continue
            # Whatever hosts do is possible beside devices that add, too.
            best = min(network.collective_time_ns, host.collective_time_ns)
            yield OffloadRow(count, size, host.collective_time_ns, best, host_bound, bound)


def _best(topology: Topology, name: str, size: int, options: SearchOptions) -> tuple[Schedule, int]:
    chunks = options.first_chunks
    what = make_collective(name, topology.num_npus, size, chunks, members=topology.endpoints)
    schedule = search(topology, what, options).schedule
    check_schedule(schedule)
    timing = compute_timing(topology, schedule.collective, schedule.timing.link_model, options.reduce_bandwidth_gbps)
    return schedule, lower_bound(topology, schedule.collective, timing).time_ns
