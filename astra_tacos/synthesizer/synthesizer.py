"""The `Synthesizer` class: a synthesis function, and what the command line and the search need to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.synthesizer.work import dispatch_work


@dataclass(frozen=True, slots=True)
class Synthesizer:
    """A synthesis algorithm, and what a search needs to know about it.

    Parameters
    ----------
    make
        One schedule of a problem from a seed; the same arguments give the same schedule. Runs without the interpreter lock.
    collectives
        Keys of `COLLECTIVES` that it can do.
    is_random
        Whether another seed gives another schedule.
    refusal
        Why it cannot do a collective on a topology, in words; None if it can, which is the default.
    advise
        From a topology, the name and size of a collective, a link model and a maximum of sends: a number of chunks per NPU that
        suits it. A search tries others, too.
    work
        An estimate of how much work one schedule is, in sends examined (see `work`), by which a search decides what to try first
        and what fits into its budget. It must follow from its arguments alone.
    trial_work
        What a seed counts as where the number of seeds is chosen; None for `work`.
    does_groups
        Whether it takes collectives that not all NPUs are members of, and lets the others pass chunks on.
    does_forwarding
        Whether it takes graphs with devices that only forward, and gives the trips of its sends over them.
    by_chunk
        Whether each of its sends carries one chunk, so that no schedule of its is faster than the bound for that chunking.
    cuts_itself
        Collectives whose buffer it cuts as it sees fit, whatever chunks it is given. A search then tries it once, not for each
        number of chunks.
    optimum
        From a topology, a collective, a link model, the speed of reductions (GB/s), a maximum of sends (None to keep the
        collective's chunks) and a share: a schedule, not expanded, whose time no other can bring down to that share, None if it
        knows of none. Takes no longer than one schedule or a few. A search looks no further then.
    least_ns
        From a topology and a collective: a time that no schedule of its beats, as far as it can tell before it makes one.
    in_auto
        Whether `auto` tries it, and `compare` unless told otherwise; one that stays out is for those who name it.

    Examples
    --------
    >>> from astra_tacos import SYNTHESIZERS
    >>> "all-gather" in SYNTHESIZERS["ring"].collectives
    True
    """

    make: Callable[[Problem, int], Schedule]
    collectives: frozenset[str]
    is_random: bool = False
    refusal: Callable[[Topology, Collective], str | None] = lambda topology, collective: None
    advise: Callable[[Topology, str, int, LinkModel, int], int] | None = None
    work: Callable[[Topology, Collective], int] = dispatch_work
    trial_work: Callable[[Topology, Collective], int] | None = None
    does_groups: bool = False
    does_forwarding: bool = False
    by_chunk: bool = False
    cuts_itself: frozenset[str] = frozenset()
    optimum: Callable[[Topology, Collective, LinkModel, float, int | None, float], SymmetricSchedule | None] | None = None
    least_ns: Callable[[Topology, Collective], float] | None = None
    in_auto: bool = True

    @property
    def has_one_cut(self) -> bool:
        """Whether a search tries it with a single number of chunks, whatever the collective."""
        return self.collectives <= self.cuts_itself

    def why_not(self, topology: Topology, collective: Collective) -> str | None:
        """The reason why this synthesizer cannot synthesize a collective; None if it can."""
        if collective.name not in self.collectives:
            return f"does {', '.join(sorted(self.collectives))}, not {collective.name}"
        if topology.forwarding and not self.does_forwarding:
            return "sends from NPU to NPU only, and this graph has devices between them that forward"
        if collective.num_members < topology.num_endpoints and not self.does_groups:
            return f"is for all {topology.num_endpoints} NPUs, not for {collective.num_members} of them"
        return self.refusal(topology, collective)
