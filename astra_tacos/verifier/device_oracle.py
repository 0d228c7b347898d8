"""Check of reducing devices: no sender has more under way in one than its window, and none adds up more than its ports allow.

What is under way of a sender: a chunk that set out to be added at the device, until the sender has a copy of the chunk again. It
shares no code with what makes schedules keep to windows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule
from astra_tacos.verifier.violation import Violation


def check_devices(schedule: Schedule, first: NDArray[np.int64], last: NDArray[np.int64]) -> list[Violation]:
    """Violations of windows and ports, by the first and the last row of each sound trip."""
    topology = schedule.topology
    src, dst = topology.channel_src[schedule.channel[first]], topology.channel_dst[schedule.channel[last]]
    chunk, adds = schedule.chunk[first], schedule.reduces[last]
    violations: list[Violation] = []
    for device in topology.reducing:
        into = np.flatnonzero((dst == device.device) & adds)
        where = topology.describe_device(device.device)
        if device.ports is not None:
            given, count = np.unique(chunk[into], return_counts=True)
            for number, ports in zip(given[count > device.ports].tolist(), count[count > device.ports].tolist(), strict=True):
                text = f"{where} adds up chunk {number} from {ports} others, expected at most {device.ports}"
                violations.append(Violation("too-many-ports", text, None, device.device, number))
        if device.window_bytes is None:
            continue
        for sender in np.unique(src[into]).tolist():
            own = into[src[into] == sender]
            back = np.flatnonzero((dst == sender) & ~adds)
            returns: dict[int, list[int]] = {}
            for at in back.tolist():
                returns.setdefault(int(chunk[at]), []).append(int(schedule.end_ns[last[at]]))
            events = []
            for at in own.tolist():
                size, begin = int(schedule.collective.chunk_size_bytes[chunk[at]]), int(schedule.start_ns[first[at]])
                events.append((begin, 1, size, int(first[at])))
                ends = [end for end in returns.get(int(chunk[at]), ()) if end > begin]
                if ends:
                    events.append((min(ends), 0, -size, -1))
            under_way = 0
            for _, _, change, row in sorted(events):
                under_way += change
                if change > 0 and under_way > device.window_bytes:
                    text = f"send {row} makes {under_way} bytes of NPU {sender} that are under way in {where}, expected at most "
                    violations.append(Violation("window", f"{text}{device.window_bytes}", row, sender, int(schedule.chunk[row])))
    return violations
