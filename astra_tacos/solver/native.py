"""How long ASTRA-sim's native algorithms take for a collective, by the replay, which equals ASTRA-sim to the nanosecond."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import STOCK, Backend, Binary, binaries_for
from astra_tacos.run.run import PATTERN_KEYS, Run
from astra_tacos.run.system import BASELINE, LOCAL_BW_AWARE, SystemConfig
from astra_tacos.solver.untruncated import untruncated_end_ns
from astra_tacos.support.errors import AstraTacosError

MOST_MESSAGES = 1 << 18
"""Messages of one native collective that is replayed; a replay takes about a microsecond each."""
MOST_MESSAGES_IN_ALL = 1 << 19
"""Messages of all replays for one collective on one backend."""
PACKETS_OF_MESSAGE = 8
"""Packets whose replay takes about as long as that of a message on an analytical model."""
_MORE_FOR_PACKETS = 8
"""By so much more work may replays of the packet level take in all."""
_MOST_MIXES = 16
"""Combinations of algorithms by dimension that are all tried."""
SPLITS = (2, 4, 8, 16)
SPACE = "algorithm by dimension x 1 to 16 splits x active chunks up to the splits x FIFO or LIFO x localBWAware"
"""The configurations among which the best native collective is looked for."""
MOST_SPLIT = 3
"""Unsplit configurations that are split: another than the fastest may gain more."""
_PATTERNS = {key: pattern for pattern, key in PATTERN_KEYS.items()}
_READ_AND_WRITE = 3
"""A native reduction takes two reads and a write of its message at `local-mem-bw`."""


@dataclass(frozen=True, slots=True)
class NativeSystem:
    """What a system JSON says of one native collective.

    Parameters
    ----------
    splits, active
        `preferred-dataset-splits`, and how many of them may be under way in a dimension at a time
        (`active-chunks-per-dimension`).
    policy
        `scheduling-policy`.
    optimization
        `collective-optimization`: `localBWAware` makes an All-Reduce of all dimensions but the last a Reduce-Scatter and an
        All-Gather around that of the last one.
    """

    algorithms: tuple[str, ...]
    splits: int = 1
    optimization: str = BASELINE
    active: int = 1
    policy: str = "FIFO"

    def __str__(self) -> str:
        notes = [self.optimization] if self.optimization != BASELINE else []
        notes += [f"{self.splits} splits"] if self.splits > 1 else []
        notes += [f"{self.active} active"] if self.active < self.splits else []
        notes += [self.policy] if self.policy != "FIFO" else []
        return f"native ({', '.join(self.algorithms)}{'; ' if notes else ''}{', '.join(notes)})"

    def keys(self, pattern: str) -> dict[str, Any]:
        """Its keys in the system JSON."""
        return {
            f"{pattern}-implementation": list(self.algorithms),
            "preferred-dataset-splits": self.splits,
            "active-chunks-per-dimension": self.active,
            "collective-optimization": self.optimization,
            "scheduling-policy": self.policy,
        }

    def config(self, pattern: str, reduce_bandwidth_gbps: float) -> SystemConfig:
        """The system: other settings are ASTRA-sim's defaults, and a reduction takes what it takes in schedules."""
        return SystemConfig(
            source=str(self),
            scheduling_policy=self.policy,
            preferred_dataset_splits=self.splits,
            active_chunks_per_dimension=self.active,
            collective_optimization=self.optimization,
            local_mem_bw_gbps=_READ_AND_WRITE * reduce_bandwidth_gbps,
            native={pattern: self.algorithms},
        )


@dataclass(frozen=True, slots=True)
class NativeTime:
    """How long a native collective takes on a clock."""

    system: NativeSystem
    time_ns: float


@dataclass(frozen=True, slots=True)
class BestNativeTime:
    """The best of the native collectives on a clock.

    Parameters
    ----------
    best
        The one of the least time; None if there is none.
    prints
        What programs of ASTRA-sim print for the best one on the network itself: pairs of a program and a time in ns.
    """

    pattern: str
    best: NativeTime | None
    tried: int = 0
    prints: tuple[tuple[Binary, int], ...] = ()
    refusal: str = ""

    @property
    def time_ns(self) -> float | None:
        """The time of the best one; None if there is none."""
        return None if self.best is None else round(self.best.time_ns, 3)

    def to_json(self) -> dict[str, Any]:
        """Its time, its configuration in words and as keys of the system JSON, and how it was found."""
        best = self.best
        return {
            "best_native_ns": self.time_ns,
            "best_native": None
            if best is None
            else {"name": str(best.system), "time_ns": self.time_ns, "system": best.system.keys(self.pattern)},
            "native_search": {"tried": self.tried, "space": SPACE, "refusal": self.refusal or None},
        }


def best_native_time(
    network: NetworkConfig, collective: Collective, clock: Backend, reduce_bandwidth_gbps: float = 0.0
) -> BestNativeTime:
    """Replay the native implementations of a collective on a clock: every algorithm for every dimension.

    In up to two dimensions all mixes are tried; in more, the algorithm of one dimension at a time is changed, from the best of
    those that name one algorithm for all. The best are also split, with fewer active chunks, and under
    the other policy. What ASTRA-sim stops or stalls at, and what moves less than the pattern needs (`replayer.native_share`), is
    left out.

    Parameters
    ----------
    collective
        The collective; its chunks do not matter.
    reduce_bandwidth_gbps
        Decimal GB/s of a reduction, 0 for no time.
    """
    pattern = collective.name
    is_whole = collective.num_members == network.num_npus
    if pattern not in _PATTERNS or not is_whole:
        of_some = "" if is_whole else " of some NPUs"
        return BestNativeTime(pattern, None, refusal=f"{STOCK} has no native {pattern}{of_some}")
    sweep = _Sweep(network, collective, clock, reduce_bandwidth_gbps)
    best = sweep.best()
    if best is None:
        return BestNativeTime(pattern, None, sweep.tried, refusal=sweep.refusal or "none moves all of the data")
    return BestNativeTime(pattern, best, sweep.tried, sweep.prints(best.system))


def _fewer_active(system: NativeSystem) -> Iterator[NativeSystem]:
    for active in {1, system.splits // 2} - {0, system.splits}:
        yield replace(system, active=active)


def _other_policy(system: NativeSystem) -> Iterator[NativeSystem]:
    if system.splits > 1:
        yield replace(system, policy="LIFO")


class _Sweep:
    """Replays of the native systems of one collective on one backend, each once."""

    def __init__(self, network: NetworkConfig, collective: Collective, backend: Backend, reduce_bandwidth_gbps: float) -> None:
        self._network = network
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
        ranked = sorted(self._ran(), key=lambda system: self._ran()[system])
        for system, splits in itertools.product(ranked[:MOST_SPLIT], SPLITS):
            self._time(replace(system, splits=splits, active=splits))
        for vary in (_fewer_active, _other_policy):
            for best in sorted(self._ran(), key=lambda system: self._ran()[system])[:1]:
                for system in vary(best):
                    self._time(system)
        return self._ran()

    def best(self) -> NativeTime | None:
        """The system of the least untruncated time; None if none runs and moves all of the data."""
        times, best = self.run(), None
        for system in sorted(times, key=lambda system: (times[system], system.splits, str(system))):
            if best is not None and times[system] > best.time_ns:
                break  # truncation only makes times shorter
            run = self._run_of(system)
            if why_incomplete(run):
                continue
            try:
                time_ns = untruncated_end_ns(run, self._backend) if self._backend.is_analytical else float(times[system])
            except AstraTacosError as error:
                self.refusal = self.refusal or str(error)
                break
            if best is None or time_ns < best.time_ns:
                best = NativeTime(system, time_ns)
        return best

    def prints(self, system: NativeSystem) -> tuple[tuple[Binary, int], ...]:
        """What programs of ASTRA-sim that run the network print for a system."""
        printed = []
        for binary in binaries_for(self._network):
            time_ns = self._replay(system, binary.backend)[0]
            if time_ns is not None:
                printed.append((binary, time_ns))
        return tuple(printed)

    @property
    def tried(self) -> int:
        """How many systems were replayed."""
        return len(self._times)

    def _run_of(self, system: NativeSystem) -> Run:
        config = system.config(self._pattern, self._reduce_bandwidth_gbps)
        return single_collective_run(self._network, config, _PATTERNS[self._pattern], self._size_bytes)

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
        time_ns, refusal = self._replay(system, self._backend)
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

    def _replay(self, system: NativeSystem, backend: Backend) -> tuple[int | None, str]:
        try:
            return replay_run(self._run_of(system), backend).end_ns, ""
        except AstraTacosError as error:
            return None, str(error)


_MESSAGES: Mapping[str, Callable[[int], int]] = {
    "ring": lambda size: size - 1,
    "direct": lambda size: size - 1,
    "halvingDoubling": lambda size: size.bit_length(),
    "doubleBinaryTree": lambda size: 2,
}
"""About how many messages an NPU sends in a dimension, half of them in an All-Reduce."""
