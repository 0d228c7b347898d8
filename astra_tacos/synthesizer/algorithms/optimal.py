"""Optimal: algorithms of which none has fewer steps and fewer rounds per chunk, by integer programmes; for small networks.

The frontier (see `rounds.frontier`) is searched within limits on what the solver examines, not on its time, so that the result
follows from the arguments alone. Each of its algorithms cuts the buffer in its own way; the fastest for the size is taken. An
All-Reduce is a Reduce-Scatter and an All-Gather. Source: Cai et al., "Synthesizing optimal collective algorithms", PPoPP 2021.
"""

from __future__ import annotations

from functools import lru_cache

from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import Timing
from astra_tacos.schedule.work_meter import Allowance, OutOfWorkError, count_work, metered
from astra_tacos.synthesizer.rounds.frontier import Point, Task, frontier
from astra_tacos.synthesizer.rounds.lanes import lanes_of, why_no_lanes
from astra_tacos.synthesizer.rounds.programme import Effort, Unknown, num_variables
from astra_tacos.synthesizer.rounds.schedules import Algorithm, composed
from astra_tacos.topology.topology import Topology

MOST_NPUS = 10
_EFFORT = Effort(most_nodes=1, most_variables=1_200)
"""One node: nearly all instances are decided by the solver's presolve, cuts and heuristics, or not in reasonable time."""
_MOST_WORK = 1_000_000
_MOST_CHUNKS, _MOST_OF_PAIRS, _MORE_STEPS = 6, 1, 2
_NAME = "optimal"


def refuse_without_rounds(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network is too large, or has no rounds that all its links share; None if it has."""
    reason = f"has {topology.num_npus} NPUs" if topology.num_npus > MOST_NPUS else why_no_lanes(topology)
    if reason is not None:
        found = reason.split(", expected")[0]
        return f"{found}, expected a network of at most {MOST_NPUS} NPUs with direct links of equal latency, and lanes"
    task = _task(topology, collective.name, collective.root)
    least = num_variables(task.links, task.demands(task.unit), task.least_steps)
    if least > _EFFORT.most_variables:
        return f"needs {least:,} variables, expected a programme of at most {_EFFORT.most_variables:,}"
    return None


def optimal(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """The fastest schedule of the frontier's algorithms.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize. That of the schedule has the chunks of the algorithm.
    timing
        Its link model and reduce bandwidth.
    seed
        Not used; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If no algorithm was found within the limits, or their chunks are too small.
    """
    algorithms, work = _algorithms(topology, collective.name, collective.root)
    count_work(work)  # also where they were kept, so that counts do not depend on what came before
    best: tuple[float, Schedule] | None = None
    for algorithm in algorithms:
        try:
            schedule = algorithm.schedule(
                topology, collective.size_bytes, timing.link_model, timing.reduce_bandwidth_gbps, synthesizer=_NAME
            )
        except (ConfigError, SynthesisError):
            continue
        time_ns = exact_time_ns(schedule)
        if best is None or time_ns < best[0]:
            best = time_ns, schedule
    if best is None:
        if algorithms:
            raise SynthesisError(f"chunks of {collective.size_bytes} B are too small for the links, expected more bytes")
        raise SynthesisError("no algorithm was found within the limits of the solver, expected a smaller network")
    return best[1]


def frontier_work(topology: Topology, collective: Collective) -> int:
    """Work of searching the frontier, whatever the number of chunks: programmes have a variable per chunk, link and step."""
    chunks = topology.num_npus * (topology.num_npus - 1) if collective.is_personalised else topology.num_npus
    return int(min(500 * chunks * topology.num_links, _MOST_WORK))


@lru_cache(maxsize=16)
def _algorithms(topology: Topology, name: str, root: int | None) -> tuple[tuple[Algorithm, ...], int]:
    """The algorithms of the frontier that the limits let the solver find, and the work of finding them."""
    task = _task(topology, name, root)
    found: list[Algorithm] = []
    most_chunks = _MOST_CHUNKS if task.unit == 1 else _MOST_OF_PAIRS

    def search() -> None:
        try:
            for point in frontier(task, most_chunks, task.least_steps + _MORE_STEPS):
                phases = _phases(task, point, name)
                if phases is not None:
                    found.append(Algorithm(name, root, phases))
        except OutOfWorkError:  # what was found counts
            return

    _, work = metered(search, Allowance(_MOST_WORK))
    return tuple(found), work


def _task(topology: Topology, name: str, root: int | None) -> Task:
    return Task(lanes_of(topology), "all-gather" if name == "all-reduce" else name, root, _EFFORT)


def _phases(task: Task, point: Point, name: str) -> tuple[Point, ...] | None:
    """A point as the phases of a collective; None if the solver does not find the other one."""
    if name != "all-reduce":
        return (point,)
    try:
        return composed(task, point)
    except Unknown:
        return None
