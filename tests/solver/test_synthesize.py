"""What `synthesize` returns is verified, whoever made it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.networks import topology

from astra_tacos import all_gather, synthesize
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import VerificationError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.predefined import direct
from astra_tacos.synthesizer.synthesizer import Synthesizer


def too_good(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """A direct schedule whose first half is left out."""
    made = direct(topology, collective, timing, seed)
    half = made.num_sends // 2
    columns = {name: getattr(made, name)[half:] for name in ("chunk", "channel", "reduces")}
    times = {name: getattr(made, name)[half:] - made.start_ns[half] for name in ("start_ns", "end_ns")}
    return replace(made, **columns, **times, synthesizer="too-good")


@pytest.mark.parametrize("synthesizer", ["auto", "too-good"])
def test_a_wrong_synthesizer_is_caught(monkeypatch: pytest.MonkeyPatch, synthesizer: str) -> None:
    graph = topology("Ring 6")
    for name in list(SYNTHESIZERS):
        monkeypatch.delitem(SYNTHESIZERS, name)
    monkeypatch.setitem(SYNTHESIZERS, "too-good", Synthesizer(too_good, frozenset({"all-gather"}), is_random=False))
    with pytest.raises(VerificationError, match=r"a schedule of too-good is illegal: \d+ violations"):
        synthesize(graph, all_gather(6, 1 << 20), synthesizer=synthesizer, chunks_per_npu=1)
