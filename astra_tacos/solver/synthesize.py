"""`synthesize`: a schedule for Python programs, checked by the oracle and by the replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import VerificationError
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.verifier.schedule_oracle import check


def check_schedule(schedule: Schedule) -> None:
    """Check that the oracle accepts the schedule and that the embedded replay takes exactly the predicted time.

    Raises
    ------
    VerificationError
        If the oracle finds an error or the replay takes another time.
    """
    try:
        check(schedule)
    except VerificationError as error:
        raise VerificationError(f"a schedule of {schedule.synthesizer or 'no synthesizer'} is illegal: {error}") from None
    replayed = replay_schedule(schedule).collective_time_ns
    if replayed != schedule.collective_time_ns:
        raise VerificationError(f"the replay takes {replayed} ns, {schedule.collective_time_ns} ns were predicted")


def synthesize(
    topology: Topology,
    collective: Collective,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Schedule:
    """The fastest schedule that a `search` with these options finds, by default of the `auto` portfolio, verified.

    Parameters
    ----------
    topology
        The network.
    collective
        Its number of chunks is kept, unless `chunks_per_npu` is a number or `auto`.
    on_progress
        Called with the number of candidates done and their total.
    options
        The parameters of `SearchOptions`: `synthesizer`, `chunks_per_npu`, `seed`, `budget`, ...

    Raises
    ------
    ConfigError, SynthesisError
        As `SearchOptions` and `search` do.
    VerificationError
        If the oracle rejects the fastest schedule, or its replay takes another time: the synthesizer that it names is wrong.
    """
    schedule = search(topology, collective, SearchOptions(**options), on_progress).schedule
    check_schedule(schedule)
    return schedule
