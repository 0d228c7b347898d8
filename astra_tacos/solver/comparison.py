"""Synthesizers, programs of files and ASTRA-sim's own algorithms on one network, over a list of sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.certificate import certify, efficiency_of
from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.export.candidate import Candidate
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.report.compare_rows import IMPOSSIBLE_NATIVE, NATIVE, CompareRow
from astra_tacos.run.backend import PACKET, Backend, backend_of_model, is_packet_level
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.timing import timing_of_sizes
from astra_tacos.solver.judgement import Judgement, judge_schedule, with_other_choices
from astra_tacos.solver.judges import MOST_PACKETS_BESIDE, backend_in_use, backend_that_runs, judges_of_run, timed_for
from astra_tacos.solver.native import native_time_ns, native_times
from astra_tacos.solver.robust import robust_order, search_and_replay
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.errors import ConfigError, ReplayError, SynthesisError
from astra_tacos.synthesizer import AUTO
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import THOROUGH, SearchOptions


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What is compared.

    Parameters
    ----------
    topology, collective, root
        What to synthesize for.
    options
        What is asked of each search; `synthesizers` take the place of its synthesizer.
    sizes, synthesizers
        Rows and columns of the comparison; sizes in bytes.
    candidates
        Programs of files, which get rows like synthesizers.
    network
        The network as its file has it, to judge schedules on; None to leave that out.
    backend
        The backend to make schedules for; None for the one on which stock ASTRA-sim comes closest to the prediction.
    checks
        Whether to verify and replay each schedule.
    """

    topology: Topology
    collective: str
    root: int | None
    options: SearchOptions
    sizes: tuple[int, ...]
    synthesizers: tuple[str, ...]
    candidates: tuple[Candidate, ...] = ()
    network: NetworkConfig | None = None
    backend: Backend | None = None
    checks: bool = True
    _collectives: dict[int, Collective] = field(default_factory=dict, init=False)
    """By size; searches keep what they know of a collective."""

    @property
    def num_rows(self) -> int:
        """About how many rows there are."""
        return len(self.sizes) * (len(self.synthesizers) + len(self.candidates) + 1)

    def rows(self) -> Iterator[CompareRow]:
        """A row per size and synthesizer, as they get done; where one cannot do it, the row says why.

        Where there is a network to judge on, each size also has a row of the fastest of ASTRA-sim's own algorithms.

        Raises
        ------
        ConfigError
            If the root is none of the NPUs.
        VerificationError
            If a schedule is illegal.
        """
        for size in self.sizes:
            made: list[CompareRow] = []
            makers: list[tuple[str, Candidate | None]] = [(name, None) for name in self.synthesizers]
            for maker in (*makers, *((each.name, each) for each in self.candidates)):
                least = min((row.time_ns for row in made if row.time_ns is not None), default=None)
                made.append(self._row(size, *maker, least))
                yield made[-1]
            if self.network is not None:
                bound_ns = min((row.bound_ns for row in made if row.bound_ns is not None), default=None)
                yield from self._native_rows(self.network, size, bound_ns)

    def _blank(self, size: int, name: str) -> CompareRow:
        about = self.topology.name, self.topology.describe_shape(), self.topology.num_endpoints
        return CompareRow(*about, self.collective, self.root, size, name)

    def _of_size(self, size: int) -> Collective:
        if size not in self._collectives:
            what = self.collective, self.topology.num_npus, size, self.options.first_chunks, self.root, self.topology.endpoints
            self._collectives[size] = make_collective(*what)
        return self._collectives[size]

    def _row(self, size: int, name: str, program: Candidate | None, least: int | None) -> CompareRow:
        """The row of a synthesizer or a program; `least` is the least time of rows of this size so far."""
        begin, is_thorough = time.perf_counter(), self.options.effort == THOROUGH
        parts = 1 if is_thorough or self.options.budget is not None else 3
        try:
            what = self._of_size(size)
            own = name if program is None else AUTO
            asked, models, _ = timed_for(
                replace(self.options.part_of_budget(parts, self.topology), synthesizer=own), self.topology, self.backend
            )
            if program is None:
                found, order = self._found(what, asked, math.inf if least is None or is_thorough else least)
                schedule, searched, remark = found.schedule, found.describe(), ""
            else:
                schedule = program.schedule(self.topology, what, models, self.options.reduce_bandwidth_gbps).schedule
                searched, remark, order = {}, program.note(schedule.collective), None
        except (ConfigError, SynthesisError) as error:
            return replace(self._blank(size, name), refusal=str(error))
        seconds = time.perf_counter() - begin
        if self.checks:
            check_schedule(schedule)
        figures = certify(schedule) | searched
        figures |= {"time_ns": figures["predicted_ns"], "made_by": figures["synthesizer"]}
        figures |= {"seconds": seconds, "verified": self.checks, "synthesizer": name}
        if self.network is not None:
            if self.backend is None and is_thorough:
                order = robust_order(schedule, self.network)[0]
            in_use = backend_that_runs(schedule, backend_in_use(self.network, models, self.backend), self.backend)
            judged = judge_schedule(schedule, self.network, in_use, order, beside=is_thorough)
            figures |= _on_packets(judged, schedule)
            if is_thorough and (least is None or figures["time_ns"] < least):
                judged = with_other_choices(judged, schedule, self.network, asked)
            figures |= {**judged.to_json(), "judge_notes": "; ".join(filter(None, (*judged.notes, remark)))}
        return CompareRow(**{key: figures[key] for key in CompareRow.__dataclass_fields__ if key in figures})

    def _found(self, what: Collective, options: SearchOptions, rival_ns: float) -> tuple[SearchResult, LinkOrder | None]:
        """What a search finds, and the order of sends in its traces, None for that of the link model."""
        if self.network is None or not is_packet_level(self.backend):
            return search(self.topology, what, options, rival_ns=rival_ns), None
        return search_and_replay(self.backend, self.network, self.topology, what, options)

    def _native_rows(self, network: NetworkConfig, size: int, bound_ns: int | None) -> Iterator[CompareRow]:
        """The fastest of ASTRA-sim's own algorithms on the backend in use, where physically possible, then where not.

        The time of the first is what it takes where messages queue and no delay is truncated, if ASTRA-sim prints less.
        `bound_ns` is the least time of any algorithm, None if no schedule told it.
        """
        try:
            what = self._of_size(size)
        except ConfigError as error:
            yield replace(self._blank(size, NATIVE), refusal=str(error))
            return
        models = timed_for(self.options, self.topology, self.backend)[1]
        chosen = backend_in_use(network, models, self.backend) or backend_of_model(models[0])
        rate = self.options.reduce_bandwidth_gbps
        begin = time.perf_counter()
        natives = native_times(network, what, chosen, rate)
        seconds = time.perf_counter() - begin
        if natives.fastest_possible is None:
            yield replace(self._blank(size, NATIVE), refusal=natives.refusal or "none is physically possible")
        for name, native in ((NATIVE, natives.fastest_possible), (IMPOSSIBLE_NATIVE, natives.fastest)):
            if native is None or (name == IMPOSSIBLE_NATIVE and not native.impossible):
                continue
            times: dict[str, Any] = {}
            models_asked = {judge.figure: judge.backend for judge in judges_of_run(network, chosen)}
            if network.ns3.num_packets(2.0 * what.buffer_bytes * self.topology.num_npus) <= MOST_PACKETS_BESIDE:
                models_asked[PACKET.figure] = PACKET
            for figure, model in models_asked.items():
                try:
                    times[figure] = native_time_ns(network, what, native.system, model, rate)
                except (ConfigError, ReplayError):
                    times[figure] = None
            time_ns = native.time_ns if name == IMPOSSIBLE_NATIVE else native.possible_ns or native.time_ns
            bandwidth = what.buffer_bytes / time_ns
            is_reached = bound_ns is not None and name == NATIVE
            yield replace(
                self._blank(size, name),
                root=what.root,
                made_by=str(native.system),
                reduce_bandwidth_gbps=rate,
                time_ns=time_ns,
                bound_ns=bound_ns,
                efficiency=efficiency_of(time_ns, bound_ns or 0) if is_reached else None,
                algorithm_bandwidth_gbps=bandwidth,
                bus_bandwidth_gbps=bandwidth * what.bus_factor,
                backend=chosen.name,
                **times,
                judge_notes=native.describe() if name == IMPOSSIBLE_NATIVE else str(native.system),
                seconds=seconds,
            )


def _on_packets(judged: Judgement, schedule: Schedule) -> dict[str, Any]:
    """What takes the place of a schedule's analytical figures if it is made for the packet level: its time there.

    Messages that follow one another hide latencies there, so the bound is that of links that are held while they serialise.
    """
    if judged.backend.is_analytical:
        return {}
    time_ns = judged.own_time_ns or (None if judged.level is None else judged.level.predicted_ns)
    if time_ns is None:
        return {}
    topology, collective = schedule.topology, schedule.collective
    sizes, rate = collective.class_size_bytes, schedule.timing.reduce_bandwidth_gbps
    bound = lower_bound(topology, collective, timing_of_sizes(topology, sizes, "pipelined", rate, may_be_instant=True))
    bandwidth = collective.buffer_bytes / time_ns
    return {
        "time_ns": time_ns,
        "possible": True,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "chunked_bound_ns": None,
        "efficiency": efficiency_of(time_ns, bound.time_ns),
        "optimal": False,
        "algorithm_bandwidth_gbps": bandwidth,
        "bus_bandwidth_gbps": bandwidth * collective.bus_factor,
    }


def mark_best(rows: list[CompareRow]) -> list[CompareRow]:
    """The rows, with the fastest of each size marked."""
    best: dict[int, int] = {}
    for row in rows:
        if row.time_ns is not None and row.synthesizer != IMPOSSIBLE_NATIVE:
            best[row.size_bytes] = min(row.time_ns, best.get(row.size_bytes, row.time_ns))
    return [
        row
        if row.time_ns is None
        else replace(row, is_best=row.time_ns == best.get(row.size_bytes) and row.synthesizer != IMPOSSIBLE_NATIVE)
        for row in rows
    ]
