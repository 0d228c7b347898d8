"""A synthesizer of your own: one chain through all NPUs. It is judged by the same oracle and replay as all others.

In a checkout it would be a file of its own in `astra_tacos/synthesizer/algorithms`, and one line in `SYNTHESIZERS`.
"""

from __future__ import annotations

import numpy as np

from astra_tacos import (
    Dimension,
    NetworkConfig,
    Problem,
    Schedule,
    all_gather,
    build_topology,
    replay,
    verify,
)
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph


def chain(problem: Problem, seed: int) -> Schedule:
    """Pass every chunk of an All-Gather from its owner to the next NPU, and on, all the way round.

    Parameters
    ----------
    problem
        An All-Gather on a network in which every NPU has a channel to the next higher one, and the last to the first.
    seed
        Not used: there is nothing random here.
    """
    topology, collective, _ = problem
    num_npus = topology.num_npus
    chunk = np.repeat(np.arange(collective.num_chunks), num_npus - 1)
    step = np.tile(np.arange(num_npus - 1), collective.num_chunks)
    src = (collective.chunk_owner[chunk] + step) % num_npus
    channel = topology.channel_of(src, (src + 1) % num_npus)
    sends = SendGraph(chunk.astype(np.int32), channel.astype(np.int32), np.zeros(len(chunk), np.bool_), step.astype(np.int32))
    return dispatch(problem, sends, "chain", seed)


def main() -> None:
    """Make a schedule, and have it judged."""
    topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 8, 50.0, 500.0),)))
    collective = all_gather(topology.num_npus, 1 << 20, 2)
    schedule = chain(Problem.of(topology, collective), 0)
    assert not verify(schedule)
    assert replay(schedule).collective_time_ns == schedule.collective_time_ns
    print(f"{schedule.num_sends} sends, {schedule.collective_time_ns / 1000:.2f} us")


if __name__ == "__main__":
    main()
