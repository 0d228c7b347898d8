"""Schedules for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from helpers.networks import topologies
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, make_collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer.search.search import synthesize
from astra_tacos.topology.topology import Topology


def schedule(
    topology: Topology,
    collective: str = "all-reduce",
    size: int = 1 << 20,
    chunks: int = 1,
    root: int | None = None,
    members: list[int] | None = None,
    **options: Any,
) -> Schedule:
    """A schedule from one trial of the matcher, or of the router if chunks have targets."""
    what = make_collective(collective, topology.num_npus, size, chunks, root, members)
    synthesizer = "routed" if collective in PERSONALISED or members else "tacos"
    return synthesize(topology, what, **{"synthesizer": synthesizer, "trials": 1, **options})


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


def changed(of: Schedule, **new: np.ndarray) -> Schedule:
    return replace(of, **new)


def goes_by_chunk(of: Schedule) -> bool:
    """Whether every send carries one chunk, so that the bounds of this chunking hold."""
    return of.message_first is None and of.sums is None
