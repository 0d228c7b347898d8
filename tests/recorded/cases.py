"""The cases of the recorder: lines of `astra-tacos`, and the files that they start from. Everything is drawn from fixed seeds.

In a line, CONFIGS is the folder of the repository; all other paths are in the folder of the case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.lint_runs import Node, RunFiles, coll, comp, drop, recv, send

from astra_tacos.run.trace.schema import CommType, NodeType

Files = dict[str, str]


@dataclass(frozen=True)
class Case:
    """Lines that are run one after the other in a folder, which `make` fills before; `quick` ones for each commit."""

    name: str
    lines: tuple[str, ...]
    make: Callable[[Path], object] = lambda folder: None
    quick: bool = False

    def prepare(self, folder: Path) -> None:
        self.make(folder)


def _case(name: str, *lines: str, files: Files | None = None, quick: bool = False) -> Case:
    def write(folder: Path) -> None:
        for path, text in (files or {}).items():
            (folder / path).write_text(text, encoding="utf-8")

    return Case(name, lines, write, quick)


# ---- Networks ----

_BLOCKS = ("Ring", "FullyConnected", "Switch", "Mesh", "Hypercube")
_SHAPES = ((8,), (16,), (4, 4), (2, 4), (3, 5), (6, 2), (2, 2, 4), (4, 4, 2), (4, 2, 2), (2, 8), (7,), (12,))
_FABRICS = (
    "leaf-spine",
    "leaf-spine --reducing",
    "rails --nodes 2 --npus 4",
    "mi250 --nodes 1",
    "dgx-h100 --nodes 2 --npus 4",
    "fat-tree",
    "hxmesh",
    "dragonfly --groups 3",
    "nvl72 --npus 8",
    "dgx-a100 --nodes 1",
)


def _network(blocks: Sequence[str], sizes: Sequence[int], seed: int, more: str = "") -> str:
    draw = random.Random(seed)
    bandwidth = [draw.choice((12.5, 25.0, 50.0, 100.0, 300.0)) for _ in sizes]
    latency = [draw.choice((100.0, 500.0, 1000.0)) for _ in sizes]
    own = not set(blocks) <= {"Ring", "FullyConnected", "Switch"}
    lists = {"npus_count": list(sizes), "bandwidth": bandwidth, "latency": latency}
    named = f"topology: [{', '.join(blocks)}]\n"
    text = "".join(f"{key}: {value}\n" for key, value in lists.items())
    return f"{text}astra_tacos:\n  {named}" if own else named + text + more


def _drawn_network(seed: int) -> str:
    draw = random.Random(seed)
    sizes = draw.choice(_SHAPES)
    blocks = [draw.choice(_BLOCKS if size in (4, 8, 16) else _BLOCKS[:4]) for size in sizes]
    more = ""
    if draw.random() < 0.2:
        more = "astra_tacos:\n  link_overrides:\n    - { src: 0, dst: 1, bandwidth: 10.0 }\n"
    return _network(blocks, sizes, seed, more)


def _torus(name: str = "torus_4x4") -> str:
    return f"CONFIGS/network/{name}.yml"


# ---- Synthesis ----

_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "scatter", "gather")
_SIZES = ("2KiB", "64KiB", "1MiB", "16MiB", "64MiB")
_NAMED = (
    "symmetric",
    "tacos",
    "routed",
    "ring",
    "direct",
    "halving-doubling",
    "double-binary-tree",
    "bruck",
    "hierarchical",
    "themis",
    "dimension-wise",
)
_AFTER = ("verify run --json", "replay run --json")


def _syntheses() -> Iterator[Case]:
    draw = random.Random(1)
    for number in range(44):
        collective, size = _COLLECTIVES[number % 8 if number % 3 else 0], draw.choice(_SIZES)
        line = f"synthesize --network n.yml --collective {collective} --size {size} --output run --json"
        line += draw.choice(
            ("", "", "", "", " --effort quick", " --effort thorough --time-limit 600", " --backend congestion-unaware")
        )
        yield _case(
            f"synthesize/drawn_{number:02}", line, *_AFTER, files={"n.yml": _drawn_network(number)}, quick=number % 8 == 1
        )
    for name in _NAMED:
        for network in ("hypercube_16", "dgx1_cube_mesh"):
            line = f"synthesize --network {_torus(network)} --synthesizer {name} --size 4MiB --output run --json"
            quick = name in ("tacos", "symmetric") and network == "hypercube_16"
            yield _case(f"synthesize/{name}_{network}", line, *_AFTER, quick=quick)
    for number, fabric in enumerate(_FABRICS):
        line = "synthesize --network n --size 2MiB --output run --json".replace("n ", "net/network.yml ", 1)
        made = f"network {fabric} --output net"
        yield _case(
            f"synthesize/fabric_{fabric.split()[0]}{'_adding' if '--reducing' in fabric else ''}",
            made,
            "inspect net/network.yml",
            line,
            f"synthesize --network net/network.yml --collective {_COLLECTIVES[1 + number % 7]} --size 64KiB --output more",
            *_AFTER,
            quick=number in (1, 2),
        )
    for name in ("dgx1_cube_mesh", "hetero_3d_16npus", "switch_2level_32npus", "torus_4x4"):
        line = f"synthesize --network {_torus(name)} --size 16MiB --output run"
        yield _case(
            f"synthesize/printed_{name}", f"{line} --verbose", "inspect run --verbose", "verify run", quick="16npus" in name
        )
    for name in ("ring", "direct", "tacos", "symmetric"):
        line = f"synthesize --network {_torus()} --reduce-bandwidth 400 --chunks-per-npu 3 --synthesizer {name} --size 3MiB"
        yield _case(f"synthesize/reducing_{name}", f"{line} --output run --json", *_AFTER)
    pairs = "".join(",".join(str((src * 7 + dst * 3) % 5 * 65536) for dst in range(16)) + "\n" for src in range(16))
    line = (
        f"synthesize --network {_torus()} --collective reduce --root 3 --synthesizer branchings --size 2MiB --output run --json"
    )
    yield _case("synthesize/branchings", line, *_AFTER, quick=True)
    line = f"synthesize --network {_torus('dgx1_cube_mesh')} --collective all-to-all --synthesizer column-generation --size 2MiB"
    yield _case("synthesize/columns", f"{line} --output run --json", *_AFTER, quick=True)
    line = f"synthesize --network {_torus()} --collective all-to-allv --matrix sizes.csv --output run --json"
    yield _case("synthesize/all_to_allv", line, *_AFTER, files={"sizes.csv": pairs})
    line = "synthesize --network n.yml --size 1MiB --max-sends 1000 --output run --json"
    for number, (block, size) in enumerate((("Ring", 32), ("Ring", 64), ("FullyConnected", 48))):
        network = _network((block, "Ring"), (size, size // 2), number)
        yield _case(f"synthesize/large_{number}", line, "verify run --json", "inspect run --json", files={"n.yml": network})


def _exports() -> Iterator[Case]:
    formats = ["run-directory", "chakra", "msccl-xml", "stand-in", "mscclpp", "ns3-directory", "chrome-trace", "csv", "npz"]
    made = (
        f"synthesize --network {_torus('dgx1_cube_mesh')} --synthesizer ring --chunks-per-npu 1 --size 1MiB --output run --json"
    )
    for name in formats:
        yield _case(
            f"export/{name}", made, f"export run --format {name} --output made --json", quick=name in ("msccl-xml", "csv")
        )
    plan = "export run --format mscclpp --output made.json"
    yield _case("export/verified", made, plan, "verify made.json --json", "import made.json --size 1MiB --output other --json")
    program = "export run --format msccl-xml --output made.xml"
    yield _case(
        "export/imported", made, program, "verify made.xml", "inspect made.xml", "import made.xml --size 1MiB --output other"
    )


def _packets() -> Iterator[Case]:
    lists = (("Switch", 8), ("Ring", 8), ("FullyConnected", 4), ("Switch", 16), ("Ring", 5))
    for number, (block, size) in enumerate(lists):
        for collective, amount in (("all-reduce", "1MiB"), ("all-gather", "64KiB"), ("all-to-all", "256KiB")):
            line = f"synthesize --network n.yml --collective {collective} --size {amount} --backend packet --output run --json"
            replay = "replay run --json"
            files = {"n.yml": _network((block,), (size,), number)}
            yield _case(f"packet/{block}_{size}_{collective}", line, replay, files=files, quick=number == 1 and amount == "64KiB")
    for number in range(3):
        made = f"generate --dp 2 --tp 2 --layers 1 --hidden {128 << number} --heads 4 --sequence 64 --vocab 512 --output base"
        plan = "plan base --network n.yml --backend packet --output planned --json --no-cache"
        files = {"n.yml": _network(("Switch",), (4,), number)}
        yield _case(f"packet/plan_{number}", made, plan, "replay planned --backend packet --json", files=files)


# ---- Runs ----

_MODEL = "--layers 2 --hidden 256 --heads 4 --sequence 128 --vocab 1024"


def _plans() -> Iterator[Case]:
    draw = random.Random(2)
    shapes = ((4, 2, 2), (4, 4, 1), (2, 4, 2), (16, 1, 1), (8, 2, 1), (2, 2, 2), (1, 4, 2))
    more = (
        "",
        "--zero",
        "--sequence-parallel",
        "--micro-batches 2",
        "--ep 2 --experts 4",
        "--buckets 2",
        "--schedule gpipe --micro-batches 4",
    )
    for number in range(24):
        dp, tp, pp = shapes[number % 7]
        count = dp * tp * pp
        option = more[number % 7] if "--ep" not in more[number % 7] or dp % 2 == 0 else ""
        made = f"generate --dp {dp} --tp {tp} --pp {pp} {_MODEL} {option} --output base --json"
        blocks, sizes = (
            (("Ring", "Switch"), (count // 2, 2)) if number % 2 and number not in (3, 17) else (("FullyConnected",), (count,))
        )
        asked = draw.choice(
            ("", "", "", "--schedule", "--place", "--backend congestion-unaware", "--schedule fuse,split", "--effort quick")
        )
        plan = f"plan base --network n.yml --output planned --no-cache --json {asked}"
        if asked == "--schedule":  # searches for policies; without a value
            plan = "plan base --network n.yml --output planned --no-cache --schedule --json"
        after = ("verify planned --json", "replay planned --json", "lint planned --json")
        yield _case(
            f"plan/drawn_{number:02}",
            made,
            plan,
            *after,
            files={"n.yml": _network(blocks, sizes, number)},
            quick=number in (0, 4, 9, 13),
        )
    run = "CONFIGS/workload/transformer_16"
    yield _case(
        "plan/printed", f"plan {run} --network {_torus()} --no-cache --output planned --verbose", "inspect planned", quick=True
    )
    yield _case("plan/place", f"plan {run} --network {_torus('hetero_3d_16npus')} --only-place --output placed --json")
    yield _case("plan/endpoint", f"plan {run} --network {_torus()} --endpoint ace --output with --json")
    yield _case("plan/baseline", f"plan {run} --network {_torus()} --baseline halvingDoubling --no-cache --output planned --json")
    yield _case("plan/slow", f"replay {run} --network {_torus()} --slow 3:1.5 --json --output slow", quick=True)


def _compact() -> Iterator[Case]:
    shapes = (
        *((16, 4, 2), (16, 4, 1), (64, 2, 1), (32, 2, 2), (128, 1, 1)),
        *((8, 4, 2), (256, 4, 1), (512, 2, 1), (64, 4, 2), (1024, 4, 1)),
    )
    for number, (dp, tp, pp) in enumerate(shapes):
        count = dp * tp * pp
        sizes = (tp * pp, dp) if tp * pp > 1 else (16, dp // 16)
        network = _network((("Ring", "FullyConnected", "Switch")[number % 3], "Ring"), sizes, number)
        made = f"generate --compact --dp {dp} --tp {tp} --pp {pp} {_MODEL} --network n.yml --output base --json"
        yield _case(
            f"compact/replay_{count}_{number}",
            made,
            "replay base --json",
            "lint base --json",
            "inspect base",
            files={"n.yml": network},
            quick=number == 0,
        )
        yield _case(
            f"compact/plan_{count}_{number}",
            made,
            "plan base --output planned --json",
            "replay planned --json",
            "verify planned --json",
            files={"n.yml": network},
        )


def _long() -> Iterator[Case]:
    """Runs of more than a million nodes."""
    for number in range(10):
        layers, ranks, steps = (96, 64, 128, 96, 64)[number % 5], (64, 128, 64, 128, 256)[number % 5], 24 - number % 3
        made = f"generate --dp {ranks} --layers {layers} --hidden 512 --heads 8 --sequence 128 --vocab 4096 --steps {steps}"
        made += " --output base --json"
        files = {"n.yml": _network(("Switch",), (ranks,), number)}
        lines = (made, "replay base --network n.yml --json") if number % 2 else (made, "lint base --network n.yml --json")
        yield _case(f"long/{number}", *lines, files=files)


# ---- Damaged runs ----


def _sound(draw: random.Random) -> RunFiles:
    count = draw.choice((2, 3, 4))
    ranks: list[list[Node]] = [[] for _ in range(count)]
    groups = {"1": list(range(max(2, count - 1)))}
    for step in range(draw.randint(3, 6)):
        kind = draw.randrange(4)
        if kind == 2:
            source = draw.randrange(count)
            target = (source + draw.randrange(1, count)) % count
            for rank, make, other in ((source, send, target), (target, recv, source)):
                ranks[rank].append(make(len(ranks[rank]), other, [len(ranks[rank]) - 1] if ranks[rank] else [], tag=step))
            continue
        pattern, size, group = draw.choice(list(_SOUND)), draw.choice((64, 4096, 1 << 20)), draw.choice((None, 1))
        for rank in range(count) if kind < 2 or group is None else groups["1"]:
            deps = [len(ranks[rank]) - 1] if ranks[rank] else []
            made = (
                comp(len(ranks[rank]), deps, us=draw.choice((0, 1, 50)))
                if kind < 2
                else coll(len(ranks[rank]), deps, pattern, size, group)
            )
            ranks[rank].append(made)
    for rank, nodes in enumerate(ranks):
        nodes.append(comp(len(nodes), [len(nodes) - 1] if nodes else [], us=1 + rank))
    return RunFiles(ranks, groups=groups, topology=(draw.choice(("Ring", "FullyConnected", "Switch")),))


_SOUND = (CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL)


def _damage(files: RunFiles, draw: random.Random) -> None:
    ranks: list[list[Node]] = files.ranks  # type: ignore[assignment]
    groups: dict[str, list[int]] = files.groups  # type: ignore[assignment]
    rank = draw.randrange(len(ranks))
    nodes = ranks[rank]
    at = draw.randrange(len(nodes)) if nodes else -1
    communicating = [node for node in nodes if node.type in (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)]
    chosen = draw.choice(communicating or nodes)
    kind = draw.randrange(14)
    if kind == 0:
        del nodes[at]
    elif kind == 1:
        drop(chosen, draw.choice(("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst", "pg_name", "is_cpu_op")))
    elif kind == 2:
        name = draw.choice(("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst"))
        drop(chosen, name).attr.add(name=name).int64_val = draw.choice((-1, 0, 1, 3, 9, 8192))
    elif kind == 3:
        chosen.id = draw.choice([node.id for node in nodes])
    elif kind == 4:
        nodes[at].data_deps.append(draw.choice((nodes[-1].id, nodes[-1].id + 5, nodes[at].id)))
    elif kind == 5:
        ranks[rank] = []
    elif kind == 6:
        groups["1"] = draw.choice((groups["1"][:-1], [*groups["1"], 9], [*groups["1"], groups["1"][0]]))
    elif kind == 7:
        files.groups = {draw.choice(("0", "7", "tp")): groups["1"]}
    elif kind == 8:
        nodes.append(draw.choice((coll(len(nodes) + 3), send(len(nodes) + 3, rank), recv(len(nodes) + 3, 0, tag=77))))
    elif kind == 9:
        key = draw.choice(("scheduling-policy", "preferred-dataset-splits", "all-reduce-implementation", "endpoint-delay"))
        files.system = {key: draw.choice((None, 0, -1, "LIFO", ["ring"], ["tree"], ["ring", "ring"], "x"))}
    elif kind == 10:
        files.system = {"all-reduce-implementation-custom": ["collective/a"]}
    elif kind == 11:
        drop(chosen, "pg_name").attr.add(name="pg_name").string_val = draw.choice(("0", "2", "7", "0.0", "tp"))
    elif kind == 12:
        drop(nodes[at], "is_cpu_op").attr.add(name="is_cpu_op").bool_val = True
    else:
        files.npus = [len(ranks) + draw.choice((-1, 1, 2))]


def _damaged() -> Iterator[Case]:
    def maker(seed: int) -> Callable[[Path], object]:
        def make(folder: Path) -> None:
            draw = random.Random(seed)
            files = _sound(draw)
            for _ in range(draw.choice((1, 1, 1, 2, 3))):
                if all(files.ranks):
                    _damage(files, draw)
            files.write(folder / "run")

        return make

    for seed in range(60):
        yield Case(f"damaged/lint_{seed:02}", ("lint run --json", "replay run --json"), maker(seed), seed % 12 == 0)
    for seed in range(100, 140):
        lines = ("lint --fix run --output mended --json", "lint mended", "replay mended --json")
        yield Case(f"damaged/fix_{seed}", lines, maker(seed), seed % 10 == 0)


_LINKS = "src,dst,bandwidth,latency\n" + "".join(f"{a},{(a + b) % 4},25,500\n" for b in (1, 3) for a in range(4))
_SWEEP = """point:
  collective: all-reduce
  chunks_per_npu: 1
  synthesizer: ring
  size: 1MiB
axes:
  network:
    - { name: four, topology: [ Ring ], npus_count: [ 4 ], bandwidth: [ 50 ], latency: [ 500 ] }
  size: [ 64KiB, 1MiB ]
"""
_TEXTS = {
    "network": _network(("Ring", "Switch"), (4, 2), 0, "astra_tacos:\n  failed_links: [ [0, 1], [1, 0] ]\n"),
    "links": _LINKS,
    "sweep": _SWEEP,
}
_WRONG = (
    "\t",
    ":",
    "nan",
    "-1",
    "0",
    "1e400",
    "[",
    "}",
    "Ringg",
    '"',
    "&a",
    "*a",
    "!!",
    "99999999999",
    "",
    "1.5",
    "null",
    "x: y",
    ",",
    "2 ",
)


def _texts() -> Iterator[Case]:
    for seed in range(36):
        draw = random.Random(200 + seed)
        kind = list(_TEXTS)[seed % 3]
        text = _TEXTS[kind]
        for _ in range(draw.choice((1, 1, 2))):
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice(_WRONG) + text[at + draw.choice((0, 1, 3)) :]
        if kind == "sweep":
            files, line = {"sweep.yml": text}, "sweep sweep.yml --output rows --dry-run"
        else:
            links = _network(("FullyConnected",), (4,), 0, "astra_tacos:\n  links: links.csv\n")
            files = {"n.yml": text} if kind == "network" else {"n.yml": links, "links.csv": text}
            line = "synthesize --network n.yml --size 64KiB --synthesizer tacos --json"
        yield _case(f"text/{kind}_{seed:02}", line, files=files, quick=seed in (3, 7, 11))
    for number, line in enumerate(
        (
            "synthesize --network missing.yml --size 1MiB",
            f"synthesize --network {_torus()} --size 0",
            f"synthesize --network {_torus()} --size 1MiB --synthesizer halving",
            f"synthesize --network {_torus('mesh_4x4')} --size 5 --synthesizer ring",
            f"synthesize --network {_torus()} --collective broadcast --root 16 --size 1MiB",
            f"plan CONFIGS/workload/transformer_16 --network {_torus('torus_8x8')} --output planned",
            "replay nowhere",
            "verify CONFIGS/network/torus_4x4.yml",
            f"compare --network {_torus()} --sizes 1MiB:64KiB",
            "export nowhere --format npz",
            "report nowhere -o x.html",
            "generate --dp 3 --tp 2 --hidden 100 --heads 3 --output run",
            "network rails --nodes 0 --output net",
            "repair x",
            "sinthesize",
        )
    ):
        yield _case(f"refused/{number:02}", line, quick=number % 5 == 0)


# ---- Other commands ----


def _others() -> Iterator[Case]:
    yield _case(
        "compare/torus", f"compare --network {_torus()} --sizes 64KiB:16MiB --output rows --json", "report rows -o x.html"
    )
    yield _case("compare/graph", f"compare --network {_torus('dgx1_cube_mesh')} --sizes 64KiB,4MiB --csv rows.csv", quick=True)
    yield _case("compare/frontier", "compare --frontier --network n.yml --json", files={"n.yml": _network(("Ring",), (4,), 0)})
    yield _case(
        "compare/offload", "network leaf-spine --reducing --output net", "compare --offload --network net/network.yml --json"
    )
    yield _case("compare/servers", "compare --servers 2,4 --workers 8 --size 4MiB --json")
    yield _case(
        "sweep/small", "sweep sweep.yml --output rows --json", "report rows -o lines.svg", files={"sweep.yml": _TEXTS["sweep"]}
    )
    tiers = "--cost-model CONFIGS/cost/three_tiers.yml --budget-cost 100000"
    run = "generate --dp 4 --tp 4 --layers 1 --hidden 256 --heads 4 --sequence 64 --vocab 512 --output base"
    files = "--workload base/workload/w --system base/system.json --comm-group base/comm_group.json"
    split = f"optimize --network {_torus('hetero_3d_16npus')} {files} --json"
    yield _case("optimize/time", run, f"{split} --total-bandwidth 600 --output best.yml")
    yield _case("optimize/cost", run, f"{split} --objective time-cost {tiers}")
    yield _case(
        "calibrate/log",
        "calibrate CONFIGS/measured/two_nodes.log --output machine --json",
        "calibrate --check machine CONFIGS/measured/four_nodes.log --json",
        quick=True,
    )
    for number, model in enumerate(("gpt3-6.7b", "llama-7b", "mixtral-8x7b", "resnet50", "vgg16", "bert-large", "dlrm")):
        ranks = "--dp 2 --tp 2" if number < 3 else "--dp 4"
        network = _network(("Ring",), (4,), number)
        yield _case(
            f"generate/{model}",
            f"generate --model {model} {ranks} --output base --json",
            "replay base --network n.yml --json",
            "inspect base",
            files={"n.yml": network},
        )
    for line in (
        "--virtual-stages 2 --pp 2 --dp 2 --layers 4 --micro-batches 4",
        "--pp 4 --schedule breadth-first --layers 4 --micro-batches 4",
        "--dp 4 --layers 2 --bucket-mb 1 --durations",
    ):
        size = 4
        made = f"generate {line} --hidden 128 --heads 4 --sequence 64 --vocab 512 --output base --json"
        yield _case(
            f"generate/{line.split()[0][2:]}",
            made,
            "lint base --network n.yml --json",
            files={"n.yml": _network(("Ring",), (size,), 0)},
        )
    made = f"synthesize --network {_torus()} --synthesizer ring --chunks-per-npu 1 --size 1MiB --output run --json"
    for kind in ("topology", "timeline"):
        yield _case(f"report/{kind}", made, f"report run --kind {kind} -o x.svg")
    yield _case("report/page", made, "report run -o x.html", quick=True)
    yield _case(
        "report/planned",
        f"plan CONFIGS/workload/transformer_16 --network {_torus()} --no-cache --output planned --json",
        "report planned -o x.html",
        "report planned -o x.svg",
    )
    yield _case("help", "--help", *(f"{name} --help-all" for name in _COMMANDS), quick=True)


_COMMANDS = [
    "synthesize",
    "plan",
    "generate",
    "import",
    "export",
    "verify",
    "replay",
    "lint",
    "inspect",
    "calibrate",
    "compare",
    "optimize",
    "sweep",
    "report",
]


def _all() -> list[Case]:
    makers = (_syntheses, _exports, _packets, _plans, _compact, _long, _damaged, _texts, _others)
    return [case for maker in makers for case in maker()]


CASES = _all()
