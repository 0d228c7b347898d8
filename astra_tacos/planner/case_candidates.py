"""Candidates for a case: views of the network, numbers of chunks, and synthesizers."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.collective import ROOTED, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.run.backend import Backend
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions

_CHUNKS = (1, 4, 16, 64)
_CHUNKS_ON_FABRICS = (1, 2, 4, 8, 16, 32, 64)
"""There no model tells a good number: devices store and forward, and messages are limited."""
_PLAIN = ("ring", "direct")
"""Synthesizers that are tried by themselves where predictions are estimates."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One search for a case.

    Parameters
    ----------
    topology, collective, synthesizer, link_model
        What is searched for.
    recut
        Whether the search chooses the number of chunks.
    is_exact
        Whether ASTRA-sim takes the predicted time, for a group alone.
    """

    topology: Topology
    collective: Collective
    synthesizer: str
    link_model: LinkModel
    recut: bool
    is_exact: bool


def list_tasks(case: DistinctCollective, backend: Backend, options: SearchOptions) -> list[Task]:
    """Searches for a case: one if its prediction is exact, otherwise several, whose results are compared by replay.

    Raises
    ------
    ConfigError
        If it has less than a byte per chunk.
    """
    synthesizer, asked = options.synthesizer, options.chunks_per_npu
    chunks_per_npu = asked if isinstance(asked, int) else None
    needs_replay = case.needs_replay(backend)
    some = _CHUNKS if case.fabric is None else _CHUNKS_ON_FABRICS
    tasks: list[Task] = []
    for view in case.views.values():
        is_exact = not view.num_routed and not view.topology.has_switches
        counts: list[int | None] = [chunks_per_npu] if chunks_per_npu or not needs_replay else [*some, None]
        names = [synthesizer]
        if needs_replay and synthesizer == AUTO:
            names += [name for name in _PLAIN if case.collective in SYNTHESIZERS[name].collectives]
        for name in names:
            for count in counts:
                if name != synthesizer and count is None:
                    continue
                root = (case.root or 0) if case.collective in ROOTED else None
                try:
                    collective = make_collective(case.collective, case.num_members, case.size_bytes, count or 1, root)
                except ConfigError:
                    continue  # fewer bytes than chunks
                if count is not None and count > 1 and _sends(collective) > min(case.max_sends, options.max_sends):
                    continue
                model = backend.link_model
                tasks.append(Task(view.topology, collective, name, model, count is None, is_exact))
    if not tasks:
        raise ConfigError(
            f"{case.collective} of {case.size_bytes:,} bytes in a group of {case.num_members}: less than a byte per chunk, "
            "expected more"
        )
    return tasks


def _sends(collective: Collective) -> int:
    return collective.num_phases * (collective.num_npus - 1) * collective.num_chunks
