"""`plan.json` of a planned or scheduled run: what its page shows of it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from astra_tacos.pages.policy_times import ScheduleFile
from astra_tacos.pages.prints import PrintsFile
from astra_tacos.support.own_files import Number, Whole


class CaseFile(TypedDict):
    """A distinct collective."""

    collective: str
    size_bytes: Whole
    members: Whole
    groups: Whole
    count: Whole
    algorithm: str | None
    chunks_per_npu: Whole | None
    predicted_ns: Number | None
    bound_ns: Number | None
    spent_before_ns: Number | None
    spent_after_ns: Number
    share: Number
    exact: bool
    reason: str
    was_cut_off: bool
    ran_out_of_time: NotRequired[bool]


class NativeNameFile(TypedDict):
    """The fastest native configuration."""

    name: str


class PlanFile(TypedDict):
    """A plan of collectives."""

    backend: str
    num_ranks: Whole
    num_collectives: Whole
    time_ns: Whole
    before_ns: Whole | None
    before_reason: NotRequired[str | None]
    exposed_before_ns: Whole | None
    exposed_ns: Whole
    moved_ns: NotRequired[Whole | None]
    speed_up: Number | None
    bound_ns: Whole
    bound_where: str
    baseline: NotRequired[str | None]
    best_native: NotRequired[NativeNameFile | None]
    best_native_ns: NotRequired[Whole | None]
    speed_up_over_best_native: NotRequired[Number | None]
    prints: list[PrintsFile]
    cases: list[CaseFile]
    schedule: NotRequired[ScheduleFile]


class ScheduledRunFile(ScheduleFile):
    """`schedule` of a run that was only scheduled."""

    as_is_ns: Whole | None
    after_ns: Whole
    exposed_as_is_ns: Whole | None
    exposed_after_ns: Whole
    speed_up: Number | None
    notes: list[str]


class OnlyScheduledFile(TypedDict):
    """A plan of communication alone."""

    num_ranks: NotRequired[Whole]
    schedule: ScheduledRunFile
