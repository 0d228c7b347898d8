"""Schedules for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from helpers.networks import topologies
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound, lower_bound
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import choose_link_model, compute_timing
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.verifier.schedule_oracle import verify

_TIMED = {"synthesizer", "trials", "link_model", "reduce_bandwidth_gbps", "seed"}


def schedule(
    topology: Topology,
    collective: str = "all-reduce",
    size: int = 1 << 20,
    chunks: int = 1,
    root: int | None = None,
    members: list[int] | None = None,
    **options: Any,
) -> Schedule:
    """A schedule from one trial of the matcher, or of the router if chunks have targets.

    Sends of these carry one chunk each: they are not joined to messages, as a search does.
    """
    what = make_collective(collective, topology.num_npus, size, chunks, root, members)
    asked = {"synthesizer": "routed" if collective in PERSONALISED or members else "tacos", "trials": 1, **options}
    entry = SYNTHESIZERS.get(asked["synthesizer"])
    if entry is None or not entry.by_chunk or not asked["trials"] or not asked.keys() <= _TIMED:
        return synthesize(topology, what, **asked)
    reason = entry.why_not(topology, what)
    if reason is not None:
        raise SynthesisError(f"{what.name} on {topology.name}: {asked['synthesizer']}: {reason}")
    model = asked.get("link_model", "auto")
    model = choose_link_model(topology)[0] if model == "auto" else model
    timing = compute_timing(topology, what, model, asked.get("reduce_bandwidth_gbps", 0.0))
    first = asked.get("seed", 0)
    made = [entry.make(Problem(topology, what, timing), seed) for seed in range(first, first + asked["trials"])]
    return min(made, key=lambda each: each.collective_time_ns)


def root_of(data: st.DataObject, name: str, members: Sequence[int]) -> int | None:
    """Any root among the members, for a collective that has one."""
    return data.draw(st.sampled_from(members)) if name in ROOTED else None


@st.composite
def schedules(draw: st.DrawFn, most_npus: int = 10) -> Schedule:
    """Synthesized schedules on small networks, with chunks of unequal size."""
    network = draw(topologies(most_npus))
    collective = draw(st.sampled_from(sorted(COLLECTIVES)))
    return schedule(
        network,
        collective,
        draw(st.sampled_from((1 << 20, 100_003, 65_537))),
        draw(st.integers(1, 3)),
        root=draw(st.integers(0, network.num_npus - 1)) if collective in ROOTED else None,
        link_model=draw(st.sampled_from(("blocking", "pipelined"))),
        reduce_bandwidth_gbps=draw(st.sampled_from((0.0, 10.0))),
        seed=draw(st.integers(0, 1000)),
    )


def columns(of: Schedule) -> dict[str, np.ndarray]:
    """Writable copies of a schedule's columns."""
    return {name: getattr(of, name).copy() for name in ("chunk", "channel", "reduces", "start_ns", "end_ns")}


def made_by(
    name: str, topology: Topology, what: Collective, model: str = "pipelined", gbps: float = 0.0, seed: int = 0
) -> Schedule:
    """What a synthesizer makes of a collective as it is cut."""
    return SYNTHESIZERS[name].make(Problem(topology, what, compute_timing(topology, what, model, gbps)), seed)


def bound_of(topology: Topology, what: Collective, model: str = "pipelined") -> Bound:
    return lower_bound(Problem(topology, what, compute_timing(topology, what, model)))


def column_bytes(of: Schedule) -> list[bytes]:
    return [column.tobytes() for column in columns(of).values()]


def changed(of: Schedule, **new: np.ndarray) -> Schedule:
    return replace(of, **new)


def goes_by_chunk(of: Schedule) -> bool:
    """Whether every send carries one chunk, so that the bounds of this chunking hold."""
    return of.message_first is None and of.sums is None


def check(of: Schedule) -> Schedule:
    """What must hold of any schedule: the oracle passes it, its replay takes as long, and it beats no bound."""
    assert verify(of) == ()
    replayed = replay_schedule(of)
    for name, own in (("start_ns", of.start_ns), ("end_ns", of.end_ns), ("finish_ns", of.npu_finish_ns)):
        assert np.array_equal(getattr(replayed, name), own), name
    assert exact_time_ns(of) >= lower_bound(of.problem).time_ns * (1 - 1e-6)
    assert not goes_by_chunk(of) or of.collective_time_ns >= chunked_lower_bound(of.problem).time_ns
    return of


def codes(of: Any) -> set[str]:
    """Codes of violations: those given, a verdict's, or those that the oracle finds in a schedule."""
    found = verify(of) if isinstance(of, Schedule) else getattr(of, "violations", of)
    return {violation.code for violation in found}
