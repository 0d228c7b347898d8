"""The oracle for lockstep schedules objects to whatever is changed, and agrees with the one for rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.matching.lockstep import lockstep_rounds
from astra_tacos.verifier import lockstep_oracle
from astra_tacos.verifier.lockstep_oracle import verify_lockstep
from astra_tacos.verifier.schedule_oracle import verify

TORUS = (("Ring", 4, 50.0, 500.0), ("Ring", 3, 50.0, 500.0))


def made(collective: str = "all-gather", model: str = "blocking", chunks: int = 2, seed: int = 0) -> LockstepSchedule:
    of = topology(*TORUS)
    what = COLLECTIVES[collective](of.num_npus, 12 * 5040, chunks)
    return lockstep_rounds(of, what, compute_timing(of, what, model), seed)


def with_chunk(of: LockstepSchedule, chunk: np.ndarray) -> LockstepSchedule:
    return replace(of, chunk=chunk, num_sends=int(np.count_nonzero(chunk != of.idle)))


def codes(of: LockstepSchedule) -> set[str]:
    return {violation.code for violation in verify_lockstep(of)}


@pytest.mark.parametrize("model", ["blocking", "pipelined"])
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_every_dropped_send_is_missed(collective: str, model: str) -> None:
    of = made(collective, model, 1)
    assert codes(of) == set()
    for number, channel in np.argwhere(of.chunk != of.idle):
        chunk = of.chunk.copy()
        chunk[number, channel] = of.idle
        assert "incomplete" in codes(with_chunk(of, chunk))


@examples(20)
@given(
    collective=st.sampled_from(("all-gather", "reduce-scatter", "all-reduce")),
    model=st.sampled_from(("blocking", "pipelined")),
    data=st.data(),
)
def test_it_objects_where_the_other_oracle_does(collective: str, model: str, data: st.DataObject) -> None:
    of = made(collective, model)
    chunk = of.chunk.copy()
    places = st.tuples(st.integers(0, of.num_rounds - 1), st.integers(0, of.topology.num_channels - 1))
    for _ in range(data.draw(st.integers(1, 2))):
        here, there = data.draw(places), data.draw(places)
        how = data.draw(st.sampled_from(("drop", "swap", "copy", "new")))
        if how == "swap":
            chunk[here], chunk[there] = chunk[there], chunk[here]
        elif how == "copy":
            chunk[here] = chunk[there]
        else:
            chunk[here] = of.idle if how == "drop" else data.draw(st.integers(0, of.collective.num_chunks - 1))
    changed = with_chunk(of, chunk)
    wrong, wrong_in_rows = bool(verify_lockstep(changed)), bool(verify(changed.to_schedule()))
    # A sum that goes nowhere is harmless to the other oracle; this one wants every sum to be sent once.
    assert wrong == wrong_in_rows if collective == "all-gather" else wrong >= wrong_in_rows


def test_what_else_can_be_wrong() -> None:
    of = made("all-reduce")
    assert codes(replace(of, num_sends=of.num_sends + 1)) == {"send-count"}
    assert codes(replace(of, reducing_rounds=of.num_rounds + 1)) == {"shape"}
    assert "incomplete" in codes(replace(of, reducing_rounds=of.reducing_rounds - 1))
    start = of.start_ns.copy()
    start[3] -= 2
    assert "double-booked" in codes(replace(of, start_ns=start))
    start = of.start_ns.copy()
    start[of.reducing_rounds :] -= 1
    assert "chunk-absent" in codes(replace(of, start_ns=start))
    assert "negative-start" in codes(replace(of, start_ns=of.start_ns - 1))
    chunk = of.chunk.copy()
    chunk[0, 0] = of.collective.num_chunks
    assert "no-such-chunk" in codes(replace(of, chunk=chunk))
    assert "wrong-phase" in codes(replace(made("all-gather"), reducing_rounds=1))
    other = topology(("Ring", 4, 50.0, 500.0), ("Ring", 3, 25.0, 500.0))
    assert codes(replace(of, topology=other)) == {"not-lockstep"}


def test_rounds_of_the_pipelined_model_wait_for_arrivals() -> None:
    of = made(model="pipelined", chunks=12)
    hold = int(of.timing.link_hold_ns.max())
    assert codes(replace(of, start_ns=np.arange(of.num_rounds) * hold)) <= {"chunk-absent"}
    assert codes(replace(of, start_ns=of.start_ns * 3)) == set()


def test_only_so_many_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep_oracle, "MOST_VIOLATIONS", 10)
    of = made()
    found = verify_lockstep(with_chunk(of, np.zeros_like(of.chunk)))
    assert len(found) <= 2 * 10 + 1
    assert found[-1].code == "more"
    assert found == verify_lockstep(with_chunk(of, np.zeros_like(of.chunk)), threads=1)
