"""Positions of the devices of an arbitrary graph: by networkx for few devices, by distances from landmarks for many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology

_MOST_BY_PATHS = 64
"""Number of devices up to which Kamada and Kawai's layout, which compares all pairs, is fast."""
_MOST_BY_FORCES = 300
_PIVOTS = 48
_SEED = 1
_APART = 0.01
"""How far apart devices are moved that would coincide, as a share of the drawing's extent over the root of their number."""


def lay_out_graph(topology: Topology) -> NDArray[np.float64]:
    """Positions of all devices, float64[num_devices, 2]: neighbours are near one another, and no two devices coincide.

    For a few devices, distances in the drawing follow those in the graph (Kamada and Kawai 1989). For more devices, forces
    between them decide; large networks are laid out by classical scaling of the distances from some devices (pivot MDS, Brandes
    and Pich 2007). The result is deterministic.
    """
    if topology.num_devices <= _MOST_BY_FORCES:
        return _apart(_by_networkx(topology))
    return _apart(_by_pivots(topology))


def _by_networkx(topology: Topology) -> NDArray[np.float64]:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(topology.num_devices))
    graph.add_edges_from(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    if topology.num_devices <= _MOST_BY_PATHS:
        where = networkx.kamada_kawai_layout(graph)
    else:
        where = networkx.spring_layout(graph, seed=_SEED, iterations=100)
    # The last bits depend on the machine's linear algebra; rounding removes them.
    positions = np.array([where[device] for device in range(topology.num_devices)], np.float64)
    return positions.round(6)


def _by_pivots(topology: Topology) -> NDArray[np.float64]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    count = topology.num_devices
    ones = np.ones(topology.num_links)
    graph = coo_array((ones, (topology.link_src, topology.link_dst)), shape=(count, count)).tocsr()
    nearest = np.full(count, np.inf)
    rows = []
    pivot = 0
    for _ in range(min(_PIVOTS, count)):  # the next pivot is the device farthest from all pivots so far
        distance = dijkstra(graph, directed=False, indices=pivot, unweighted=True)
        rows.append(distance)
        nearest = np.minimum(nearest, distance)
        pivot = int(nearest.argmax())
    squared = np.stack(rows, axis=1) ** 2
    centred = -0.5 * (squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean())
    values, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, np.argsort(-values, kind="stable")[:2]]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])  # the sign of an eigenvector is arbitrary
    positions: NDArray[np.float64] = centred @ axes
    return (positions / max(float(np.abs(positions).max()), 1e-300)).round(6)


def _apart(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The positions, float64[n, 2], with devices that coincide moved onto a small spiral around their place."""
    step = _APART * max(float(np.ptp(positions, axis=0).max()), 1.0) / np.sqrt(len(positions))
    cell = np.round(positions / step).astype(np.int64)
    _, group = np.unique(cell, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    within = np.empty(len(positions), np.int64)
    within[order] = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    angle = within * (np.pi * (3 - np.sqrt(5)))  # the golden angle, so that no two devices have the same direction
    distance = np.where(counts[group] > 1, np.sqrt(within / np.maximum(counts[group], 1)) * 0.45 * step, 0.0)
    snapped = np.where((counts[group] > 1)[:, None], cell * step, positions)
    moved: NDArray[np.float64] = snapped + distance[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return moved
