"""Check of a schedule by the oracle and by the replay."""

from __future__ import annotations

from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import VerificationError
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
