"""The fastest schedule that a portfolio of synthesizers, numbers of chunks and seeds leads to within a budget of time."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from astra_tacos.bounds import lower_bound
from astra_tacos.collective import cut_into
from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, Timing, choose_link_model, compute_timing
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.search.candidate_runner import CandidateRunner
from astra_tacos.synthesizer.search.candidates import Cut, list_candidates
from astra_tacos.synthesizer.search.chunk_counts import MAX_SENDS, choose_chunks
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.topology.topology import Topology

AUTO_BUDGET_S = 10.0
MAX_CHUNKS_PER_NPU = 512
"""More are tried only where a synthesizer advises it."""
_SENDS_AT_A_TIME = 20_000_000


class SearchOptions(TypedDict, total=False):
    """The keywords of `search`."""

    synthesizer: str
    recut: bool
    max_sends: int
    link_model: LinkModel | Literal["auto"]
    reduce_bandwidth_gbps: float
    trials: int | None
    seed: int
    budget_s: float | None
    threads: int | None
    on_progress: Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best schedule of a search, and how thorough the search was.

    Parameters
    ----------
    num_candidates, num_tried
        Length of the work list, and how many schedules of it were made. Where `was_cut_off` is false, those that were not
        could not have won: no schedule of their chunks is faster, or their synthesizer had stopped gaining from more chunks.
    was_cut_off
        Whether the budget ran out before the end of the list, or was too small for some of it from the beginning. If it was
        not, the result does not depend on the machine.
    refusals
        By synthesizer, why it was not tried.
    """

    schedule: Schedule
    num_candidates: int
    num_tried: int
    was_cut_off: bool
    refusals: dict[str, str]

    def describe(self) -> dict[str, Any]:
        """What a certificate says of the search."""
        return {
            "candidates": self.num_candidates,
            "candidates_tried": self.num_tried,
            "cut_off_by_budget": self.was_cut_off,
            "refusals": self.refusals,
        }


def synthesize(topology: Topology, collective: Collective, **options: Unpack[SearchOptions]) -> Schedule:
    """The fastest schedule that a `search` with these options finds, by default of the `auto` portfolio.

    Parameters
    ----------
    collective
        Its number of chunks is kept; `recut=True` leaves it to the search.
    options
        Keywords of `search`, and what it raises.
    """
    return search(topology, collective, **options).schedule


def search(
    topology: Topology,
    collective: Collective,
    *,
    synthesizer: str = AUTO,
    recut: bool = False,
    max_sends: int = MAX_SENDS,
    link_model: LinkModel | Literal["auto"] = "auto",
    reduce_bandwidth_gbps: float = 0.0,
    trials: int | None = None,
    seed: int = 0,
    budget_s: float | None = None,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Try synthesizers, numbers of chunks and seeds; the best predicted time wins, then fewer sends, then what comes first.

    What is tried, in which order, and what wins depends on the arguments only, unless the budget cuts the list off.

    Parameters
    ----------
    synthesizer
        Key of `SYNTHESIZERS`, or `auto` for all of its portfolio that can do it.
    recut
        Whether to choose the number of chunks per NPU, too, whatever that of `collective` is.
    max_sends
        With `recut`, chunks are as many as lead to so many sends at most (one per NPU may lead to more).
    link_model
        `auto` takes what stock ASTRA-sim comes closest to, see `choose_link_model`.
    reduce_bandwidth_gbps
        Decimal GB/s of a reduction, 0 for ASTRA-sim's 1 ns.
    trials
        Seeds of a random synthesizer, from `seed` on; by default as many as take about a second together, 1 to 32.
    budget_s
        Seconds after which no more candidates are tried, not counting compilation; the first is always finished. By default 10
        for `auto`, and no limit for a single synthesizer.
    threads
        Candidates made at a time, by default one per core.
    on_progress
        Called with the number of candidates done and their total.

    Raises
    ------
    ConfigError
        If an option is out of range, or topology and collective differ in their number of NPUs.
    SynthesisError
        If chunks are too small or too large for the links, or no synthesizer can do this collective on this network.
    """
    if synthesizer not in (AUTO, *SYNTHESIZERS):
        raise ConfigError(f"synthesizer: found {synthesizer!r}, expected {' or '.join((AUTO, *SYNTHESIZERS))}")
    if link_model not in (*LINK_MODELS, "auto"):
        raise ConfigError(f"link model: found {link_model!r}, expected {', '.join(LINK_MODELS)} or auto")
    for name, value in (("trials", trials), ("threads", threads), ("max sends", max_sends)):
        if value is not None and value < 1:
            raise ConfigError(f"{name}: found {value}, expected at least 1")
    if not 0 <= seed < 1 << 62:
        raise ConfigError(f"seed: found {seed}, expected 0 to 2**62 - 1")
    if budget_s is not None and not budget_s > 0:
        raise ConfigError(f"budget: found {budget_s} s, expected more than 0")
    if collective.num_npus != topology.num_npus:
        raise ConfigError(f"{collective.name} has {collective.num_npus} NPUs, {topology.name} has {topology.num_npus}")
    if recut:
        collective = cut_into(collective, 1)
    model = choose_link_model(topology, collective)[0] if link_model == "auto" else link_model
    budget = budget_s or (AUTO_BUDGET_S if synthesizer == AUTO else math.inf)
    names = auto_synthesizers() if synthesizer == AUTO else (synthesizer,)
    cuts = [collective]
    advised = dict.fromkeys(names, 0)
    if recut:
        advised = {name: _advice(name, topology, collective, model, max_sends) for name in names}
        tried = choose_chunks(topology, collective.name, collective.size_bytes, model, max_sends)
        counts = {candidate.chunks_per_npu for candidate in tried if candidate.chunks_per_npu <= MAX_CHUNKS_PER_NPU}
        cuts = [cut_into(collective, count) for count in sorted(counts.union(filter(None, advised.values())))]
    timed = [_bounded(topology, what, compute_timing(topology, what, model, reduce_bandwidth_gbps), recut) for what in cuts]
    candidates, left_out, refusals = list_candidates(topology, timed, advised, trials, seed, budget)

    contest = Leaderboard(max(what.chunks_per_npu for what in cuts))
    if candidates:
        most_sends = candidates[-1].cut.collective.least_sends
        workers = max(1, min(threads or os.cpu_count() or 1, len(candidates), _SENDS_AT_A_TIME // most_sends))
        race = CandidateRunner(topology, contest, budget, workers)
        was_cut_off = race.run(candidates, on_progress or (lambda done, total: None))
        refusals |= race.refusals
    if contest.best is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
        raise SynthesisError(f"{collective.name} on {topology.name}: {reasons}")
    return SearchResult(contest.best, len(candidates) + left_out, contest.entered, was_cut_off or left_out > 0, refusals)


def _advice(name: str, topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int) -> int:
    """The number of chunks per NPU that a synthesizer advises, 0 if it has nothing to say."""
    entry = SYNTHESIZERS[name]
    if entry.advise is None or entry.why_not(topology, collective) is not None:
        return 0
    return entry.advise(topology, collective.name, collective.size_bytes, link_model, max_sends)


def _bounded(topology: Topology, collective: Collective, timing: Timing, recut: bool) -> Cut:
    return Cut(collective, timing, lower_bound(topology, collective, timing).time_ns, not recut)
