"""The judges of a network: the models of ASTRA-sim on which its collectives and runs are timed, whichever they are made for.

`packet_level` replays the traces of a schedule packet by packet, coarsely where packets are many. `check_sends` refuses schedules
with too many sends to list. `symmetric_tasks` and `symmetric_times` do for symmetric schedules what the rest does for others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from astra_tacos.collective import ROOTED
from astra_tacos.export.astra_sim_network import stock_network
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.network_config import NetworkConfig, check_block_sizes, check_values
from astra_tacos.network.rotations import star, why_no_translations
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, MODELS, PACKET, STOCK, Backend, default_backend, is_packet_level
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.packet_time import packet_time_ns
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_time
from astra_tacos.synthesizer.search.search_options import FASTEST, SearchOptions, either, link_models_of

MOST_PACKETS = 30_000_000
"""Packets of a schedule that is replayed to be compared; a replay takes about 0.2 us each, for every link."""
MOST_PACKETS_BESIDE = 2_000_000
"""The same where nobody asked for the packet level: less than half a second."""
MOST_COARSE = 128
"""By so much larger packets may stand for those of ns-3."""
MOST_SENDS = 1 << 20
"""Sends of a schedule whose traces are replayed; a replay takes some microseconds each."""


@dataclass(frozen=True, slots=True)
class PacketLevel:
    """The packet level of a schedule's traces.

    Parameters
    ----------
    time_ns
        When the last NPU has finished, by replay.
    predicted_ns
        The same if no two messages share a link at a time (`packet_time_ns`).
    num_packets
        About how many packets the replay has.
    coarse
        How many packets of ns-3 each of them stands for; the times are approximate from 2 on.
    """

    time_ns: int
    predicted_ns: int
    num_packets: int
    coarse: int

    @property
    def ratio(self) -> float:
        """`time_ns` in units of the prediction."""
        return self.time_ns / max(self.predicted_ns, 1)

    def describe(self) -> str:
        """The figures in words."""
        stands = f", each for {self.coarse} of ns-3" if self.coarse > 1 else ""
        about = "about " if self.coarse > 1 else ""
        replayed = f"{about}{format_time(self.time_ns)} (replay of {self.num_packets:,} packets{stands})"
        return f"{replayed}, {self.ratio:.2f} of {format_time(self.predicted_ns)}, which it takes if no messages share a link"


def packet_level(
    schedule: Schedule,
    network: NetworkConfig,
    link_order: LinkOrder | None = None,
    most_packets: int = MOST_PACKETS_BESIDE,
) -> PacketLevel:
    """Replay a schedule's traces packet by packet, with larger packets where there would be too many.

    Parameters
    ----------
    schedule, network
        The schedule, and its network as the file has it.
    link_order
        How its traces keep the order of sends on a link (`export_chakra`).
    most_packets
        About how many packets the replay may have.

    Raises
    ------
    ConfigError, ReplayError
        If the packet level cannot have the network or the messages, or they are too many.
    """
    if schedule.num_sends > MOST_SENDS:
        raise ConfigError(f"not replayed: {schedule.num_sends:,} sends are more than {MOST_SENDS:,}")
    sent = between_npus(schedule)
    all_packets = network.ns3.num_packets(float(sent.message_bytes.sum()))
    coarse = max(math.ceil(all_packets / most_packets), 1)
    if coarse > MOST_COARSE:
        most = most_packets * MOST_COARSE
        raise ConfigError(f"not replayed: about {all_packets:,.0f} packets are more than {most:,} (--backend packet asks for it)")
    ns3 = network.ns3 if coarse == 1 else replace(network.ns3, payload_bytes=network.ns3.payload_bytes * coarse)
    trace = schedule_trace(sent, schedule.collective.name, link_order)
    time_ns = replay_trace(trace, replace(network, ns3=ns3), PACKET).collective_time_ns
    return PacketLevel(time_ns, packet_time_ns(schedule, ns3), math.ceil(all_packets / coarse), coarse)


STOCK_FIGURE = "stock_ns"
"""What results call the time that stock ASTRA-sim prints."""
FIGURES = (STOCK_FIGURE, *(backend.figure for backend in MODELS.values() if backend.models_congestion))
"""What results call the times of all judges."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A network model that traces are timed on.

    Parameters
    ----------
    figure
        What results call its time.
    network
        The network that it runs them on.
    backend
        The network model.
    """

    figure: str
    network: NetworkConfig
    backend: Backend

    @property
    def is_stock(self) -> bool:
        """Whether it stands for stock ASTRA-sim."""
        return self.figure == STOCK_FIGURE

    @property
    def label(self) -> str:
        """Its name in print."""
        return f"stock {STOCK}" if self.is_stock else str(self.backend)

    @property
    def program(self) -> str:
        """What runs it beside the embedded replay."""
        if self.is_stock:
            return f"{self.backend} backend"
        return self.backend.exact_to(self.network) or "embedded replay alone"

    def describe(self) -> str:
        """The judge in words."""
        return f"{self.label} ({self.program})"


def judges_of_collective(
    topology: Topology, network: NetworkConfig, link_model: LinkModel, backend: Backend | None = None
) -> tuple[Judge, ...]:
    """The judges of a schedule's traces: stock ASTRA-sim, the analytical model with congestion, the packet level where asked for.

    Parameters
    ----------
    topology, network
        The network, built and as its file has it.
    link_model
        How the schedule is timed.
    backend
        The model that the schedule was asked for; None for the one for which schedules are timed so.
    """
    if topology.forwarding:  # no network of ASTRA-sim has such devices: its own judge is a stand-in run
        return (Judge(CONGESTION_AWARE.figure, network, CONGESTION_AWARE),)
    stock = stock_network(topology, link_model, backend)
    return (Judge(STOCK_FIGURE, stock.to_config(), stock.backend), *_congested(network, backend))


def judges_of_run(network: NetworkConfig, backend: Backend | None = None) -> tuple[Judge, ...]:
    """The judges of a run: stock ASTRA-sim, if it runs the network at all, then as `judges_of_collective`.

    Parameters
    ----------
    network
        The network, as its file has it.
    backend
        The model that was asked for; None for the network's default.
    """
    first = default_backend(network) if backend is None or is_packet_level(backend) else backend
    wanted = (first, *BACKENDS.values())
    stock = next((each for each in wanted if not each.refusals(network)), None)
    own = () if stock is None else (Judge(STOCK_FIGURE, network, stock),)
    return (*own, *_congested(network, backend))


def timed_for(
    options: SearchOptions, topology: Topology, backend: Backend | None
) -> tuple[SearchOptions, tuple[LinkModel, ...], str]:
    """The options with the link model that a backend asks for, the models to compare, and why, "" where the options say it.

    Some backends without queues replay schedules that hold links only approximately. There, and on the packet level, schedules
    of both link models are compared.

    Parameters
    ----------
    options
        What is asked of the search.
    topology
        The network.
    backend
        The network model that was asked for; None for what stock ASTRA-sim comes closest to.
    """
    if options.link_model != "auto":
        return options, *link_models_of(topology, options)
    if backend is None:
        models, reason = link_models_of(topology, options)
    elif not backend.is_analytical:
        models, reason = LINK_MODELS, f"the replay on the {backend} backend decides"
    else:
        own, reason = backend.link_model, f"schedules for the {backend} backend are timed so"
        models, reason = ((own,), reason) if backend.models_congestion else either(topology, own, reason)
    return replace(options, link_model=models[0] if len(models) == 1 else FASTEST), models, reason


def backend_in_use(network: NetworkConfig, models: tuple[LinkModel, ...], backend: Backend | None) -> Backend | None:
    """The backend that schedules are judged on; None for the one for which they are timed.

    Parameters
    ----------
    network
        The network, as its file has it.
    models
        The link models of its schedules: with several, the network's default decides.
    backend
        The network model that was asked for, None for none.
    """
    return default_backend(network) if backend is None and len(models) > 1 else backend


def backend_that_runs(schedule: Schedule, in_use: Backend | None, asked: Backend | None) -> Backend | None:
    """The backend in use, unless nobody asked for it and it stops at a schedule's messages: then the one that it is timed for.

    Parameters
    ----------
    schedule
        The schedule that was found.
    in_use
        The backend on which schedules are judged (`backend_in_use`).
    asked
        The network model that was asked for, None for none.
    """
    stops = asked is None and in_use is not None and in_use.models_congestion and stops_queues(schedule)
    return None if stops else in_use


def _congested(network: NetworkConfig, backend: Backend | None) -> tuple[Judge, ...]:
    """The models with congestion; the packet level is one of them only where it is asked for, as its replays take longer."""
    asked = () if backend is None or backend in BACKENDS.values() else (backend,)
    return tuple(Judge(each.figure, network, each) for each in (*BACKENDS.values(), *asked) if each.models_congestion)


def differ(judges: tuple[Judge, ...]) -> bool:
    """Whether judges differ in whether they model congestion, or packets, so that one time does not speak for all."""
    return len({(judge.backend.models_congestion, judge.backend.is_analytical) for judge in judges}) > 1


MOST_ROWS = 50_000_000
"""Sends that can be listed one by one."""


def is_symmetric(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether `symmetric` is asked for and can do a collective on a network.

    Parameters
    ----------
    network
        The network, as described.
    collective
        Name of the collective.
    options
        What is asked of the search.
    """
    return collective in SYMMETRIC_COLLECTIVES and "symmetric" in options.synthesizers and not why_no_translations(network)


def has_many_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether a schedule has more sends than the options allow, even in one chunk per NPU, or in as many as they say.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.
    """
    return sends_of_pair(collective, options) * network.num_npus * (network.num_npus - 1) > options.max_sends


def check_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> None:
    """Refuse, before the search, what has too many sends to be listed.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROWS` sends: says how many NPUs have fewer, and where `symmetric` does without a list.
    """
    if collective in ROOTED or not has_many_sends(network, collective, replace(options, max_sends=MOST_ROWS)):
        return
    instead = f"use at most {(1 + math.isqrt(1 + 4 * MOST_ROWS // sends_of_pair(collective, options))) // 2:,} NPUs"
    if isinstance(options.chunks_per_npu, int) and options.chunks_per_npu > 1:
        instead += ", or fewer chunks"
    if is_symmetric(network, collective, replace(options, synthesizer="symmetric")):
        instead += ", or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all"
    raise ConfigError(
        f"{network.source}: {network.num_npus:,} NPUs, for which {collective} has more than {MOST_ROWS:,} sends, too many to "
        f"list: {instead}"
    )


def sends_of_pair(collective: str, options: SearchOptions) -> int:
    """The least number of sends of a schedule by pair of NPUs, in one chunk per NPU or in as many as the options say."""
    chunks = options.first_chunks
    return 2 * chunks if collective == "all-reduce" else chunks


def symmetric_tasks(
    network: NetworkConfig, collective: str, size_bytes: int, options: SearchOptions, backend: Backend | None
) -> tuple[list[SymmetricTask], str]:
    """What to synthesize, once for each link model that comes into question, and why it does, "" where the user said so.

    Parameters
    ----------
    network, collective, options
        For which `is_symmetric` holds.
    size_bytes
        Size of the collective.
    backend
        The network model that was asked for; None for what stock ASTRA-sim comes closest to.

    Raises
    ------
    ConfigError
        If the network's values or the size are out of range.
    """
    check_values(network)
    check_block_sizes(network.source, network.dimensions)
    chunks = options.first_chunks
    rate = options.reduce_bandwidth_gbps
    asked = SymmetricTask(network.name, network.dimensions, collective, size_bytes, chunks, "blocking", rate)
    links = star(network.name, network.dimensions)
    _, models, reason = timed_for(options, links, backend)
    return [replace(asked, link_model=model) for model in models], reason


def symmetric_times(schedule: SymmetricSchedule, backend: Backend | None) -> dict[str, int | None]:
    """The schedule's times by figure of an analytical judge; None where only a replay of its traces could say.

    Sends that hold their links until they arrive never wait for one another, so every judge takes the predicted time, unless a
    switch takes a message twice, as queues do. Sends that wait in queues take it where there are queues.

    Parameters
    ----------
    schedule
        The schedule, all of whose chunks count as the largest one.
    backend
        The model that it was asked for; None for the one for which schedules are timed so.
    """
    task = schedule.task
    links = star(task.name, task.dimensions)
    stock = stock_network(links, task.link_model, backend)
    queues = {STOCK_FIGURE: stock.backend.models_congestion}
    queues |= {each.figure: True for each in BACKENDS.values() if each.models_congestion}
    known = {True: task.link_model == "pipelined" or not links.has_switches, False: task.link_model == "blocking"}
    return {figure: schedule.collective_time_ns if known[queued] else None for figure, queued in queues.items()}


def has_equal_delays(task: SymmetricTask) -> bool:
    """Whether chunks that differ by a byte take equally long, so that the expanded schedule takes exactly as long."""
    timing = task.timing
    tables = (timing.channel_delay_ns, timing.link_hold_ns, timing.reduction_ns[None])
    return all(bool(np.all(table[:, 0] == table[:, -1])) for table in tables)
