"""The `Policy` class: one way to change when and in which parts a run communicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from astra_tacos.planner.retime.list_schedule import Durations, list_schedule
from astra_tacos.planner.retime.tasks import Operation, TaskGraph, Vertex, relations
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import parse_size

MAX_COUNT = 1024
"""Count that a policy may ask for."""
MAX_NODES_OF_RANK = 20_000
"""Of runs that are scheduled, before and after: a search replays hundreds of them."""
_MOST = {"count": MAX_COUNT, "per cent": 100}


@dataclass(frozen=True, slots=True)
class Setting:
    """What policies know of a run beside its tasks.

    Parameters
    ----------
    least_bytes
        Smallest collective that ASTRA-sim does not raise: a byte per rank.
    has_roofline
        Whether operations and bytes say how long tasks compute; else whole microseconds do.
    """

    duration_of: Durations
    least_bytes: int
    has_roofline: bool
    duration_us: Any
    num_ops: Any
    tensor_size: Any
    size_bytes: Any
    free_tag: int


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a policy.

    Parameters
    ----------
    kind
        `size` of bytes, `count`, `per cent`, or the words that it may be.
    default
        Its value where it is not given.

    Examples
    --------
    >>> from astra_tacos import PolicyOption
    >>> PolicyOption("size", 1 << 20, "the least bytes of a part").parse("2MiB", "least")
    2097152
    """

    kind: str | tuple[str, ...]
    default: Any
    text: str

    def parse(self, text: str, where: str) -> Any:
        """The value of a text.

        Raises
        ------
        ConfigError
            If it is no value of the option's kind.
        """
        if self.kind == "size":
            return parse_size(text, where)
        if self.kind in _MOST:
            most = _MOST[str(self.kind)]
            if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
                raise ConfigError(f"{where}: found {quoted(text)}, expected 1 to {most:,}")
            return int(text)
        if text not in self.kind:
            raise ConfigError(f"{where}: found {quoted(text)}, expected {' or '.join(self.kind)}")
        return text


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.

    Parameters
    ----------
    apply
        Changes a graph in place; takes its setting and a value of each option, and returns what it could not do, and why.
    variants
        Options that a search tries beside the defaults; takes the graph of the run before.
    begins_search
        Whether a search begins a second time from the best of this policy, with all others of which that is so.
    """

    name: str
    summary: str
    apply: Callable[[TaskGraph, Setting, Mapping[str, Any]], list[str]]
    options: Mapping[str, Option] = field(default_factory=dict)
    variants: Callable[[TaskGraph], Iterable[Mapping[str, Any]]] = lambda graph: ()
    begins_search: bool = False


def readiness(graph: TaskGraph, duration_of: Durations) -> dict[Operation, int]:
    """When each collective could start in a simulation of the graph, in ns."""
    schedule = list_schedule(graph, duration_of)

    def end(vertex: Vertex) -> int:
        duration_ns = duration_of(vertex) if isinstance(vertex, Operation) else vertex.duration_ns
        return schedule.start_ns[vertex] + duration_ns

    return {
        operation: max((end(dep.operation or dep) for task in operation.tasks for dep in task.deps), default=0)
        for operation in graph.operations
    }


def ancestors(graph: TaskGraph, chosen: list[Operation]) -> dict[Operation, int]:
    """For each of some operations, the set of those that it waits for, as bits by their place in the list."""
    bit = {operation: 1 << number for number, operation in enumerate(chosen)}
    after, order = relations(graph)
    above: dict[Vertex, int] = dict.fromkeys(order, 0)
    for vertex in order:
        bits = above[vertex] | (bit.get(vertex, 0) if isinstance(vertex, Operation) else 0)
        for later in after.get(vertex, ()):
            above[later] |= bits
    return {operation: above[operation] for operation in chosen}


def check_growth(graph: TaskGraph, num_pieces: int, policy: str) -> None:
    """Check that a policy does not cut tasks of all ranks into too many pieces, before it makes them.

    Raises
    ------
    ConfigError
        If there would be more than `MAX_NODES_OF_RANK` a rank.
    """
    most = MAX_NODES_OF_RANK * len(graph.ranks)
    if num_pieces > most:
        raise ConfigError(
            f"{policy}: {num_pieces // len(graph.ranks):,} pieces a rank, expected at most {MAX_NODES_OF_RANK:,}: larger ones"
        )
