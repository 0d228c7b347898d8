"""How long a run takes on each judge, before and after a plan, and after a plan for another backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.solver.judges import Judge
from astra_tacos.support.errors import AstraTacosError

Known = Mapping[Backend, RunOutcome | str]
"""Replays that are there already: their outcome, or why there is none."""

_AS_FAST = 1.01


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """End of a run on one judge, in ns; None where it does not end, or was not asked for.

    Parameters
    ----------
    judge
        The judge.
    before_ns, after_ns
        Of the run before, and of the planned one.
    reason
        Why the planned one does not end.
    native_ns
        Of the best native run on this judge, where it was looked for: on judges with queues that the plan is not made for.
    """

    judge: Judge
    before_ns: int | None
    after_ns: int | None
    reason: str = ""
    native_ns: int | None = None

    @property
    def speed_up_over_native(self) -> float | None:
        """The best native run on this judge over the planned run there; None where either is not known."""
        return None if self.native_ns is None or self.after_ns is None else self.native_ns / max(self.after_ns, 1)

    @property
    def loses_to_native(self) -> bool:
        """Whether the planned run is slower here than the best native one, by more than models differ."""
        return self.native_ns is not None and (self.after_ns is None or self.after_ns > _AS_FAST * self.native_ns)

    def to_json(self) -> dict[str, Any]:
        """The time after under the judge's figure, `stock_ns`, the one before as `stock_before_ns`, and the best native one."""
        figure = self.judge.figure
        stem = figure.removesuffix("_ns")
        native = {} if self.native_ns is None else {f"{stem}_best_native_ns": self.native_ns}
        return {figure: self.after_ns, f"{stem}_before_ns": self.before_ns} | native

    def note(self, made_for: Backend) -> str | None:
        """What there is to say: the planned run does not end there, is slower than before, or takes less than it can.

        Parameters
        ----------
        made_for
            The backend of the plan: schedules whose sends wait in queues overlap on a judge that has none.
        """
        if made_for.link_model == "pipelined" and not self.judge.backend.models_congestion and self.after_ns is not None:
            return f"{self.judge.describe()} has no queues: sends of this plan overlap on links there, and its time is too short"
        if self.after_ns is None:
            return f"on {self.judge.describe()} the planned run does not end: {self.reason}"
        if self.before_ns is not None and self.after_ns > self.before_ns:
            times = f"{self.after_ns:,} ns instead of {self.before_ns:,} ns"
            return f"on {self.judge.describe()} the planned run is slower than the run before: {times}"
        return None


def judge_run(judges: tuple[Judge, ...], before: Known, after: Run, known_after: Known) -> tuple[JudgedRun, ...]:
    """The end of a run before and after, on each judge.

    Parameters
    ----------
    judges
        The judges.
    before
        The replays of the run before, on all of them.
    after
        The planned run.
    known_after
        Its replays by network model, as far as they are there.
    """
    judged = []
    for judge in judges:
        backend = judge.backend
        end = known_after[backend] if backend in known_after else replay_or_reason(after, backend)
        reason = end if isinstance(end, str) else ""
        judged.append(JudgedRun(judge, _end_ns(before[backend]), _end_ns(end), reason))
    return tuple(judged)


def fair_judges(judges: tuple[Judge, ...], backend: Backend) -> tuple[Judge, ...]:
    """Those that can tell whether a plan for another backend ends earlier.

    A judge without queues is asked only of plans that are made for it: schedules whose sends wait in queues overlap there.
    """
    return tuple(judge for judge in judges if judge.backend.models_congestion or judge.backend == backend)


def notes_on_other_plan(judged: tuple[JudgedRun, ...], other: tuple[JudgedRun, ...], backend: Backend) -> tuple[str, ...]:
    """Where the plan for another backend ends earlier.

    Parameters
    ----------
    judged, other
        The plan, and the other one on its fair judges.
    backend
        The backend of the other one.
    """
    notes = []
    own = {each.judge.figure: each for each in judged}
    for theirs in other:
        ours = own[theirs.judge.figure]
        if theirs.after_ns is not None and (ours.after_ns is None or theirs.after_ns < ours.after_ns):
            instead = "" if ours.after_ns is None else f" instead of {ours.after_ns:,} ns"
            end = f"a plan for the {backend} backend ends at {theirs.after_ns:,} ns{instead}"
            notes.append(f"on {ours.judge.describe()} {end}: --backend {backend} makes such")
    return tuple(notes)


def replay_or_reason(run: Run, backend: Backend) -> RunOutcome | str:
    """The outcome of a run with loads of links, or the reason why there is none."""
    try:
        return replay_run(run, backend, route_loads=True)
    except AstraTacosError as error:
        return str(error)


def _end_ns(outcome: RunOutcome | str) -> int | None:
    return None if isinstance(outcome, str) else outcome.end_ns
