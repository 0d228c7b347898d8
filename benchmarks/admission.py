"""What a part of the searches is worth: times of answers with it and without it, on twelve families of cases drawn at random.

    python benchmarks/admission.py measure OUT.json [--set confirm] [--without NAME,NAME] [--seeds 3] [--family NAME] [--effort E]
    python benchmarks/admission.py compare BEFORE.json AFTER.json [AFTER.json ...] [--cases]

`measure` answers each case at the default effort; `--without` leaves synthesizers out. For a rule inside one, change the code and
measure again. `compare` prints the geometric mean of each family, after by before: 1.05 means that answers take 5% longer.

A part stays if without it a family takes longer by more than 3%, or if an answer or a proof of optimality is lost. Systems that
users compare with stay in their plainest form (ring, direct, halving-doubling, bruck, double binary trees, hierarchical, Themis,
TACOS, dimension-wise, in-network, parameter servers). Nothing is tuned on these cases; the set `confirm` is for the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from plan import generated, write_network

from astra_tacos import Request, build_topology, solve
from astra_tacos.collective.all_to_allv import zipf_parts
from astra_tacos.network.fabric.kinds import make_fabric, with_reducing_switches
from astra_tacos.network.failures import draw_failures
from astra_tacos.network.network_config import Dimension, NetworkConfig, read_network
from astra_tacos.planner.plan import plan
from astra_tacos.planner.request import PLAN_OPTIONS, PlanRequest
from astra_tacos.run.run import RunInputs
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions

SETS = {"first": 50, "confirm": 51}
CASES = 12
LOST = 10.0
"""What an answer, or a proof of optimality, counts that is lost."""
SPEEDS, LATENCIES = (12.5, 25, 50, 50, 100, 200, 400), (50, 500, 500, 2000)
LARGE_SIZES = tuple(1 << power for power in (16, 18, 20, 22, 24, 26, 28))
SMALL_SIZES = tuple(1 << power for power in (8, 10, 12, 13, 14, 15))
SHARDS = ("all-reduce", "all-reduce", "all-gather", "reduce-scatter", "all-to-all")
ROOTED = ("broadcast", "reduce", "scatter", "gather")


@dataclass(frozen=True, slots=True)
class Case:
    """One question: `answer` takes the options of the searches, and returns a time in ns and whether it is proven optimal."""

    family: str
    about: str
    answer: Callable[[SearchOptions], tuple[float, bool]]


# ---- The families ----


def dimension(source: Random, block: str, size: int) -> Dimension:
    return Dimension(block, size, float(source.choice(SPEEDS)), float(source.choice(LATENCIES)))


def network(source: Random, blocks: tuple[str, ...], most: int = 64, numbers: tuple[int, ...] = (1, 2, 2, 3)) -> NetworkConfig:
    """A product of one to three dimensions, of at most so many NPUs."""
    while True:
        dimensions = [dimension(source, source.choice(blocks), source.randint(2, 9)) for _ in range(source.choice(numbers))]
        if 4 <= math.prod(each.size for each in dimensions) <= most:
            return NetworkConfig("drawn.yml", tuple(dimensions))


def about(config: NetworkConfig) -> str:
    return " x ".join(f"{each.block} {each.size} at {each.bandwidth_gibps:g}" for each in config.dimensions) or config.name


def question(config: NetworkConfig, collective: str, size: int, **more: object) -> Callable[[SearchOptions], tuple[float, bool]]:
    def answer(options: SearchOptions) -> tuple[float, bool]:
        found = solve(Request(config, collective, size, options=options, **more)).to_json()  # type: ignore[arg-type]
        return float(found["time_ns"]), bool(found.get("optimal"))

    return answer


def drawn(family: str, config: NetworkConfig, source: Random, collectives: tuple[str, ...], sizes: tuple[int, ...]) -> Case:
    collective, size = source.choice(collectives), source.choice(sizes)
    size = max(size, 1 if collective in ROOTED else config.num_npus)
    return Case(family, f"{about(config)}, {collective} {size}", question(config, collective, size))


def alike(source: Random) -> Case:
    config = network(source, ("Ring", "FullyConnected", "Switch"))
    return drawn("alike", config, source, SHARDS, LARGE_SIZES)


def unequal(source: Random) -> Case:
    config = network(source, ("Ring", "Mesh", "Mesh", "FullyConnected", "Switch"), numbers=(2, 2, 3))
    first = config.dimensions[0]
    mesh = replace(config, dimensions=(replace(first, block="Mesh"), *config.dimensions[1:]))
    return drawn("unequal products", mesh, source, SHARDS, LARGE_SIZES)


def damaged(source: Random) -> Case:
    while True:
        config = network(source, ("Ring", "Mesh", "FullyConnected"), numbers=(2, 2, 3))
        with contextlib.suppress(ConfigError):
            config = replace(config, failed_links=draw_failures(build_topology(config), 0.08, source.randrange(1 << 30)))
            return drawn("damaged meshes", config, source, SHARDS, LARGE_SIZES)


def graph(source: Random) -> Case:
    """A connected graph of 5 to 16 NPUs: a ring in a drawn order, and as many pairs again."""
    count = source.randint(5, 16)
    order = source.sample(range(count), count)
    pairs = {tuple(sorted((order[at - 1], order[at]))) for at in range(count)}
    while len(pairs) < 2 * count and len(pairs) < count * (count - 1) // 2:
        pairs.add(tuple(sorted(source.sample(range(count), 2))))
    with tempfile.TemporaryDirectory() as folder:
        rows = ["src,dst,bandwidth,latency"]
        for one, other in sorted(pairs):
            speed, latency = source.choice((25, 25, 50)), source.choice((500, 700))
            rows += [f"{one},{other},{speed},{latency}", f"{other},{one},{speed},{latency}"]
        Path(folder, "links.csv").write_text("\n".join(rows) + "\n")
        shape = f"topology: [FullyConnected]\nnpus_count: [{count}]\nbandwidth: [25]\nlatency: [500]\n"
        Path(folder, "graph.yml").write_text(f"{shape}astra_tacos:\n  links: links.csv\n")
        config = read_network(Path(folder, "graph.yml"))
    return drawn("graphs", config, source, (*SHARDS, "broadcast"), LARGE_SIZES)


def levels(source: Random) -> Case:
    sizes = source.choice(((4, 4), (8, 2), (8, 4), (4, 3), (6, 4), (4, 2, 3), (8, 8), (2, 2, 4)))
    speeds = sorted((float(source.choice(SPEEDS)) for _ in sizes), reverse=True)
    dimensions = tuple(Dimension("Switch", size, speed, 500.0) for size, speed in zip(sizes, speeds, strict=True))
    return drawn("levels of switches", NetworkConfig("drawn.yml", dimensions), source, SHARDS, LARGE_SIZES)


FABRICS: tuple[tuple[str, dict[str, object]], ...] = (
    ("leaf-spine", {}),
    ("leaf-spine", {"leaves": 3, "oversubscription": 2.0}),
    ("fat-tree", {}),
    ("fat-tree", {"oversubscription": 2.0}),
    ("dragonfly", {"groups": 3}),
    ("hxmesh", {}),
    ("mi250", {"nodes": 1}),
    ("dgx-a100", {"nodes": 1}),
    ("dgx-h100", {"nodes": 2, "npus": 4}),
    ("rails", {"nodes": 3, "npus": 4}),
)


def fabric(source: Random, reducing: bool = False) -> tuple[str, NetworkConfig]:
    name, asked = source.choice(FABRICS)
    made = make_fabric(name, **asked)  # type: ignore[arg-type]
    if reducing:
        made = with_reducing_switches(made)
    return f"{name} {asked}", made


def forwarding(source: Random) -> Case:
    _, config = fabric(source)
    return drawn("fabrics that forward", config, source, (*SHARDS, "broadcast"), LARGE_SIZES)


def adding(source: Random) -> Case:
    name, config = fabric(source, reducing=True)
    collective, size = (
        source.choice(("all-reduce", "all-reduce", "reduce-scatter", "reduce", "all-gather")),
        source.choice(LARGE_SIZES),
    )
    return Case("devices that add", f"{name}, {collective} {size}", question(config, collective, size))


def rails(source: Random) -> Case:
    inner, outer = source.choice(((4, 4), (8, 2), (4, 2), (8, 4), (2, 6)))
    blocks = source.choice(
        (("Switch", "Switch"), ("FullyConnected", "Switch"), ("Ring", "Switch"), ("FullyConnected", "FullyConnected"))
    )
    speed = source.choice((100.0, 200.0, 400.0))
    config = NetworkConfig("rails.yml", (Dimension(blocks[0], inner, speed, 300.0), Dimension(blocks[1], outer, 46.57, 2000.0)))
    skew, token = source.choice((0.0, 0.4, 0.8, 1.2)), source.choice((256, 7168))
    parts = zipf_parts(inner * outer, 512 * token, skew, token)
    text = f"{about(config)}, all-to-allv, skew {skew}, tokens of {token}"
    return Case("rails and all-to-allv", text, question(config, "all-to-allv", 0, part_bytes=np.asarray(parts)))


def rooted(source: Random) -> Case:
    config = network(source, ("Ring", "Mesh", "FullyConnected", "Switch"))
    return drawn("rooted collectives", config, source, ROOTED, LARGE_SIZES)


def small(source: Random) -> Case:
    config = network(source, ("Ring", "Mesh", "FullyConnected", "Switch"))
    return drawn("below 64 KiB", config, source, (*SHARDS, *ROOTED[:2]), SMALL_SIZES)


def planned(family: str, options: str, dimensions: tuple[tuple[str, int, float, float], ...], schedule: str | None) -> Case:
    def answer(asked: SearchOptions) -> tuple[float, bool]:
        with tempfile.TemporaryDirectory() as scratch:
            file = write_network(Path(scratch, "n.yml"), dimensions)  # type: ignore[arg-type]
            run = generated(Path(scratch, "run"), f"{options} --network {file}")
            inputs = RunInputs(run / "workload" / "w", run / "system.json", file, run / "comm_group.json", None, run)
            searches = replace(PLAN_OPTIONS, seed=asked.seed, threads=1, effort=asked.effort)
            request = PlanRequest(inputs, options=searches, schedule=schedule)
            return float(plan(request, Path(scratch, "planned")).result.time_ns), False

    return Case(family, f"{options} on {dimensions}{', scheduled' if schedule else ''}", answer)


def relays(source: Random) -> Case:
    """Groups whose members have no links between them: the axes of ranks cross a ring or mesh in strides."""
    dp, tp = source.choice(((2, 4), (4, 2), (3, 3), (4, 4), (2, 6)))
    order = source.choice(("dp,tp,pp", "tp,dp,pp"))
    options = f"--dp {dp} --tp {tp} --order {order} --layers 1 --hidden {96 * source.choice((1, 4))}"
    options += " --heads 12 --sequence 256 --vocab 1152"
    count = dp * tp
    speed, latency = float(source.choice(SPEEDS)), float(source.choice(LATENCIES))
    sizes = (count,) if source.random() < 0.5 or count % 2 else (2, count // 2)
    return planned("groups with relays", options, tuple(("Ring", size, speed, latency) for size in sizes), None)


def runs(source: Random) -> Case:
    dp, tp, pp = source.choice(((4, 4, 1), (4, 2, 2), (8, 2, 1), (2, 4, 2), (16, 1, 1), (2, 2, 2)))
    hidden = source.choice((256, 512, 1024))
    options = f"--dp {dp} --tp {tp} --pp {pp} --layers 2 --hidden {hidden} --heads 8 --sequence 256 --vocab 2048"
    options += source.choice(("", " --zero", " --micro-batches 2", " --sequence-parallel"))
    sizes = (tp * pp, dp) if tp * pp > 1 else (4, dp // 4)
    blocks = (source.choice(("Ring", "FullyConnected", "Switch")), source.choice(("Ring", "Switch")))
    speeds = sorted((float(source.choice(SPEEDS)) for _ in range(2)), reverse=True)
    dimensions = tuple((block, size, speed, 500.0) for block, size, speed in zip(blocks, sizes, speeds, strict=True))
    return planned("whole runs", options, dimensions, "search" if source.random() < 0.25 else None)


FAMILIES = (alike, unequal, damaged, graph, levels, forwarding, adding, rails, rooted, relays, small, runs)


@cache
def cases(seed: int) -> tuple[Case, ...]:
    """All cases of a set, family by family."""
    sources = ((family, Random(seed * 1000 + place)) for place, family in enumerate(FAMILIES))
    return tuple(family(source) for family, source in sources for _ in range(CASES))


# ---- Measuring ----


def measured(asked: tuple[str, int, tuple[str, ...], int, str]) -> dict[str, object]:
    """The answer of a case: the median time of its seeds, CPU seconds of one, and whether it is proven."""
    which, place, left_out, seeds, effort = asked
    for name in left_out:
        SYNTHESIZERS[name] = replace(SYNTHESIZERS[name], in_auto=False)
    case = cases(SETS[which])[place]
    times, proofs, seconds = [], [], []
    for seed in range(seeds):
        options = SearchOptions(chunks_per_npu="auto", threads=1, seed=seed, effort=effort)
        begin = time.process_time()
        try:
            found, optimal = case.answer(options)
        except AstraTacosError as error:
            print(f"{case.family}: {case.about}: {error}", file=sys.stderr, flush=True)
            found, optimal = math.inf, False
        times.append(found)
        proofs.append(optimal)
        seconds.append(time.process_time() - begin)
    return {
        "place": place,
        "family": case.family,
        "case": case.about,
        "ns": statistics.median(times),
        "optimal": all(proofs),
        "cpu": statistics.median(seconds),
    }


def measure(arguments: argparse.Namespace) -> None:
    left_out = tuple(filter(None, arguments.without.split(",")))
    if unknown := set(left_out) - set(SYNTHESIZERS):
        sys.exit(f"--without: found {', '.join(sorted(unknown))}, expected {', '.join(SYNTHESIZERS)}")
    places = [
        place
        for place, case in enumerate(cases(SETS[arguments.set]))
        if not arguments.family or case.family in arguments.family.split(",")
    ]
    asked = [(arguments.set, place, left_out, arguments.seeds, arguments.effort) for place in places]
    with ProcessPoolExecutor(arguments.workers) as pool:
        rows = list(pool.map(measured, asked))
    Path(arguments.files[0]).write_text(json.dumps(rows, indent=1))


def ratios(before: list[dict[str, object]], after: list[dict[str, object]]) -> dict[str, list[float]]:
    """By family, the time of each case after, by that before."""
    known = {row["place"]: row for row in before}
    found: dict[str, list[float]] = {}
    for row in after:
        old = known.get(row["place"])
        if old is None or math.isinf(float(old["ns"])):  # type: ignore[arg-type]
            continue
        lost = math.isinf(float(row["ns"])) or (old["optimal"] and not row["optimal"])  # type: ignore[arg-type]
        ratio = LOST if lost else float(row["ns"]) / float(old["ns"])  # type: ignore[arg-type]
        found.setdefault(str(row["family"]), []).append(ratio)
    return found


def compare(arguments: argparse.Namespace) -> None:
    before, *others = (json.loads(Path(file).read_text()) for file in arguments.files)
    for file, after in zip(arguments.files[1:], others, strict=True):
        by_family = ratios(before, after)
        means = {family: statistics.geometric_mean(values) for family, values in by_family.items()}
        everything = [value for values in by_family.values() for value in values]
        seconds = sum(float(row["cpu"]) for row in after) / sum(float(row["cpu"]) for row in before)
        print(f"{file}: all {statistics.geometric_mean(everything):.4f}, CPU {seconds:.3f}")
        for family, mean in means.items():
            worst = max(by_family[family])
            print(f"  {family:24} {mean:.4f}  worst {worst:.3f}")
        if arguments.cases:
            known = {row["place"]: row for row in before}
            for row in after:
                old = known.get(row["place"])
                if old and (row["ns"] != old["ns"] or row["optimal"] != old["optimal"]):
                    print(f"    {row['ns'] / old['ns']:.4f} {old['optimal']}->{row['optimal']} {row['family']}: {row['case']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "compare"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("--set", choices=tuple(SETS), default="first")
    parser.add_argument("--without", default="")
    parser.add_argument("--family", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--cases", action="store_true", help="compare: list the cases that differ")
    arguments = parser.parse_args()
    {"measure": measure, "compare": compare}[arguments.what](arguments)


if __name__ == "__main__":
    main()
