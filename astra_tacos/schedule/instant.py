"""Messages that hold a link for less than 1 ns, at which the queues of ASTRA-sim's congestion-aware backend stop.

`pipelined` schedules have none: their messages are sent as what takes 1 ns (`least_bytes`). Those of `blocking` schedules keep
their sizes, because each holds its links for their latencies, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule


def holds_no_link(schedule: Schedule) -> bool:
    """Whether some message holds some link for 0 ns."""
    return bool(_hold_ns(schedule).min(initial=1) < 1)


def stops_queues(schedule: Schedule) -> bool:
    """Whether a message that starts at time 0 holds its first link for 0 ns: ASTRA-sim aborts at it, but not at later ones."""
    return bool(np.any((_hold_ns(schedule) < 1) & (schedule.start_ns[schedule.message_row] == 0)))


def _hold_ns(schedule: Schedule) -> NDArray[np.int64]:
    """int64[num_messages], how long each message holds its first link."""
    sizes, channel = schedule.sizes, schedule.channel[schedule.message_row]
    return np.asarray(sizes.timing.link_hold_ns[schedule.topology.channel_link[channel], sizes.size_class])
