"""Programs that were made are kept: runs that are replayed one after another have most of them in common."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock

from astra_tacos.replayer.collective_program import CollectiveProgram

_MOST_NODES = 1 << 20
"""Nodes of all programs that are kept, about 70 bytes each."""


@dataclass(slots=True)
class KeptPrograms:
    """The programs that were last used, as many as have `most_nodes` nodes together. Threads may share it."""

    most_nodes: int = _MOST_NODES
    _programs: OrderedDict[Hashable, CollectiveProgram] = field(default_factory=OrderedDict)
    _nodes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, make: Callable[[], CollectiveProgram]) -> CollectiveProgram:
        """The program of a key, made if it is not kept. Two threads may both make it."""
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
        made = make()
        with self._lock:
            if key not in self._programs:
                self._programs[key] = made
                self._nodes += made.num_nodes
            while self._nodes > self.most_nodes:
                self._nodes -= self._programs.popitem(last=False)[1].num_nodes
        return made
