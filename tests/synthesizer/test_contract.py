"""What every synthesizer must do, for every collective, on every kind of network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import ALL, config, graph, topologies, topology
from schedules import schedule

from astra_tacos.bounds import lower_bound
from astra_tacos.collective import COLLECTIVES, ROOTED
from astra_tacos.config.network import LinkSpec
from astra_tacos.errors import ConfigError
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search import default_trials, synthesize
from astra_tacos.verifier.schedule_oracle import verify

every = pytest.mark.parametrize("name", SYNTHESIZERS)


def columns(of) -> list[bytes]:
    return [getattr(of, column).tobytes() for column in ("chunk", "channel", "reduces", "start_ns", "end_ns")]


@every
@pytest.mark.parametrize("link_model", LINK_MODELS)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("network", ALL)
def test_is_legal_complete_and_no_faster_than_the_bound(name: str, network: str, collective: str, link_model: str) -> None:
    of = schedule(topology(*ALL[network]), collective, 333_333, 2, link_model=link_model, synthesizer=name)
    assert verify(of) == ()
    assert of.collective_time_ns >= lower_bound(of.topology, of.collective, of.timing).time_ns


@every
@settings(max_examples=40, deadline=None)
@given(network=topologies(), data=st.data())
def test_any_network(name: str, network, data: st.DataObject) -> None:
    collective = data.draw(st.sampled_from(sorted(COLLECTIVES)))
    of = schedule(
        network,
        collective,
        data.draw(st.integers(50_000, 1 << 20)),
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(0, network.num_npus - 1)) if collective in ROOTED else None,
        link_model=data.draw(st.sampled_from(LINK_MODELS)),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 1.0))),
        seed=data.draw(st.integers(0, 1 << 62) | st.just((1 << 62) - 1)) % (1 << 62),
        synthesizer=name,
    )
    assert verify(of) == ()


@every
def test_failed_links_and_arbitrary_graphs(name: str) -> None:
    broken = topology(("Ring", 4, 50.0, 500.0), ("Ring", 4, 50.0, 500.0), failed_links=((0, 1), (5, 4), (10, 14)))
    one_way = graph((0, 1, 50.0, 5.0), (1, 2, 25.0, 6.0), (2, 0, 12.5, 7.0), (2, 3, 50.0, 1.0), (3, 1, 50.0, 1.0))
    for network in (broken, one_way):
        for collective in COLLECTIVES:
            for link_model in LINK_MODELS:
                assert verify(schedule(network, collective, chunks=3, link_model=link_model, synthesizer=name)) == ()


@every
def test_switch_ports_of_different_speed(name: str) -> None:
    slow = (LinkSpec(0, 6, 5.0, 900.0), LinkSpec(6, 3, 10.0, 0.0))
    network = topology(("Switch", 6, 50.0, 500.0), link_overrides=slow)
    for collective in COLLECTIVES:
        for link_model in LINK_MODELS:
            assert verify(schedule(network, collective, chunks=4, link_model=link_model, synthesizer=name)) == ()


@every
def test_same_seed_same_bytes_on_any_number_of_threads(name: str) -> None:
    network = topology(*ALL["mixed"])
    what = COLLECTIVES["all-reduce"](network.num_npus, 1 << 20, 2)
    runs = [synthesize(network, what, synthesizer=name, trials=8, seed=11, threads=threads) for threads in (1, 1, 2, 5)]
    assert all(columns(run) == columns(runs[0]) for run in runs)
    other = [synthesize(network, what, synthesizer=name, trials=1, seed=seed) for seed in (1, 2)]
    assert columns(other[0]) != columns(other[1])


def test_more_trials_are_no_worse_and_the_first_best_seed_wins() -> None:
    network = topology(*ALL["switches"])
    what = COLLECTIVES["all-gather"](network.num_npus, 1 << 20, 3)
    each = [synthesize(network, what, trials=1, seed=seed) for seed in range(6)]
    times = [of.collective_time_ns for of in each]
    seen: list[tuple[int, int]] = []
    best = synthesize(network, what, trials=6, on_progress=lambda done, total: seen.append((done, total)))
    assert best.collective_time_ns == min(times)
    assert best.seed == times.index(min(times))
    assert seen[-1] == (6, 6)


@every
@pytest.mark.parametrize("collective", sorted(ROOTED))
@pytest.mark.parametrize("network", ALL)
def test_any_root(name: str, network: str, collective: str) -> None:
    whole = topology(*ALL[network])
    for root in range(0, whole.num_npus, 3):
        of = schedule(whole, collective, 333_333, 4, root, synthesizer=name)
        assert verify(of) == ()
        assert of.num_sends == 4 * (whole.num_npus - 1)
        assert bool(of.reduces.all()) == (collective == "reduce") != bool((~of.reduces).all())


def test_default_trials_shrink_with_the_number_of_sends() -> None:
    assert default_trials(COLLECTIVES["all-gather"](8, 1 << 20, 1)) == 32
    assert default_trials(COLLECTIVES["all-reduce"](256, 1 << 20, 1)) == 15
    assert default_trials(COLLECTIVES["all-gather"](4096, 1 << 20, 1)) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"synthesizer": "magic"}, "synthesizer: found 'magic'"),
        ({"link_model": "wormhole"}, "link model: found 'wormhole'"),
        ({"trials": 0}, "trials: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"reduce_bandwidth_gbps": -1.0}, "reduce bandwidth: found -1.0"),
    ],
)
def test_bad_options(options: dict, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        synthesize(topology(*ALL["ring8"]), COLLECTIVES["all-gather"](8, 1 << 20, 1), **options)


def test_collective_and_topology_must_agree() -> None:
    with pytest.raises(ConfigError, match="has 4 NPUs, test has 8"):
        synthesize(topology(*ALL["ring8"]), COLLECTIVES["all-gather"](4, 1 << 20, 1))
    assert config(*ALL["ring8"]).num_npus == 8


def test_rows_come_by_start() -> None:
    of = schedule(topology(*ALL["mixed"]), "all-reduce", chunks=3)
    assert np.all(np.diff(of.start_ns) >= 0)
