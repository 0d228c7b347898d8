"""A slow, obvious twin of the replay of whole runs: objects that call one another, in the shape of ASTRA-sim itself.

Written from `astra-sim` (`workload/Workload.cc`, `workload/HardwareResource.cc`, `system/Sys.cc`, `system/CommunicatorGroup.cc`,
`system/DataSet.cc`, `astraccl/custom_collectives/CustomAlgorithm.cc`, `network_frontend/analytical/common/CommonNetworkApi.cc`),
Chakra's `feeder_v3/dependancy_solver.cpp`, `AnalyticalRemoteMemory.cc` and `astra-network-analytical`. It has no native
collectives and no statistics, and it takes what it reads from a `Run`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from helpers.naive import NaiveHashSet, naive_direct_delay, naive_route
from helpers.naive_packets import NaivePackets

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace

KEYS = {
    CommType.ALL_REDUCE: "all-reduce",
    CommType.ALL_GATHER: "all-gather",
    CommType.REDUCE_SCATTER: "reduce-scatter",
    CommType.ALL_TO_ALL: "all-to-all",
}
TAGS = 500_000_000

Action = Callable[[], None]


class NaiveCrash(Exception):
    """ASTRA-sim would end here, by an exception or an assertion."""


@dataclass
class NaiveOutcome:
    """What a replay saw; -1 stands for what never happened."""

    finish_ns: list[int]
    exposed_comm_ns: list[int]
    compute_ns: list[int]
    sent_bytes: list[int]
    node_issue_ns: list[int]
    node_finish_ns: list[int]
    ran: dict[int, str] = field(default_factory=dict)
    """Trace that each collective node ran, by row."""
    carried: dict[Any, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """(start, end, bytes) of every transmission by link; congestion-aware alone."""

    @property
    def stalled(self) -> bool:
        return min(self.finish_ns) < 0


def naive_replay_run(run: Run, backend: str) -> NaiveOutcome:
    """Replay a run whose collectives are all custom."""
    return Simulation(run, backend).replay()


@dataclass
class Node:
    row: int
    id: int
    kind: int
    runtime_us: int
    size: int
    peer: int
    tag: int
    deps: list[int]

    @property
    def replay_ns(self) -> int:
        return self.runtime_us * 1000 or 1


def nodes_of(trace: Trace, rank: int) -> list[Node]:
    """Nodes of a rank, in order of the file; dependencies by id, None where there is no such node."""
    nodes = []
    for row in range(trace.rank_first[rank], trace.rank_first[rank + 1]):
        parents = trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]].tolist()
        if min(parents, default=0) < 0:
            raise NaiveCrash("a dependency on a node that does not exist")
        node = Node(
            row=row,
            id=int(trace.node_id[row]),
            kind=int(trace.kind[row]),
            runtime_us=int(trace.duration_us[row]),
            size=int(trace.size_bytes[row]),
            peer=int(trace.peer[row]),
            tag=int(trace.tag[row]),
            deps=[int(trace.node_id[parent]) for parent in parents],
        )
        nodes.append(node)
    return nodes


class Dependencies:
    """Which nodes of a file are free to be issued, and which are under way."""

    def __init__(self, nodes: list[Node]) -> None:
        known = NaiveHashSet()
        self.parents: dict[int, set[int]] = defaultdict(set)
        self.children: dict[int, NaiveHashSet] = defaultdict(NaiveHashSet)
        self.free = NaiveHashSet()
        self.ongoing: set[int] = set()
        for node in nodes:
            known.insert(node.id)
            parents = NaiveHashSet()
            for parent in node.deps:
                parents.insert(parent)
            for parent in parents.order:
                known.insert(parent)
                self.parents[node.id].add(parent)
                self.children[parent].insert(node.id)
        for node_id in known.order:
            if not self.parents[node_id]:
                self.free.insert(node_id)
        if not self.free.order:
            raise NaiveCrash("no node that depends on none")

    def take(self, node_id: int) -> None:
        self.free.remove(node_id)
        self.ongoing.add(node_id)

    def finish(self, node_id: int) -> None:
        self.ongoing.remove(node_id)
        for child in self.children[node_id].order:
            self.parents[child].remove(node_id)
            if not self.parents[child]:
                self.free.insert(child)

    @property
    def exhausted(self) -> bool:
        return not self.free.order and not self.ongoing


class Simulation:
    """The event queue, the network and all ranks."""

    def __init__(self, run: Run, backend: str) -> None:
        self.run, self.backend = run, backend
        self.now = 0
        self.started = False
        self.events: list[tuple[int, int, Action]] = []
        self.numbers = itertools.count()
        num_ranks, num_nodes = run.workload.num_ranks, run.workload.num_nodes
        never, nothing = [-1] * num_ranks, [0] * num_ranks
        self.seen = NaiveOutcome(never[:], nothing[:], nothing[:], nothing[:], [-1] * num_nodes, [-1] * num_nodes)
        networks: dict[str, type[AwareLinks | UnawareDelays | NaivePackets]] = {
            "congestion-aware": AwareLinks,
            "congestion-unaware": UnawareDelays,
            "packet": NaivePackets,
        }
        self.mailbox = Mailbox(self, networks[backend](self, run.network))
        self.memory = Memory(self)
        self.ranks = [Rank(self, rank) for rank in range(num_ranks)]

    def replay(self) -> NaiveOutcome:
        for rank in self.ranks:
            rank.workload.look_and_report()
        self.started = True
        while self.events:
            self.now, _, action = heapq.heappop(self.events)
            action()
        self.seen.compute_ns = [rank.workload.gpu_ns for rank in self.ranks]
        self.seen.exposed_comm_ns = [a - b for a, b in zip(self.seen.finish_ns, self.seen.compute_ns, strict=True)]
        return self.seen

    def schedule(self, delay_ns: int, action: Action) -> None:
        if not self.started and delay_ns == 0 and self.backend != "packet":
            raise NaiveCrash("an event at time 0, before the first: EventQueue::proceed asserts that time goes on")
        self.schedule_packet(delay_ns, action)

    def schedule_packet(self, delay_ns: int, action: Action) -> None:
        heapq.heappush(self.events, (self.now + delay_ns, next(self.numbers), action))


# ---- Network ----


class UnawareDelays:
    """congestion_unaware: a delay per message."""

    def __init__(self, simulation: Simulation, network: NetworkConfig) -> None:
        self.simulation, self.network = simulation, network

    def transmit(self, src: int, dst: int, size: int, arrive: Action) -> None:
        self.simulation.schedule(naive_direct_delay(self.network, src, dst, size), arrive)


class AwareLinks:
    """congestion_aware: links that carry one message at a time."""

    def __init__(self, simulation: Simulation, network: NetworkConfig) -> None:
        self.simulation, self.network = simulation, network
        self.busy: set[Any] = set()
        self.pending: dict[Any, deque[Action]] = defaultdict(deque)

    def transmit(self, src: int, dst: int, size: int, arrive: Action) -> None:
        self.hop(naive_route(self.network, src, dst), size, arrive)

    def hop(self, route: list[Any], size: int, arrive: Action) -> None:
        if not route:
            arrive()
            return
        link, bytes_per_ns, latency_ns = route[0]

        def occupy() -> None:
            self.busy.add(link)
            held_ns = int(size / bytes_per_ns)
            now = self.simulation.now
            self.simulation.seen.carried[link].append((now, now + held_ns, size))
            self.simulation.schedule(int(latency_ns + size / bytes_per_ns), lambda: self.hop(route[1:], size, arrive))
            self.simulation.schedule(held_ns, free)

        def free() -> None:
            self.busy.remove(link)
            if self.pending[link]:
                self.pending[link].popleft()()

        if link in self.busy:
            self.pending[link].append(occupy)
        else:
            occupy()


class Letter:
    on_sent: Action | None = None
    on_received: Action | None = None
    is_here: bool = False


class Mailbox:
    """CommonNetworkApi: the n-th send of a key belongs to its n-th receive."""

    def __init__(self, simulation: Simulation, links: UnawareDelays | AwareLinks | NaivePackets) -> None:
        self.simulation, self.links = simulation, links
        self.letters: dict[Any, Letter] = defaultdict(Letter)
        self.num_sent: dict[Any, int] = defaultdict(int)
        self.num_received: dict[Any, int] = defaultdict(int)

    def send(self, src: int, dst: int, size: int, tag: int, on_sent: Action) -> None:
        if src == dst:
            raise NaiveCrash("a message to oneself")
        key = (tag % TAGS, src, dst, size)
        letter = self.letters[key, self.num_sent[key]]
        self.num_sent[key] += 1
        letter.on_sent = on_sent
        self.simulation.seen.sent_bytes[src] += size
        self.links.transmit(src, dst, size, lambda: self.arrive(letter))

    def receive(self, src: int, dst: int, size: int, tag: int, on_received: Action) -> None:
        key = (tag % TAGS, src, dst, size)
        letter = self.letters[key, self.num_received[key]]
        self.num_received[key] += 1
        if letter.is_here:
            self.simulation.schedule(0, on_received)
        else:
            letter.on_received = on_received

    def arrive(self, letter: Letter) -> None:
        assert letter.on_sent is not None
        if letter.on_received is not None:
            letter.on_sent()
            letter.on_received()
        else:
            letter.on_sent()
            letter.is_here = True


# ---- Remote memory ----


class Memory:
    """AnalyticalRemoteMemory: a pool and a node's memory serve one access at a time, an NPU's own memory all at once."""

    def __init__(self, simulation: Simulation) -> None:
        self.run = simulation.run
        self.simulation = simulation
        self.busy: set[int] = set()
        self.pending: dict[int, deque[tuple[Rank, Action, int]]] = defaultdict(deque)

    def access(self, rank: Rank, size: int, done: Action) -> None:
        memory = self.run.remote_memory
        if memory is None or memory.kind == "none":
            raise NaiveCrash("no remote memory")
        if memory.kind == "per-npu":
            rank.register(self.access_ns(size), done)
            return
        server = 0 if memory.kind == "pool" else rank.id // memory.npus_per_node
        if server in self.busy:
            self.pending[server].append((rank, done, size))
        else:
            self.serve(server, rank, done, size)

    def serve(self, server: int, rank: Rank, done: Action, size: int) -> None:
        self.busy.add(server)
        rank.register(self.access_ns(size), done)
        rank.register(self.access_ns(size), lambda: self.next(server))

    def next(self, server: int) -> None:
        if self.pending[server]:
            self.serve(server, *self.pending[server].popleft())
        else:
            self.busy.remove(server)

    def access_ns(self, size: int) -> int:
        memory = self.run.remote_memory
        assert memory is not None
        return memory.latency_ns + int(size / memory.bytes_per_ns)


# ---- Ranks ----


class Rank:
    """Sys: what a rank waits for until one instant shares one event; collectives are streams in one queue."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation, self.id = simulation, number
        self.due: dict[int, list[Action]] = {}
        self.streams: list[CustomAlgorithm] = []
        self.num_running = 0
        self.workload = Workload(self)

    def register(self, delay_ns: int, action: Action) -> None:
        instant = self.simulation.now + delay_ns
        if instant not in self.due:
            self.due[instant] = []
            self.simulation.schedule(delay_ns, self.call_events)
        self.due[instant].append(action)

    def call_events(self) -> None:
        for action in self.due[self.simulation.now]:  # which may grow meanwhile
            action()
        del self.due[self.simulation.now]

    def start_stream(self, stream: CustomAlgorithm) -> None:
        self.streams.append(stream)
        self.run_streams()

    def end_stream(self, stream: CustomAlgorithm) -> None:
        stream.on_end()
        self.streams.remove(stream)
        self.num_running -= 1
        self.run_streams()

    def run_streams(self) -> None:
        while self.num_running < min(len(self.streams), self.simulation.run.system.active_chunks_per_dimension):
            stream = self.streams[self.num_running]
            stream.issue_free()
            self.num_running += 1


class CustomAlgorithm:
    """What one member does in a custom collective."""

    def __init__(self, rank: Rank, trace: Trace, position: int, members: list[int], on_end: Action) -> None:
        if position >= trace.num_ranks:
            raise NaiveCrash("no trace for a position")
        self.rank, self.members, self.on_end = rank, members, on_end
        nodes = nodes_of(trace, position)
        self.nodes = {node.id: node for node in nodes}
        self.dependencies = Dependencies(nodes)

    def issue_free(self) -> None:
        for node_id in self.dependencies.free.order.copy():
            self.issue(self.nodes[node_id])

    def issue(self, node: Node) -> None:
        self.dependencies.take(node.id)
        mailbox = self.rank.simulation.mailbox

        def finish() -> None:
            self.finish(node)

        if node.kind == NodeType.COMM_SEND:
            mailbox.send(self.rank.id, self.members[node.peer], node.size, node.tag, finish)
        elif node.kind == NodeType.COMM_RECV:
            mailbox.receive(self.members[node.peer], self.rank.id, node.size, node.tag, finish)
        elif node.kind == NodeType.COMP:
            self.rank.register(node.replay_ns, finish)

    def finish(self, node: Node) -> None:
        self.dependencies.finish(node.id)
        self.issue_free()
        if self.dependencies.exhausted:
            self.rank.end_stream(self)


class Group:
    """CommunicatorGroup as one rank holds it: position by ascending rank, members as written, a plan per pattern."""

    def __init__(self, members: Iterable[int], rank: int) -> None:
        self.members = list(members)
        self.position = sorted(self.members).index(rank) if rank in self.members else -1
        self.plans: dict[int, str] = {}


class Workload:
    """A rank's own nodes: one CPU node, one GPU node and one communication node at a time, receives apart."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.run = rank.simulation.run
        nodes = nodes_of(self.run.workload, rank.id)
        self.nodes = {node.id: node for node in nodes}
        self.dependencies = Dependencies(nodes)
        self.groups = {number: Group(members, rank.id) for number, members in self.run.groups.members.items()}
        self.held: set[str] = set()
        self.gpu_ns = 0
        self.is_finished = False

    def slot(self, node: Node) -> str | None:
        if self.run.columns.is_cpu_op[node.row]:
            return "cpu"
        if node.kind == NodeType.COMP:
            return "gpu"
        return None if node.kind == NodeType.COMM_RECV else "communication"

    def look(self) -> None:
        for node_id in sorted(self.dependencies.free.order):
            node = self.nodes[node_id]
            if self.slot(node) not in self.held:
                self.issue(node)

    def look_and_report(self) -> None:
        self.look()
        if self.dependencies.exhausted and not self.held and not self.is_finished:
            self.is_finished = True
            self.rank.simulation.seen.finish_ns[self.rank.id] = self.rank.simulation.now

    def occupy(self, node: Node) -> None:
        slot = self.slot(node)
        if slot is not None:
            assert slot not in self.held
            self.held.add(slot)

    def release(self, node: Node) -> None:
        self.held.discard(self.slot(node) or "")

    def finish(self, node: Node) -> None:
        self.rank.simulation.seen.node_finish_ns[node.row] = self.rank.simulation.now
        self.release(node)
        self.dependencies.finish(node.id)
        self.look_and_report()

    def skip(self, node: Node) -> None:
        self.rank.simulation.seen.node_finish_ns[node.row] = self.rank.simulation.now
        self.dependencies.finish(node.id)
        self.release(node)

    def issue(self, node: Node) -> None:
        self.dependencies.take(node.id)
        self.occupy(node)
        self.rank.simulation.seen.node_issue_ns[node.row] = self.rank.simulation.now
        system, columns = self.run.system, self.run.columns
        is_cpu = bool(columns.is_cpu_op[node.row])
        if node.kind == NodeType.METADATA or node.kind > NodeType.COMM_COLL:
            raise NaiveCrash("a kind of node that ASTRA-sim's statistics refuse")
        if system.replay_only or (node.kind == NodeType.COMP and (is_cpu or not system.roofline_enabled)):
            self.compute(node, node.replay_ns, is_cpu)
        elif node.kind == NodeType.COMP:
            self.issue_modelled(node)
        elif node.kind in (NodeType.MEM_LOAD, NodeType.MEM_STORE):
            self.rank.simulation.memory.access(self.rank, int(columns.tensor_size[node.row]), lambda: self.finish(node))
        elif node.kind == NodeType.INVALID:
            self.skip(node)
        elif is_cpu:
            raise NaiveCrash("communication on the CPU")
        elif node.kind == NodeType.COMM_SEND:
            self.rank.simulation.mailbox.send(self.rank.id, node.peer, node.size, node.tag, lambda: self.finish(node))
        elif node.kind == NodeType.COMM_RECV:
            self.rank.simulation.mailbox.receive(node.peer, self.rank.id, node.size, node.tag, lambda: self.finish(node))
        else:
            self.issue_collective(node)

    def compute(self, node: Node, time_ns: int, is_cpu: bool) -> None:
        if not is_cpu:
            self.gpu_ns += time_ns
        self.rank.register(time_ns, lambda: self.finish(node))

    def issue_modelled(self, node: Node) -> None:
        """The roofline, in ASTRA-sim's order of operations."""
        num_ops, size = float(self.run.columns.num_ops[node.row]), float(self.run.columns.tensor_size[node.row])
        if size == 0:
            self.skip(node)
            return
        bandwidth, peak = self.run.system.local_mem_bw_gbps * 1e9, self.run.system.peak_perf_tflops * 1e12
        seconds = num_ops / min(bandwidth * (num_ops / size), peak)
        self.compute(node, int(seconds * 1e9), is_cpu=False)

    def issue_collective(self, node: Node) -> None:
        columns, system = self.run.columns, self.run.system
        name = columns.group_names[columns.group[node.row]] if columns.group[node.row] >= 0 else ""
        group = None
        if name not in ("", "0"):
            if int(name) not in self.groups:
                raise NaiveCrash("no such group")
            group = self.groups[int(name)]
        pattern = CommType(int(columns.comm_type[node.row]))
        if pattern == CommType.BROADCAST:
            self.rank.register(node.replay_ns, lambda: self.finish(node))
            return
        if pattern not in KEYS:
            raise NaiveCrash("a pattern that ASTRA-sim lacks")
        id_as_int = (node.id + (1 << 31)) % (1 << 32) - (1 << 31)
        prefix = system.per_node.get(id_as_int, system.custom.get(KEYS[pattern]))
        if group is not None:
            if pattern not in group.plans and prefix is not None:
                group.plans[pattern] = prefix
            prefix = group.plans[pattern]
        assert prefix is not None, "native collectives are beyond this twin"
        self.rank.simulation.seen.ran[node.row] = prefix
        members = list(range(self.run.workload.num_ranks)) if group is None else group.members
        position = self.rank.id if group is None else group.position
        if position < 0:
            raise NaiveCrash("a group that its rank is not in")
        trace = dict(zip(self.run.prefixes, self.run.collectives, strict=True))[prefix]
        # DataSet: an All-Gather of no bytes has no chunk whose end would end it.
        ends = node.size > 0 or pattern != CommType.ALL_GATHER
        on_end: Action = (lambda: self.finish(node)) if ends else (lambda: None)
        self.rank.start_stream(CustomAlgorithm(self.rank, trace, position, members, on_end))
