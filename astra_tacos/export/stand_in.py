"""Stand-in runs: stock ASTRA-sim as the judge of schedules on graphs that it has no network for.

Every device, whether it is an NPU or only forwards, is a rank on a FullyConnected network of the congestion-aware backend, where
each pair has a link of its own; a schedule uses those that its graph has, a hop at a time, as ASTRA-sim's messages cross no other
rank. All links of that network are alike. A link of a graph that is r times as slow as they are takes messages of r times the
size, in bytes, so it is busy for as long and delivers as late as in the graph: to the nanosecond where latencies are alike.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.bounds.certificate import certify
from astra_tacos.export.astra_sim_network import AstraSimNetwork
from astra_tacos.export.chakra import TraceNodes, nodes_of, order_of_traces
from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.export.run_directory import FOLDERS, LOG, RANK_MAP, RESULT_FILE, SCRIPT, write_inputs, write_run_script
from astra_tacos.network.blocks.fully_connected import FULLY_CONNECTED
from astra_tacos.network.composition import with_switches_forwarding
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.trace import Trace
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing, wire_bytes
from astra_tacos.support.arrays import Ints
from astra_tacos.support.files import write_json
from astra_tacos.support.units import NS_PER_US, bytes_per_ns, format_time

_OWN = {RESULT_FILE, RANK_MAP, SCRIPT, LOG, *FOLDERS, "system.json", "network.yml", "remote_memory.json"}
_LEAST_GIBPS = 16.0
"""At so much a byte takes less than a tenth of a nanosecond, so that sizes in whole bytes keep times in whole nanoseconds."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """What stands in for a schedule.

    `device`: int64[num_ranks], the device that each rank stands for: all members of the collective, and all others that have
    anything to do.
    `schedule`: the schedule of these devices, which are its NPUs and forwarding devices. `network`: the one dimension that
    ASTRA-sim gets. `message_bytes`: int64[num_messages], the sizes on it. `error_ns`: by how much a hop may be off, at most; 0
    if every link holds and delays every message as in the graph.
    """

    device: Ints
    schedule: Schedule
    network: AstraSimNetwork
    message_bytes: Ints
    error_ns: int

    def nodes(self) -> TraceNodes:
        """The nodes of the traces of the collective."""
        return nodes_of(self.schedule, order_of_traces(self.schedule)[0], message_bytes=self.message_bytes)

    def trace(self) -> Trace:
        """The traces of the collective, as ASTRA-sim reads them."""
        return self.nodes().trace(self.schedule.collective.name)


def stand_in_of(schedule: Schedule) -> StandIn:
    """The stand-in of a schedule to which `EXPORTER` has no objection."""
    name, predicted_ns = schedule.topology.name, schedule.collective_time_ns
    device, schedule = _without_idle(_in_hops(schedule))
    shape = _links_of(schedule.topology)
    message_bytes, error_ns = _sizes_for_times(schedule, shape)
    note = f"every device of {name} is a rank ({RANK_MAP} says which), and sizes of messages stand for their times"
    if error_ns:
        note += f"; latencies differ, so that a hop may be up to {format_time(error_ns)} off"
    if schedule.collective_time_ns != predicted_ns:
        note += "; sends hold both links of a switch at once in the schedule, and one after the other here, so times will differ"
    adding_ns = np.maximum(schedule.reduction_us * NS_PER_US, 1)
    late_ns = int(np.abs(schedule.reduction_ns - adding_ns)[schedule.reduces].max(initial=0))
    if late_ns:
        note += f"; reductions in devices take whole microseconds or 1 ns in ASTRA-sim, up to {format_time(late_ns)} off"
    error_ns = max(error_ns, late_ns)
    is_exact = error_ns == 0 and schedule.collective_time_ns == predicted_ns
    return StandIn(device, schedule, AstraSimNetwork((shape,), CONGESTION_AWARE, is_exact, note), message_bytes, error_ns)


def _links_of(topology: Topology) -> Dimension:
    """The dimension whose links stand for those of a graph: as fast as its fastest one, with its most frequent latency."""
    latency, count = np.unique(topology.link_latency_ns, return_counts=True)
    fastest = max(float(topology.link_bandwidth_gibps.max()), _LEAST_GIBPS)
    return Dimension(FULLY_CONNECTED.name, topology.num_npus, fastest, float(latency[count.argmax()]))


def _sizes_for_times(schedule: Schedule, links: Dimension) -> tuple[Ints, int]:
    """int64[num_messages], sizes that take on some links what messages take in a schedule; and how many ns they are off at most.

    A size is the one of three near the exact size that is off least, in how long it holds a link and how late it arrives.
    """
    topology, sizes = schedule.topology, schedule.sizes
    rate = float(bytes_per_ns(np.array([links.bandwidth_gibps]))[0])
    channel = schedule.channel[schedule.message_row]
    link = topology.channel_link[channel]
    carried = wire_bytes(topology, schedule.message_bytes, channel, schedule.timing.link_model)
    exact_bytes = carried / bytes_per_ns(topology.link_bandwidth_gibps)[link] * rate
    hold, delay = sizes.timing.link_hold_ns[link, sizes.size_class], sizes.timing.link_delay_ns[link, sizes.size_class]
    best, error = np.zeros(len(link), np.int64), np.full(len(link), np.iinfo(np.int64).max)
    for candidate in (np.rint(exact_bytes), np.floor(exact_bytes), np.ceil(exact_bytes)):
        num_bytes = np.maximum(candidate, 1.0)
        takes = num_bytes / rate
        off = np.maximum(np.abs(takes.astype(np.int64) - hold), np.abs((links.latency_ns + takes).astype(np.int64) - delay))
        better = off < error
        best[better], error[better] = num_bytes[better].astype(np.int64), off[better]
    return best, int(error.max(initial=0))


def _in_hops(schedule: Schedule) -> Schedule:
    """The schedule with a row for each link: switches of dimensions become devices that forward, in the order of the schedule."""
    old, sends = schedule.topology, schedule.sends
    if not old.has_switches:
        return schedule
    topology = with_switches_forwarding(old)
    collective = schedule.collective.renumbered(np.arange(old.num_npus), topology.num_npus)
    timing = compute_timing(topology, collective, "pipelined", schedule.timing.reduce_bandwidth_gbps)
    down = old.channel_down_link[sends.channel]
    through = np.flatnonzero(down != NO_LINK)
    delay = schedule.timing.link_delay_ns[down, schedule.sizes.size_class]
    begins = schedule.start_ns if schedule.timing.is_blocking else schedule.end_ns - delay
    row = np.concatenate((np.arange(schedule.num_sends), through))
    link = np.concatenate((old.channel_link[sends.channel], down[through]))
    is_last = np.concatenate((down == NO_LINK, np.ones(len(through), np.bool_)))
    time = np.concatenate((schedule.start_ns, begins[through]))
    order = np.lexsort((row, is_last, time))
    channel = topology.channel_of_link().astype(np.int32)
    row = row[order]
    hops = Sends(sends.chunk[row], channel[link[order]], sends.reduces[row] & is_last[order], trip=row.astype(np.int32))
    return settle(Problem(topology, collective, timing), hops, schedule.synthesizer, schedule.seed)


def _without_idle(schedule: Schedule) -> tuple[Ints, Schedule]:
    """The devices that are members of the collective or send anything, and the schedule on the graph of these."""
    old = schedule.topology
    kept = np.zeros(old.num_npus, np.bool_)
    kept[schedule.collective.member_npus] = True
    kept[schedule.src] = True
    device = np.flatnonzero(kept)
    if len(device) == old.num_npus:
        return device, schedule
    number = np.cumsum(kept) - 1
    link = np.flatnonzero(kept[old.link_src] & kept[old.link_dst])
    topology = replace(
        old,
        num_npus=len(device),
        link_src=number[old.link_src[link]].astype(np.int32),
        link_dst=number[old.link_dst[link]].astype(np.int32),
        forwarding=tuple(
            device for device, is_kept in zip(old.forwarding, kept[old.num_endpoints :].tolist(), strict=True) if is_kept
        ),
        reducing=tuple(replace(adder, device=int(number[adder.device])) for adder in old.reducing if kept[adder.device]),
        link_bandwidth_gibps=old.link_bandwidth_gibps[link],
        link_latency_ns=old.link_latency_ns[link],
        link_dimension=old.link_dimension[link],
    )
    channel_of_link = np.full(old.num_links, -1, np.int32)
    channel_of_link[link] = topology.channel_of_link()
    collective = schedule.collective.renumbered(number, len(device))
    timing = schedule.timing.of(topology, collective)
    channel = channel_of_link[old.channel_link[schedule.channel]]
    return device, replace(
        schedule,
        topology=topology,
        collective=collective,
        timing=timing,
        channel=channel,
        trip=schedule.trip if topology.forwarding else None,
        sums=None if schedule.sums is None else schedule.sums.renumbered(number),
    )


@dataclass(frozen=True, slots=True)
class StandInDirectory(Exported):
    """A stand-in run that was written: the network of ASTRA-sim that it is for, and by how much a hop may be off."""

    network: AstraSimNetwork = field(kw_only=True)
    error_ns: int = field(kw_only=True)

    @property
    def figures(self) -> dict[str, Any]:
        """The backend of ASTRA-sim to run, whether it takes the predicted time, and by how much a hop may be off."""
        network = self.network
        return {"astra_sim_backend": network.backend.name, "astra_sim_exact": network.is_exact, "hop_error_ns": self.error_ns}

    @property
    def command(self) -> str:
        """How to start ASTRA-sim on it."""
        return f"ASTRA_SIM_BIN=.../{CONGESTION_AWARE.binary} {shlex.quote(str(self.path / SCRIPT))}"

    @property
    def exactness(self) -> str:
        """Whether ASTRA-sim takes the predicted time, else by how much a hop may be off."""
        if self.network.is_exact:
            return "exact: ASTRA-sim takes the predicted time"
        off = f"a hop may be up to {format_time(self.error_ns)} off" if self.error_ns else "sends wait for others there"
        return f"not exact: {off}"


def why_no_stand_in(schedule: Schedule) -> str | None:
    """What of a schedule a stand-in run cannot have; None if it can."""
    topology = schedule.topology
    if topology.has_switches and (schedule.message_first is not None or schedule.sums is not None):
        return "it sends several chunks or partial sums in a message through switches of dimensions, expected chunks one by one"
    if topology.forwarding:
        used = np.unique(schedule.channel[(schedule.channel >= 0) & (schedule.channel < topology.num_channels)])
        ends = topology.channel_src[used].astype(np.int64) * topology.num_npus + topology.channel_dst[used]
        if len(np.unique(ends)) < len(used):
            return "it uses parallel links, expected one between two devices, of the summed bandwidth"
    hops = schedule.num_messages * (2 if topology.has_switches else 1)
    if hops > TAGS:
        return f"it has up to {hops:,} messages, and ASTRA-sim distinguishes at most {TAGS:,} tags"
    return None


def write_stand_in(schedule: Schedule, directory: Path) -> StandInDirectory:
    """Write the stand-in run of a schedule into an empty directory."""
    stand_in = stand_in_of(schedule)
    stand_in_keys = {"stand_in": {"exact": stand_in.network.is_exact, "hop_error_ns": stand_in.error_ns}}
    prefix = write_inputs(directory, stand_in.schedule.collective, certify(schedule) | stand_in_keys)
    stand_in.nodes().write(prefix)
    (directory / "network.yml").write_text(stand_in.network.to_yaml(), encoding="utf-8")
    write_json(directory / RANK_MAP, rank_map(schedule.topology, stand_in.device))
    write_run_script(directory, f"workload/{prefix.name}", stand_in.network.to_config(), "Replays", stand_in.network.note)
    return StandInDirectory(directory, (stand_in.network.note,), network=stand_in.network, error_ns=stand_in.error_ns)


def rank_map(topology: Topology, device: Ints) -> dict[str, Any]:
    """Who each rank stands for: the id of a device, and `npu` or the kind and name of a device that forwards."""
    ranks: list[dict[str, Any]] = []
    adding = {adder.device for adder in topology.reducing}
    for rank, number in enumerate(device.tolist()):
        at = number - topology.num_endpoints
        forwarder = topology.forwarding[at] if 0 <= at < len(topology.forwarding) else ForwardingDevice()
        kind, name = ("npu", "") if at < 0 else (forwarder.kind, forwarder.name)
        adds = {"adds": True} if number in adding else {}
        ranks.append({"rank": rank, "device": number, "kind": kind, "name": name, **adds})
    return {"network": topology.name, "npus": topology.num_endpoints, "ranks": ranks}


EXPORTER = Exporter(
    name="stand-in",
    summary="a run of stock ASTRA-sim in which every device is a rank: exact where all links have one latency",
    writes="directory",
    suffix="_stand_in",
    write=write_stand_in,
    why_not=why_no_stand_in,
    is_own=lambda names: names <= _OWN,
)
