"""No schedule of a search beats arithmetic: its busiest link takes bytes over bandwidth for what it carries."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.fabrics import adding_fabrics
from helpers.networks import topologies, topology
from helpers.schedules import check, root_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import COLLECTIVES, ROOTED, UNEQUAL, make_collective
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

_GIB = 1 << 30
_EXACTLY = 1e-3
"""Times are exact to 2**-10 ns a message."""


def fluid_ns(of):
    """The time of the busiest link for its bytes: untruncated, without latencies, as if nothing ever waited."""
    network = of.topology
    sent = dict.fromkeys(range(network.num_links), 0)
    for channel, size in zip(of.channel.tolist(), of.size_bytes.tolist(), strict=True):
        for link in {int(network.channel_link[channel]), int(network.channel_down_link[channel])} - {-1}:
            sent[link] += size
    rates = network.link_bandwidth_gibps.tolist()
    return max(carried / (rates[link] * _GIB / 1e9) for link, carried in sent.items())


def check_figures(found):
    """A result is legal, replays as predicted, and is not below bounds; no figure told of it is below its busiest link's time."""
    made = check(found.schedule)
    least = fluid_ns(made) * (1 - _EXACTLY)
    assert found.exact_ns >= least
    told = certify(made)
    assert told["time_ns"] == pytest.approx(found.exact_ns, abs=0.001) and told["time_ns"] >= least
    assert told["bound_ns"] <= told["time_ns"] * (1 + _EXACTLY) and told["efficiency"] <= told["bound_ns"] / least + 1e-9
    assert told["algorithm_bandwidth_gbps"] <= made.collective.buffer_bytes / least
    assert made.collective_time_ns == told["predicted_ns"]  # what ASTRA-sim prints stays as it is


@pytest.mark.parametrize(
    "name", [AUTO, *(name for name, entry in SYNTHESIZERS.items() if entry.collectives & COLLECTIVES.keys())]
)
@examples(6)
@given(network=topologies(12), data=st.data())
def test_no_predicted_time_is_shorter_than_the_busiest_link_takes(name, network, data):
    able = COLLECTIVES.keys() & (COLLECTIVES if name == AUTO else SYNTHESIZERS[name].collectives)
    collective = data.draw(st.sampled_from(sorted(able)))
    size = data.draw(st.integers(1, 200) | st.integers(200, 20_000) | st.sampled_from((1 << 16, 1_000_003, 1 << 22)))
    options = SearchOptions(
        name,
        data.draw(st.sampled_from(("auto", 1, 2, 5))),
        max_sends=20_000,
        link_model=data.draw(st.sampled_from((*LINK_MODELS, "auto"))),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 10.0))),
        trials=1,
        budget=100_000,
        threads=1,
    )
    root = root_of(data, collective, range(network.num_npus))
    try:
        found = search(network, make_collective(collective, network.num_npus, size, 1, root), options)
    except (ConfigError, SynthesisError):  # fewer bytes than chunks, or chunks of less than 1 ns
        return
    check_figures(found)


@pytest.mark.parametrize("name", [name for name, entry in SYNTHESIZERS.items() if entry.collectives & UNEQUAL.keys()])
@examples(20)
@given(data=st.data())
def test_nor_is_one_of_parts_of_unequal_sizes(name, data):
    """Parts from single bytes, which ASTRA-sim truncates to nothing, to megabytes; nodes and rails, as `permutations` needs."""
    inner, outer = (
        (data.draw(st.sampled_from(("Switch", "FullyConnected"))), data.draw(st.integers(2, 3)), *each)
        for each in ((100.0, data.draw(st.sampled_from((0.0, 50.0)))), (25.0, data.draw(st.sampled_from((1.0, 500.0)))))
    )
    network = topology(inner, outer)
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    parts = random.integers(0, data.draw(st.sampled_from((8, 400, 30_000, 1 << 20))), (network.num_npus, network.num_npus))
    parts[0, 1] += 1
    options = SearchOptions(
        name, data.draw(st.sampled_from(("auto", 1, 3))), 20_000, data.draw(st.sampled_from((*LINK_MODELS, "auto"))), trials=1
    )
    what = make_collective("all-to-allv", network.num_npus, 0, 1, part_bytes=parts)
    try:
        found = search(network, what, options)
    except (ConfigError, SynthesisError):  # fewer bytes than chunks, or chunks of less than 1 ns
        return
    check_figures(found)


@pytest.mark.parametrize("name", [name for name, entry in SYNTHESIZERS.items() if entry.does_forwarding])
@examples(6)
@given(network=adding_fabrics(), data=st.data())
def test_nor_is_one_on_a_graph_with_devices_that_forward_or_add(name, network, data):
    """With an NPU that only helps, too, which is what parameter servers need."""
    whole = network.endpoints
    members = data.draw(st.sampled_from((whole, whole[:-1]))) if len(whole) > 2 else whole
    able = []
    for of in sorted(SYNTHESIZERS[name].collectives & COLLECTIVES.keys()):
        what = make_collective(of, network.num_npus, 1 << 20, 1, members[0] if of in ROOTED else None, members)
        if SYNTHESIZERS[name].why_not(network, what) is None:
            able.append(what)
    if not able:
        return
    what = data.draw(st.sampled_from(able))
    options = SearchOptions(name, data.draw(st.sampled_from((1, 2))), link_model="pipelined", trials=1, budget=100_000, threads=1)
    try:
        found = search(network, what, options)
    except SynthesisError:
        return
    check_figures(found)
