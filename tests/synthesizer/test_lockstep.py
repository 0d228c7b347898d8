"""Matching in rounds: against a naive twin, on any number of threads, and how near the bound it comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.examples import examples
from helpers.naive_lockstep import naive_rounds
from helpers.networks import graph, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.collective import COLLECTIVES as ALL_COLLECTIVES
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.matching import lockstep
from astra_tacos.synthesizer.matching.lockstep import COLLECTIVES, lockstep_rounds
from astra_tacos.verifier.lockstep_oracle import verify_lockstep
from astra_tacos.verifier.schedule_oracle import verify

NETWORKS = {
    "pair": (("Ring", 2),),
    "ring": (("Ring", 5),),
    "torus": (("Ring", 4), ("Ring", 3)),
    "mesh": (("Mesh", 3), ("Mesh", 4)),
    "cube": (("Ring", 2), ("Ring", 2), ("Ring", 2)),
    "full": (("FullyConnected", 5),),
}


def network(name: str, **extension: object):
    return topology(*((block, size, 50.0, 500.0) for block, size in NETWORKS[name]), **extension)


def rounds(of, collective: str, size: int, chunks: int, model: str, seed: int = 0, **options) -> LockstepSchedule:
    what = ALL_COLLECTIVES[collective](of.num_npus, size, chunks)
    return lockstep_rounds(of, what, compute_timing(of, what, model), seed, **options)


@examples(20)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    collective=st.sampled_from(("all-gather", "reduce-scatter")),
    chunks=st.sampled_from((1, 2, 7, 130)),
    model=st.sampled_from(("blocking", "pipelined")),
    seed=st.integers(0, (1 << 62) - 1),
)
def test_naive_twin(name: str, collective: str, chunks: int, model: str, seed: int) -> None:
    of = network(name)
    found = rounds(of, collective, 1 << 20, chunks, model, seed)
    reverse = collective == "reduce-scatter"
    ends = (of.channel_dst, of.channel_src) if reverse else (of.channel_src, of.channel_dst)
    gaps = np.diff(found.start_ns)
    delay = int(found.timing.channel_delay_ns.max()) + (int(found.timing.reduction_ns.max()) if reverse else 0)
    lag = -(-delay // int(gaps[0])) if len(gaps) else 1
    expected = naive_rounds(*(end.tolist() for end in ends), found.collective.chunk_owner.tolist(), seed, lag, reverse)
    chunk = np.where(found.chunk == found.idle, -1, found.chunk.astype(np.int64))
    assert (chunk[::-1] if reverse else chunk).tolist() == expected


@examples(20)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    collective=st.sampled_from(sorted(COLLECTIVES)),
    size=st.integers(60_000, 1 << 20),
    chunks=st.integers(1, 60),
    model=st.sampled_from(("blocking", "pipelined")),
    seed=st.integers(0, 1000),
)
def test_both_oracles_agree_and_no_bound_is_beaten(name, collective, size, chunks, model, seed) -> None:
    found = rounds(network(name), collective, size, chunks, model, seed)
    assert verify_lockstep(found) == ()
    rows = found.to_schedule()
    assert verify(rows) == ()
    assert rows.num_sends == found.num_sends
    assert rows.collective_time_ns == found.collective_time_ns
    assert np.array_equal(rows.link_busy_ns, found.link_busy_ns)
    assert found.collective_time_ns >= chunked_lower_bound(found.topology, found.collective, found.timing).time_ns


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@pytest.mark.parametrize("model", ["blocking", "pipelined"])
def test_same_bytes_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, collective: str, model: str) -> None:
    monkeypatch.setattr(lockstep, "_LINKS_WORTH_THREADS", 0)
    of = network("torus", failed_links=((0, 1), (5, 4)))
    runs = [rounds(of, collective, 1 << 20, 90, model, 3, threads=threads) for threads in (1, 2, 5)]
    monkeypatch.undo()
    runs.append(rounds(of, collective, 1 << 20, 90, model, 3))
    assert all(run.chunk.tobytes() == runs[0].chunk.tobytes() for run in runs)
    assert all(np.array_equal(run.start_ns, runs[0].start_ns) for run in runs)
    assert rounds(of, collective, 1 << 20, 90, model, 4).chunk.tobytes() != runs[0].chunk.tobytes()


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
def test_streamed_into_a_file_it_is_the_same(tmp_path: Path, collective: str) -> None:
    inside = rounds(network("torus"), collective, 1 << 20, 3, "pipelined")
    path = tmp_path / "chunk.npy"
    streamed = rounds(network("torus"), collective, 1 << 20, 3, "pipelined", path=path)
    assert np.array_equal(np.load(path), inside.chunk)
    assert np.array_equal(streamed.chunk, inside.chunk)
    assert verify_lockstep(streamed) == ()


@pytest.mark.parametrize(
    ("dimensions", "most_rounds"),
    [
        ((("Ring", 8), ("Ring", 8)), 17),
        ((("Ring", 16), ("Ring", 16)), 66),
        ((("Ring", 32), ("Ring", 32)), 258),
        ((("Mesh", 8), ("Mesh", 8)), 32),
        ((("Ring", 2),) * 6, 11),
    ],
)
def test_rounds_are_within_two_of_the_bound(dimensions, most_rounds: int) -> None:
    of = topology(*((block, size, 50.0, 500.0) for block, size in dimensions))
    assert rounds(of, "all-gather", 1 << 20, 1, "blocking").num_rounds <= most_rounds


def test_what_it_cannot_do_is_refused() -> None:
    unequal = topology(("Ring", 4, 50.0, 500.0), ("Ring", 4, 25.0, 500.0))
    with pytest.raises(SynthesisError, match="links differ"):
        rounds(unequal, "all-gather", 1 << 20, 1, "blocking")
    with pytest.raises(SynthesisError, match="switches"):
        rounds(topology(("Switch", 4, 50.0, 500.0)), "all-gather", 1 << 20, 1, "blocking")
    with pytest.raises(SynthesisError, match="broadcast is not one of"):
        rounds(network("torus"), "broadcast", 1 << 20, 4, "blocking")


def test_one_way_links() -> None:
    one_way = graph((0, 1, 50.0, 5.0), (1, 2, 50.0, 5.0), (2, 0, 50.0, 5.0), (2, 3, 50.0, 5.0), (3, 1, 50.0, 5.0))
    for collective in sorted(COLLECTIVES):
        assert verify_lockstep(rounds(one_way, collective, 1 << 20, 3, "pipelined")) == ()
