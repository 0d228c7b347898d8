"""A one-shot All-Reduce from an All-Gather: everybody gets all contributions as it would get shards, and adds them up itself."""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.all_reduce import all_reduce_of
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.exchange.values import Values


def one_shot_of(gathering: Schedule, synthesizer: str) -> Schedule:
    """The All-Reduce whose sends are those of an All-Gather of a whole buffer from every NPU, with one addition in the end.

    Parameters
    ----------
    gathering
        An All-Gather; the shard of an NPU is its contribution, in as many pieces.
    synthesizer
        What the schedule records.
    """
    topology, gathered, timing = gathering.topology, gathering.collective, gathering.timing
    pieces, num_npus = gathered.chunks_per_npu, topology.num_npus
    collective = all_reduce_of(num_npus, gathered.size_bytes, pieces)
    values = Values(num_npus, pieces)
    chunks = np.arange(pieces)
    total = values.add(chunks, chunks[:, None] * num_npus + np.arange(num_npus))
    piece = gathering.chunk % np.int32(pieces)
    contribution = piece * np.int32(num_npus) + gathered.chunk_owner[gathering.chunk]
    copies = np.zeros(gathering.num_sends, np.bool_)
    sends = Sends(piece, gathering.channel, copies, gathering.message_first, values.table(total), contribution)
    exact = compute_timing(topology, collective, timing.link_model, timing.reduce_bandwidth_gbps)
    return settle(topology, collective, exact, sends, synthesizer, gathering.seed)
