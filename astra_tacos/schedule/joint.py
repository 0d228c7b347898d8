"""Several collectives at once on one network, as one collective with one joint schedule, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.messages import first_rows
from astra_tacos.schedule.partial_sums import PartialSums
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing, compute_timing
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import ConfigError

JOINT = "together"
"""Name of a collective that stands for several. What its chunks are for is for the single ones to say."""


def join_collectives(collectives: Sequence[Collective]) -> Collective:
    """All chunks of several collectives, one collective after the other, as one collective with their sizes and owners.

    Raises
    ------
    ConfigError
        If there is none, or they differ in their number of NPUs.
    """
    npus = {collective.num_npus for collective in collectives}
    if len(npus) != 1:
        raise ConfigError(f"together: found collectives on {sorted(npus)} NPUs, expected some, all on one network")
    sizes = np.concatenate([collective.chunk_size_bytes for collective in collectives])
    owner = np.concatenate([collective.chunk_owner for collective in collectives])
    reduces, gathers = (
        any(collective.reduces for collective in collectives),
        any(collective.gathers for collective in collectives),
    )
    total = sum(collective.size_bytes for collective in collectives)
    return Collective(JOINT, npus.pop(), total, 1, reduces, gathers, sizes, owner)


def join(schedules: Sequence[Schedule]) -> Schedule:
    """Schedules of several collectives, on one network under one timing model, as one: rows by start.

    Raises
    ------
    ConfigError
        If they are not on one network under one timing model.
    """
    first = schedules[0]
    models = {(schedule.timing.link_model, schedule.timing.reduce_bandwidth_gbps) for schedule in schedules}
    if len(models) > 1 or any(schedule.topology is not first.topology for schedule in schedules):
        raise ConfigError("together: found schedules on several networks or under several timing models, expected one")
    collective = join_collectives([schedule.collective for schedule in schedules])
    timing = compute_timing(first.topology, collective, *models.pop())
    begins = np.cumsum([0, *(schedule.collective.num_chunks for schedule in schedules)])
    chunk = np.concatenate([schedule.chunk + np.int32(begin) for schedule, begin in zip(schedules, begins[:-1], strict=True)])
    channel = np.concatenate([schedule.channel for schedule in schedules])
    reduces = np.concatenate([schedule.reduces for schedule in schedules])
    start, end = (np.concatenate([getattr(schedule, name) for schedule in schedules]) for name in ("start_ns", "end_ns"))
    before = np.cumsum([0, *(schedule.num_messages for schedule in schedules)])
    message = np.concatenate([schedule.message_of + count for schedule, count in zip(schedules, before[:-1], strict=True)])
    order = np.lexsort((message, start))
    columns = chunk[order], channel[order], reduces[order], start[order], end[order]
    sums, value = _join_sums(schedules, begins[:-1])
    of_messages = first_rows(message[order]), sums, None if value is None else value[order]
    return Schedule(first.topology, collective, timing, *columns, first.synthesizer, first.seed, *of_messages)


def _join_sums(schedules: Sequence[Schedule], chunks_before: Ints) -> tuple[PartialSums | None, Ints32 | None]:
    """The values of several schedules, one schedule after the other, and those that rows carry; none if no schedule has any.

    Raises
    ------
    ConfigError
        If some have and some have not.
    """
    tables = [schedule.sums for schedule in schedules if schedule.sums is not None]
    if not tables:
        return None, None
    if len(tables) < len(schedules):
        raise ConfigError("together: found schedules with partial sums and schedules without, expected one kind")
    before = np.cumsum([0, *(table.num_values for table in tables[:-1])])

    def moved(columns: Iterable[Ints32], by: Ints) -> Ints32:
        return np.concatenate([column + np.int32(more) for column, more in zip(columns, by, strict=True)])

    parts = np.concatenate([np.diff(table.part_first) for table in tables])
    sums = PartialSums(
        moved((table.chunk for table in tables), chunks_before),
        np.concatenate([table.npu for table in tables]),
        np.concatenate(([0], np.cumsum(parts))),
        moved((table.part for table in tables), before),
        moved((table.total for table in tables), before),
    )
    return sums, moved((schedule.item for schedule in schedules), before)


def split(joint: Schedule, collectives: Sequence[Collective], timings: Sequence[Timing]) -> tuple[Schedule, ...]:
    """The schedule of each collective, at the times that it has among the others.

    Raises
    ------
    ConfigError
        If the joint schedule has partial sums, or a message carries chunks of several collectives.
    """
    if joint.sums is not None:
        raise ConfigError("together: found partial sums, expected sends that add or copy")
    parts = []
    begin = 0
    for collective, timing in zip(collectives, timings, strict=True):
        rows = np.flatnonzero((joint.chunk >= begin) & (joint.chunk < begin + collective.num_chunks))
        chunk, channel, reduces = joint.chunk[rows] - np.int32(begin), joint.channel[rows], joint.reduces[rows]
        columns = chunk, channel, reduces, joint.start_ns[rows], joint.end_ns[rows]
        of_messages = first_rows(joint.message_of[rows])
        parts.append(Schedule(joint.topology, collective, timing, *columns, joint.synthesizer, joint.seed, of_messages))
        begin += collective.num_chunks
    return tuple(parts)
