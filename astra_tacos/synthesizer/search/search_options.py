"""The options of a search: one record for all commands and functions that search.

The link models of a search: the one that stock ASTRA-sim replays exactly, or both where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, can_replay_blocking, choose_link_model
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS
from astra_tacos.synthesizer.work import SENDS_PER_SECOND

FASTEST: Literal["fastest"] = "fastest"
"""The choice of both link models: schedules of either are made, and the fastest wins."""
_MOST = (1 << 62) - 1
MOST_TRIALS = 1000
"""Most seeds of a search: its work list has all seeds of every number of chunks before a budget or a time limit counts."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a search looks.

    Parameters
    ----------
    budget, on_graphs
        Sends that a search of `auto` examines; and where devices forward: there, linear programmes find the best schedules,
        and examine more.
    for_leader
        So many times that may be examined for the synthesizer and link model that lead.
    for_promising
        So many times for a synthesizer and link model whose times promise to lead with more chunks.
    spare
        Share of the budget up to which a search goes on that has made all that this effort would.
    worth
        A candidate is made if its bound is less than this share of the leader's time. For each doubling of its sends, from
        100,000 on, it may take this share of that time.
    gain
        A synthesizer gets no more chunks if its last two increases of their number left its time above this share of its best
        time before.
    more_gains
        More chunks are expected to gain so many times what the last two increases of their number gained, at most.
    steady_load
        A synthesizer gets no more chunks if the last increase of their number left its busiest link above this share of its load,
        and that load alone takes longer than the leader.
    behind
        No other seeds and no numbers of chunks between powers of two are tried of a synthesizer whose best time is more than
        this many times the leader's.
    """

    budget: int
    on_graphs: int
    for_leader: float
    for_promising: float
    spare: float
    worth: float
    gain: float
    trials_work: int
    more_gains: float
    steady_load: float
    behind: float


EFFORTS = {
    "quick": Effort(
        budget=SENDS_PER_SECOND // 2,
        on_graphs=SENDS_PER_SECOND,
        for_leader=1.0,
        for_promising=2.0,
        spare=0.0,
        worth=0.98,
        gain=0.99,
        trials_work=50_000,
        more_gains=1.0,
        steady_load=0.99,
        behind=1.02,
    ),
    "normal": Effort(
        budget=SENDS_PER_SECOND,
        on_graphs=3 * SENDS_PER_SECOND,
        for_leader=1.5,
        for_promising=12.0,
        spare=0.6,
        worth=0.99,
        gain=0.995,
        trials_work=200_000,
        more_gains=1.0,
        steady_load=0.99,
        behind=1.05,
    ),
    "thorough": Effort(
        budget=20 * SENDS_PER_SECOND,
        on_graphs=20 * SENDS_PER_SECOND,
        for_leader=1.0,
        for_promising=2.0,
        spare=0.0,
        worth=1.0,
        gain=0.998,
        trials_work=500_000,
        more_gains=math.inf,
        steady_load=math.inf,
        behind=1.25,
    ),
}
"""By name: what `--effort` may be."""
QUICK, DEFAULT, THOROUGH = EFFORTS


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of searches; they mean the same in `synthesize`, `compare`, `plan`, `optimize` and sweeps.

    Parameters
    ----------
    synthesizer
        Key of `SYNTHESIZERS`, or `auto` for all of its portfolio that can do the collective.
    chunks_per_npu
        `auto` tries several numbers; None takes the collective as it is cut, and means `auto` where no collective is given.
    max_sends
        With `auto`, chunks are as many as lead to so many sends at most (one per NPU may lead to more).
    link_model
        `auto` takes what stock ASTRA-sim replays exactly, see `link_models_of`; `fastest` tries both.
    reduce_bandwidth_gbps
        Decimal GB/s of a reduction, 0 for ASTRA-sim's 1 ns.
    trials
        Seeds of a random synthesizer, from `seed` on; None for as many as take about half a second together, 1 to 32; at
        most 1,000.
    seed
        First seed, 0 to 2**62 - 1.
    effort
        Key of `EFFORTS`: how little a candidate may promise to be tried, and the budget of `auto` unless one is given.
    budget
        Sends that the search may examine (see `work`); the first candidate is always made, others are stopped where they examine
        a quarter more than is left. None for that of the effort with `auto`, within which candidates are started, and for no
        limit with a single synthesizer.
    time_limit_s
        Seconds of wall time after which no more candidates are started, compilation counted; None for no limit. Where it
        strikes, the result depends on the machine, and the search says so.
    threads
        Candidates made at a time, None for one per core; the result does not depend on it.

    Raises
    ------
    ConfigError
        If a value is of the wrong type or out of range.
    """

    synthesizer: str = AUTO
    chunks_per_npu: int | Literal["auto"] | None = None
    max_sends: int = MAX_SENDS
    link_model: LinkModel | Literal["auto", "fastest"] = "auto"
    reduce_bandwidth_gbps: float = 0.0
    trials: int | None = None
    seed: int = 0
    effort: str = DEFAULT
    budget: int | None = None
    time_limit_s: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("synthesizer", self.synthesizer, (AUTO, *SYNTHESIZERS)),
            ("link model", self.link_model, (*LINK_MODELS, FASTEST, "auto")),
            ("effort", self.effort, tuple(EFFORTS)),
        ):
            if value not in choices:
                raise ConfigError(f"{name}: found {value!r}, expected {', '.join(choices[:-1])} or {choices[-1]}")
        if self.chunks_per_npu != "auto":
            _check_whole("chunks per NPU", self.chunks_per_npu, may_be_none=True)
        _check_whole("max sends", self.max_sends)
        _check_whole("trials", self.trials, may_be_none=True, most=MOST_TRIALS)
        for name, number in (("budget", self.budget), ("threads", self.threads)):
            _check_whole(name, number, may_be_none=True)
        _check_whole("seed", self.seed, least=0)
        _check_number("reduce bandwidth", self.reduce_bandwidth_gbps, "0 or more GB/s", may_be_zero=True)
        if self.time_limit_s is not None:
            _check_number("time limit", self.time_limit_s, "more than 0 s", may_be_zero=False)

    @property
    def synthesizers(self) -> tuple[str, ...]:
        """Names of the synthesizers to try."""
        return auto_synthesizers() if self.synthesizer == AUTO else (self.synthesizer,)

    @property
    def chooses_chunks(self) -> bool:
        """Whether the search chooses the number of chunks."""
        return self.chunks_per_npu == "auto"

    @property
    def first_chunks(self) -> int:
        """The number of chunks per NPU that is asked for; 1 where none is, or the search chooses."""
        return self.chunks_per_npu if isinstance(self.chunks_per_npu, int) else 1

    def sends_budget(self, topology: Topology) -> float:
        """Sends that may be examined on a network; infinity for no limit."""
        if self.budget is not None:
            return self.budget
        return self._of_effort(topology) if self.synthesizer == AUTO else math.inf

    def part_of_budget(self, parts: int, topology: Topology) -> SearchOptions:
        """The same for one of several searches on a network, which share the budget and what may be examined for a leader."""
        if parts == 1:
            return self
        most = self.budget or int(self._of_effort(topology) * EFFORTS[self.effort].for_leader)
        return replace(self, budget=max(most // parts, 1))

    def _of_effort(self, topology: Topology) -> int:
        effort = EFFORTS[self.effort]
        return effort.on_graphs if topology.forwarding else effort.budget

    def identity(self) -> dict[str, Any]:
        """The options that determine the result, unless the time limit strikes: for keys of caches and rows."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("time_limit_s", "threads")}


def _check_whole(name: str, value: object, least: int = 1, *, may_be_none: bool = False, most: int = _MOST) -> None:
    if value is None and may_be_none:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name}: found {value!r}, expected a whole number")
    if not least <= value <= most:
        raise ConfigError(f"{name}: found {value}, expected {least} to {'2**62 - 1' if most == _MOST else f'{most:,}'}")


def _check_number(name: str, value: object, expected: str, *, may_be_zero: bool) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (value == 0 and not may_be_zero):  # type: ignore[operator]
        raise ConfigError(f"{name}: found {value!r}, expected {expected}")


FASTEST_REASON = "ASTRA-sim's congestion-unaware model has no queues to replay here, so the faster of both models is taken"
_HELD_REASON = "ASTRA-sim's congestion-unaware model replays held links exactly, and queues may be faster: both models are tried"
_WORTH_QUEUES = 1.005
"""By this factor, a schedule whose sends queue has to beat one that holds its links, where stock ASTRA-sim replays those."""


def link_models_of(topology: Topology, options: SearchOptions) -> tuple[tuple[LinkModel, ...], str]:
    """The link models of a search, whose schedules are compared, and why in words, "" where the options name them."""
    if options.link_model == FASTEST:
        return LINK_MODELS, ""
    if options.link_model != "auto":
        return (options.link_model,), ""
    model, reason = choose_link_model(topology)
    return models_for(topology, model, reason)


def models_for(topology: Topology, model: LinkModel, reason: str) -> tuple[tuple[LinkModel, ...], str]:
    """The link models to try for that of stock ASTRA-sim: both models where that holds links, and that alone elsewhere.

    A send that holds its links for its latency, too, keeps others from using them: links allow that, and stock ASTRA-sim does,
    also for its own algorithms. So schedules of both models are made and compared by the time that their links need.
    """
    if model == "blocking":
        return LINK_MODELS, _HELD_REASON if can_replay_blocking(topology) else FASTEST_REASON
    return (model,), reason


def handicaps(topology: Topology, models: tuple[LinkModel, ...]) -> dict[LinkModel, float]:
    """Factors of the times of link models in a search over several: times that stock ASTRA-sim prints are preferred."""
    return {"pipelined": _WORTH_QUEUES} if len(models) > 1 and can_replay_blocking(topology) else {}
