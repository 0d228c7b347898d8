"""How far `auto` is from the optimum at 1 KiB on networks of at most 8 NPUs: an exact search (HiGHS), and proven bounds.

    python benchmarks/exact.py [--no-record] [--seconds N] [--only NAME]

`--seconds` limits each integer programme. Results do not depend on the machine, unless a limit strikes; then the table says so.
`--only` takes the networks whose names contain NAME, and records nothing.

The model is that of `pipelined` in exact arithmetic: a chunk holds a link while it serialises (w units of time beta, an integer
w for each link) and arrives a latency alpha later, the same for all links; what has arrived can leave at once. In a schedule in
which nothing can start earlier, everything starts at a time a*alpha + b*beta. As long as all b*beta are less than alpha, chunks
that have made different numbers of hops a do not meet on a link. With D hops to the farthest NPU, an All-Gather ends at
D*alpha + B*beta, and any schedule with D + 1 hops takes longer if B*beta < alpha. So the least B is the optimum for these
chunks. It is found by asking for B from a bound upwards; each answer is a proof (HiGHS finds the programme infeasible) or a
schedule, which the project's oracle verifies and whose time is computed anew.

An integer programme has one binary variable for each chunk, link, number of hops a and start b. Each chunk enters every NPU but
its owner's once, leaves it only after that, and a link takes one chunk at a time. Messages of several chunks gain nothing where
a link is held for their bytes only. (A schedule of another chunking can be faster; no chunking beats the bound.)

A channel through a switch is two links, and what crosses it is for one destination. The programmes may let chunks overtake one
another at the switch; their schedules have to keep the same time first come, first served. With one switch nobody relays.

An All-Reduce is held against the bound over all algorithms and chunkings; where all pairs of NPUs have channels, also against
that of one hop, in which nobody has anything but its own contribution to send.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from random import Random

import numpy as np
from quality import dgx1
from results_page import record
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from small import random_regular

from astra_tacos import build_topology, lower_bound
from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns, settle
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.verifier.schedule_oracle import check

SIZE = 1 << 10
CHUNKS = (1, 2)
"""Chunks per NPU of the integer programmes."""
MOST_ABOVE = 0.05
SECONDS = 60.0


def dims(*dimensions: tuple[str, int]) -> Topology:
    return build_topology(NetworkConfig("exact.yml", tuple(Dimension(*each, 50.0, 500.0) for each in dimensions)))


def random_graph(npus: int, seed: int) -> Topology:
    """A ring and some chords."""
    random = Random(seed)
    pairs = {tuple(sorted((npu, (npu + 1) % npus))) for npu in range(npus)}
    pairs |= {tuple(sorted(random.sample(range(npus), 2))) for _ in range(npus // 2)}
    links = tuple(LinkSpec(*ends, 50.0, 500.0) for a, b in sorted(pairs) for ends in ((a, b), (b, a)))
    return build_topology(NetworkConfig("exact.yml", (), links))


NETWORKS = {
    **{f"Ring {npus}": dims(("Ring", npus)) for npus in (4, 5, 6, 7, 8)},
    **{f"FullyConnected {npus}": dims(("FullyConnected", npus)) for npus in (4, 5, 6, 7, 8)},
    **{f"Switch {npus}": dims(("Switch", npus)) for npus in (4, 5, 6, 7, 8)},
    "Mesh 2 x Mesh 3": dims(("Mesh", 2), ("Mesh", 3)),
    "Hypercube 8": dims(("Hypercube", 8)),
    "DGX-1": dgx1(),
    "random 3-regular graph of 8": build_topology(random_regular(8, 3, 0)),
    **{f"random graph of {npus}, seed {seed}": random_graph(npus, seed) for npus, seed in ((6, 1), (7, 2), (8, 3))},
}


@dataclass(frozen=True)
class Hop:
    """A variable: a chunk starts to cross the `stage`-th link of a channel after `hops` latencies and `start` units."""

    chunk: int
    channel: int
    stage: int
    link: int
    hops: int
    start: int
    end: int


@dataclass(frozen=True)
class Units:
    """A network in whole units: the unit in ns, the latency in ns, and how many units a chunk holds each link."""

    unit_ns: float
    latency_ns: float
    held: list[int]


def in_units(network: Topology, chunk_bytes: int) -> Units:
    """Raises a `ConfigError` if latencies differ, or holds are no multiples of the shortest one."""
    holds = chunk_bytes / bytes_per_ns(network.link_bandwidth_gibps)
    unit = float(holds.min())
    held = np.rint(holds / unit).astype(int)
    if np.ptp(network.link_latency_ns) or not np.allclose(held * unit, holds, rtol=1e-9):
        raise ConfigError(f"{network.name}: expected equal latencies, and bandwidths that divide the largest one")
    return Units(unit, float(network.link_latency_ns[0]), held.tolist())


def links_of(network: Topology, channel: int) -> list[int]:
    both = int(network.channel_link[channel]), int(network.channel_down_link[channel])
    return [link for link in both if link >= 0]


@dataclass(frozen=True)
class Optimum:
    """The least time in ns, with its schedule; or what is proven so far where a limit struck."""

    time_ns: float
    is_proven: bool
    schedule: Schedule | None
    programmes: int
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.time_ns:,.1f}" if self.is_proven else f"at least {self.time_ns:,.1f} (time is up)"


def all_gather(network: Topology, collective: Collective, seconds: float) -> Optimum:
    """The fastest All-Gather of these chunks, proven to be so."""
    begin = time.perf_counter()
    if np.ptp(collective.chunk_size_bytes):
        raise ConfigError(f"{collective.name}: expected chunks of one size")
    units = in_units(network, int(collective.chunk_size_bytes[0]))
    adjacency = coo_array((np.ones(network.num_channels), (network.channel_src, network.channel_dst)), (network.num_npus,) * 2)
    away = shortest_path(adjacency.tocsr(), unweighted=True).astype(int)
    hops = int(away.max()) * len(links_of(network, 0))
    most = math.floor(units.latency_ns / units.unit_ns)
    least = least_units(network, collective, units, away)
    for number, last in enumerate(range(least, most), 1):
        columns = variables(network, collective, units, away, hops, last, most)
        chosen = solve(network, collective, columns, seconds)
        if isinstance(chosen, bool):
            if chosen:  # proven to be infeasible
                continue
            proven = hops * units.latency_ns + last * units.unit_ns
            return Optimum(proven, False, None, number, time.perf_counter() - begin)
        schedule = as_schedule(network, collective, chosen)
        time_ns = hops * units.latency_ns + last * units.unit_ns
        check(schedule)
        found = exact_time_ns(schedule)
        if not math.isclose(found, time_ns, abs_tol=0.01 * last):
            raise AssertionError(f"{network.name}: the model takes {time_ns} ns, its schedule {found} ns")
        return Optimum(time_ns, True, schedule, number, time.perf_counter() - begin)
    raise ConfigError(f"{network.name}: expected chunks of which many take no longer than a latency")


def least_units(network: Topology, collective: Collective, units: Units, away: np.ndarray) -> int:
    """Units for which the links into an NPU are busy after the last hop at least: with chunks of the farthest NPUs."""
    into: dict[int, set[int]] = {}
    for channel in range(network.num_channels):
        into.setdefault(int(network.channel_dst[channel]), set()).add(links_of(network, channel)[-1])
    lacking = {npu: int(np.count_nonzero(away[collective.chunk_owner, npu] == away.max())) for npu in into}
    return max(math.ceil(lacking[npu] / sum(1 / units.held[link] for link in links)) for npu, links in into.items())


def variables(
    network: Topology, collective: Collective, units: Units, away: np.ndarray, hops: int, last: int, most: int
) -> list[Hop]:
    """All starts that can be part of a schedule of so many hops and `last` units."""
    src, dst = network.channel_src.tolist(), network.channel_dst.tolist()
    stages = len(links_of(network, 0))
    widest = max(units.held)
    columns = []
    for chunk, owner in enumerate(collective.chunk_owner.tolist()):
        for channel in range(network.num_channels):
            if dst[channel] == owner:
                continue
            for stage, link in enumerate(links_of(network, channel)):
                for begin in range(int(away[owner, src[channel]]) * stages + stage, hops - stages + stage + 1, stages):
                    # The latest start of a schedule in which nothing can start earlier: after all others, hop by hop.
                    latest = (begin + 1) * (collective.num_chunks + 1) * widest
                    end = min(last if begin + 1 == hops else most, latest) - units.held[link]
                    columns += [
                        Hop(chunk, channel, stage, link, begin, start, start + units.held[link]) for start in range(end + 1)
                    ]
    return columns


def solve(network: Topology, collective: Collective, columns: list[Hop], seconds: float) -> list[Hop] | bool:
    """The starts of some schedule; True if there is provably none, False if the time is up."""
    rows: list[tuple[dict[int, float], float, float]] = []
    src, dst = network.channel_src.tolist(), network.channel_dst.tolist()
    last_stage = len(links_of(network, 0)) - 1
    entering: dict[tuple[int, int], list[int]] = {}
    crossing: dict[tuple[int, int], list[int]] = {}
    on_link: dict[tuple[int, int], list[int]] = {}
    for number, hop in enumerate(columns):
        crossing.setdefault((hop.chunk, hop.channel, hop.stage), []).append(number)
        if hop.stage == last_stage:
            entering.setdefault((hop.chunk, dst[hop.channel]), []).append(number)
        for unit in range(hop.start, hop.end):
            on_link.setdefault((hop.link, hop.hops, unit), []).append(number)
    for chunk, owner in enumerate(collective.chunk_owner.tolist()):
        for npu in range(network.num_npus):
            if npu != owner:
                if (chunk, npu) not in entering:
                    return True
                rows.append((dict.fromkeys(entering[chunk, npu], 1.0), 1, 1))
    for numbers in on_link.values():
        if len(numbers) > 1:
            rows.append((dict.fromkeys(numbers, 1.0), 0, 1))
    # What leaves by some time has come before: one row for each chunk, channel, stage, hops and start.
    for (chunk, channel, stage), numbers in crossing.items():
        owner = int(collective.chunk_owner[chunk])
        if stage == 0 and src[channel] == owner:
            continue
        before = crossing.get((chunk, channel, stage - 1), []) if stage else entering.get((chunk, src[channel]), [])
        for number in numbers:
            hop = columns[number]
            here = [other for other in numbers if (columns[other].hops, columns[other].start) <= (hop.hops, hop.start)]
            row = dict.fromkeys(here, 1.0)
            for other in before:
                earlier = columns[other]
                if earlier.hops + 1 < hop.hops or (earlier.hops + 1 == hop.hops and earlier.end <= hop.start):
                    row[other] = -1.0
            rows.append((row, -np.inf, 0))
    at = np.repeat(np.arange(len(rows)), [len(row) for row, _, _ in rows])
    matrix = coo_array(
        ([value for row, _, _ in rows for value in row.values()], (at, [column for row, _, _ in rows for column in row])),
        (len(rows), len(columns)),
    )
    limits = LinearConstraint(matrix.tocsr(), [low for _, low, _ in rows], [high for _, _, high in rows])
    cost = np.zeros(len(columns))
    options = {"time_limit": seconds}
    found = milp(cost, constraints=limits, integrality=np.ones(len(columns)), bounds=Bounds(0, 1), options=options)
    if found.status == 2:
        return True
    return False if found.x is None else [columns[number] for number in np.flatnonzero(found.x > 0.5)]


def as_schedule(network: Topology, collective: Collective, chosen: list[Hop]) -> Schedule:
    """The sends in the order of their starts, each as early as possible."""
    last_stage = len(links_of(network, 0)) - 1
    arriving = {(hop.chunk, hop.channel) for hop in chosen if hop.stage == last_stage}
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    for hop in sorted(chosen, key=lambda hop: (hop.hops, hop.start)):
        if (hop.chunk, hop.channel) in arriving:
            starts.setdefault((hop.chunk, hop.channel), (hop.hops, hop.start))
    order = sorted(starts, key=lambda key: starts[key])
    chunk, channel = np.array(order, np.int32).T
    timing = compute_timing(network, collective, "pipelined")
    return settle(Problem(network, collective, timing), Sends(chunk, channel, np.zeros(len(order), np.bool_)))


@dataclass(frozen=True)
class Row:
    network: str
    collective: str
    auto_ns: float
    made_by: str
    bound_ns: float
    optima: tuple[tuple[float, Optimum], ...]
    """For each number of chunks per NPU, the time of `auto` with as many, and the optimum."""

    @property
    def above(self) -> float:
        return max(self.auto_ns / self.bound_ns - 1, 0.0)

    def cells(self) -> tuple[str, ...]:
        fixed = [f"{auto_ns:,.1f} / {optimum.text}" for auto_ns, optimum in self.optima] or ["-"] * len(CHUNKS)
        seconds = f"{sum(optimum.seconds for _, optimum in self.optima):.1f}" if self.optima else "-"
        figures = f"{self.auto_ns:,.1f}", self.made_by, f"{self.bound_ns:,.1f}", f"{self.above:.1%}"
        return (self.network, self.collective, *figures, *fixed, seconds)


def measure(name: str, network: Topology, pattern: str, seconds: float) -> Row:
    what = make_collective(pattern, network.num_npus, SIZE, 1)
    found = search(network, what, SearchOptions(chunks_per_npu="auto", link_model="pipelined", effort="thorough", threads=1))
    schedule = found.schedule
    if pattern == "all-gather":
        check(schedule)
    bound = float(lower_bound(Problem(network, what, compute_timing(network, what, "pipelined"))).time_ns)
    one_hop = network.num_channels == network.num_npus * (network.num_npus - 1)
    if one_hop:
        bound = max(bound, one_hop_ns(network))
    optima = []
    for count in CHUNKS if pattern == "all-gather" else ():
        cut = make_collective(pattern, network.num_npus, SIZE, count)
        fixed = search(network, cut, SearchOptions(link_model="pipelined", effort="thorough", threads=1))
        optima.append((fixed.exact_ns, all_gather(network, cut, seconds)))
    made_by = f"{schedule.synthesizer}, {schedule.collective.chunks_per_npu}"
    return Row(name, pattern, found.exact_ns, made_by, bound, tuple(optima))


def one_hop_ns(network: Topology) -> float:
    """Bound of any All-Gather or All-Reduce where all pairs have channels: it takes two latencies of a channel, or nobody relays.

    Then nobody has anything but its own contribution to send, and all buffers of others come over the links into an NPU, for
    which they are on the way as long as the latencies of a channel.
    """
    links = links_of(network, 0)
    rate = float(bytes_per_ns(network.link_bandwidth_gibps)[links[-1]])
    into = 1 if len(links) == 2 else network.num_npus - 1
    return min(2.0 * len(links) * 500.0, len(links) * 500.0 + (network.num_npus - 1) * SIZE / rate / into)


def table(rows: list[Row]) -> str:
    header = ("network", "collective", "`auto`, ns", "by, chunks per NPU", "bound, ns", "above the bound")
    header += (*(f"{count} chunk{'s' * (count > 1)} per NPU: `auto` / optimum" for count in CHUNKS), "proof, s")
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    worst = max(rows, key=lambda row: row.above)
    pairs = [pair for row in rows for pair in row.optima]
    proven = [(auto_ns, optimum) for auto_ns, optimum in pairs if optimum.is_proven]
    programmes = sum(optimum.programmes for _, optimum in pairs)
    farthest = max((auto_ns / optimum.time_ns - 1 for auto_ns, optimum in proven), default=0.0)
    lines += [
        "",
        f"The farthest from the bound over all chunkings, and so from the optimum: {worst.collective} on {worst.network}, "
        f"{worst.above:.1%} (aim: {MOST_ABOVE:.0%}). {len(proven)} of {len(pairs)} optima for given chunks are proven, by "
        f"{programmes} integer programmes; `auto` is up to {max(farthest, 0.0):.1%} above them.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true", help="print only, leave benchmarks/results alone")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of each integer programme")
    parser.add_argument("--only", default="", help="networks whose names contain this; records nothing")
    arguments = parser.parse_args()
    rows = []
    for name, network in NETWORKS.items():
        for pattern in ("all-gather", "all-reduce") if arguments.only in name else ():
            rows.append(measure(name, network, pattern, arguments.seconds))
            print(*rows[-1].cells(), sep="  ", flush=True)
    text = table(rows)
    print(text)
    if not arguments.no_record and not arguments.only:
        record("exact", text)


if __name__ == "__main__":
    main()
