"""The options of a search: one record for all commands and functions that search.

The link models of a search: the one that stock ASTRA-sim replays exactly, or both where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, can_replay_blocking, choose_link_model
from astra_tacos.support.options import Choice, Group, Number, Spell, Whole, check_values, described, option
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS
from astra_tacos.synthesizer.work import SENDS_PER_SECOND, parse_budget

FASTEST: Literal["fastest"] = "fastest"
"""The choice of both link models: schedules of either are made, and the fastest wins."""
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


def _needs_seeds(options: SearchOptions, spell: Spell) -> str | None:
    """Seeds count where a synthesizer is random."""
    if any(SYNTHESIZERS[name].is_random for name in _named(options.synthesizer)):
        return None
    return f"the schedule of {spell('synthesizer')} {options.synthesizer} does not depend on seeds"


def _needs_candidates(options: SearchOptions, spell: Spell) -> str | None:
    """A limit of a search counts where there may be a second candidate: it never keeps the first from being made."""
    named = _named(options.synthesizer)
    has_several = len(named) > 1 or (any(SYNTHESIZERS[name].is_random for name in named) and options.trials != 1)
    has_several |= options.chunks_per_npu == "auto" and not all(SYNTHESIZERS[name].has_one_cut for name in named)
    if has_several or options.link_model not in LINK_MODELS:
        return None
    options_given = f"{spell('synthesizer')} {options.synthesizer} with its chunks and {spell('link_model')} {options.link_model}"
    return f"{options_given} is a single candidate, which a limit cannot stop"


def _named(synthesizer: str) -> tuple[str, ...]:
    return auto_synthesizers() if synthesizer == AUTO else (synthesizer,)


@described
@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of searches; they mean the same in `synthesize`, `compare`, `plan`, `optimize` and sweeps.

    Raises
    ------
    ConfigError
        If a value is of the wrong type or out of range.

    Examples
    --------
    >>> from astra_tacos import Request, SearchOptions, read_network
    >>> options = SearchOptions(synthesizer="tacos", chunks_per_npu=2, seed=7)
    >>> Request(read_network("configs/network/torus_4x4.yml"), "all-reduce", 1 << 20, options=options).options.seed
    7
    """

    synthesizer: str = option(
        AUTO,
        Choice((AUTO,), SYNTHESIZERS),
        "auto tries all synthesizers that support the collective; the fastest schedule wins.",
    )
    chunks_per_npu: int | Literal["auto"] | None = option(
        None,
        Whole(word="auto"),
        "Chunks that each NPU's shard is cut into (all-to-all: each part; broadcast, reduce: the buffer). auto tries several.",
        in_python="None takes the collective as it is cut, and means auto where no collective is given.",
    )
    max_sends: int = option(
        MAX_SENDS,
        Whole(),
        "--chunks-per-npu auto tries no schedule of more sends; one chunk per NPU is always tried.",
        group=Group.SEARCH,
    )
    link_model: LinkModel | Literal["auto", "fastest"] = option(
        "auto",
        Choice((*LINK_MODELS, FASTEST, "auto")),
        "How long a send holds its link; auto: as stock ASTRA-sim replays exactly, else the faster of both.",
        group=Group.SEARCH,
        in_python="See `link_models_of`; fastest tries both.",
    )
    reduce_bandwidth_gbps: float = option(
        0.0,
        Number("GB/s", may_be_zero=True),
        "Speed of a reduction; 0, the default, is 1 ns.",
        group=Group.SEARCH,
        name="reduce-bandwidth",
        metavar="GB/s",
        shows_default=False,
        in_python="GB/s are decimal.",
    )
    trials: int | None = option(
        None,
        Whole(most=MOST_TRIALS),
        "Seeds of a random synthesizer; by default 1 to 32, fewer for larger networks.",
        group=Group.SEARCH,
        in_python="None for as many as take about half a second together.",
        needs=_needs_seeds,
    )
    seed: int = option(
        0,
        Whole(least=0),
        "First seed; the same seed gives the same bytes.",
        group=Group.SEARCH,
        needs=_needs_seeds,
    )
    effort: str = option(
        DEFAULT,
        Choice((), EFFORTS),
        "How long to search: normal stops where the next step promises less than 1%.",
        in_python="It is also the budget of auto, unless one is given.",
    )
    budget: int | None = option(
        None,
        Whole(read=parse_budget),
        "Work of a search in examined sends, like 20M; 10s is about the work of one core in 10 s. The same on every machine.",
        group=Group.SEARCH,
        metavar="SENDS",
        in_python="The first candidate is always made; others are stopped where they examine a quarter more than is left. None "
        "for that of the effort with auto, within which candidates are started, and for no limit with a single synthesizer.",
        needs=_needs_candidates,
    )
    time_limit_s: float | None = option(
        None,
        Number("s"),
        "Wall time after which a search starts no candidate; by default none. If it strikes, results vary by machine.",
        group=Group.SEARCH,
        name="time-limit",
        metavar="SECONDS",
        in_python="The time of compilation counts.",
        needs=_needs_candidates,
    )
    threads: int | None = option(
        None,
        Whole(),
        "Threads, by default one per core; the result does not depend on their number.",
        group=Group.SEARCH,
        in_python="A thread makes one candidate at a time.",
    )

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def synthesizers(self) -> tuple[str, ...]:
        """Names of the synthesizers to try."""
        return _named(self.synthesizer)

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
