"""What `solve` returns: a verified schedule, its times, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from astra_tacos.bounds.certificate import certify
from astra_tacos.bounds.symmetric import certify_symmetric
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.export.exporter import Exported
from astra_tacos.export.run_directory import RESULT_FILE, RunDirectory, write_run_directory
from astra_tacos.run.backend import backend_of_model
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import save_schedule
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, save_symmetric_schedule
from astra_tacos.solver.first_use import WRITING, compile_ahead
from astra_tacos.solver.judgement import Judgement
from astra_tacos.solver.judges import FIGURES
from astra_tacos.solver.native import NativeTimes
from astra_tacos.solver.possibility import SketchCost
from astra_tacos.solver.request import Request
from astra_tacos.solver.symmetric_judgement import symmetric_times
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.synthesizer.search.search import SearchResult


@dataclass(frozen=True, eq=False)
class Solution:
    """A schedule with all its sends.

    Parameters
    ----------
    request
        What was asked.
    schedule
        The schedule, with the order of sends in its traces.
    search
        How thorough the search was.
    judgement
        What its traces take on each judge of the network, and the backend that counts.
    native
        ASTRA-sim's own algorithms on that backend.
    link_model_reason
        Why sends hold their links as they do.
    notes
        What the reader of its times should know, a line each.
    sketch
        What the sketch costs; None without one.
    """

    request: Request
    schedule: Schedule
    search: SearchResult
    judgement: Judgement
    native: NativeTimes
    link_model_reason: str
    notes: tuple[str, ...]
    sketch: SketchCost | None = None

    checked: ClassVar[str] = "verified; the replay takes exactly the predicted time"

    @cached_property
    def _figures(self) -> dict[str, Any]:
        figures = {
            "link_model_reason": self.link_model_reason,
            "link_order": order_of_traces(self.schedule)[0],
            "verified": self.request.checks,
            "search": self.search.describe(),
            **self.judgement.to_json(),
            "native": self.native.to_json(),
            "speed_up_over_native": self.speed_up_over_native,
        }
        return figures if self.sketch is None else figures | {"sketch": self.sketch.to_json()}

    @property
    def speed_up_over_native(self) -> float | None:
        """The time of the fastest native algorithm that links can carry over that of the schedule; None without one."""
        native, own_ns = self.native.fastest_possible, self.judgement.possible_ns
        if native is None or native.possible_ns is None or own_ns is None:
            return None
        return round(native.possible_ns / max(own_ns, 1), 4)

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return certify(self.schedule) | self._figures | {"notes": list(self.notes)}

    def save(self, path: str | Path) -> None:
        """Write the schedule as a `schedule.npz`."""
        save_schedule(self.schedule, path)

    def write(self, directory: str | Path, msccl_xml: bool | None = None) -> RunDirectory:
        """Write a run directory for ASTRA-sim (`write_run_directory`).

        Parameters
        ----------
        directory
            Where; a directory that astra_tacos wrote before is replaced.
        msccl_xml
            Whether it has an MSCCL XML; None for up to 20,000 sends.

        Raises
        ------
        ConfigError
            If the directory is something else.
        """
        compile_ahead(*WRITING)
        backend = self.judgement.backend
        return write_run_directory(self.schedule, directory, self._figures, msccl_xml, backend=backend, check=False)


@dataclass(frozen=True, eq=False)
class CompactSolution:
    """A schedule of more sends than can be listed: those of NPU 0's chunks, which stand for all.

    Parameters
    ----------
    request, link_model_reason, notes
        As in a `Solution`.
    schedule
        The schedule.
    """

    request: Request
    schedule: SymmetricSchedule
    link_model_reason: str
    notes: tuple[str, ...]

    checked: ClassVar[str] = "verified, for all NPUs: the network looks the same from each"

    @cached_property
    def _figures(self) -> dict[str, Any]:
        backend = self.request.backend
        figures = certify_symmetric(self.schedule)
        figures |= {"link_model_reason": self.link_model_reason, "verified": self.request.checks}
        figures |= {"backend": (backend or backend_of_model(self.schedule.task.link_model)).name}
        return figures | dict.fromkeys(FIGURES) | symmetric_times(self.schedule, backend)

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return self._figures | {"notes": list(self.notes)}

    def save(self, path: str | Path) -> None:
        """Write the schedule as a `schedule.npz`."""
        save_symmetric_schedule(self.schedule, path)

    def write(self, directory: str | Path, msccl_xml: bool | None = None) -> Exported:
        """Write a directory with the schedule and its figures; there are no traces and no MSCCL XML.

        Raises
        ------
        ConfigError
            If the directory is something else.
        """
        with replaced_directory(Path(directory)) as folder:
            self.save(folder / "schedule.npz")
            write_json(folder / RESULT_FILE, self._figures)
        note = "no traces and no MSCCL XML; raise --max-sends where ASTRA-sim can run a collective of this size"
        return Exported(Path(directory), (note,))
