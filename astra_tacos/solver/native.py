"""How long ASTRA-sim's native algorithms take for a collective, by the replay, which equals ASTRA-sim to the nanosecond."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective.collective import Collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import CONGESTION_AWARE, STOCK, Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import BASELINE, LOCAL_BW_AWARE, SystemConfig
from astra_tacos.schedule.timing import MOST_TRUNCATED, timing_of_sizes
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.units import format_time

MOST_MESSAGES = 1 << 18
"""Messages of one native collective that is replayed; a replay takes about a microsecond each."""
MOST_MESSAGES_IN_ALL = 1 << 19
"""Messages of all replays for one collective on one backend."""
PACKETS_OF_MESSAGE = 8
"""Packets whose replay takes about as long as that of a message on an analytical model."""
_MORE_FOR_PACKETS = 8
"""By so much more work may replays of the packet level take in all."""
_MOST_MIXES = 16
_FINER = 1000
_SPLITS = (4, 16)
_SPLIT_FROM_BYTES = 1 << 18
"""Chunks of smaller collectives are so short that their latencies cost more than their overlap saves."""
_MOST_SPLIT = 3
_PATTERNS = {key: pattern for pattern, key in PATTERN_KEYS.items()}
_Link = TypeVar("_Link", Dimension, LinkSpec)
_READ_AND_WRITE = 3
"""A native reduction takes two reads and a write of its message at `local-mem-bw`."""


@dataclass(frozen=True, slots=True)
class NativeSystem:
    """What a system JSON says of one native collective.

    Parameters
    ----------
    algorithms
        One per dimension.
    splits
        `preferred-dataset-splits`, all of which may be under way in a dimension at a time (`active-chunks-per-dimension`).
    optimization
        `collective-optimization`: `localBWAware` makes an All-Reduce of all dimensions but the last a Reduce-Scatter and an
        All-Gather around that of the last one.
    """

    algorithms: tuple[str, ...]
    splits: int = 1
    optimization: str = BASELINE

    def __str__(self) -> str:
        notes = [self.optimization] if self.optimization != BASELINE else []
        notes += [f"{self.splits} splits"] if self.splits > 1 else []
        return f"native ({', '.join(self.algorithms)}{'; ' if notes else ''}{', '.join(notes)})"

    def keys(self, pattern: str) -> dict[str, Any]:
        """Its keys in the system JSON."""
        return {
            f"{pattern}-implementation": list(self.algorithms),
            "preferred-dataset-splits": self.splits,
            "active-chunks-per-dimension": self.splits,
            "collective-optimization": self.optimization,
        }

    def config(self, pattern: str, reduce_bandwidth_gbps: float) -> SystemConfig:
        """The system: other settings are ASTRA-sim's defaults, and a reduction takes what it takes in schedules."""
        return SystemConfig(
            source=str(self),
            scheduling_policy="FIFO",
            preferred_dataset_splits=self.splits,
            active_chunks_per_dimension=self.splits,
            collective_optimization=self.optimization,
            local_mem_bw_gbps=_READ_AND_WRITE * reduce_bandwidth_gbps,
            native={pattern: self.algorithms},
        )


@dataclass(frozen=True, slots=True)
class NativeTime:
    """How long a native collective takes on a backend.

    Parameters
    ----------
    system
        Its configuration.
    backend
        The network model.
    time_ns
        When the last NPU has finished.
    exact_ns
        The same where messages queue on links and no delay is truncated; None where it cannot run or does not do the collective.
    impossible
        Why no network takes so little time; "" if one may.
    """

    system: NativeSystem
    backend: Backend
    time_ns: int
    exact_ns: float | None
    impossible: str

    @property
    def possible_ns(self) -> int | None:
        """`time_ns`, or if it is impossible the time in ns with queues and untruncated; None where there is none."""
        if not self.impossible:
            return self.time_ns
        return None if self.exact_ns is None else math.ceil(self.exact_ns)

    def describe(self) -> str:
        """Its configuration, and why it is impossible, in words."""
        return f"{self.system}{f', not physically possible: {self.impossible}' if self.impossible else ''}"

    def to_json(self, pattern: str) -> dict[str, Any]:
        """Figures, and the keys of the system JSON."""
        return {
            "name": str(self.system),
            "backend": self.backend.name,
            "time_ns": self.time_ns,
            "exact_ns": self.exact_ns,
            "possible_ns": self.possible_ns,
            "why_impossible": self.impossible or None,
            "system": self.system.keys(pattern),
        }


@dataclass(frozen=True, slots=True)
class NativeTimes:
    """The native collectives of a backend.

    Parameters
    ----------
    pattern
        The collective.
    fastest
        The one of the least time; None if there is none.
    fastest_possible
        The one of the least `possible_ns`; None if there is none.
    refusal
        Why there is none; "" if there is one.
    """

    pattern: str
    fastest: NativeTime | None
    fastest_possible: NativeTime | None
    refusal: str = ""

    @property
    def distinct(self) -> tuple[NativeTime, ...]:
        """The fastest of all, then the fastest possible one where that is another."""
        both = (self.fastest, self.fastest_possible)
        return tuple(dict.fromkeys(each for each in both if each is not None))

    def faster_than(self, time_ns: int | None, why: str = "") -> tuple[str, ...]:
        """What to say of those that are faster than a schedule that takes `time_ns` on the same backend.

        Parameters
        ----------
        time_ns
            The schedule's time, at which links can carry it; None if it has none.
        why
            Why no schedule is as fast as the fastest possible one.
        """
        notes = []
        for each in self.distinct:
            reached_ns = each.time_ns if each == self.fastest else each.possible_ns
            if reached_ns is not None and (time_ns is None or reached_ns < time_ns):
                how = "takes" if time_ns is None else "is faster,"
                is_slower = time_ns is not None and each.possible_ns is not None and each.possible_ns < time_ns
                reason = f"; {why}" if why and is_slower else ""
                what = f"on the {each.backend} backend ASTRA-sim's own algorithm {how} {format_time(each.time_ns)}"
                notes.append(f"{what}: {each.describe()}{reason}")
        return tuple(notes)

    def to_json(self) -> dict[str, Any]:
        """Both as objects, null where there is none, and the refusal."""
        both = {"fastest": self.fastest, "fastest_possible": self.fastest_possible}
        figures = {name: None if each is None else each.to_json(self.pattern) for name, each in both.items()}
        return figures | {"refusal": self.refusal or None}


def native_times(
    network: NetworkConfig, collective: Collective, backend: Backend, reduce_bandwidth_gbps: float = 0.0
) -> NativeTimes:
    """Replay the native implementations of a collective on a backend: every algorithm for every dimension.

    In up to two dimensions all mixes are tried; in more, the algorithm of one dimension at a time is changed, from the best of
    those that name one algorithm for all. Large collectives are also split. What ASTRA-sim stops or stalls at is left out.

    A time is physically possible if the same collective takes no longer where messages queue on links and no delay is truncated,
    and that is not less than any algorithm needs: ASTRA-sim's `doubleBinaryTree` as an All-Gather does not move all of the data.

    Parameters
    ----------
    network
        The network, as its file has it.
    collective
        The collective; its chunks do not matter.
    backend
        The network model.
    reduce_bandwidth_gbps
        Decimal GB/s of a reduction, 0 for no time.
    """
    pattern = collective.name
    is_whole = collective.num_members == network.num_npus
    if pattern not in _PATTERNS or not is_whole:
        of_some = "" if is_whole else " of some NPUs"
        return NativeTimes(pattern, None, None, f"{STOCK} has no native {pattern}{of_some}")
    sweep = _Sweep(network, collective, backend, reduce_bandwidth_gbps)
    times = sweep.run()
    if not times:
        return NativeTimes(pattern, None, None, sweep.refusal)
    ranked = sorted(times, key=lambda system: (times[system], system.splits, str(system)))
    fastest, possible, least_ns = None, None, math.inf
    for system in ranked:
        if fastest is not None and times[system] >= least_ns:
            break
        native = NativeTime(system, backend, times[system], *sweep.possibility(system, times[system]))
        fastest = fastest or native
        if native.possible_ns is not None and native.possible_ns < least_ns:
            possible, least_ns = native, native.possible_ns
    return NativeTimes(pattern, fastest, possible)


def native_time_ns(
    network: NetworkConfig, collective: Collective, system: NativeSystem, backend: Backend, reduce_bandwidth_gbps: float = 0.0
) -> int:
    """When the last NPU has finished a native collective on a backend, in ns.

    Parameters
    ----------
    network, collective, backend, reduce_bandwidth_gbps
        As `native_times` takes them.
    system
        Its configuration.

    Raises
    ------
    ConfigError, ReplayError
        Where ASTRA-sim stops or stalls, or the backend cannot model the network.
    """
    return _end_ns(network, collective, system.config(collective.name, reduce_bandwidth_gbps), backend)


def _end_ns(network: NetworkConfig, collective: Collective, config: SystemConfig, backend: Backend) -> int:
    run = single_collective_run(network, config, _PATTERNS[collective.name], collective.size_bytes)
    return replay_run(run, backend).end_ns


class _Sweep:
    """Replays of the native systems of one collective on one backend, each once."""

    def __init__(self, network: NetworkConfig, collective: Collective, backend: Backend, reduce_bandwidth_gbps: float) -> None:
        self._network, self._collective = network, collective
        self._pattern, self._size_bytes = collective.name, collective.size_bytes
        self._backend, self._reduce_bandwidth_gbps = backend, reduce_bandwidth_gbps
        self._sizes = tuple(dimension.size for dimension in network.dimensions) or (network.num_npus,)
        self._left = MOST_MESSAGES_IN_ALL * (1 if backend.is_analytical else _MORE_FOR_PACKETS)
        self._times: dict[NativeSystem, int | None] = {}
        self.refusal = ""

    def run(self) -> Mapping[NativeSystem, int]:
        """Times in ns of the systems that run."""
        optimizations = (BASELINE, LOCAL_BW_AWARE) if len(self._sizes) > 1 and self._pattern == "all-reduce" else (BASELINE,)
        for optimization in optimizations:
            for mix in self._mixes(optimization):
                self._time(NativeSystem(mix, 1, optimization))
        if self._size_bytes >= _SPLIT_FROM_BYTES:
            ranked = sorted(self._ran(), key=lambda system: self._ran()[system])
            for system, splits in itertools.product(ranked[:_MOST_SPLIT], _SPLITS):
                self._time(NativeSystem(system.algorithms, splits, system.optimization))
        return self._ran()

    def possibility(self, system: NativeSystem, time_ns: int) -> tuple[float | None, str]:
        """The time in ns where messages queue and nothing is truncated, and why `time_ns` is impossible, or ""."""
        config = system.config(self._pattern, self._reduce_bandwidth_gbps / _FINER)
        finer = replace(config, endpoint_delay_ns=config.endpoint_delay_ns * _FINER)
        finer_ns, refusal = self._replay(_slowed(self._network), finer, CONGESTION_AWARE)
        if finer_ns is None:
            return None, f"where messages queue, {refusal}"
        exact_ns = finer_ns / _FINER
        if exact_ns < (1 - MOST_TRUNCATED) * self._bound.time_ns:
            return None, f"any algorithm needs {format_time(self._bound.time_ns)} at least, so it does not move all of the data"
        if time_ns >= (1 - MOST_TRUNCATED) * exact_ns:
            return exact_ns, ""
        why = "the times of its messages are truncated" if self._backend.models_congestion else "no queues"
        return exact_ns, f"{why}; it takes {format_time(round(exact_ns))} where messages queue and nothing is truncated"

    @cached_property
    def _bound(self) -> Bound:
        """What every algorithm needs."""
        topology = build_topology(self._network, may_forward=True)
        timing = timing_of_sizes(topology, self._collective.class_size_bytes, "pipelined", may_be_instant=True)
        return lower_bound(topology, self._collective, timing)

    def _mixes(self, optimization: str) -> Iterator[tuple[str, ...]]:
        names = list(NATIVE_ALGORITHMS)
        count = len(self._sizes)
        if len(names) ** count <= _MOST_MIXES:
            yield from itertools.product(names, repeat=count)
            return
        uniform = [(name,) * count for name in names]
        yield from uniform
        best = self._best(uniform, optimization)
        for dimension in range(count):
            others = [(*best[:dimension], name, *best[dimension + 1 :]) for name in names]
            yield from others
            best = self._best(others, optimization)

    def _best(self, mixes: list[tuple[str, ...]], optimization: str) -> tuple[str, ...]:
        """The fastest of some mixes that were tried, the first one if none runs."""
        ran = self._ran()
        timed = [mix for mix in mixes if NativeSystem(mix, 1, optimization) in ran]
        return min(timed, key=lambda mix: ran[NativeSystem(mix, 1, optimization)], default=mixes[0])

    def _ran(self) -> dict[NativeSystem, int]:
        return {system: time_ns for system, time_ns in self._times.items() if time_ns is not None}

    def _time(self, system: NativeSystem) -> None:
        if system in self._times:
            return
        count = self._messages(system)
        packets = self._packets()
        if count + packets // PACKETS_OF_MESSAGE > min(MOST_MESSAGES, self._left):
            what = f"{count:,} messages" + (f" of {packets:,} packets" if packets else "")
            self.refusal = self.refusal or f"{system}: {what} are too many to replay"
            return
        self._left -= count + packets // PACKETS_OF_MESSAGE
        config = system.config(self._pattern, self._reduce_bandwidth_gbps)
        time_ns, refusal = self._replay(self._network, config, self._backend)
        self._times[system] = time_ns
        self.refusal = self.refusal or refusal

    def _messages(self, system: NativeSystem) -> int:
        """About how many messages it takes."""
        per_npu = sum(_MESSAGES[name](size) for name, size in zip(system.algorithms, self._sizes, strict=True))
        return self._network.num_npus * per_npu * system.splits * (2 if self._pattern == "all-reduce" else 1)

    def _packets(self) -> int:
        """About how many packets it takes on the packet level, none elsewhere."""
        if self._backend.is_analytical:
            return 0
        return int(self._network.ns3.num_packets(self._network.num_npus * self._size_bytes * 2))

    def _replay(self, network: NetworkConfig, config: SystemConfig, backend: Backend) -> tuple[int | None, str]:
        try:
            return _end_ns(network, self._collective, config, backend), ""
        except AstraTacosError as error:
            return None, str(error)


def _slowed(network: NetworkConfig) -> NetworkConfig:
    """The network with all delays times `_FINER`, so that ASTRA-sim truncates a part of a nanosecond only."""

    def slowed(link: _Link) -> _Link:
        bandwidth, latency = link.bandwidth_gibps, link.latency_ns
        return replace(
            link,
            bandwidth_gibps=None if bandwidth is None else bandwidth / _FINER,
            latency_ns=None if latency is None else latency * _FINER,
        )

    return replace(
        network,
        dimensions=tuple(map(slowed, network.dimensions)),
        links=tuple(map(slowed, network.links)),
        link_overrides=tuple(map(slowed, network.link_overrides)),
    )


_MESSAGES: Mapping[str, Callable[[int], int]] = {
    "ring": lambda size: size - 1,
    "direct": lambda size: size - 1,
    "halvingDoubling": lambda size: size.bit_length(),
    "doubleBinaryTree": lambda size: 2,
}
"""About how many messages an NPU sends in a dimension, half of them in an All-Reduce."""
