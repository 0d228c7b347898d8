"""The smallest times of groups of links against a search through all times."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.delivery import Deliveries


def delivered(first: int, period: int, own: int, stall: int, time: int) -> int:
    """Counts arrivals one by one: after its own chunks a link may have to wait."""
    count, arrival = 0, first
    while arrival <= time:
        count += 1
        arrival = first + count * period + (stall if count >= own else 0)
    return count


LINK = st.tuples(st.integers(0, 9), st.integers(1, 7), st.integers(1, 5), st.integers(0, 9), st.integers(0, 2))


@given(
    st.lists(LINK, min_size=1, max_size=6),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_naive_twin(rows: list[tuple[int, int, int, int, int]], messages: list[int]) -> None:
    first, period, own, stall, group = (np.array(column) for column in zip(*rows, strict=True))
    times = Deliveries(first, period, own, stall).smallest_times(np.arange(len(rows)), group, np.array(messages))
    for one in set(group.tolist()):
        time = 0
        while sum(delivered(*row[:4], time) for row in rows if row[4] == one) < messages[one]:
            time += 1
        assert times[one] == time


def test_links_that_no_channel_uses_deliver_nothing() -> None:
    unused, used = np.array([0, 0]), np.array([0, 4])
    links, group = np.arange(2), np.zeros(2, np.int64)
    deliveries = Deliveries(unused, used, np.array([9, 9]), unused)
    assert deliveries.smallest_times(links, group, np.array([3])) == [8]
    assert deliveries.smallest_times(links[:1], group[:1], np.array([3])) == [0]
