"""Small messages, and all sizes against ASTRA-sim's own algorithms: prints tables and rewrites results/small.md.

    python benchmarks/small.py [--no-record] [--only NAME]

`--only` measures the networks whose names contain NAME, and records nothing. Times do not depend on the machine; they are
those where messages queue on links.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from quality import dgx1
from results_page import record

from astra_tacos import build_topology
from astra_tacos.bounds import largest
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective import make_collective
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.clock import bounds_on, time_on, timed_for
from astra_tacos.solver.native import NativeTime, best_native_time
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.units import format_size, format_time
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import EFFORTS, SearchOptions

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = (256, 4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
BUDGET = 1_000_000
TOLERANCE = 0.005
NEAR = 0.03
OTHERS = {"all-gather": (256, 64 * KIB), "reduce-scatter": (4 * KIB, MIB), "all-to-all": (4 * KIB, MIB)}
"""Sizes of collectives other than All-Reduce; the shard of an All-Gather."""


def dims(*dimensions: tuple[str, int, float, float], **extension: object) -> NetworkConfig:
    return NetworkConfig("small.yml", tuple(Dimension(*each) for each in dimensions), **extension)  # type: ignore[arg-type]


def graph(pairs: Iterable[tuple[int, int]], bandwidth: float = 50.0, latency: float = 500.0) -> NetworkConfig:
    links = tuple(LinkSpec(*ends, bandwidth, latency) for a, b in pairs for ends in ((a, b), (b, a)))
    return NetworkConfig("small.yml", (), links)


def of_topology(topology: Topology) -> NetworkConfig:
    ends = zip(topology.link_src.tolist(), topology.link_dst.tolist(), topology.link_bandwidth_gibps.tolist(), strict=True)
    return NetworkConfig("small.yml", (), tuple(LinkSpec(*each, 500.0) for each in ends))


def random_regular(npus: int, degree: int, seed: int) -> NetworkConfig:
    """A random regular graph by the pairing model, drawn again until it is simple and connected."""
    random = Random(seed)
    while True:
        stubs = [npu for npu in range(npus) for _ in range(degree)]
        random.shuffle(stubs)
        pairs = {(min(a, b), max(a, b)) for a, b in zip(stubs[::2], stubs[1::2], strict=True) if a != b}
        if len(pairs) < npus * degree // 2:
            continue
        try:
            build_topology(graph(sorted(pairs)))
        except AstraTacosError:
            continue
        return graph(sorted(pairs))


def dragonfly(groups: int, routers: int) -> NetworkConfig:
    """Groups are complete graphs; router r of a group leads to group r, but for its own, to which the last one leads."""
    pairs = [(g * routers + a, g * routers + b) for g in range(groups) for a in range(routers) for b in range(a)]
    for g in range(groups):
        for h in range(g):
            pairs.append((g * routers + h % routers, h * routers + (g - 1) % routers))
    return graph(pairs)


def dragonfly_36() -> NetworkConfig:
    """9 groups of 4 NPUs, 50 GB/s in groups, and a link of 25 GB/s between any two of them, two for each NPU."""
    links = []
    for group in range(9):
        links += [LinkSpec(group * 4 + a, group * 4 + b, 50.0, 500.0) for a in range(4) for b in range(4) if a != b]
        for far in range(8):
            other = (group + 1 + far) % 9
            links.append(LinkSpec(group * 4 + far // 2, other * 4 + (7 - far) // 2, 25.0, 500.0))
    return NetworkConfig("small.yml", (), tuple(links))


def slow(network: NetworkConfig, *ends: tuple[int, int]) -> NetworkConfig:
    overrides = tuple(LinkSpec(*each, 12.5, None) for pair in ends for each in (pair, pair[::-1]))
    return NetworkConfig(network.source, network.dimensions, link_overrides=overrides)


def failed(network: NetworkConfig, *ends: tuple[int, int]) -> NetworkConfig:
    both = tuple(each for pair in ends for each in (pair, pair[::-1]))
    return NetworkConfig(network.source, network.dimensions, failed_links=both)


RING, FULL, SWITCH, MESH = "Ring", "FullyConnected", "Switch", "Mesh"
NODES = dims((SWITCH, 8, 450.0, 300.0), (SWITCH, 4, 50.0, 1000.0))
PAIR_OF_NODES = dims((SWITCH, 16, 150.0, 500.0), (SWITCH, 2, 12.5, 500.0))
MANY_NODES = dims((SWITCH, 8, 450.0, 300.0), (SWITCH, 16, 50.0, 1000.0))
NVL72 = dims((SWITCH, 72, 900.0, 500.0))
TORUS_8X8 = dims((RING, 8, 50.0, 500.0), (RING, 8, 50.0, 500.0))
MIXED = dims((RING, 2, 200.0, 50.0), (FULL, 3, 100.0, 250.0), (SWITCH, 5, 50.0, 500.0))
HETERO_3D = dims((RING, 2, 200.0, 50.0), (FULL, 4, 100.0, 250.0), (SWITCH, 8, 50.0, 500.0))
NETWORKS = {
    "ring 4": dims((RING, 4, 50.0, 500.0)),
    "ring 8": dims((RING, 8, 50.0, 500.0)),
    "ring 16": dims((RING, 16, 50.0, 500.0)),
    "ring 7": dims((RING, 7, 50.0, 500.0)),
    "torus 4x4": dims((RING, 4, 50.0, 500.0), (RING, 4, 50.0, 500.0)),
    "torus 4x4 at 50/25": dims((RING, 4, 50.0, 500.0), (RING, 4, 25.0, 500.0)),
    "torus 3x5": dims((RING, 3, 50.0, 500.0), (RING, 5, 50.0, 500.0)),
    "torus 8x8": TORUS_8X8,
    "torus 3x3x3": dims(*((RING, 3, 50.0, 500.0),) * 3),
    "mesh 8": dims((MESH, 8, 50.0, 500.0)),
    "mesh 4x4": dims((MESH, 4, 50.0, 500.0), (MESH, 4, 50.0, 500.0)),
    "mesh 3x5": dims((MESH, 3, 50.0, 500.0), (MESH, 5, 50.0, 500.0)),
    "hypercube 16": dims(("Hypercube", 16, 50.0, 500.0)),
    "fully connected 4": dims((FULL, 4, 50.0, 500.0)),
    "fully connected 8": dims((FULL, 8, 50.0, 500.0)),
    "fully connected 6": dims((FULL, 6, 50.0, 500.0)),
    "fully connected 4x4": dims((FULL, 4, 50.0, 500.0), (FULL, 4, 50.0, 500.0)),
    "switch 4": dims((SWITCH, 4, 50.0, 500.0)),
    "switch 8": dims((SWITCH, 8, 50.0, 500.0)),
    "switch 6": dims((SWITCH, 6, 50.0, 500.0)),
    "switch 16 (DGX-2)": dims((SWITCH, 16, 150.0, 500.0)),
    "switch 72 (NVL72)": NVL72,
    "switch 8 x switch 4": NODES,
    "switch 8 x switch 2": dims((SWITCH, 8, 150.0, 500.0), (SWITCH, 2, 12.5, 500.0)),
    "switch 4 x switch 3": dims((SWITCH, 4, 300.0, 300.0), (SWITCH, 3, 25.0, 1000.0)),
    "fully connected 4 x switch 4": dims((FULL, 4, 100.0, 250.0), (SWITCH, 4, 25.0, 1000.0)),
    "ring 4 x switch 4": dims((RING, 4, 100.0, 250.0), (SWITCH, 4, 25.0, 1000.0)),
    "ring 2 x fully connected 4 x switch 4": dims((RING, 2, 200.0, 50.0), (FULL, 4, 100.0, 250.0), (SWITCH, 4, 50.0, 500.0)),
    "switch 4 x switch 2 x switch 2": dims((SWITCH, 4, 450.0, 300.0), (SWITCH, 2, 100.0, 500.0), (SWITCH, 2, 12.5, 1000.0)),
    "rails: fully connected 8 x fully connected 4": dims((FULL, 8, 64.0, 300.0), (FULL, 4, 50.0, 1000.0)),
    "DGX-1": of_topology(dgx1()),
    "dragonfly 20": dragonfly(5, 4),
    "twisted torus 8": dims(("TwistedTorus", 8, 50.0, 500.0)),
    "random 3-regular 16": random_regular(16, 3, 1),
    "ring 8, one slow link": slow(dims((RING, 8, 50.0, 500.0)), (0, 1)),
    "torus 4x4, one slow link": slow(dims((RING, 4, 50.0, 500.0), (RING, 4, 50.0, 500.0)), (5, 6)),
    "torus 4x4, a failed link": failed(dims((RING, 4, 50.0, 500.0), (RING, 4, 50.0, 500.0)), (0, 1)),
    "fully connected 8, two failed links": failed(dims((FULL, 8, 50.0, 500.0)), (0, 1), (2, 5)),
}
OF_OTHERS = ("ring 8", "torus 4x4", "mesh 4x4", "fully connected 8", "switch 8", "switch 8 x switch 2", "DGX-1")
"""Networks on which collectives other than All-Reduce are measured."""


def found(network: NetworkConfig, name: str, size: int, budget: int, root: int | None) -> Schedule:
    topology = build_topology(network)
    what = make_collective(name, topology.num_npus, size, 1, root)
    options = timed_for(SearchOptions(chunks_per_npu="auto", effort="thorough", budget=budget), topology, CONGESTION_AWARE)[0]
    return search(topology, what, options).schedule


def bound_of(schedule: Schedule) -> Bound:
    """The largest bound over all algorithms."""
    return largest(bounds_on(schedule.topology, schedule.collective, CONGESTION_AWARE))


# ---- Small messages and other figures that had been wrong ----


@dataclass(frozen=True)
class Known:
    """A case with the time in ns before, and what is known to be possible."""

    label: str
    network: NetworkConfig
    size: int
    before_ns: float | None
    possible_ns: float | None
    name: str = "all-reduce"
    root: int | None = None
    budget: int = EFFORTS["thorough"].budget


KNOWN = (
    *(
        Known("switch 8 x switch 4 at 450/50", NODES, size, before, possible)
        for size, before, possible in ((8 * KIB, 28_810, 6_200), (64 * KIB, 29_000, 12_120), (MIB, 33_360, 19_860))
    ),
    Known("switch 8 x switch 16 at 450/50", MANY_NODES, 64 * KIB, 117_820, 20_180),
    Known("switch 72 at 900", NVL72, 64 * KIB, 142_000, 2_080),
    Known("ring 16", NETWORKS["ring 16"], KIB, 8_024, 4_014),
    Known("ring 8", NETWORKS["ring 8"], KIB, 4_012, 2_010),
    Known("torus 4x4", NETWORKS["torus 4x4"], KIB, 4_012, 2_010),
    Known("fully connected 8 at 75", dims((FULL, 8, 75.0, 500.0)), KIB, 1_005, 513),
    Known("switch 8 at 75", dims((SWITCH, 8, 75.0, 500.0)), KIB, 2_024, 1_086),
    Known("DGX-1", NETWORKS["DGX-1"], KIB, 2_011, 1_034),
    Known("torus 8x8", TORUS_8X8, 16 * KIB, 8_027, 4_200),
    Known("torus 8x8", TORUS_8X8, 64 * KIB, 8_054, 6_516),
    Known("ring 16 (before: beyond physics; possible: the bound)", NETWORKS["ring 16"], 64 * KIB, 6_357, None, "all-gather"),
    Known("switch 8 x switch 4 at 450/50", NODES, 64 * MIB, 215_100, 165_400, "broadcast", root=0),
    Known("switch 16 x switch 2 at 150/12.5", PAIR_OF_NODES, 64 * MIB, 565_900, 417_100, "broadcast", root=0),
    Known("ring 2 x fully connected 3 x switch 5 at 200/100/50", MIXED, 64 * MIB, 273_000, 214_500, "broadcast", root=0),
    Known("dragonfly 36 at 50/25", dragonfly_36(), 64 * MIB, 394_300, 316_800, "broadcast", root=0),
    Known("random 3-regular 16 (possible: the bound)", NETWORKS["random 3-regular 16"], 64 * MIB, None, None, "all-to-all"),
    Known("torus 4x4 at 50/25 (possible: the bound)", NETWORKS["torus 4x4 at 50/25"], 64 * MIB, None, None, "all-to-all"),
    Known("hetero_3d_64npus", HETERO_3D, 64 * MIB, 616_000, 298_000),
)


def of_known(known: Iterable[Known] = KNOWN) -> list[str]:
    lines = ["| network | collective | link model | before | possible | now | within 3% | bound |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for case in known:
        schedule = found(case.network, case.name, case.size, case.budget, case.root)
        time_ns, bound = time_on(schedule, case.network, CONGESTION_AWARE).time_ns, bound_of(schedule)
        possible = case.possible_ns or bound.time_ns
        verdict = "yes" if time_ns <= (1 + NEAR) * possible else f"no, {time_ns / possible - 1:.0%} more"
        before = "-" if case.before_ns is None else format_time(round(case.before_ns))
        cells = (
            case.label, f"{case.name} of {format_size(case.size)}", schedule.timing.link_model, before,
            *(format_time(round(each)) for each in (possible, time_ns)), verdict,
            f"{format_time(bound.time_ns)} ({bound.name})",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


# ---- All sizes against native algorithms ----


@dataclass
class Point:
    """One collective on one network: ours, the best native one, and the bound, all where messages queue on links."""

    network: str
    collective: str
    size: int
    time_ns: float
    bound: Bound
    made_by: str
    native: NativeTime | None
    cut_off: bool = field(default=False)

    @property
    def ratio(self) -> float:
        """The time by the bound."""
        return self.time_ns / max(self.bound.time_ns, 1)

    @property
    def is_violation(self) -> bool:
        """Slower than the best native algorithm."""
        return self.slower > 1 + TOLERANCE

    @property
    def slower(self) -> float:
        """The time by that of the best native algorithm; 0 without one."""
        return 0.0 if self.native is None else self.time_ns / max(self.native.time_ns, 1e-3)


def measured(name: str, network: NetworkConfig, collective: str, size: int) -> Point | None:
    topology = build_topology(network)
    what = make_collective(collective, topology.num_npus, size, 1, None)
    asked = SearchOptions(chunks_per_npu="auto", effort="thorough", budget=BUDGET)
    try:
        result = search(topology, what, timed_for(asked, topology, CONGESTION_AWARE)[0])
        time_ns = time_on(result.schedule, network, CONGESTION_AWARE).time_ns
    except AstraTacosError as error:
        print(f"{name}: {collective} of {size}: {error}", file=sys.stderr)
        return None
    schedule = result.schedule
    native = best_native_time(network, what, CONGESTION_AWARE).best
    cut_off = bool(result.describe().get("cut_off_by_budget"))
    return Point(name, collective, size, time_ns, bound_of(schedule), schedule.synthesizer, native, cut_off)


def all_points(only: str = "") -> list[Point]:
    points: list[Point] = []
    for name, network in NETWORKS.items():
        if only not in name:
            continue
        cases = [("all-reduce", size) for size in SIZES]
        if name in OF_OTHERS:
            cases += [(collective, size) for collective, sizes in OTHERS.items() for size in sizes]
        for collective, size in cases:
            point = measured(name, network, collective, size)
            if point is not None:
                points.append(point)
                print(describe(point), file=sys.stderr, flush=True)
    return points


def describe(point: Point) -> str:
    native = "-" if point.native is None else f"{format_time(point.native.time_ns)} {point.native.name}"
    bound = f"{point.ratio:.3f} {point.bound.name}"
    cells = (
        "VIOLATION" if point.is_violation else "ok", point.network, point.collective, format_size(point.size),
        format_time(point.time_ns), point.made_by, native, bound, "cut off" if point.cut_off else "",
    )  # fmt: skip
    return "\t".join(cells)


def of_violations(points: list[Point]) -> list[str]:
    bad = sorted((point for point in points if point.is_violation), key=lambda point: -point.slower)
    with_native = sum(point.native is not None for point in points)
    lines = [
        f"{len(points)} collectives on {len({point.network for point in points})} networks; native algorithms run in "
        f"{with_native} of them, and are more than {TOLERANCE:.1%} faster in {len(bad)}.",
        "",
    ]
    if bad:
        lines.append("| network | collective | ours | native | which | ours is slower by |")
        lines.append("|---|---|---|---|---|---|")
    for point in bad:
        native = point.native
        assert native is not None
        lines.append(
            f"| {point.network} | {point.collective} of {format_size(point.size)} | "
            f"{format_time(point.time_ns)} ({point.made_by}) | {format_time(native.time_ns)} | {native.name} | "
            f"{point.slower - 1:.1%} |"
        )
    return lines


def of_worst(points: list[Point]) -> list[str]:
    lines = ["| the ten furthest from the bound | collective | time | bound | time / bound | which bound |"]
    lines.append("|---|---|---|---|---|---|")
    seen: dict[str, int] = {}
    for point in sorted(points, key=lambda point: -point.ratio):
        if seen.setdefault(point.network, 0) >= 2 or len(lines) >= 12:  # two of a network, ten in all
            continue
        seen[point.network] += 1
        lines.append(
            f"| {point.network} | {point.collective} of {format_size(point.size)} | "
            f"{format_time(point.time_ns)} ({point.made_by}) | {format_time(point.bound.time_ns)} | {point.ratio:.2f} | "
            f"{point.bound.name} |"
        )
    return lines


def tables(only: str = "") -> str:
    points = all_points(only)
    parts = [of_violations(points), of_worst(points)]
    if not only:
        parts.insert(0, of_known())
    return "\n\n".join("\n".join(part) for part in parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true", help="print only, leave benchmarks/results alone")
    parser.add_argument("--only", default="", metavar="NAME", help="measure the networks whose names contain NAME")
    parser.add_argument("--known", action="store_true", help="measure the first table only")
    arguments = parser.parse_args()
    text = "\n".join(of_known()) if arguments.known else tables(arguments.only)
    print(text)
    if not (arguments.no_record or arguments.only or arguments.known):
        record("small", text)
