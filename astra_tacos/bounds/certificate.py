"""The certificate of a schedule: its time and bandwidths, next to the lower bound on its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tacos.bounds import all_bounds, largest
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
from astra_tacos.schedule.schedule import Schedule


def certify(schedule: Schedule | LockstepSchedule) -> dict[str, Any]:
    """Figures of a schedule, ready for JSON. Bandwidths are decimal GB/s, as nccl-tests has them.

    `bound` is the one that binds, `bound_where`, `bound_npus` and `bound_links` say where (the NPUs behind a cut, and its links),
    `bounds_ns` lists all. `efficiency` is the lower bound over the predicted time. Link shares are of the collective's time.
    """
    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    bounds = all_bounds(topology, collective, timing)
    bound = largest(bounds)
    time = max(schedule.collective_time_ns, 1)
    algorithm_bandwidth = collective.buffer_bytes / time
    return {
        "network": topology.name,
        "topology": topology.describe_shape(),
        "num_npus": topology.num_npus,
        "num_links": topology.num_links,
        "collective": collective.name,
        "size_bytes": collective.size_bytes,
        "chunks_per_npu": collective.chunks_per_npu,
        "root": collective.root,
        "num_chunks": collective.num_chunks,
        "chunk_bytes": [int(size) for size in collective.class_size_bytes],
        "synthesizer": schedule.synthesizer,
        "seed": schedule.seed,
        "link_model": timing.link_model,
        "reduce_bandwidth_gbps": timing.reduce_bandwidth_gbps,
        "num_sends": schedule.num_sends,
        "predicted_ns": time,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "bound_where": bound.where,
        "bound_npus": list(bound.npus),
        "bound_links": [topology.describe_link(link) for link in bound.links],
        "bounds_ns": {each.name: each.time_ns for each in bounds},
        "efficiency": bound.time_ns / time,
        "algorithm_bandwidth_gbps": algorithm_bandwidth,
        "bus_bandwidth_gbps": algorithm_bandwidth * collective.bus_factor,
        **_link_extremes(schedule),
    }


def _link_extremes(schedule: Schedule | LockstepSchedule) -> dict[str, Any]:
    busy = schedule.link_busy_ns
    time = schedule.collective_time_ns
    extremes = {"busiest_link": int(np.argmax(busy)), "idlest_link": int(np.argmin(busy))}
    return {
        name: {"link": schedule.topology.describe_link(link), "busy_share": float(busy[link] / max(time, 1))}
        for name, link in extremes.items()
    }
