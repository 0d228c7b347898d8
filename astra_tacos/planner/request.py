"""What is asked of a plan: a run, the backend that counts, and the effort of its searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from astra_tacos.export.candidate import Candidate
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.run import RunInputs
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.search.search_options import SearchOptions

PLAN_OPTIONS = SearchOptions(chunks_per_npu="auto", trials=4)
"""Few trials, so that as a rule work lists end before their budgets do."""
DEFAULT_REPLAYS = 80
"""Of a search for a schedule."""
_OF_COMPACT = ("inputs", "backend", "baseline", "options", "cache")
"""What a plan of a compact run has a use for, or needs no use for."""
_DEFAULTS = {each.name: (each.default, getattr(PLAN_OPTIONS, each.name)) for each in fields(SearchOptions)}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A training run whose collectives are to be synthesized, and perhaps placed or moved in time.

    Parameters
    ----------
    inputs
        The files of the run, or the directory of a compact one and its network. Ranks of a compact run stand for all of their
        class: of options, its plan has `backend`, `baseline` and the effort.
    backend
        The clock: the network model that times all runs of the plan, or its name; None takes the one with queues.
    baseline
        Native algorithm of the run before; None takes the run as it is.
    options
        What is asked of the searches of each collective; link models are those of the backend. All share its `threads`.
    cache
        Directory of synthesized collectives, None for none.
    most_messages
        About how many messages the planned run may have; None for 20 times as many as native collectives take.
    candidates
        Proven programs of files, which compete with what searches find.
    place
        Whether the run is also planned with its ranks on other NPUs; the faster plan stays.
    schedule
        Policies that move communication in time, `search` for the best combination; None for none.
    schedule_replays
        How many combinations of policies that search replays.
    per_iteration
        Whether policies shorten an iteration in steady state, not the whole run.
    keep_collectives
        Whether collectives keep their algorithms, so that communication is only moved in time.
    more_notes
        What else there is to say of the planned run.

    Raises
    ------
    ConfigError
        If some of them exclude one another.
    """

    inputs: RunInputs | CompactInputs
    backend: Backend | str | None = None
    baseline: str | None = None
    options: SearchOptions = PLAN_OPTIONS
    cache: Path | None = None
    most_messages: int | None = None
    candidates: tuple[Candidate, ...] = ()
    place: bool = False
    schedule: str | None = None
    schedule_replays: int = DEFAULT_REPLAYS
    per_iteration: bool = False
    keep_collectives: bool = False
    more_notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.options.link_model != "auto":
            found = self.options.link_model
            raise ConfigError(f"link model: found {found!r}, expected 'auto': a plan takes what its backend does")
        on_packets = not isinstance(self.backend, str) and is_packet_level(self.backend)
        for name in ("per_iteration", "keep_collectives"):
            if getattr(self, name) and self.schedule is None:
                raise ConfigError(f"{name}: is for runs whose communication is scheduled, expected schedule, too")
        if self.place and (self.schedule is not None or on_packets):
            raise ConfigError("place: is judged on analytical models, and not combined with schedule")
        if self.schedule is not None and on_packets:
            raise ConfigError("schedule: is judged on analytical models, not on the packet level")
        if self.schedule is not None and self.baseline is not None:
            raise ConfigError("baseline, schedule: found both, expected at most one of them")
        if isinstance(self.inputs, CompactInputs) and (others := [*self._others()]):
            expected = "expected backend, baseline and options.effort alone"
            raise ConfigError(f"{', '.join(others)}: {self.inputs.folder} is a compact run, {expected}")

    def _others(self) -> Iterator[str]:
        """What is asked beside the options of a compact run."""
        for each in fields(self):
            if each.name not in _OF_COMPACT and getattr(self, each.name) != each.default:
                yield each.name
        for option in fields(self.options):
            if option.name != "effort" and getattr(self.options, option.name) not in _DEFAULTS[option.name]:
                yield f"options.{option.name}"
