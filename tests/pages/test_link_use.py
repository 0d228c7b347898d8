"""Use of links over time, and arrivals of chunks, against slow twins."""

from __future__ import annotations

import numpy as np
from helpers.examples import examples
from helpers.networks import SWITCH, topologies, topology
from helpers.schedules import schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.pages.html.synthesis_data import arrivals
from astra_tacos.pages.links_over_time import link_rows, shares_of_time
from astra_tacos.schedule.link_use import link_use


@examples(20)
@given(schedules())
def test_intervals_of_a_link_add_up_and_never_overlap(of):
    use = link_use(of)
    busy = np.zeros(of.topology.num_links, np.int64)
    np.add.at(busy, use.link, use.end_ns - use.start_ns)
    assert np.array_equal(busy, of.link_busy_ns)
    for link in range(of.topology.num_links):
        own = np.flatnonzero(use.link == link)
        own = own[np.argsort(use.start_ns[own])]
        assert np.all(use.start_ns[own][1:] >= use.end_ns[own][:-1])
        channel = of.channel[of.message_row[use.message[own]]]
        assert np.all((of.topology.channel_link[channel] == link) | (of.topology.channel_down_link[channel] == link))


@examples(20)
@given(schedules(), st.integers(1, 40))
def test_shares_of_time_are_those_of_every_interval_and_bin(of, bins):
    row = np.arange(of.topology.num_links) % 3
    row = np.unique(row, return_inverse=True)[1]
    shares = shares_of_time(of, row, bins)
    width = of.collective_time_ns / bins
    expected = np.zeros(shares.shape)
    use = link_use(of)
    for link, start, end in zip(use.link, use.start_ns, use.end_ns, strict=True):
        for which in range(bins):
            expected[row[link], which] += max(0.0, min(end, (which + 1) * width) - max(start, which * width)) / width
    expected /= np.bincount(row)[:, None]
    assert np.allclose(shares, expected, atol=1e-5)


@examples(20)
@given(schedules())
def test_arrivals_are_those_of_the_sends_followed_one_by_one(of):
    collective = of.collective
    final: dict[tuple[int, int], int] = {}
    summed: dict[tuple[int, int], int] = {}
    columns = (column.tolist() for column in (of.chunk, of.dst, of.reduces, of.done_ns))
    for chunk, dst, reduces, done in zip(*columns, strict=True):
        if reduces:
            summed[dst, chunk] = max(summed.get((dst, chunk), 0), done)
        else:
            final[dst, chunk] = min(final.get((dst, chunk), done), done)
    expected: dict[int, list[int]] = {}
    for chunk in range(collective.num_chunks):
        owner = int(collective.chunk_owner[chunk])
        for npu in range(collective.num_npus):
            if collective.chunk_target is not None:
                needs = npu == collective.chunk_target[chunk]
            else:
                needs = collective.gathers or npu == owner
            if not needs:
                continue
            time = final[npu, chunk] if (npu, chunk) in final else summed.get((npu, chunk), 0)
            if collective.gathers and not collective.reduces and npu == owner:
                time = 0
            expected.setdefault(npu, []).append(time)
    found = arrivals(of)
    assert found.npu.tolist() == sorted(expected)
    for which, npu in enumerate(found.npu.tolist()):
        own = slice(found.first[which], found.first[which + 1])
        assert np.repeat(found.time_ns[own], found.chunks[own]).tolist() == sorted(expected[npu])
        time, share = found.curve(which)
        assert share[-1] == 1.0 and np.all(np.diff(share) > 0) and np.all(np.diff(time) > 0)
    ranked = found.by_finish()
    assert np.all(np.diff([found.curve(int(which))[0][-1] for which in ranked]) >= 0)


@given(topologies())
def test_links_are_grouped_by_dimension(network):
    rows = link_rows(network)
    order = rows.link
    assert sorted(order.tolist()) == list(range(network.num_links))
    assert np.array_equal(rows.row[order], np.arange(network.num_links))
    assert sum(group.count for group in rows.groups) == network.num_links
    assert np.all(np.diff(network.link_dimension[order]) >= 0)


def test_a_pipelined_switch_is_used_while_the_chunk_goes_through():
    of = schedule(topology(*SWITCH), "all-gather", link_model="pipelined")
    use = link_use(of)
    down = of.topology.channel_down_link[of.channel]
    assert len(use.message) == 2 * of.num_sends
    for interval in np.flatnonzero(use.link == down[use.message]):
        assert use.start_ns[interval] == of.end_ns[use.message[interval]] - of.timing.link_delay_ns[use.link[interval], 0]
