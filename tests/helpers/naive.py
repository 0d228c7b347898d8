"""Slow, obvious twins of the kernels."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace

# ---- Replay of traces ----


class NaiveHashSet:
    """Elements in the order in which a `std::unordered_set<uint64_t>` of GCC's libstdc++ yields them.

    All elements stand in one list, those of a bucket (element modulo number of buckets) side by side. A new one goes to the
    front of its bucket, or to the front of the list if its bucket is empty. A set that has as many elements as buckets grows
    before the next: to the next number of buckets, and all elements are inserted anew in the order of the list. (libstdc++'s
    `bits/hashtable.h`: `_M_insert_bucket_begin`, `_M_rehash`; `hashtable_c++0x.cc`: `_Prime_rehash_policy`.)
    """

    BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087)

    def __init__(self) -> None:
        self.order: list[int] = []
        self.num_buckets = 0

    def insert(self, element: int) -> None:
        if element not in self.order:
            if len(self.order) == self.num_buckets:
                self.num_buckets = next(number for number in self.BUCKETS if number > self.num_buckets)
                old, self.order = self.order, []
                for other in old:
                    self.link(other)
            self.link(element)

    def link(self, element: int) -> None:
        bucket = [place for place, other in enumerate(self.order) if (other - element) % self.num_buckets == 0]
        self.order.insert(bucket[0] if bucket else 0, element)

    def remove(self, element: int) -> None:
        self.order.remove(element)


def naive_trace_replay(trace: Trace, network: NetworkConfig, backend: str) -> list[int]:
    """When each node of a trace finishes, -1 for those that never do: callbacks in a queue of (time, order of creation)."""
    events: list[tuple[int, int, Callable[[], None]]] = []
    numbers = itertools.count()
    now = 0
    rows = [range(trace.rank_first[rank], trace.rank_first[rank + 1]) for rank in range(trace.num_ranks)]
    ranks = [rank for rank in range(trace.num_ranks) for _ in rows[rank]]
    ids = [int(node_id) for node_id in trace.node_id]
    row_of = {(ranks[row], node_id): row for row, node_id in enumerate(ids)}
    deps = [trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]].tolist() for row in range(trace.num_nodes)]
    awaited = [set(others) for others in deps]
    children = [NaiveHashSet() for _ in ids]
    ready = [NaiveHashSet() for _ in rows]
    finish_ns = [-1] * trace.num_nodes
    num_sent: dict[Any, int] = defaultdict(int)
    num_received: dict[Any, int] = defaultdict(int)
    arrived: set[Any] = set()
    receivers: dict[Any, int] = {}
    busy: set[Any] = set()
    queues: dict[Any, deque[Any]] = defaultdict(deque)
    batches: dict[Any, list[int]] = {}

    def schedule(delay_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(events, (now + delay_ns, next(numbers), action))

    def message_key(row: int) -> tuple[int, int, int, int]:
        ends = (ranks[row], int(trace.peer[row]))
        src, dst = ends if trace.kind[row] == NodeType.COMM_SEND else ends[::-1]
        return int(trace.tag[row]), src, dst, int(trace.size_bytes[row])

    def read_nodes(rank: int) -> None:
        """Fill the sets of ids in the order in which `dependancy_solver.cpp` does."""
        all_nodes = NaiveHashSet()
        for row in rows[rank]:
            all_nodes.insert(ids[row])
            parents = NaiveHashSet()
            for other in deps[row]:
                parents.insert(ids[other])
            for parent in parents.order:
                all_nodes.insert(parent)
                children[row_of[rank, parent]].insert(ids[row])
        for node in all_nodes.order:
            if not awaited[row_of[rank, node]]:
                ready[rank].insert(node)

    def issue_ready(rank: int) -> None:
        for node in ready[rank].order.copy():
            ready[rank].remove(node)
            issue(row_of[rank, node])

    def issue(row: int) -> None:
        size = int(trace.size_bytes[row])
        if trace.kind[row] == NodeType.COMM_SEND:
            key = message_key(row)
            message = (*key, num_sent[key])
            num_sent[key] += 1
            if backend == "congestion-aware":
                cross(naive_route(network, key[1], key[2]), size, lambda: arrive(row, message))
            else:
                schedule(naive_direct_delay(network, key[1], key[2], size), lambda: arrive(row, message))
        elif trace.kind[row] == NodeType.COMM_RECV:
            key = message_key(row)
            message = (*key, num_received[key])
            num_received[key] += 1
            if message in arrived:
                schedule(0, lambda: finish(row))
            else:
                receivers[message] = row
        else:
            delay_ns = int(trace.duration_us[row]) * 1000 or 1
            batch = (ranks[row], now + delay_ns)
            if batch in batches:
                batches[batch].append(row)
            else:
                batches[batch] = [row]
                schedule(delay_ns, lambda: finish_all(batches[batch]))

    def finish(row: int) -> None:
        finish_ns[row] = now
        for node in children[row].order:
            child = row_of[ranks[row], node]
            awaited[child].remove(row)
            if not awaited[child]:
                ready[ranks[row]].insert(node)
        issue_ready(ranks[row])

    def finish_all(batch: list[int]) -> None:
        for row in batch:
            finish(row)

    def arrive(row: int, message: Any) -> None:
        receiver = receivers.get(message)
        finish(row)
        if receiver is None:
            arrived.add(message)
        else:
            finish(receiver)

    def cross(hops: list[Any], size: int, at_end: Callable[[], None]) -> None:
        if not hops:
            at_end()
        elif hops[0][0] in busy:
            queues[hops[0][0]].append((hops, size, at_end))
        else:
            link, bytes_per_ns, latency = hops[0]
            busy.add(link)
            schedule(int(latency + size / bytes_per_ns), lambda: cross(hops[1:], size, at_end))
            schedule(int(size / bytes_per_ns), lambda: free(link))

    def free(link: Any) -> None:
        busy.remove(link)
        if queues[link]:
            cross(*queues[link].popleft())

    for rank in range(trace.num_ranks):
        read_nodes(rank)
        issue_ready(rank)
    while events:
        now, _, action = heapq.heappop(events)
        action()
    return finish_ns


def naive_coordinates(network: NetworkConfig, npu: int) -> list[int]:
    """Coordinates of an NPU, dimension 0 first."""
    coordinates = []
    for dimension in network.dimensions:
        coordinates.append(npu % dimension.size)
        npu //= dimension.size
    return coordinates


def naive_direct_delay(network: NetworkConfig, src: int, dst: int, size: int) -> int:
    """Delay of a message under congestion-unaware."""
    for dimension, a, b in zip(network.dimensions, naive_coordinates(network, src), naive_coordinates(network, dst), strict=True):
        if a != b:
            distance = abs(a - b)
            around = min(distance, dimension.size - distance)
            known = {"Ring": around, "Mesh": distance, "FullyConnected": 1, "Switch": 2}
            hops = known[dimension.block] if dimension.block in known else len(naive_block_route(dimension, a, b))
            return int(hops * dimension.latency_ns + size / (dimension.bandwidth_gibps * 2**30 / 1e9))
    raise AssertionError("a message to oneself")


def naive_block_route(dimension: Dimension, src: int, dst: int) -> list[int]:
    """Members after the source on a shortest route through a block without switches; of equal ways over the first links."""
    links = dimension.building_block.links(dimension.size)
    after: dict[int, list[int]] = defaultdict(list)
    for a, b in zip(links.src.tolist(), links.dst.tolist(), strict=True):
        after[a].append(b)
    routes: list[list[int]] = [[src]]
    while all(route[-1] != dst for route in routes):
        routes = [[*route, member] for route in routes for member in after[route[-1]] if member not in route]
    return next(route[1:] for route in routes if route[-1] == dst)


def naive_route(network: NetworkConfig, src: int, dst: int) -> list[Any]:
    """(link, bytes per ns, latency) of every hop under congestion-aware, one dimension after the other."""
    here, there = naive_coordinates(network, src), naive_coordinates(network, dst)
    route: list[Any] = []
    for axis, dimension in enumerate(network.dimensions):
        rate, size = dimension.bandwidth_gibps * 2**30 / 1e9, dimension.size
        while here[axis] != there[axis]:
            before = tuple(here)
            if dimension.block in ("FullyConnected", "Switch"):
                here[axis] = there[axis]
            elif dimension.block == "Mesh":
                here[axis] += 1 if there[axis] > here[axis] else -1
            elif dimension.block != "Ring":
                here[axis] = naive_block_route(dimension, here[axis], there[axis])[0]
            else:
                upwards = (there[axis] - here[axis]) % size
                here[axis] = (here[axis] + (1 if upwards <= size - upwards else -1)) % size
            after = tuple(here)
            if dimension.block == "Switch":
                switch = ("switch", axis, before[:axis] + before[axis + 1 :])
                route += [((before, switch), rate, dimension.latency_ns), ((switch, after), rate, dimension.latency_ns)]
            else:
                route.append(((before, after), rate, dimension.latency_ns))
    return route
