"""Matching in rounds, where all links are alike and direct: the sends of a round depend on earlier rounds only.

The idea is that of `tacos` (Won et al., arXiv 2304.05301), for networks so large that neither its events nor its columns fit into
memory: a send costs two bytes and some 50 ns of one core. A Reduce-Scatter is an All-Gather on the transposed network, its rounds
in reverse; an All-Reduce is both, one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.csr import group_by
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule, chunk_kind, why_not_lockstep
from astra_tacos.schedule.row_store import RowStore
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology

if TYPE_CHECKING:
    from astra_tacos.synthesizer.matching._lockstep_kernels import Chunks, Network, State

COLLECTIVES = frozenset(("all-gather", "reduce-scatter", "all-reduce"))
_WINDOW = 64
# With fewer links a round is too short for threads to pay off, because they synchronise twice in it.
_LINKS_WORTH_THREADS = 32_768


def lockstep(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """One random matching of a collective, as rows with times; see `lockstep_rounds`.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Seed of random choices.
    """
    return lockstep_rounds(topology, collective, timing, seed, threads=1).to_schedule()


def refusal(topology: Topology, collective: Collective) -> str | None:
    """The reason why there is no lockstep schedule; None if there is one."""
    return why_not_lockstep(topology)


def lockstep_rounds(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    seed: int,
    *,
    threads: int | None = None,
    path: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> LockstepSchedule:
    """One random matching of a collective, round by round.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Breaks ties; the same arguments give the same schedule, on any number of threads.
    threads
        By default one per core, where the network is large enough for that to pay.
    path
        A `.npy` file to stream the rounds into; by default they stay in memory, or past 6 GiB in a temporary file.
    on_progress
        Called with the number of sends so far and their total.

    Raises
    ------
    SynthesisError
        If the links are not all alike and direct, the collective is none of `COLLECTIVES`, or some NPU cannot be reached.
    """
    why_not = refusal(topology, collective)
    if collective.name not in COLLECTIVES:
        why_not = f"{collective.name} is not one of {', '.join(sorted(COLLECTIVES))}"
    if why_not:
        raise SynthesisError(f"{topology.name}: {why_not}")
    delay = int(timing.channel_delay_ns.max())
    hold = delay if timing.is_blocking else int(timing.link_hold_ns.max())
    most_lag = min(-(-delay // hold), _most_lag(topology, collective))
    phases = [phase for phase, wanted in ((True, collective.reduces), (False, collective.gathers)) if wanted]
    sends = (topology.num_npus - 1) * collective.num_chunks
    report = on_progress or (lambda done, total: None)
    expected = _expected_rounds(topology, collective) * len(phases)
    starts: list[NDArray[np.int64]] = []
    begin = 0
    with RowStore(topology.num_channels, chunk_kind(collective), expected, path) as rows:
        for number, reduces in enumerate(phases):
            # What arrives can leave `lag` rounds later, reduced if need be.
            usable = delay + (int(timing.reduction_ns.max()) if reduces else 0)
            period = max(hold, -(-usable // most_lag))
            matching = _Matching.of(topology, collective, seed, -(-usable // period), threads, reverse=reduces)
            base = number * sends
            rounds = matching.run(rows, lambda done, base=base: report(base + done, len(phases) * sends), topology.name)  # type: ignore[misc]
            starts.append(begin + np.arange(rounds, dtype=np.int64) * period)
            if reduces:
                rows.reverse()
                begin = int(starts[-1][-1]) + usable
        chunk = rows.finish()
    start_ns = np.concatenate(starts)
    reducing = len(starts[0]) if collective.reduces else 0
    columns = (chunk, start_ns, reducing, len(phases) * sends)
    return LockstepSchedule(topology, collective, timing, *columns, "lockstep", seed)


def _most_lag(topology: Topology, collective: Collective) -> int:
    """The number of rounds that it is worth cutting a delay into.

    With more rounds, the number of hops across the network would limit the collective's time, and not the bandwidth of its links.
    """
    from scipy.sparse.csgraph import dijkstra

    graph = topology.channel_graph(np.ones(topology.num_channels))
    hops = dijkstra(graph, indices=0, unweighted=True)
    return max(1, _expected_rounds(topology, collective) // max(1, int(hops[np.isfinite(hops)].max())))


def _expected_rounds(topology: Topology, collective: Collective) -> int:
    """Rounds of an All-Gather that the NPU with the fewest in-links needs, plus a reserve."""
    degree = np.bincount(topology.channel_dst, minlength=topology.num_npus).min()
    lacking = collective.num_chunks - collective.chunks_per_npu
    return int(lacking // max(1, degree) * 1.02) + 16


@dataclass(slots=True)
class _Matching:
    """State of an All-Gather that is being matched: the kernel's arguments, except those that belong to one thread."""

    seed: int
    lag: int
    threads: int
    num_sends: int
    rare: NDArray[np.uint64]
    keys: NDArray[np.int64]
    network: Network
    chunks: Chunks
    state: State

    @staticmethod
    def of(topology: Topology, collective: Collective, seed: int, lag: int, threads: int | None, *, reverse: bool) -> _Matching:
        from astra_tacos.synthesizer.matching._lockstep_kernels import BLOCK, WORDS, Chunks, Network, State

        num_npus, num_chunks = topology.num_npus, collective.num_chunks
        src, dst = topology.channel_src, topology.channel_dst
        if reverse:
            src, dst = dst, src
        in_first, in_channel = group_by(dst, np.arange(topology.num_channels), num_npus)
        # Chunks are spread evenly over the blocks, at random, as neighbours' chunks are of use at the same time.
        blocks = -(-num_chunks // BLOCK)
        block_size = np.full(blocks, num_chunks // blocks)
        block_size[: num_chunks % blocks] += 1
        block = np.repeat(np.arange(blocks), block_size)
        places = block * BLOCK + np.arange(num_chunks) - np.repeat(np.cumsum(block_size) - block_size, block_size)
        order = np.random.default_rng((seed, int(reverse))).permutation(num_chunks)
        chunk_at, place_of = np.zeros(blocks * BLOCK, np.int32), np.empty(num_chunks, np.int32)
        chunk_at[places], place_of[order] = order, places
        owner, word = collective.chunk_owner, place_of >> 6
        held = np.zeros((blocks, num_npus, WORDS), np.uint64)
        np.bitwise_or.at(held, (word // WORDS, owner, word % WORDS), np.uint64(1) << (place_of & 63).astype(np.uint64))
        taken_in = np.zeros((blocks, num_npus), np.uint16)
        np.add.at(taken_in, (word // WORDS, owner), 1)
        lacking = num_chunks - np.bincount(owner, minlength=num_npus).astype(np.int32)
        workers = (threads or os.cpu_count() or 1) if topology.num_channels >= _LINKS_WORTH_THREADS else 1
        window = 1 if workers > 1 else _WINDOW
        copies = np.zeros((workers, blocks * BLOCK), np.int32)
        picks = np.empty((window + lag - 1, topology.num_channels), np.int32)
        rare = np.zeros((workers, blocks, WORDS), np.uint64)
        rare[:, 0] = ~np.uint64(0)  # as long as nothing has been sent, all is
        return _Matching(
            2 * seed + int(reverse),
            lag,
            workers,
            (num_npus - 1) * num_chunks,
            rare,
            np.empty((workers, int(np.diff(in_first).max())), np.int64),
            Network(in_first, src[in_channel], in_channel.astype(np.int32)),
            Chunks(block_size, chunk_at, place_of),
            State(held, held.copy(), taken_in, lacking, copies, picks),
        )

    def run(self, rows: RowStore, report: Callable[[int], None], name: str) -> int:
        """Match all rounds into a store; returns how many."""
        from astra_tacos.synthesizer.matching._lockstep_kernels import NOTHING

        done = number = quiet = 0
        # `-1` becomes the largest number of the store's type, its sign of an idle link.
        assert NOTHING == -1
        with ThreadPoolExecutor(self.threads) as pool:
            while done < self.num_sends:
                rounds, matched = self._advance(pool, number, self.num_sends - done)
                picks = self.state.picks
                rows.append(picks[np.arange(number, number + rounds) % len(picks)])
                done, number = done + matched, number + rounds
                quiet = 0 if matched else quiet + rounds
                if quiet > self.lag:
                    raise SynthesisError(f"{name}: some NPU cannot be reached, expected a connected network")
                report(done)
        return number

    def _advance(self, pool: ThreadPoolExecutor, number: int, remaining: int) -> tuple[int, int]:
        """As many rounds as there is space for, by one thread, or one round by several threads with the same result."""
        if self.threads == 1:
            window = len(self.state.picks) - self.lag + 1
            return self._kernel(0, number, number + window, (True, True), remaining)
        done = 0
        for halves in ((True, False), (False, True)):
            parts = [pool.submit(self._kernel, part, number, number + 1, halves, -1) for part in range(self.threads)]
            done += sum(part.result()[1] for part in parts)
        return 1, done

    def _kernel(self, part: int, first: int, last: int, halves: tuple[bool, bool], remaining: int) -> tuple[int, int]:
        from astra_tacos.synthesizer.matching._lockstep_kernels import Rounds, Thread, match_rounds

        num_npus = len(self.network.in_first) - 1
        first_npu, last_npu = num_npus * part // self.threads, num_npus * (part + 1) // self.threads
        rounds, matched = match_rounds(
            Rounds(np.uint64(self.seed), first, last, *halves, self.lag, remaining),
            self.network,
            self.chunks,
            self.state,
            Thread(part, first_npu, last_npu, self.rare[part], self.keys[part]),
        )
        return int(rounds), int(matched)
