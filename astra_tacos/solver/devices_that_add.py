"""The crossover of parameter servers: theory, linear programme, bound and scheduled time, over numbers of servers.

Devices that add are compared with hosts that do, over numbers of NPUs and sizes of an All-Reduce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from astra_tacos.bounds import largest
from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.composition import build_topology, first_npus
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.clock import bounds_on, timed_for
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.rows import Answer, Table
from astra_tacos.support.units import bytes_per_ns, format_size, format_time, ratio_text
from astra_tacos.synthesizer.algorithms.column_generation import best_shares, schedule_columns
from astra_tacos.synthesizer.algorithms.in_network import parameter_server
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution, server_stars
from astra_tacos.synthesizer.parts.server_shares import colocated, dedicated, fewest_that_win, mixed, server_share
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

_OFFLOAD_COLUMNS = ("NPUs", "size", "hosts", "network", "gain", "bound, hosts", "bound, network", "gain of bounds")
_SERVERS_COLUMNS = ("variant", "servers", "theory", "programme", "bound", "scheduled", "time", "over all-reduce")
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
    time_ns: float
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
    port
        Bandwidth (GiB/s) and latency (ns) of the link of each NPU.
    box
        Also a row of one server with so many times a worker's bandwidth; None for none.
    """
    for count in servers:
        topology, collective = _task(workers, count, size_bytes, port, chunks)
        if not count:
            yield _row(NONE, topology, collective, colocated(workers), 0.0, server_stars(topology, collective, range(workers)))
            continue
        stars = server_stars(topology, collective, range(workers, workers + count))
        yield _row(ONLY_SERVERS, topology, collective, dedicated(workers, count), 1.0, stars)
        shares = best_shares(topology, collective, with_devices=False)
        solution = shares.scaled(size_bytes / shares.total)
        yield _row(MIXED, topology, collective, mixed(workers, count), server_share(workers, count), solution)
    if box is not None:
        topology, collective = _task(workers, 1, size_bytes, port, chunks, box)
        stars = server_stars(topology, collective, [workers])
        yield _row(BOX, topology, collective, dedicated(workers, 1, box), 1.0, stars)


def first_that_wins(rows: Sequence[ServerRow]) -> int | None:
    """The fewest servers that, mixed with workers, are faster than the workers alone in theory; None if none of the rows is."""
    mixed_rows = (row for row in rows if row.kind == MIXED)
    return next((row.servers for row in mixed_rows if row.time_ns < colocated(row.workers) * row.unit_ns), None)


def _task(
    workers: int, servers: int, size_bytes: int, port: tuple[float, float], chunks: int, box: float = 1.0
) -> tuple[Topology, Collective]:
    count, (gibps, latency_ns) = workers + servers, port
    ends = ((workers, count), (count, workers)) if box != 1.0 else ()
    faster = tuple(LinkSpec(*pair, gibps * box, None) for pair in ends)
    network = NetworkConfig(f"{workers}+{servers}", (Dimension(SWITCH.name, count, gibps, latency_ns),), link_overrides=faster)
    topology = build_topology(network)
    return topology, make_collective("all-reduce", count, size_bytes, chunks, members=range(workers))


def _row(kind: str, topology: Topology, collective: Collective, formula: float, share: float, solution: Solution) -> ServerRow:
    timing = compute_timing(topology, collective, "pipelined")
    schedule: Schedule
    if kind == MIXED:
        schedule = parameter_server(Problem(topology, collective, timing), 0)
    else:
        schedule = schedule_columns(Problem(topology, collective, timing), solution, Demands(topology, collective, 0), kind, 0)
    check_schedule(schedule)
    workers = collective.num_members
    return ServerRow(
        kind,
        workers,
        topology.num_npus - workers,
        formula,
        share,
        solution.time_ns,
        largest(bounds_on(topology, collective, CONGESTION_AWARE)).time_ns,
        round(exact_time_ns(schedule), 3),
        collective.size_bytes / float(bytes_per_ns(topology.link_bandwidth_gibps)[0]),
    )


HOST, NETWORK = "column-generation", "in-network"


@dataclass(frozen=True, slots=True)
class OffloadRow:
    """One number of NPUs and one size; times in ns.

    `host_ns`, `network_ns`: the best schedules without and with devices that add; `host_bound_ns`, `network_bound_ns`: no
    algorithm is faster there. `refusal`: why there is no schedule.
    """

    npus: int
    size_bytes: int
    host_ns: float | None = None
    network_ns: float | None = None
    host_bound_ns: int | None = None
    network_bound_ns: int | None = None
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        """The row, and its gains."""
        return asdict(self) | {"gain": self.gain, "bound_gain": self.bound_gain}

    @property
    def gain(self) -> float | None:
        """How many times as fast it is with devices."""
        return _gain(self.host_ns, self.network_ns)

    @property
    def bound_gain(self) -> float | None:
        """The same for the bounds."""
        return _gain(self.host_bound_ns, self.network_bound_ns)


def _gain(host_ns: float | None, network_ns: float | None) -> float | None:
    return None if host_ns is None or network_ns is None else host_ns / network_ns


def offload_rows(
    topology: Topology, collective: str, npus: Sequence[int], sizes: Sequence[int], options: SearchOptions
) -> Iterator[OffloadRow]:
    """A row for each number of NPUs and each size.

    Parameters
    ----------
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
                host_ns, host_bound = _best(without, collective, size, replace(options, synthesizer=HOST))
                network_ns, bound = _best(among, collective, size, replace(options, synthesizer=NETWORK))
            except (ConfigError, SynthesisError) as error:
                yield OffloadRow(count, size, refusal=str(error))
                continue
            # Whatever hosts do is possible beside devices that add, too.
            yield OffloadRow(count, size, host_ns, min(network_ns, host_ns), host_bound, bound)


def _best(topology: Topology, name: str, size: int, options: SearchOptions) -> tuple[float, int]:
    """The time of the best schedule, untruncated, and the bound of any algorithm, where messages queue."""
    chunks = options.first_chunks
    collective = make_collective(name, topology.num_npus, size, chunks, members=topology.endpoints)
    schedule = search(topology, collective, timed_for(options, topology, CONGESTION_AWARE)[0]).schedule
    check_schedule(schedule)
    return round(exact_time_ns(schedule), 3), largest(bounds_on(topology, collective, CONGESTION_AWARE)).time_ns


def offload_answer(rows: Sequence[OffloadRow], title: str) -> Answer:
    """NPUs and sizes down: times of both, bounds, and what is gained."""

    def time(value: float | None) -> str:
        return "-" if value is None else format_time(value)

    def gain(value: float | None, other: float | None) -> str:
        return "-" if value is None or other is None else ratio_text(value, other)

    cells = [
        (
            row.npus,
            format_size(row.size_bytes),
            time(row.host_ns),
            time(row.network_ns),
            gain(row.host_ns, row.network_ns),
            time(row.host_bound_ns),
            time(row.network_bound_ns),
            gain(row.host_bound_ns, row.network_bound_ns),
        )
        for row in rows
    ]
    refusals = [f"{row.npus} NPUs, {format_size(row.size_bytes)}: {row.refusal}" for row in rows if row.refusal]
    return Answer("", tabled=[Table(title, _OFFLOAD_COLUMNS, cells, remarks=tuple(refusals))])


def servers_answer(rows: Sequence[ServerRow], title: str, racks: Mapping[str, float], racks_title: str) -> Answer:
    """Variants and numbers of servers down, in units of S / B; below, the theory of racks, if there is any."""
    workers, unit_ns = rows[0].workers, rows[0].unit_ns
    cells = [
        (
            row.kind,
            f"{row.servers}",
            f"{row.formula:.4f}",
            *(f"{time_ns / row.unit_ns:.4f}" for time_ns in (row.programme_ns, row.bound_ns, row.time_ns)),
            format_time(row.time_ns),
            f"{colocated(workers) / row.formula:.2f}",
        )
        for row in rows
    ]
    tables = [Table(f"{title}, in units of {format_time(unit_ns)}", _SERVERS_COLUMNS, cells)]
    if racks:
        tables.append(Table(racks_title, ("variant", "units"), [(name, f"{value:.4f}") for name, value in racks.items()]))
    remarks = ["", f"dedicated servers alone win from {fewest_that_win(workers)} on, mixed ones from 1 on (theory)"]
    winner = first_that_wins(rows)
    if winner is not None:
        remarks.append(f"scheduled: mixed servers win from {winner} on, of the numbers above")
    return Answer("", tabled=[*tables[:-1], replace(tables[-1], remarks=tuple(remarks))])
