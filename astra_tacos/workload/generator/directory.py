"""The directory of a generated run, which has all files of the run, and the network if it was made for one.

A run of many ranks has one trace for all ranks that translations of the network move to one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.export.run_directory import LOG, SCRIPT, write_run_script
from astra_tacos.network.network_config import NetworkConfig, read_network
from astra_tacos.network.network_files import NETWORK, copy_network, own_tables
from astra_tacos.run.compact_run import fixed_dimensions, read_compact, smallest_period, write_ranks
from astra_tacos.run.directory import next_command
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.run import CLASSES, GROUPS, MEMORY, RANKS, SYSTEM, write_groups
from astra_tacos.run.system import COMM_KEYS, NO_MEMORY
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.writer import encode_trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_replaceable, replaced_directory, write_json
from astra_tacos.support.rows import Result, Row
from astra_tacos.support.units import format_size
from astra_tacos.workload.generator.columns import Node, StageColumns, stage_columns
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.layered_step import LayeredStep, layered_nodes
from astra_tacos.workload.generator.parallelism import GroupKind, Groups, number_groups
from astra_tacos.workload.generator.stage import stage_nodes
from astra_tacos.workload.generator.step import Step

MOST_TRACES = 1024
"""Traces of a run: a run of more ranks is compact, and has one for each class."""
MAX_NODES = 50_000_000
"""Of all ranks: their traces take gigabytes."""
MAX_NODES_OF_RANK = 1_000_000
"""Each is a Python object until the trace is written."""
RESULT_FILE = "generated.json"
PREFIX = "workload/w"
_FILES = {"workload", "classes", RANKS, GROUPS, SYSTEM, MEMORY, NETWORK, RESULT_FILE, SCRIPT, LOG}


@dataclass(frozen=True, slots=True, repr=False)
class GeneratedRun(Result):
    """The directory of a generated run, and the content of its `generated.json`.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer, generate
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=4))
    >>> generate(step, "steps").result["num_ranks"]
    4
    """

    path: Path
    result: dict[str, Any]

    @property
    def comm_group(self) -> Path | None:
        """Path of the communicator groups; None of a compact run, whose groups are in its file of ranks."""
        path = self.path / GROUPS
        return path if path.is_file() else None

    def title(self) -> str:
        """How many ranks and nodes there are."""
        return f"{self.result['num_ranks']:,} ranks of {self.result['num_nodes']:,} nodes"

    def rows(self) -> list[Row]:
        """The main figures, and the command to go on with."""
        result = self.result
        operations = f"{result['num_ops']:.4g} operations for {result['tokens']:,} tokens"
        rows = [Row("parameters", result["parameters"], note=operations)]
        counts = result.get("num_groups") or {kind: len(ids) for kind, ids in result["groups"].items()}
        rows.append(Row("groups", ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "none"))
        for name, entry in result["communication"].items():
            rows.append(Row(name, format_size(entry["bytes"]), note=f"{entry['nodes']:,} nodes"))
        if "chosen_order" in result:
            axes, classes = result["chosen_order"], f"of {result['num_classes']:,} classes of ranks (--order says another)"
            rows.append(Row("order", axes, note=classes))
        rows.append(Row("files", str(self.path)))
        if not (self.path / NETWORK).is_file():
            fits = f"N.yml needs {result['num_ranks']:,} NPUs in one dimension"
            rows.append(Row("network", note=f"{fits}; for more dimensions, add --network N.yml to `generate`"))
        return [*rows, Row("next", next_command(self.path))]


def _check_output(path: Path) -> None:
    """Check that a generated run may be written to `path`: it does not exist, or contains only files that this module writes.

    Raises
    ------
    ConfigError
        If it contains anything else, or is the current directory.
    """
    check_replaceable(path, "generated run", lambda names: not names or RESULT_FILE in names <= _FILES, own_tables(path))


def generate(
    step: Step | LayeredStep,
    path: str | Path,
    device: Device | None = None,
    network: str | Path | None = None,
    *,
    compact: bool = False,
    is_order_free: bool = False,
) -> GeneratedRun:
    """Write `workload/w.<rank>.et`, `{comm_group,system,remote_memory,generated}.json`, and a network and a script if it has one.

    Nothing is left behind on failure; a directory that this function wrote before is replaced.

    Parameters
    ----------
    step
        The training steps, of a transformer or of a list of layers.
    path
        Directory to write.
    device
        The device of every rank; None for the default one.
    network
        Network file of the run, which is copied: its number of NPUs is checked, and the system file names an algorithm for each
        dimension.
    compact
        Whether to write a compact run of up to `MOST_TRACES` ranks, too.
    is_order_free
        Whether a compact run that would have too many classes may have another order of axes: the one with the fewest classes.

    Raises
    ------
    ConfigError
        If `path` contains anything but a generated run, the network has another number of NPUs, or the step is too large.

    Examples
    --------
    >>> from astra_tacos import Parallelism, Step, Transformer, generate
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=4))
    >>> generated = generate(step, "steps")
    >>> sorted(path.name for path in generated.path.iterdir())
    ['comm_group.json', 'generated.json', 'remote_memory.json', 'system.json', 'workload']
    """
    path, device, split = Path(path), device or Device(), step.parallelism
    num_dimensions = 1
    if network is not None:
        config = read_network(network)
        num_dimensions = max(1, len(config.dimensions))  # a list of links has none
        if config.num_npus != split.num_ranks:
            raise ConfigError(f"{network}: found {config.num_npus:,} NPUs, expected dp x tp x pp = {split.num_ranks:,}")
        sizes = tuple(dimension.size for dimension in reversed(config.dimensions))
        if split.placement and sizes != split.levels:
            levels, sizes_text = (" x ".join(map(str, numbers)) for numbers in (split.levels, sizes))
            raise ConfigError(f"placement: levels of {levels}, outermost first, expected {sizes_text or 'none'} as in {network}")
    is_compact = compact or split.num_ranks > MOST_TRACES
    if is_compact and (network is None or not config.dimensions):
        why = "asked for a compact run" if compact else f"of which more than {MOST_TRACES:,} make a compact run"
        raise ConfigError(f"found {split.num_ranks:,} ranks, {why}, expected a network of dimensions (--network)")
    _check_output(path)
    chosen: dict[str, Any] = {}
    if is_compact and is_order_free and not split.placement:
        step, chosen = _with_few_classes(step, config)
        split = step.parallelism
    _check_size(step, [step.least_nodes] * split.pp)
    stages = [layered_nodes(step, device)] if isinstance(step, LayeredStep) else [stage_nodes(step, at) for at in range(split.pp)]
    _check_size(step, [len(nodes) for nodes in stages])
    columns = [stage_columns(nodes, device) for nodes in stages]
    with replaced_directory(path) as directory:
        write_json(directory / SYSTEM, _system(device, num_dimensions))
        write_json(directory / MEMORY, NO_MEMORY)
        if network is not None:
            copy_network(Path(network), directory)
        if is_compact:
            groups = _write_classes(step, columns, directory, config)
        else:
            groups = number_groups(split, step.group_kinds)
            (directory / "workload").mkdir()
            _write_traces(step, groups, columns, [(rank, f"{PREFIX}.{npu}.et") for rank, npu in enumerate(split.npu)], directory)
            write_groups(directory, groups.members)
            if network is not None and not config.forwarding:
                write_run_script(directory, PREFIX, config, "Runs", has_groups=True)
        result = _result(step, device, stages, groups) | chosen
        if is_compact:
            result["num_groups"] = _group_counts(step, groups)
        write_json(directory / RESULT_FILE, result)
    return GeneratedRun(path, result)


def _group_counts(step: Step | LayeredStep, groups: Groups) -> dict[str, int]:
    """How many groups of each kind all ranks of a compact run have, given those of the representatives."""
    alike = step.parallelism.num_ranks // groups.of_rank.shape[1]
    sizes = {number: len(members) for number, members in groups.members.items()}
    return {
        kind.name.lower().replace("_", "-"): round(alike * sum(1 / sizes[number] for number in groups.of_rank[kind].tolist()))
        for kind in sorted(step.group_kinds)
    }


def _check_size(step: Step | LayeredStep, nodes: list[int]) -> None:
    """Check the total size; `nodes` is the number of nodes of a rank of each stage."""
    split = step.parallelism
    total = sum(nodes) * (split.num_ranks // split.pp if split.num_ranks <= MOST_TRACES else 1)
    for place, number, most in (("of a rank", max(nodes), MAX_NODES_OF_RANK), ("in all", total, MAX_NODES)):
        if number > most:
            remedy = "choose fewer layers, micro-batches or ranks"
            raise ConfigError(f"found {number:,} nodes {place} or more, expected at most {most:,}: {remedy}")


def _write_traces(
    step: Step | LayeredStep, groups: Groups, stages: list[StageColumns], files: Iterable[tuple[int, str]], folder: Path
) -> None:
    """Write the traces of some ranks, each under its name in a folder."""
    split = step.parallelism
    npu, stride, num_lanes = split.npu, split.stride["pp"], split.num_ranks // split.pp
    stage, lane = split.coordinate("pp"), split.lane()
    for rank, name in files:
        columns = stages[stage[rank]]
        table = columns.of_rank(rank, npu, groups, stride, int(lane[rank]), num_lanes)
        (folder / name).write_bytes(encode_trace(table, 0, columns.num_nodes))


def _with_few_classes(step: Step | LayeredStep, network: NetworkConfig) -> tuple[Step | LayeredStep, dict[str, Any]]:
    """The step with the order of axes that has the fewest classes on a network, if its own has too many; what to say of it."""

    def classes(candidate: Step | LayeredStep) -> int:
        return math.prod(_periods(candidate, network))

    split = step.parallelism
    if classes(step) <= MOST_TRACES:
        return step, {}
    moving = [axis for axis in split.order if split.size(axis) > 1]
    still = tuple(axis for axis in split.order if axis not in moving)
    orders = [(*order, *still) for order in permutations(moving)]
    steps = [replace(step, parallelism=replace(split, order=order)) for order in orders]
    best = min(steps, key=classes)
    return best, {"chosen_order": ",".join(best.parallelism.order), "num_classes": classes(best)}


def _periods(step: Step | LayeredStep, network: NetworkConfig) -> list[int]:
    """By dimension, the smallest turn of the network that moves each rank to one of its stage, and groups to groups."""
    split = step.parallelism
    npu = split.npu
    ranks = np.arange(len(npu))
    rank_of = np.empty(len(npu), np.int64)
    rank_of[npu] = ranks
    stage = split.coordinate("pp")
    following = ranks + ((stage + 1) % split.pp - stage) * split.stride["pp"]
    after = npu[following[rank_of]]
    partition = [split.first_of_group(kind)[rank_of] for kind in step.group_kinds]
    size = tuple(dimension.size for dimension in network.dimensions)
    lattice = Lattice(size, size)

    def keeps(index: int, turn: int) -> bool:
        stride = int(lattice.columns[0][index])
        here = ranks // stride % size[index]
        moved = ranks + ((here + turn) % size[index] - here) * stride
        if (stage[rank_of][moved] != stage[rank_of]).any() or (after[moved] != moved[after]).any():
            return False
        return all(_maps(group, group[moved]) for group in partition)

    return [
        smallest_period(dimension.size, dimension, lambda turn, index=index: keeps(index, turn))  # type: ignore[misc]
        for index, dimension in enumerate(network.dimensions)
    ]


def _write_classes(step: Step | LayeredStep, columns: list[StageColumns], folder: Path, network: NetworkConfig) -> Groups:
    """Write `classes/w.<class>.et` and `ranks.json` beside a system file, and return the groups that are named there.

    A class has all ranks that translations of the network move to one another.

    Raises
    ------
    ConfigError
        If there are too many classes, or a group is no product of coordinates of the network.
    """
    split = step.parallelism
    npu = split.npu
    rank_of = np.empty(len(npu), np.int64)
    rank_of[npu] = np.arange(len(npu))
    size = tuple(dimension.size for dimension in network.dimensions)
    period = _periods(step, network)
    (folder / CLASSES).parent.mkdir()
    while True:
        lattice = Lattice(size, tuple(period))
        ranks = lattice.representatives
        if len(ranks) > MOST_TRACES:
            raise ConfigError(
                f"{network.source}: {len(ranks):,} classes of ranks, expected at most {MOST_TRACES:,}: "
                "let each axis fill whole dimensions (--order, --placement)"
            )
        groups = number_groups(split, step.group_kinds, rank_of[ranks])
        write_ranks(folder, lattice, groups.members)
        files = [(rank, f"{CLASSES}.{place}.et") for place, rank in enumerate(rank_of[ranks])]
        _write_traces(step, groups, columns, files, folder)
        fixed = fixed_dimensions(read_compact(folder, network, checks=False))
        if not fixed:
            return Groups(groups.members, groups.of_rank[:, rank_of[ranks]])
        for index in fixed:
            period[index] = size[index]


def _maps(source: Ints, other: Ints) -> bool:
    """Whether equal entries of one array have equal entries in the other."""
    image = np.empty(len(source), np.int64)
    image[source] = other
    return bool((image[source] == other).all())


def _system(device: Device, num_dimensions: int) -> dict[str, Any]:
    return {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "active-chunks-per-dimension": 1,
        "collective-optimization": "baseline",
        **{f"{key}-implementation": ["ring"] * num_dimensions for key in COMM_KEYS},
        "endpoint-delay": 10,
        "local-reduction-delay": 1,
        "roofline-enabled": int(not device.writes_durations),
        "peak-perf": device.peak_tflops,
        "local-mem-bw": device.memory_gbps,
    }


def _result(step: Step | LayeredStep, device: Device, stages: list[list[Node]], groups: Groups) -> dict[str, Any]:
    """The content of `generated.json`; totals are over all ranks."""
    split = step.parallelism
    lanes = split.num_ranks // split.pp
    collectives: dict[str, dict[str, int]] = {}
    ops = 0
    for node in (node for nodes in stages for node in nodes):
        ops += lanes * node.cost.num_ops if node.cost else 0
        if node.kind in (NodeType.COMM_COLL, NodeType.COMM_SEND):
            name = "SEND" if node.comm_type is None else CommType(node.comm_type).name
            name = name if node.group is None else f"{name} {GroupKind(node.group).name}"
            entry = collectives.setdefault(name.lower().replace("_", "-"), {"nodes": 0, "bytes": 0})
            entry["nodes"] += lanes
            entry["bytes"] += lanes * node.size_bytes
    kinds = {kind.name.lower().replace("_", "-"): np.unique(groups.of_rank[kind]).tolist() for kind in sorted(step.group_kinds)}
    return {
        "num_ranks": split.num_ranks,
        "num_nodes": lanes * sum(map(len, stages)),
        "parameters": step.model.parameters,
        "tokens": step.samples * step.micro_batches * split.dp * step.steps,
        "num_ops": ops,
        "communication": dict(sorted(collectives.items())),
        "groups": kinds,
        "step": asdict(step),
        "device": asdict(device),
    }
