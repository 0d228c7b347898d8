"""A synthesizer of your own: one chain through all NPUs. It is judged by the same oracle and replay as all others.

`astra-tacos --plugin my_synthesizer.py compare ...` compares it with others.
"""

from __future__ import annotations

import numpy as np

import astra_tacos
from astra_tacos import SendGraph, SynthesisError, dispatch, register_synthesizer


@register_synthesizer("mine", collectives=["all-gather"])
def mine(problem):
    """Pass every chunk from its owner to the next NPU, and on, all the way round."""
    topology, collective, _ = problem
    num_npus, num_chunks = topology.num_npus, collective.num_chunks
    chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus - 1)
    step = np.tile(np.arange(num_npus - 1, dtype=np.int32), num_chunks)
    src = (collective.chunk_owner[chunk] + step) % num_npus
    channel = topology.channel_of(src, (src + 1) % num_npus)  # -1 where there is none
    if channel.min() < 0:
        raise SynthesisError("needs a channel from each NPU to the next")
    sends = SendGraph(chunk, channel.astype(np.int32), np.zeros(len(chunk), np.bool_), rank=step)
    return dispatch(problem, sends)


def main() -> None:
    """Make a schedule, and have it judged."""
    network = astra_tacos.NetworkConfig("ring", (astra_tacos.Dimension("Ring", 8, 50.0, 500.0),))
    compared = astra_tacos.compare(network, "all-gather", ["64KiB", "1MiB"], ["mine", "ring"])
    for row in compared.by_task:
        print(f"{row.synthesizer:10} {row.size_bytes:>10,} bytes {row.time_ns / 1000:10.2f} us")


if __name__ == "__main__":
    main()
