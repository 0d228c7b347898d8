"""What parameter servers take in theory, in units of S / B: the time in which a port sends one buffer.

n workers of S bytes each, full-duplex ports, and only bandwidth counts. A server adds n copies of what is dealt to it and sends
the sum back n times (BytePS, Jiang et al., OSDI 2020; PHub, Luo et al., SoCC 2018).
"""

from __future__ import annotations


def colocated(workers: int) -> float:
    """A server process on each worker, as any All-Reduce of hosts: 2 (n - 1) / n."""
    return 2 * (workers - 1) / workers


def dedicated(workers: int, servers: int, port: float = 1.0) -> float:
    """All chunks on some machines whose ports are `port` times a worker's: max(1, n / (k port)); infinite without any."""
    return max(1.0, workers / (servers * port)) if servers else float("inf")


def mixed(workers: int, servers: int) -> float:
    """The best share of chunks on servers, the rest on workers, equal ports: 2 n (n - 1) / (n^2 + k n - 2 k), at least 1."""
    n, k = workers, servers
    return max(1.0, 2 * n * (n - 1) / (n * n + k * n - 2 * k))


def server_share(workers: int, servers: int) -> float:
    """The share of chunks that servers have in `mixed`: with it, ports of workers and of servers are busy for as long."""
    return min(1.0, mixed(workers, servers) * servers / workers)


def racks_flat(workers: int, racks: int, uplink: float) -> float:
    """Chunks dealt to all workers of racks of n, whose uplinks are `uplink` times a worker's port: each sends 2 n (r - 1) / r."""
    return max(colocated(workers * racks), 2 * workers * (racks - 1) / racks / uplink)


def racks_summed(workers: int, racks: int, uplink: float, *, dedicated_at_the_top: bool = False) -> float:
    """Summed up in each rack first (two levels): an uplink sends 2 (r - 1) / r, or 1 where servers are above the racks."""
    crossing = 1.0 if dedicated_at_the_top else 2 * (racks - 1) / racks
    return max(colocated(workers * racks), crossing / uplink)


def racks_of(workers: int, racks: int, uplink: float) -> dict[str, float]:
    """The three of them, by name."""
    return {
        "flat": racks_flat(workers, racks, uplink),
        "summed in racks": racks_summed(workers, racks, uplink),
        "servers above racks": racks_summed(workers, racks, uplink, dedicated_at_the_top=True),
    }


def fewest_that_win(workers: int) -> int:
    """The fewest dedicated servers that alone are faster than an All-Reduce of the workers: k > n^2 / (2 (n - 1))."""
    return workers * workers // (2 * (workers - 1)) + 1
