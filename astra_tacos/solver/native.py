"""How long ASTRA-sim's native algorithms take for a collective, by the replay, which equals ASTRA-sim to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.run_replay import try_replay
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import STOCK, Backend, Binary, binaries_for
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import BASELINE, COMM_KEYS, parse_system
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.solver.native_search import PACKETS_OF_MESSAGE, NativeCollectives, NativeSearch, Reach
from astra_tacos.solver.untruncated import untruncated_end_ns
from astra_tacos.support.errors import AstraTacosError

MOST_MESSAGES = 1 << 18
"""Messages of one native collective that is replayed; a replay takes about a microsecond each."""
MOST_MESSAGES_IN_ALL = 1 << 19
"""Messages of all replays for one collective on one backend."""
_MORE_FOR_PACKETS = 8
"""By so much more work may replays of the packet level take in all."""
SPACE = "algorithm by dimension x 1 to 16 splits x active chunks up to the splits x FIFO or LIFO x localBWAware"
"""The configurations among which the best native collective is looked for."""
_PATTERNS = {key: pattern for pattern, key in PATTERN_KEYS.items()}
_READ_AND_WRITE = 3
"""A native reduction takes two reads and a write of its message at `local-mem-bw`."""


@dataclass(frozen=True, slots=True)
class NativeTime:
    """How long a native collective takes on a clock."""

    pattern: str
    configuration: NativeConfiguration
    time_ns: float

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Its algorithms by dimension."""
        return self.configuration.algorithms[COMM_KEYS.index(self.pattern)]

    @property
    def name(self) -> str:
        """Its configuration in words: `native (ring, direct; 4 splits)`."""
        configuration = self.configuration
        notes = [configuration.optimization] if configuration.optimization != BASELINE else []
        notes += [f"{configuration.splits} splits"] if configuration.splits > 1 else []
        notes += [f"{configuration.active_chunks} active"] if configuration.active_chunks < configuration.splits else []
        notes += [configuration.policy] if configuration.policy != "FIFO" else []
        return f"native ({', '.join(self.algorithms)}{'; ' if notes else ''}{', '.join(notes)})"

    def to_json(self) -> dict[str, Any]:
        """Its name, its time, and its keys of the system JSON."""
        return {"name": self.name, "time_ns": round(self.time_ns, 3), "system": self.configuration.keys((self.pattern,))}


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
        return {
            "best_native_ns": self.time_ns,
            "best_native": None if self.best is None else self.best.to_json(),
            "native_search": {"tried": self.tried, "space": SPACE, "refusal": self.refusal or None},
        }


def best_native_time(
    network: NetworkConfig, collective: Collective, clock: Backend, reduce_bandwidth_gbps: float = 0.0
) -> BestNativeTime:
    """Search the native configurations of a run of one collective on a clock: `SPACE`.

    In up to two dimensions all mixes of algorithms are tried; in more, the algorithm of one dimension at a time is changed, from
    the best of those that name one algorithm for all. The best are also split, with fewer active chunks, and under the other
    policy. What ASTRA-sim stops or stalls at, and what moves less than the pattern needs (`replayer.native_share`), is left out.

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
        return BestNativeTime(None, refusal=f"{STOCK} has no native {pattern}{of_some}")
    collectives = _one_collective(network, collective, clock, reduce_bandwidth_gbps)
    in_all = MOST_MESSAGES_IN_ALL * (1 if clock.is_analytical else _MORE_FOR_PACKETS)
    search = NativeSearch(collectives, clock, Reach(in_all, MOST_MESSAGES, rounds=1, splits_last=True, threads=1))
    search.climb()
    best, refusal = _least_untruncated(search, collectives, clock)
    if best is None:
        return BestNativeTime(None, search.num_replays, refusal=refusal or "none moves all of the data")
    run = best.configuration.run(collectives.run)
    ends = ((binary, try_replay(run, binary.backend).end_ns) for binary in binaries_for(network))
    return BestNativeTime(best, search.num_replays, tuple((binary, end) for binary, end in ends if end is not None))


def _one_collective(
    network: NetworkConfig, collective: Collective, clock: Backend, reduce_bandwidth_gbps: float
) -> NativeCollectives:
    """A run of one node a rank.

    Its system has ASTRA-sim's defaults, and a reduction takes what it takes in schedules.
    """
    pattern, size_bytes = collective.name, collective.size_bytes
    keys = {"scheduling-policy": "FIFO", "local-mem-bw": _READ_AND_WRITE * reduce_bandwidth_gbps}
    run = single_collective_run(network, parse_system(Path(f"native {pattern}"), keys), _PATTERNS[pattern], size_bytes)
    sizes = tuple(dimension.size for dimension in network.dimensions) or (network.num_npus,)
    packets = 0 if clock.is_analytical else int(network.ns3.num_packets(network.num_npus * size_bytes * 2))

    def messages(configuration: NativeConfiguration) -> int:
        algorithms = configuration.algorithms[COMM_KEYS.index(pattern)]
        per_npu = sum(_MESSAGES[name](size) for name, size in zip(algorithms, sizes, strict=True))
        sent = network.num_npus * per_npu * configuration.splits * (2 if pattern == "all-reduce" else 1)
        return sent + packets // PACKETS_OF_MESSAGE

    return NativeCollectives(run, (pattern,), frozenset((pattern,)), messages)


def _least_untruncated(search: NativeSearch, collectives: NativeCollectives, clock: Backend) -> tuple[NativeTime | None, str]:
    """The configuration of the least untruncated time that moves all of the data, and why there is none, or no better one."""
    (pattern,), best, refusal = collectives.patterns, None, search.refusal
    ended = [NativeTime(pattern, configuration, end.end_ns) for configuration, end in search.ends.items()]
    for native in sorted(
        ended, key=lambda native_time: (native_time.time_ns, native_time.configuration.splits, native_time.name)
    ):
        if best is not None and native.time_ns > best.time_ns:
            break  # truncation only makes times shorter
        if not search.is_complete(native.configuration):
            continue
        try:
            run = native.configuration.run(collectives.run)
            time_ns = untruncated_end_ns(run, clock) if clock.is_analytical else float(native.time_ns)
        except AstraTacosError as error:
            return best, refusal or str(error)
        if best is None or time_ns < best.time_ns:
            best = NativeTime(pattern, native.configuration, time_ns)
    return best, refusal


_MESSAGES: Mapping[str, Callable[[int], int]] = {
    "ring": lambda size: size - 1,
    "direct": lambda size: size - 1,
    "halvingDoubling": lambda size: size.bit_length(),
    "doubleBinaryTree": lambda size: 2,
}
"""About how many messages an NPU sends in a dimension, half of them in an All-Reduce."""
