"""What `solve` returns: a verified schedule, its times, and how it is written."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import make_collective, size_as_run
from astra_tacos.collective.collective import Collective
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.export.exporter import Exported
from astra_tacos.export.run_directory import RESULT_FILE, RunDirectory, write_run_directory
from astra_tacos.network.network_config import NetworkConfig, read_network
from astra_tacos.network.sketch import Sketch
from astra_tacos.network.topology import Topology
from astra_tacos.pages.table import Certificate
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.storage import save_schedule
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, save_symmetric_schedule
from astra_tacos.solver.clock import Printed, ScheduleTime, beside_native, symmetric_time_ns
from astra_tacos.solver.clock_figures import figures_on
from astra_tacos.solver.first_use import WRITING, compile_ahead
from astra_tacos.solver.native import BestNativeTime
from astra_tacos.solver.sketch_cost import SketchCost
from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, replaced_file, write_json
from astra_tacos.support.options import check_needs
from astra_tacos.support.rows import Result, Row
from astra_tacos.support.units import format_size, parse_size
from astra_tacos.synthesizer.search.search import SearchResult
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.work import parse_budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A collective on a network, and how to look for its schedule.

    Parameters
    ----------
    network
        The network, as `read_network` reads it.
    collective
        Name of the collective: a key of `COLLECTIVES`, or `all-to-allv`.
    size_bytes
        The `comm_size` of a workload node in bytes (All-Gather, Gather: the shard of one NPU; else the whole buffer). 0 for an
        all-to-allv. Where the search chooses the number of chunks, fewer bytes than NPUs become a byte for each, as in ASTRA-sim.
    root
        Root of a rooted collective; None for NPU 0.
    part_bytes
        int64[num_npus, num_npus], the parts of an all-to-allv in bytes, a row for each source; None for other collectives.
    helpers
        NPUs without data of their own, which may add and pass on what others send.
    options
        What the search tries, and how much.
    backend
        The clock: the network model that the schedule is made for and timed on; None for the one with queues.
    link_order, in_flight
        How traces keep the order of sends on a link, and how many messages may be in flight there (`export_chakra`); None for
        what suits the schedule.
    sketch
        The links that may be used, and perhaps a number of chunks, which takes the place of `auto`; None for all links.
    checks
        Whether the schedule is verified and replayed before it is returned.

    Raises
    ------
    ConfigError
        If some of them exclude one another, or an option of the search does not count.

    Examples
    --------
    >>> from astra_tacos import Request, solve
    >>> request = Request.of("configs/network/torus_4x4.yml", "all-gather", "64KiB", synthesizer="direct")
    >>> solve(request).time_ns == solve("configs/network/torus_4x4.yml", "all-gather", "64KiB", synthesizer="direct").time_ns
    True
    """

    network: NetworkConfig
    collective: str
    size_bytes: int = 0
    root: int | None = None
    part_bytes: Ints | None = None
    helpers: tuple[int, ...] = ()
    options: SearchOptions = field(default_factory=lambda: SearchOptions(chunks_per_npu="auto"))
    backend: Backend | None = None
    link_order: LinkOrder | None = None
    in_flight: int | None = None
    sketch: Sketch | None = None
    checks: bool = True
    asked_bytes: int = field(init=False)
    """The size as it was given, where `size_bytes` became a byte for each NPU."""

    @classmethod
    def of(cls, network: NetworkConfig | str | Path, collective: str, size: int | str = 0, **more: Any) -> Request:
        """A request in the words of the command line.

        Parameters
        ----------
        network
            The network, or the path of its file.
        size
            Bytes, or a text such as `64MiB`.
        **more
            Other fields of a request or of its options, such as `synthesizer="tacos"`, `effort="thorough"`, `budget="20M"`,
            `backend="congestion-unaware"`.

        Raises
        ------
        ConfigError
            If the file cannot be read, or a field is unknown or not what it should be.
        """
        searched = {field.name for field in fields(SearchOptions)} & more.keys()
        own_fields = {field.name for field in fields(cls) if field.init} - {"network", "collective", "size_bytes"}
        if unknown := sorted(more.keys() - searched - own_fields):
            known = ", ".join(sorted({field.name for field in fields(SearchOptions)} | own_fields))
            raise ConfigError(f"{unknown[0]}: no such field of a request, expected one of {known}")
        if searched:
            if "options" in more:
                raise ConfigError(f"options, {min(searched)}: found both, expected one of them")
            if isinstance(more.get("budget"), str):
                more["budget"] = parse_budget(more["budget"])
            more["options"] = SearchOptions(**{"chunks_per_npu": "auto"} | {name: more.pop(name) for name in searched})
        if isinstance(more.get("backend"), str):
            more["backend"] = choose_backend(more["backend"])
        read = network if isinstance(network, NetworkConfig) else read_network(Path(network))
        return cls(read, collective, parse_size(size) if isinstance(size, str) else size, **more)

    @property
    def clock(self) -> Backend:
        """The network model that all times of the answer are of."""
        return choose_backend(self.backend)

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked_bytes", self.size_bytes)
        check_fields(self)
        if self.helpers and self.part_bytes is not None:
            raise ConfigError("helpers: all NPUs of an all-to-allv take part, expected none")
        check_needs(self.options)
        if self.options.chooses_chunks:
            as_run = size_as_run(self.collective, self.network.num_npus - len(self.helpers), self.size_bytes)
            object.__setattr__(self, "size_bytes", as_run)
        if self.sketch is not None and self.sketch.chunks is not None and self.options.chooses_chunks:
            object.__setattr__(self, "options", replace(self.options, chunks_per_npu=self.sketch.chunks))

    @property
    def asked(self) -> dict[str, int]:
        """What results say of a size that is run as another one: nothing if there is none."""
        return {} if self.asked_bytes == self.size_bytes else {"asked_bytes": self.asked_bytes}

    @property
    def is_plain(self) -> bool:
        """Whether all NPUs have parts of one size, and all links may be used."""
        return self.sketch is None and not self.helpers and self.part_bytes is None

    def collective_on(self, topology: Topology) -> Collective:
        """The collective on the built network, in one chunk per NPU where the search is to choose."""
        chunks = self.options.first_chunks
        members = self._members(topology)
        return make_collective(
            self.collective, topology.num_npus, self.size_bytes, chunks, self.root, members, part_bytes=self.part_bytes
        )

    def _members(self, topology: Topology) -> list[int] | None:
        """The NPUs that take part, None for all of a network without devices that forward."""
        if not self.helpers:
            return topology.endpoints
        members = [npu for npu in range(topology.num_endpoints) if npu not in self.helpers]
        if max(self.helpers) >= topology.num_endpoints or len(members) < 2:
            helpers = f"{len(self.helpers)} of {topology.num_endpoints} NPUs" if len(members) < 2 else f"NPU {max(self.helpers)}"
            raise ConfigError(f"helpers: found {helpers}, expected NPUs of the network, and two or more others")
        return members


_LONGEST_REPR = 300


class _Certified(Result):
    """What has a certificate."""

    @property
    @abstractmethod
    def _figures(self) -> dict[str, Any]:
        """The figures that its class knows beside the certificate's: times, bound and the best native algorithm."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""

    @property
    def time_ns(self) -> float:
        """Time of the collective on the clock (ns)."""
        time_ns: float = self._figures["time_ns"]
        return time_ns

    @property
    def bound_ns(self) -> int | None:
        """What any algorithm takes at least (ns); None where links carry any number of messages."""
        bound_ns: int | None = self._figures["bound_ns"]
        return bound_ns

    @property
    def efficiency(self) -> float | None:
        """The bound as a share of the time, in 0 to 1; None without a bound."""
        efficiency: float | None = self._figures["efficiency"]
        return efficiency

    @property
    def best_native_ns(self) -> float | None:
        """Time of the best of ASTRA-sim's own algorithms on the clock (ns); None if there is none."""
        best_native_ns: float | None = self._figures["best_native_ns"]
        return best_native_ns

    def title(self) -> str:
        """What was asked, in one line."""
        return Certificate(self.to_json()).title()

    def rows(self) -> list[Row]:
        """Those of the certificate."""
        return Certificate(self.to_json()).rows()

    def __repr__(self) -> str:
        figures = self.to_json()
        solved = f"{figures['collective']} of {format_size(figures['size_bytes'])} on {figures['network']}"
        return f"<{type(self).__name__}: {solved}, {figures['time_ns']:,} ns by {figures['synthesizer']}>"[:_LONGEST_REPR]


@dataclass(frozen=True, eq=False, repr=False)
class Solution(_Certified):
    """A schedule with all its sends.

    Parameters
    ----------
    request
        What was asked.
    schedule
        The schedule, with the order of sends in its traces.
    search
        How thorough the search was.
    timed
        What its traces take on the clock, and what programs of ASTRA-sim print for them.
    bounds
        What any algorithm needs on the clock; empty where links carry any number of messages.
    native
        The best of ASTRA-sim's own algorithms on the clock.
    link_model_reason
        Why sends hold their links as they do.
    notes
        What the reader of its times should know, a line each.
    sketch
        What the sketch costs; None without one.

    Examples
    --------
    >>> from astra_tacos import solve
    >>> solution = solve("configs/network/torus_4x4.yml", "all-gather", "64KiB", synthesizer="direct")
    >>> solution.bound_ns <= solution.time_ns, 0 < solution.efficiency <= 1
    (True, True)
    >>> written = solution.write("run")
    >>> solution.schedule.num_sends == len(solution.schedule.to_pandas())
    True
    """

    request: Request
    schedule: Schedule
    search: SearchResult
    timed: ScheduleTime
    bounds: tuple[Bound, ...]
    native: BestNativeTime
    link_model_reason: str
    notes: tuple[str, ...]
    sketch: SketchCost | None = None

    checked: ClassVar[str] = "verified; the replay takes exactly the predicted time"

    @property
    def best_native(self) -> str | None:
        """The best configuration of ASTRA-sim's own algorithms on the clock, in words; None if there is none."""
        return None if self.native.best is None else self.native.best.name

    def plot(self, width: str = "double") -> Axes:
        """Draw which link carries what when; needs the extra `plot`.

        Parameters
        ----------
        width
            Width of the figure in columns of a paper: `single` or `double`.

        Returns
        -------
        axes
            Axes of matplotlib; `axes.figure.savefig(...)` writes them.
        """
        from astra_tacos.pages.figure.timeline_plot import draw_timeline

        return draw_timeline(self.schedule, width).axes[0]

    def report(self, path: str | Path) -> Path:
        """Write a page (.html) with the network, the links over time and the figures; needs the extra `report`.

        Returns
        -------
        path
            The page.
        """
        from astra_tacos.pages.html.synthesis import synthesis_page

        note = "'astra-tacos compare' makes a comparison with other algorithms."
        page = synthesis_page(self.schedule, self.to_json(), None, note)  # type: ignore[arg-type]
        with replaced_file(Path(path)) as file:
            file.write_bytes(page)
        return Path(path)

    @cached_property
    def _figures(self) -> dict[str, Any]:
        clock, task = self.timed.clock, (self.schedule.topology, self.schedule.collective)
        figures = {
            **figures_on(clock, self.bounds, *task, self.timed.time_ns),
            **self.native.to_json(),
            "speed_up_over_native": self.speed_up_over_native,
            "prints": [printed.to_json() for printed in self.prints],
            "link_model_reason": self.link_model_reason,
            "link_order": order_of_traces(self.schedule)[0],
            "verified": self.request.checks,
            "search": self.search.describe(),
            **self.request.asked,
            **_of_last_release(self.prints, self.timed),
        }
        return figures if self.sketch is None else figures | {"sketch": self.sketch.to_json()}

    @property
    def prints(self) -> tuple[Printed, ...]:
        """What programs of ASTRA-sim print for the directory, and for the best native algorithms on the network."""
        return beside_native(self.timed.prints, dict(self.native.prints))

    @property
    def speed_up_over_native(self) -> float | None:
        """The time of the best native algorithm over that of the schedule; None without one."""
        native_ns = self.native.time_ns
        return None if native_ns is None else native_ns / max(round(self.timed.time_ns, 3), 1e-3)

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        bounds = self.bounds if self.schedule.timing.link_model == "pipelined" and self.bounds else None
        return certify(self.schedule, bounds) | self._figures | {"notes": list(self.notes)}

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
        backend = self.timed.clock
        return write_run_directory(self.schedule, directory, self._figures, msccl_xml, backend=backend, check=False)


DEPRECATED = {
    "predicted_ns": "time_ns",
    "exact_ns": "time_ns",
    "stock_ns": "prints",
    "congested_ns": "prints",
    "packets_ns": "time_ns with --backend packet",
}
"""Keys of results that the next release will not have, and those that take their place."""


def _of_last_release(prints: tuple[Printed, ...], timed: ScheduleTime) -> dict[str, Any]:
    """The keys of `DEPRECATED` that are times of several network models."""
    of_stock = [printed.time_ns for printed in prints if printed.binary.branch is None]
    queued = [printed.time_ns for printed in prints if printed.binary.backend.models_congestion]
    return {
        "stock_ns": next(iter(of_stock), None),
        "congested_ns": next(iter(queued), None),
        "packets_ns": None if timed.level is None else timed.level.time_ns,
        "deprecated": DEPRECATED,
    }


@dataclass(frozen=True, eq=False, repr=False)
class CompactSolution(_Certified):
    """A schedule of more sends than can be listed: those of NPU 0's chunks, which stand for all.

    Parameters
    ----------
    request, link_model_reason, notes
        As in a `Solution`.
    schedule
        The schedule.

    Examples
    --------
    >>> from astra_tacos import solve
    >>> options = {"max_sends": 1, "synthesizer": "symmetric", "chunks_per_npu": 1}
    >>> solution = solve("configs/network/torus_8x8.yml", "all-gather", "1MiB", **options)
    >>> type(solution).__name__, solution.time_ns > 0
    ('CompactSolution', True)
    """

    request: Request
    schedule: SymmetricSchedule
    link_model_reason: str
    notes: tuple[str, ...]

    checked: ClassVar[str] = "verified, for all NPUs: the network looks the same from each"

    @cached_property
    def _figures(self) -> dict[str, Any]:
        clock = self.request.clock
        figures = certify(self.schedule)
        time_ns = symmetric_time_ns(self.schedule, clock)
        assert time_ns is not None  # `solve` refuses other clocks
        if not clock.models_congestion:
            figures |= dict.fromkeys(("bound_ns", "bound", "bound_where", "efficiency")) | {"bounds_ns": {}, "optimal": False}
        figures |= {"link_model_reason": self.link_model_reason, "verified": self.request.checks, "backend": clock.name}
        return figures | {"time_ns": round(time_ns, 3), "best_native_ns": None, "prints": []}

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return self._figures | {"notes": list(self.notes)}

    @property
    def best_native(self) -> None:
        """None: ASTRA-sim's own algorithms are not replayed on so many sends."""
        return

    def plot(self, width: str = "double") -> Axes:
        """Draw which links carry NPU 0's chunks when; see `Solution.plot`."""
        from astra_tacos.pages.figure.symmetric_plot import draw_symmetric_timeline

        return draw_symmetric_timeline(self.schedule, width).axes[0]

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
