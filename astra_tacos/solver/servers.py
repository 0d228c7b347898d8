"""The crossover of parameter servers: theory, linear programme, bound and scheduled time, over numbers of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_tacos.bounds import lower_bound
from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.schedule_check import check_schedule
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.algorithms.column_generation import schedule_columns
from astra_tacos.synthesizer.algorithms.parameter_server import parameter_server, server_solution
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution
from astra_tacos.synthesizer.columns.stars import server_stars
from astra_tacos.synthesizer.server_shares import colocated, dedicated, mixed, server_share

NONE, ONLY_SERVERS, MIXED, BOX = "colocated", "dedicated", "mixed", "box"


@dataclass(frozen=True, slots=True)
class ServerRow:
    """An All-Reduce of some workers by some servers; times in ns, and `unit_ns` is S / B.

    `kind`: `colocated` (a server process on each worker), `dedicated` (servers only), `mixed` (both), `box` (one server with the
    ports of several). `formula`: in units, by theory. `share`: of the data, what servers have in theory. `programme_ns`: the
    linear programme's time. `bound_ns`: no algorithm is faster. `time_ns`: of the schedule, which the oracle and the replay
    checked.
    """

    kind: str
    workers: int
    servers: int
    formula: float
    share: float
    programme_ns: float
    bound_ns: int
    time_ns: int
    unit_ns: float


def server_rows(
    workers: int, servers: Sequence[int], size_bytes: int, port: tuple[float, float], chunks: int, box: float | None = None
) -> Iterator[ServerRow]:
    """Rows for numbers of servers on one Switch that stores and forwards.

    Parameters
    ----------
    workers
        At least 2.
    servers
        How many, each 0 or more.
    size_bytes
        Of the buffer of each worker.
    port
        Bandwidth (GiB/s) and latency (ns) of the link of each NPU.
    chunks
        Chunks for each worker.
    box
        Also a row of one server with so many times a worker's bandwidth; None for none.
    """
    for count in servers:
        topology, what = _task(workers, count, size_bytes, port, chunks)
        if not count:
            yield _row(NONE, topology, what, colocated(workers), 0.0, server_stars(topology, what, range(workers)))
            continue
        stars = server_stars(topology, what, range(workers, workers + count))
        yield _row(ONLY_SERVERS, topology, what, dedicated(workers, count), 1.0, stars)
        solution = server_solution(topology, what).scaled(size_bytes / server_solution(topology, what).total)
        yield _row(MIXED, topology, what, mixed(workers, count), server_share(workers, count), solution)
    if box is not None:
        topology, what = _task(workers, 1, size_bytes, port, chunks, box)
        stars = server_stars(topology, what, [workers])
        yield _row(BOX, topology, what, dedicated(workers, 1, box), 1.0, stars)


def _task(
    workers: int, servers: int, size_bytes: int, port: tuple[float, float], chunks: int, box: float = 1.0
) -> tuple[Topology, Collective]:
    count, (gibps, latency_ns) = workers + servers, port
    ends = ((workers, count), (count, workers)) if box != 1.0 else ()
    faster = tuple(LinkSpec(*pair, gibps * box, None) for pair in ends)
    network = NetworkConfig(f"{workers}+{servers}", (Dimension(SWITCH.name, count, gibps, latency_ns),), link_overrides=faster)
    topology = build_topology(network)
    return topology, make_collective("all-reduce", count, size_bytes, chunks, members=range(workers))


def _row(kind: str, topology: Topology, what: Collective, formula: float, share: float, solution: Solution) -> ServerRow:
    timing = compute_timing(topology, what, "pipelined")
    schedule: Schedule
    if kind == MIXED:
        schedule = parameter_server(topology, what, timing, 0)
    else:
        schedule = schedule_columns(topology, what, timing, solution, Demands(topology, what, 0), kind, 0)
    check_schedule(schedule)
    workers = what.num_members
    return ServerRow(
        kind,
        workers,
        topology.num_npus - workers,
        formula,
        share,
        solution.time_ns,
        lower_bound(topology, what, timing).time_ns,
        schedule.collective_time_ns,
        what.size_bytes / float(bytes_per_ns(topology.link_bandwidth_gibps)[0]),
    )
