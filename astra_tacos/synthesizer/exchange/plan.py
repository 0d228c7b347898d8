"""Plans: which level takes which form, in which order, in how many pieces; and the sends that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_reduce_of
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import row_places
from astra_tacos.synthesizer.exchange.level import DOUBLING, Level, over_channels
from astra_tacos.synthesizer.exchange.stages import Progress, Values, gather, one_shot, recursive_doubling, scatter
from astra_tacos.synthesizer.parts.send_graph import SendGraph


@dataclass(frozen=True, slots=True)
class Form:
    """What one level does.

    Parameters
    ----------
    way
        How values spread, a key of `Level.ways`; None for recursive doubling.
    num_owners
        Positions that take over equal shares of the chunks, which are scattered to them first and gathered from them in the
        end; 0 if the level exchanges whole chunks (one-shot, recursive doubling).
    """

    way: str | None
    num_owners: int = 0

    @property
    def num_shares(self) -> int:
        """Shares into which it divides a chunk."""
        return max(self.num_owners, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """An All-Reduce over levels.

    Parameters
    ----------
    order
        Numbers of levels: scattering goes in this order and gathering in the reverse one; those that exchange whole chunks do it
        in between.
    """

    levels: tuple[Level, ...]
    forms: tuple[Form, ...]
    order: tuple[int, ...]
    pieces: int = 1

    @property
    def num_shares(self) -> int:
        """Shares into which the levels scatter a chunk."""
        return math.prod(form.num_shares for form in self.forms)

    @property
    def num_chunks(self) -> int:
        """Chunks of the buffer."""
        return self.num_shares * self.pieces

    def collective(self, num_npus: int, size_bytes: int) -> Collective:
        """The All-Reduce in the chunks of this plan."""
        return all_reduce_of(num_npus, size_bytes, self.num_chunks)

    @property
    def scattered(self) -> list[int]:
        """Levels that scatter, in order."""
        return [level for level in self.order if self.forms[level].num_owners]

    @property
    def exchanged(self) -> list[int]:
        """Levels that exchange whole chunks, in order."""
        return [level for level in self.order if not self.forms[level].num_owners]

    def owners(self, level: int) -> Ints:
        """int64[num_owners], positions that take over shares: all, or evenly spaced ones, or the one in the middle."""
        count, size = self.forms[level].num_owners, self.levels[level].size
        if count == 1:
            return np.array([self.levels[level].middle])
        return np.arange(count) * size // max(count, 1)


def send_graph_of(plan: Plan, topology: Topology, timing: Timing) -> SendGraph:
    """The sends of a plan, as messages: what goes to one NPU in one step.

    Where links are free while a message is on its way, chunks of different owners over shortest routes go one by one.
    """
    num_chunks, num_npus = plan.num_chunks, topology.num_npus
    values = Values(num_npus, num_chunks)
    contribution = np.arange(num_npus)[:, None] + np.arange(num_chunks) * num_npus
    progress = Progress(contribution, values)
    rows, apart = [], []
    for way, sends in _stages(plan, progress):
        rows.append(sends)
        apart.append(np.full(len(sends), not timing.is_blocking and way != DOUBLING and way is not None))
    sums = values.table(progress.held[0])
    first = np.concatenate(rows)
    # A step is of one way.
    sends, hop = over_channels(topology, timing.channel_delay_ns[:, -1], first)
    chunk = sums.chunk[sends[:, 0]]
    one_by_one = np.zeros(int(first[:, 3].max()) + 1, np.bool_)
    one_by_one[first[:, 3]] = np.concatenate(apart)
    value = np.where(one_by_one[sends[:, 3]], sends[:, 0], 0)
    message = row_places(sends[:, 4], sends[:, 3], hop, chunk % plan.pieces, value)[1]
    rank = sends[:, 3] * (int(hop.max()) + 1) + hop
    return SendGraph(
        chunk,
        sends[:, 4].astype(np.int32),
        np.zeros(len(sends), np.bool_),
        rank.astype(np.int32),
        message,
        sums,
        sends[:, 0].astype(np.int32),
    )


def _stages(plan: Plan, progress: Progress) -> list[tuple[str | None, Ints]]:
    """The way and the sends of each stage."""
    chunks = np.arange(plan.num_chunks)
    done: list[tuple[str | None, Ints]] = []

    def finish(way: str | None) -> None:
        if progress.sends:
            done.append((way, np.concatenate(progress.sends)))
            progress.sends.clear()

    owner: dict[int, Ints] = {}
    left = plan.num_shares
    for number in plan.scattered:
        level, form = plan.levels[number], plan.forms[number]
        left //= form.num_shares
        share = chunks // (left * plan.pieces) % form.num_shares
        assert form.way is not None
        owner[number] = plan.owners(number)[share]
        scatter(progress, level, level.ways[form.way], chunks, owner[number])
        finish(form.way)
    for number in plan.exchanged:
        level, form = plan.levels[number], plan.forms[number]
        if form.way is None:
            recursive_doubling(progress, level, chunks)
        else:
            one_shot(progress, level, level.ways[form.way], chunks)
        finish(form.way)
    for number in reversed(plan.scattered):
        level, form = plan.levels[number], plan.forms[number]
        assert form.way is not None
        gather(progress, level, level.ways[form.way], chunks, owner[number])
        finish(form.way)
    return done
