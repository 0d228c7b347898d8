"""What is asked of a plan: a run, the backend that counts, and the effort of its searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from astra_tacos.export.candidate import Candidate
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.run import RunInputs
from astra_tacos.run.system import NATIVE_ALGORITHMS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.options import (
    Choice,
    Flag,
    Group,
    Text,
    Whole,
    check_needs,
    check_values,
    described,
    needs_field,
    option,
)
from astra_tacos.synthesizer.search.search_options import SearchOptions

PLAN_OPTIONS = SearchOptions(chunks_per_npu="auto", trials=4)
"""Few trials, so that as a rule work lists end before their budgets do."""
SEARCH = "search"
"""The schedule that asks for the best combination of policies."""
_BASELINES = tuple(name for name in NATIVE_ALGORITHMS if not name.startswith("one"))
_OF_COMPACT = ("inputs", "backend", "baseline", "options", "cache")
"""What a plan of a compact run has a use for, or needs no use for."""
_DEFAULTS = {field.name: (field.default, getattr(PLAN_OPTIONS, field.name)) for field in fields(SearchOptions)}


@described
@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A training run whose collectives are to be synthesized, and perhaps placed or moved in time.

    Parameters
    ----------
    inputs
        The files of the run, or the directory of a compact one and its network. Ranks of a compact run stand for all of their
        class: its plan takes `backend`, `baseline` and the effort only.
    backend
        The clock: the network model that times all runs of the plan, or its name; None takes the one with queues.
    options
        What is asked of the searches of each collective; link models are those of the backend. All share its `threads`.
    cache
        Directory of synthesized collectives, None for none.
    candidates
        Proven programs of files, which compete with what searches find.
    more_notes
        What else there is to say of the planned run.

    Raises
    ------
    ConfigError
        If some of them exclude one another, or one of them has no effect.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import PlanRequest, RunInputs, SearchOptions
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> PlanRequest(inputs, backend="congestion-aware", place=True).place
    True
    """

    inputs: RunInputs | CompactInputs
    backend: Backend | str | None = None
    baseline: str | None = option(
        None,
        Choice(_BASELINES),
        "Native algorithm for all collectives of the run before; by default the algorithms of its system file.",
        group=Group.SIMULATORS,
    )
    options: SearchOptions = PLAN_OPTIONS
    cache: Path | None = None
    most_messages: int | None = option(
        None,
        Whole(),
        "Approximate limit on messages of the planned run; by default, and at least, 20 times those of native ones.",
        group=Group.SIMULATORS,
        name="max-messages",
    )
    candidates: tuple[Candidate, ...] = ()
    place: bool = option(False, Flag(), "Also plan the run with its ranks on other NPUs, and keep the faster.")
    schedule: str | None = option(
        None,
        Text(alone=SEARCH),
        "Also schedule communication: policies or systems such as fuse, split, priority, decouple, reorder, pipeline, ddp, "
        "bytescheduler:partition=4MB,credit=16MB, dear; alone, search for the best combination (docs/schedule.md).",
        metavar="POLICY[,POLICY]",
        in_python=f"The search is '{SEARCH}'.",
    )
    schedule_replays: int = option(
        80,
        Whole(least=0),
        "Combinations that the search replays.",
        group=Group.SCHEDULES,
        needs=needs_field("schedule", SEARCH),
    )
    per_iteration: bool = option(
        False,
        Flag(),
        "With --schedule, of runs of `generate --steps`: shorten an iteration in steady state, not the whole run.",
        group=Group.SCHEDULES,
        needs=needs_field("schedule"),
    )
    keep_collectives: bool = option(
        False,
        Flag(),
        "With --schedule: keep the algorithms of collectives.",
        group=Group.SCHEDULES,
        needs=needs_field("schedule"),
    )
    more_notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.inputs, CompactInputs) and (others := [*self._others()]):
            expected = "expected backend, baseline and options.effort alone"
            raise ConfigError(f"{', '.join(others)}: {self.inputs.folder} is a compact run, {expected}")
        check_values(self)
        check_needs(self)
        check_needs(self.options, PLAN_OPTIONS)
        if self.options.link_model != "auto":
            link_model = self.options.link_model
            raise ConfigError(f"link model: found {link_model!r}, expected 'auto': the backend of a plan decides the link model")
        on_packets = not isinstance(self.backend, str) and is_packet_level(self.backend)
        if self.candidates and self.keep_collectives:
            raise ConfigError("candidates, keep_collectives: found both, expected at most one of them")
        if self.place and (self.schedule is not None or on_packets):
            raise ConfigError("place: is judged on analytical models, and not combined with schedule")
        if self.schedule is not None and on_packets:
            raise ConfigError("schedule: is judged on analytical models, not on the packet level")
        if self.schedule is not None and self.baseline is not None:
            raise ConfigError("baseline, schedule: found both, expected at most one of them")

    def _others(self) -> Iterator[str]:
        """What is asked beside the options of a compact run."""
        for field in fields(self):
            if field.name not in _OF_COMPACT and getattr(self, field.name) != field.default:
                yield field.name
        for field in fields(self.options):
            if field.name != "effort" and getattr(self.options, field.name) not in _DEFAULTS[field.name]:
                yield f"options.{field.name}"
