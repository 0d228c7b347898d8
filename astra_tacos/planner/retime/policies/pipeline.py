"""Pipelining within layers: a collective or message, its producer and its consumer in equal pieces that overlap.

Collective matmul (Wang et al. 2023, ASPLOS), CoCoNet (Jangda et al. 2022), Centauri, Domino, FLUX and T3 do it in kernels or
compilers. With G of compute and R of communication, n pieces take max(G, R) + min(G, R) / n instead of G + R. Work is taken to
be divisible: n pieces of a compute node take as long as the node. A collective is cut if all members have one producer of its
data, and that formula gains more than the latency of its pieces costs. With `messages`, those between the stages of a pipeline
are cut, too: pieces of what computes or reduces their data go before them, and pieces of what reads it after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from astra_tacos.planner.retime.policies.split import pieces_of
from astra_tacos.planner.retime.policy import Option, Policy, Setting, check_growth
from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.schema import CommType, NodeType

_PATTERNS = (CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL)
Users = Mapping[Task, list[Task]]


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    count = values["pieces"]
    users = graph.users()
    pieces: dict[Operation, list[Operation]] = {}
    parts: dict[Task, list[Task]] = {}
    too_short = 0
    for operation in graph.operations:
        beside = neighbours(operation, users)
        if beside is None:
            continue
        producers, work = beside[0], [*beside[0], *beside[1]]
        if not all(_is_divisible(task, count, setting) for task in work):
            too_short += 1
            continue
        check_growth(graph, (len(parts) + len(work)) * count, "pipeline")
        cut = pieces_of(operation, count, setting)
        if len(cut) != count or not _gains(operation, cut, producers, setting):
            continue
        pieces[operation] = cut
        parts |= {task: [piece.tasks[at] for piece in cut] for at, task in enumerate(operation.tasks)}
        parts |= {task: task.cut(count) for task in work if task not in parts}
    notes = [f"pipeline: {too_short:,} collectives are beside compute nodes too short for {count} parts"] if too_short else []
    if values["messages"] == "yes":
        notes += _cut_messages(graph, setting, users, count, parts)
    if not parts:
        return [*notes, "pipeline: no collective that has one producer on each member ends earlier"]
    piecewise = piecewise_dependencies(graph, users)
    for task, task_parts in parts.items():
        for number, piece in enumerate(task_parts):
            piece.data = [parts[dep][number] if (dep, task) in piecewise and dep in parts else dep for dep in task.data]
    kept = [operation for operation in graph.operations if operation not in pieces]
    graph.replace(parts, kept + [part for cut_operations in pieces.values() for part in cut_operations])
    return notes


def neighbours(operation: Operation, users: Users) -> tuple[list[Task], list[Task]] | None:
    """The producer of each member's data, and the compute tasks that read the result; None if a collective cannot be cut."""
    if operation.pattern not in _PATTERNS or operation.is_changed:
        return None
    producers = [task.data[0] for task in operation.tasks if len(task.data) == 1 and task.data[0].computes]
    if len(producers) < len(operation.tasks):
        return None
    return producers, [user for task in operation.tasks for user in users.get(task, ()) if user.computes]


def piecewise_dependencies(graph: TaskGraph, users: Users) -> set[tuple[Task, Task]]:
    """Dependencies, as what is waited for and what waits, that hold piece by piece where both are cut."""
    dependencies: set[tuple[Task, Task]] = set()
    for operation in graph.operations:
        beside = neighbours(operation, users)
        if beside is not None:
            dependencies |= {(task.data[0], task) for task in operation.tasks}
            dependencies |= {(task, user) for task in operation.tasks for user in users.get(task, ()) if user.computes}
    for task in graph.tasks():
        if task.sends_to is not None and len(task.data) == 1:
            dependencies.add((task.data[0], task))
            dependencies |= {(task.sends_to, user) for user in users.get(task.sends_to, ()) if user.computes}
    return dependencies


def _cut_messages(graph: TaskGraph, setting: Setting, users: Users, count: int, parts: dict[Task, list[Task]]) -> list[str]:
    """Cut messages, and compute tasks beside them; each piece has a tag of its own."""
    tag = setting.free_tag
    num_cut = 0
    for task in list(graph.tasks()):
        receive = task.sends_to
        if receive is None or task.parts > 1 or len(task.data) != 1 or setting.size_bytes[task.row] < count:
            continue
        producer = task.data[0]
        readers = [user for user in users.get(receive, ()) if user.computes]
        beside = [*readers, *([producer] if producer.computes else [])]
        work = [neighbour for neighbour in beside if neighbour not in parts]
        if not beside or not all(_is_divisible(task, count, setting) for task in work) or tag + count > TAGS:
            continue
        check_growth(graph, (len(parts) + len(work) + 2) * count, "pipeline")
        parts |= {neighbour: neighbour.cut(count) for neighbour in work}
        sent, received = task.cut(count), receive.cut(count)
        for send, other in zip(sent, received, strict=True):
            send.sends_to, send.tag, other.tag = other, tag, tag
            send.urgency, send.ctrl, other.ctrl = task.urgency, list(task.ctrl), list(receive.ctrl)
            tag += 1
        parts[task], parts[receive] = sent, received
        num_cut += 1
    return [] if num_cut else [f"pipeline: no message is beside compute nodes that can be cut into {count} parts"]


def _is_divisible(task: Task, count: int, setting: Setting) -> bool:
    """Whether parts of a compute node's work can be written: operations, or a microsecond for each part."""
    if task.parts > 1:
        return False
    if setting.has_roofline and setting.num_ops[task.row] > 0:
        # A part of no bytes would take no time: ASTRA-sim skips it.
        return bool(min(setting.num_ops[task.row], setting.tensor_size[task.row]) >= count)
    return bool(setting.duration_us[task.row] >= count)


def _gains(operation: Operation, parts: list[Operation], producers: list[Task], setting: Setting) -> bool:
    undivided_ns, part = setting.duration_of(operation), setting.duration_of(parts[0])
    hidden = min(undivided_ns, max(task.duration_ns for task in producers)) * (len(parts) - 1) // len(parts)
    return hidden > len(parts) * part - undivided_ns


def _variants(graph: TaskGraph) -> Iterator[Mapping[str, Any]]:
    yield from ({"pieces": 2}, {"pieces": 8})
    if any(task.kind == NodeType.COMM_SEND for task in graph.tasks()):
        yield from ({"pieces": count, "messages": "yes"} for count in (2, 4, 8, 16))


POLICY = Policy(
    "pipeline",
    "collectives with their producers and consumers in pieces that overlap",
    _apply,
    {
        "pieces": Option("count", 4, "number of pieces"),
        "messages": Option(("no", "yes"), "no", "whether messages between ranks are cut, too"),
    },
    _variants,
)
