"""What every synthesizer must do, for every collective, on every kind of network."""

from __future__ import annotations

import pytest
from helpers.examples import examples, refused
from helpers.networks import ALL, ends_of, graph, topologies, topology
from helpers.schedules import check, column_bytes, root_of, schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.column_generation import refuse_dimensions
from astra_tacos.synthesizer.algorithms.in_network import refuse_without_devices, refuse_without_servers
from astra_tacos.synthesizer.search.candidates import default_trials
from astra_tacos.synthesizer.work import match_work

OF_DEVICES = refuse_dimensions, refuse_without_devices, refuse_without_servers
ON_NPUS = {
    name: entry
    for name, entry in SYNTHESIZERS.items()
    if entry.refusal not in OF_DEVICES and entry.collectives & COLLECTIVES.keys()
}
"""Those for networks of NPUs; `test_on_fabrics` is about all on fabrics."""
every = pytest.mark.parametrize("name", ON_NPUS)
DECLARED = [(name, of) for name, entry in ON_NPUS.items() for of in COLLECTIVES if of in entry.collectives]
every_collective = pytest.mark.parametrize("name, collective", DECLARED)

NETWORKS = {name: topology(*dimensions) for name, dimensions in ALL.items()} | {
    "mesh4x4": topology("Mesh 4, Mesh 4 20 30"),
    "full-and-switch": topology("FullyConnected 4 100 250, Switch 4 12.5 700"),
    "three-rings": topology("Ring 2, Ring 2 100 50, Ring 4 25 0"),
    "broken": topology("Ring 4, Ring 4", failed_links=((0, 1), (5, 4), (10, 14))),
    "one-way": graph("0 1 50 5, 1 2 25 6, 2 0 12.5 7, 2 3 50 1, 3 1 50 1"),
    "cycle": graph(*((npu, (npu + 1) % 6, 50.0, 100.0 * npu) for npu in range(6))),
    # The last switch is left with one NPU, so that no channel goes through it; another one only leads to NPU 1.
    "one-way-port": topology("FullyConnected 3, Switch 2 12.5 30", failed_links=((2, 8), (8, 2), (1, 7))),
}


def looks_different(network, collective):
    """Whether some NPU has other links than another one."""
    whole = sum(d.building_block.num_links(d.size) * network.num_npus // d.size for d in network.dimensions)
    return any(d.block == "Mesh" for d in network.dimensions) or network.num_links != whole or not network.is_regular


MAY_REFUSE = {
    "symmetric": looks_different,
    "halving-doubling": lambda network, collective: network.num_npus & (network.num_npus - 1) != 0,
    "hierarchical": lambda network, collective: not network.dimensions,
    "themis": lambda network, collective: not network.dimensions,
    "dimension-wise": lambda network, collective: not network.dimensions and collective != "all-reduce",
}
"""Networks and collectives that a synthesizer may say no to, known independently of it."""
TAKES_ALL = frozenset({"tacos", "routed", "branchings", "ring", "direct", "double-binary-tree", "bruck"})
"""Those that say no to none of them. One in neither list is new: it may say no where its `refusal` does, but not to all."""


def says_no(name, network, collective):
    """Whether a synthesizer is expected to refuse."""
    if name in MAY_REFUSE or name in TAKES_ALL:
        return name in MAY_REFUSE and MAY_REFUSE[name](network, collective)
    root = {"root": 0} if collective in ROOTED else {}
    return SYNTHESIZERS[name].why_not(network, COLLECTIVES[collective](network.num_npus, 1 << 20, 1, **root)) is not None


def check_schedule(name, network, collective, *arguments, **options):
    """What must hold of any schedule; and a refusal is in words, where one is expected."""
    if says_no(name, network, collective):
        with refused(rf"^{collective} on .*: {name}: .*expected a ", SynthesisError):
            schedule(network, collective, *arguments, synthesizer=name, **options)
        return
    of = check(schedule(network, collective, *arguments, synthesizer=name, **options))
    if collective in PERSONALISED or of.sums is not None:
        assert of.num_sends >= of.collective.num_chunks
    else:
        assert of.num_sends == of.collective.num_phases * of.collective.num_chunks * (network.num_npus - 1)
    if collective in ROOTED:
        assert bool(of.reduces.all()) == (collective == "reduce") != bool((~of.reduces).all())
    assert of.synthesizer == name


@every_collective
def test_takes_some_network(name, collective):
    assert not all(says_no(name, network, collective) for network in NETWORKS.values())


MATRIX = [
    (name, network, collective, LINK_MODELS[(row + column) % len(LINK_MODELS)])
    for row, (name, collective) in enumerate(DECLARED)
    for column, network in enumerate(NETWORKS)
    if (row + column // 2) % 2
]
"""Every synthesizer and collective on half of the networks, with the link models in turn; other tests draw both."""


@pytest.mark.parametrize("name, network, collective, link_model", MATRIX)
def test_is_legal_complete_and_no_faster_than_the_bound(name, network, collective, link_model):
    check_schedule(name, NETWORKS[network], collective, 333_333, 3, 1 if collective in ROOTED else None, link_model=link_model)


@every
@given(network=topologies(), data=st.data())
@examples(12)
def test_any_network(name, network, data):
    collective = data.draw(st.sampled_from(sorted(SYNTHESIZERS[name].collectives & COLLECTIVES.keys())))
    check_schedule(
        name,
        network,
        collective,
        data.draw(st.integers(50_000, 1 << 20)),
        data.draw(st.integers(1, 5)),
        root_of(data, collective, range(network.num_npus)),
        link_model=data.draw(st.sampled_from(LINK_MODELS)),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 1.0))),
        seed=data.draw(st.integers(0, 1 << 62) | st.just((1 << 62) - 1)) % (1 << 62),
    )


@every
@given(block=st.sampled_from(["Ring", "Mesh", "FullyConnected"]), data=st.data())
@examples(8)
def test_any_links_may_fail(name, block, data):
    dimensions = f"{block} 4, Ring 4 25 100"
    whole = topology(dimensions)
    ends = ends_of(whole)
    failed = data.draw(st.lists(st.sampled_from(ends), min_size=1, max_size=12, unique=True))
    try:
        network = topology(dimensions, failed_links=tuple(failed))
    except ConfigError:  # nobody can help NPUs that are cut off
        return
    collective = data.draw(st.sampled_from(sorted(SYNTHESIZERS[name].collectives & COLLECTIVES.keys())))
    check_schedule(
        name, network, collective, 1 << 20, data.draw(st.integers(1, 4)), link_model=data.draw(st.sampled_from(LINK_MODELS))
    )


@every_collective
def test_what_it_does_not_declare_is_refused(name, collective):
    for other in COLLECTIVES.keys() - SYNTHESIZERS[name].collectives:
        with refused(f"does .*{collective}.*, not {other}", SynthesisError):
            schedule(NETWORKS["pair"], other, synthesizer=name)


@every
def test_same_seed_same_bytes_on_any_number_of_threads(name):
    preferred = "all-reduce", "broadcast", "all-to-all", *COLLECTIVES
    collective = next(each for each in preferred if each in SYNTHESIZERS[name].collectives)
    network = next(NETWORKS[each] for each in ("full-and-switch", *NETWORKS) if not says_no(name, NETWORKS[each], collective))
    what = COLLECTIVES[collective](network.num_npus, 1 << 20, 2)
    runs = [synthesize(network, what, synthesizer=name, trials=8, seed=11, threads=threads) for threads in (1, 1, 3)]
    assert all(column_bytes(run) == column_bytes(runs[0]) for run in runs)
    other = [synthesize(network, what, synthesizer=name, trials=1, seed=seed) for seed in (1, 2)]
    assert (column_bytes(other[0]) != column_bytes(other[1])) == SYNTHESIZERS[name].is_random


def test_more_trials_are_no_worse_and_the_first_best_seed_wins():
    network = topology(*ALL["switches"])
    what = COLLECTIVES["all-gather"](network.num_npus, 1 << 20, 3)
    each = [synthesize(network, what, synthesizer="tacos", trials=1, seed=seed) for seed in range(6)]
    times = [of.collective_time_ns for of in each]
    seen: list[tuple[int, int]] = []
    best = synthesize(network, what, synthesizer="tacos", trials=6, on_progress=lambda done, total: seen.append((done, total)))
    assert best.collective_time_ns == min(times)
    assert best.seed == times.index(min(times))
    assert seen[-1] == (12, 12)  # every seed with both link models


def test_default_trials_shrink_with_the_number_of_sends():
    network = topology(*ALL["ring8"])  # what the matcher does not mind
    for what, trials in (("all-gather", 8), 32), (("all-reduce", 256), 12), (("all-gather", 4096), 1):
        assert default_trials(match_work(network, COLLECTIVES[what[0]](what[1], 1 << 20, 1)), 500_000) == trials


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"synthesizer": "magic"}, "synthesizer: found 'magic'"),
        ({"link_model": "wormhole"}, "link model: found 'wormhole'"),
        ({"trials": 0}, "trials: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"reduce_bandwidth_gbps": -1.0}, "reduce bandwidth: found -1.0"),
        ({"budget": 0}, "budget: found 0"),
        ({"seed": 1.5}, "seed: found 1.5"),
        ({"chunks_per_npu": 0}, "chunks per NPU: found 0"),
        ({"time_limit_s": float("nan")}, "time limit: found nan"),
        ({"threads": True}, "threads: found True"),
    ],
)
def test_bad_options(options, expected):
    with refused(expected):
        synthesize(topology(*ALL["ring8"]), COLLECTIVES["all-gather"](8, 1 << 20, 1), **options)
