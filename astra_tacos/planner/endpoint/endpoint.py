"""`divide_endpoint`: a run whose NPUs give a part of their cores and memory bandwidth to communication.

Stock ASTRA-sim has no contention between compute and communication. A partition that never changes can be written into its
inputs: compute gets the rest of peak performance and memory bandwidth (with the roofline, in the system file; else durations
get longer), and links are capped at what the NPU can drive. This is pessimistic for phases with nothing to compute, or
nothing to send. The other side of the truth, never overlapping with all resources for each in turn, is the end of the run
with nothing hidden. An `EndpointChoice` is an endpoint as one text, such as `host:cores=64,comm-cores=6,comm-memory=450`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_files import NETWORK
from astra_tacos.planner.endpoint.npu import Mode, Npu, Partition, Traffic, needed_memory_gbps, network_gbps, traffic_of
from astra_tacos.planner.run_files import check_output, write_plan, write_script
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.rules.refusal import refuse_left_out
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.source import made_of
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory
from astra_tacos.support.formats.numbers import parse_decimal
from astra_tacos.support.quoted import quoted
from astra_tacos.support.rows import Result, Row, Table, Value
from astra_tacos.support.units import BYTES_PER_GB, BYTES_PER_GIB

_NPU = {"cores": "cores", "core-bandwidth": "core_gbps", "memory": "memory_gbps", "peak": "peak_tflops"}
"""Options of an NPU, and the fields of `Npu` that they set."""
_PARTITION = ("comm-cores", "comm-memory")
EXPECTED = (
    "host, ace or ideal, after a colon with cores, core-bandwidth, memory, peak, comm-cores or comm-memory, like ace:memory=1200"
)


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Who drives communication, on which NPUs.

    Parameters
    ----------
    partition
        What communication takes of the NPU; None for the best that is tried.
    """

    mode: Mode
    npu: Npu
    partition: Partition | None = None


def parse_endpoint(text: str) -> EndpointChoice:
    """The endpoint of a text: a mode, and after a colon any options `name=number`, with commas between them.

    `cores`, `core-bandwidth` (10**9 bytes per second), `memory` (the same) and `peak` (10**12 operations per second) are those of
    the NPU; `comm-cores` and `comm-memory` are what communication takes. An engine takes no cores, and an ideal endpoint nothing.

    Raises
    ------
    ConfigError
        If it is none.
    """
    name, _, rest = text.partition(":")
    if name not in tuple(Mode) or (":" in text and not rest):
        raise ConfigError(f"endpoint: found {quoted(text)}, expected {EXPECTED}")
    mode = Mode(name)
    given: dict[str, float] = {}
    for part in rest.split(",") if rest else ():
        option, _, value = part.partition("=")
        if option not in (*_NPU, *_PARTITION) or option in given:
            raise ConfigError(
                f"endpoint: found {quoted(part)}, expected {', '.join((*_NPU, *_PARTITION))}, each once, with a number"
            )
        given[option] = _number(option, value)
    npu = Npu(**{field: given[option] for option, field in _NPU.items() if option in given})  # type: ignore[arg-type]
    return EndpointChoice(mode, npu, _partition(mode, npu, given))


def _number(option: str, value: str) -> float:
    is_count = option in ("cores", "comm-cores")
    number = parse_decimal(value)
    if number is None or (is_count and not number.is_integer()):
        raise ConfigError(f"endpoint: {option}: found {quoted(value)}, expected a {'whole ' if is_count else ''}number")
    return int(number) if is_count else number


def _partition(mode: Mode, npu: Npu, given: dict[str, float]) -> Partition | None:
    needed = {Mode.HOST: _PARTITION, Mode.ACE: _PARTITION[1:], Mode.IDEAL: ()}[mode]
    options = tuple(option for option in _PARTITION if option in given)
    if options and options != needed:
        both = " and ".join(needed) or "neither comm-cores nor comm-memory"
        raise ConfigError(
            f"endpoint: found {' and '.join(options)}, expected {both} for {mode}, or none for the best that is tried"
        )
    if not options:
        return None
    partition = Partition(int(given.get("comm-cores", 0)), float(given["comm-memory"]))
    npu.check(partition, mode)
    return partition


_MOST_ROWS = 12
"""Partitions that are shown; plan.json has all."""
_GB_PER_GIB = BYTES_PER_GIB / BYTES_PER_GB
_CORE_SHARES = (1, 2, 4, 6, 8, 16)
"""Numbers of cores of 80 that are tried, scaled to the cores that there are."""
_MEMORY_SHARES = (0.25, 0.5, 1.0)
"""Shares of the memory bandwidth that lets communication drive all links."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A run with a partition.

    Parameters
    ----------
    network_gbps
        Network bandwidth that an NPU drives, in 10**9 bytes per second.
    network_use
        Bytes that the busiest NPU sends, over what its links could carry until the end.
    """

    mode: Mode
    partition: Partition
    network_gbps: float
    end_ns: int
    exposed_ns: int
    network_use: float

    def cells(self) -> tuple[Value, ...]:
        """The row of the partition in a table."""
        return (
            str(self.mode),
            self.partition.cores,
            f"{self.partition.memory_gbps:,.1f}",
            f"{self.network_gbps:,.1f}",
            self.end_ns,
            self.exposed_ns,
            f"{self.network_use:.1%}",
        )


@dataclass(frozen=True, slots=True, repr=False)
class EndpointResult(Result):
    """Partitions of a run.

    Parameters
    ----------
    npu, traffic, links_gbps, backend
        The NPU, the busiest NPU's bytes, the bandwidth of its links together, and the network model that judged.
    written
        The partition that was written.
    tried
        All that were tried, `written` among them; the ideal endpoint last.
    in_turn_ns
        End of the run if nothing overlaps: the longest time of a rank that computes and communicates in turn, with all resources.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import Partition, RunInputs, divide_endpoint
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> inputs = replace(inputs, network=Path("configs/network/torus_4x4.yml"))
    >>> result = divide_endpoint(inputs, Path("divided"), partition=Partition(cores=2, memory_gbps=128.0))
    >>> result.links_gbps > 0, result.in_turn_ns > 0
    (True, True)
    """

    npu: Npu
    traffic: Traffic
    links_gbps: float
    backend: Backend
    written: Divided
    tried: tuple[Divided, ...]
    in_turn_ns: int

    def to_json(self) -> dict[str, Any]:
        """The entry `endpoint` of `plan.json`."""
        reads = {str(mode): round(self.traffic.read_per_sent_byte(mode), 6) for mode in (Mode.HOST, Mode.ACE)}
        return {
            "npu": asdict(self.npu),
            "backend": str(self.backend),
            "traffic": asdict(self.traffic),
            "reads_per_sent_byte": reads,
            "needed_memory_gbps": {mode: round(self.links_gbps * value, 6) for mode, value in reads.items()},
            "links_gbps": self.links_gbps,
            "written": _json(self.written),
            "tried": [_json(division) for division in self.tried],
            "in_turn_ns": self.in_turn_ns,
        }

    def title(self) -> str:
        """The partition that was written."""
        return f"{self.written.mode}: {self.written.partition}"

    def rows(self) -> list[Row]:
        """The end of the run, divided and undivided, and what drives the links."""
        reads = {mode: self.traffic.read_per_sent_byte(mode) for mode in (Mode.HOST, Mode.ACE)}
        memory = ", ".join(f"{value * self.links_gbps:,.1f} GB/s ({mode})" for mode, value in reads.items())
        return [
            Row("end of the run", self.written.end_ns, "ns", "always divided"),
            Row("ideal endpoint", self.tried[-1].end_ns, "ns", "communication takes nothing of the NPU"),
            Row("never overlapping", self.in_turn_ns, "ns", "with all resources in turn"),
            Row("links driven", f"{self.written.network_gbps:,.1f}", "GB/s", f"of {self.links_gbps:,.1f} GB/s of an NPU"),
            Row("reads per byte sent", note=", ".join(f"{value:.3f} ({mode})" for mode, value in reads.items())),
            Row("memory for all links", note=memory),
        ]

    def tables(self) -> list[Table]:
        """The partitions with which the run ends first, and the one that was written."""
        rows = sorted(self.tried, key=lambda division: division.end_ns)
        shown = [*rows[:_MOST_ROWS], *(division for division in rows[_MOST_ROWS:] if division is self.written)]
        columns = ("endpoint", "cores", "memory GB/s", "network GB/s", "end ns", "exposed ns", "network use")
        title = f"partitions ({len(shown)} of {len(rows)}; plan.json has all)"
        return [Table(title, columns, [division.cells() for division in shown])]


def _json(division: Divided) -> dict[str, Any]:
    return {
        "endpoint": str(division.mode),
        "cores": division.partition.cores,
        "memory_gbps": division.partition.memory_gbps,
        "network_gbps": division.network_gbps,
        "end_ns": division.end_ns,
        "exposed_ns": division.exposed_ns,
        "network_use": round(division.network_use, 6),
    }


def divide_endpoint(
    inputs: RunInputs,
    output: Path,
    mode: Mode | str = Mode.HOST,
    npu: Npu | None = None,
    partition: Partition | None = None,
    *,
    backend: Backend | str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> EndpointResult:
    """Write a run whose NPUs are divided between compute and communication; without a partition, the best one that is tried.

    The best partition of the other mode and the ideal endpoint are tried, too.

    Parameters
    ----------
    inputs
        The run.
    output
        Directory to write; a plan that is there is replaced.
    mode
        Who drives communication: cores of the NPU (`host`), an engine (`ace`), or nothing that takes anything (`ideal`).
    npu, partition
        The NPU, and what communication takes; None for the default NPU, and for a search.
    backend
        The network model that judges, or its name; None for the one with queues.
    on_progress
        Called with how many partitions were tried, and how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be, the network is no product of dimensions, or a partition leaves nothing.
    ReplayError
        If the run does not end.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import Partition, RunInputs, divide_endpoint
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> inputs = replace(inputs, network=Path("configs/network/torus_4x4.yml"))
    >>> result = divide_endpoint(inputs, Path("divided"), partition=Partition(cores=2, memory_gbps=128.0))
    >>> result.written.partition.cores
    2
    """
    mode, npu = Mode(mode), npu or Npu()
    check_output(output, inputs)
    run = read_run(inputs)
    refuse_left_out(run)
    network = run.network
    if not network.dimensions or network.failed_links or network.link_overrides:
        raise ConfigError(
            f"{network.source}: a list of links or failed links, expected dimensions alone: links are capped in step"
        )
    if run.prefixes:
        raise ConfigError(
            f"{run.system.source}: collectives run custom traces, expected native collectives, whose additions are counted"
        )
    if partition is not None:
        npu.check(partition, mode)
    if npu.peak_tflops is not None:
        if not run.system.roofline_enabled:
            raise ConfigError(
                f"{run.system.source}: no roofline, expected roofline-enabled 1 for an NPU of another peak performance"
            )
        run = replace(run, system=run.system.with_keys({"peak-perf": npu.peak_tflops}))
    model = choose_backend(backend)
    undivided = replay_run(run, model)
    traffic = traffic_of(run, undivided)
    topology = build_topology(network)
    out = np.bincount(topology.link_src, topology.link_bandwidth_gibps, network.num_npus)[: network.num_npus]
    links = float(out.max()) * _GB_PER_GIB
    modes = (Mode.HOST, Mode.ACE) if mode != Mode.IDEAL else ()
    trials = [
        (trial_mode, division)
        for trial_mode in modes
        for division in _partitions(npu, trial_mode, partition if trial_mode == mode else None, links, traffic)
    ]
    tried = []
    for number, (trial_mode, division) in enumerate(trials):
        driven = network_gbps(npu, trial_mode, division, links, traffic.read_per_sent_byte(trial_mode))
        if driven > 0:
            outcome = replay_run(divided_run(run, npu, trial_mode, division, driven / links), model)
            tried.append(_result(trial_mode, division, driven, links, traffic_of(run, outcome), outcome))
        on_progress(number + 1, len(trials))
    tried.append(_result(Mode.IDEAL, Partition(), links, links, traffic, undivided))
    own_mode = [division for division in tried if division.mode == mode]
    if not own_mode:
        raise ConfigError("communication gets no cores or no memory bandwidth, and would never end")
    best = min(own_mode, key=lambda division: division.end_ns)
    with replaced_directory(output) as folder:
        divided = divided_run(run, npu, best.mode, best.partition, best.network_gbps / links)
        _write(folder, inputs, run, divided)
        result = EndpointResult(npu, traffic, links, model, best, tuple(tried), _in_turn(run, undivided))
        write_plan(folder, {"endpoint": result.to_json()})
    return result


def _partitions(npu: Npu, mode: Mode, given: Partition | None, links: float, traffic: Traffic) -> list[Partition]:
    """What is tried: the given partition, else a grid."""
    if given is not None:
        return [given]
    needed = needed_memory_gbps(links, traffic.read_per_sent_byte(mode))
    memory = sorted({round(min(share * needed, 0.95 * npu.memory_gbps), 6) for share in _MEMORY_SHARES})
    if mode == Mode.ACE:
        return [Partition(0, memory_gbps) for memory_gbps in memory]
    cores = sorted({max(1, round(share * npu.cores / 80)) for share in _CORE_SHARES} - {npu.cores})
    return [Partition(count, memory_gbps) for count in cores if count < npu.cores for memory_gbps in memory]


def _result(mode: Mode, partition: Partition, driven: float, links: float, traffic: Traffic, outcome: RunOutcome) -> Divided:
    exposed = int(outcome.exposed_comm_ns.max())
    return Divided(mode, partition, driven, outcome.end_ns, exposed, traffic.sent / (links * max(outcome.end_ns, 1)))


def divided_run(run: Run, npu: Npu, mode: Mode, partition: Partition, share: float) -> Run:
    """A run with its network and compute scaled, in memory."""
    compute, memory = _left(npu, mode, partition)
    dimensions = tuple(
        replace(dimension, bandwidth_gibps=dimension.bandwidth_gibps * share) for dimension in run.network.dimensions
    )
    network = replace(run.network, dimensions=dimensions)
    if run.system.roofline_enabled:
        peak, rate = run.system.peak_perf_tflops * compute, run.system.local_mem_bw_gbps * memory
        return replace(run, network=network, system=run.system.with_keys({"peak-perf": peak, "local-mem-bw": rate}))
    trace = run.workload
    # Nobody knows what limits a node without a roofline, so the smaller share does.
    durations = [math.ceil(us / min(compute, memory) - 1e-9) for us in trace.duration_us.tolist()]
    longer = np.where(_computes(run), durations, trace.duration_us)
    return replace(run, network=network, workload=replace(trace, duration_us=longer))


def _computes(run: Run) -> Bools:
    """bool[num_nodes], nodes that occupy the NPU's cores."""
    return np.asarray((run.workload.kind == NodeType.COMP) & ~run.columns.is_cpu_op)


def _left(npu: Npu, mode: Mode, partition: Partition) -> tuple[float, float]:
    """Shares of peak performance and of memory bandwidth that are left to compute with."""
    cores = partition.cores if mode == Mode.HOST else 0
    taken_gbps = 0.0 if mode == Mode.IDEAL else partition.memory_gbps
    return (npu.cores - cores) / npu.cores, (npu.memory_gbps - taken_gbps) / npu.memory_gbps


def _in_turn(run: Run, outcome: RunOutcome) -> int:
    """The longest time of a rank that computes, communicates and waits in turn."""
    kind = run.workload.kind
    talking = np.isin(kind, (NodeType.COMM_COLL, NodeType.COMM_SEND))
    took = np.where(talking, outcome.node_finish_ns - outcome.node_issue_ns, 0)
    of_rank = np.bincount(run.workload.rank, took, run.workload.num_ranks)
    return max(outcome.end_ns, int((outcome.compute_ns + of_rank).max()))


def _write(folder: Path, inputs: RunInputs, run: Run, divided: Run) -> None:
    """Write what of the divided run differs into the files of the run."""
    source = made_of(run, np.arange(run.workload.num_nodes))
    replace(divided, network=run.network, system=divided.system.without_traces(), source=source).write(
        folder, inputs.workload.name
    )
    write_script(folder, run)
    if divided.network != run.network:
        document = yaml.safe_load(inputs.network.read_text(encoding="utf-8"))
        document["bandwidth"] = [dimension.bandwidth_gibps for dimension in divided.network.dimensions]
        lines = (f"{key}: {json.dumps(value)}" for key, value in document.items())
        (folder / NETWORK).write_text("\n".join(lines) + "\n", encoding="utf-8")
