"""Regression cases of the public TACOS 1.3.0 tests: All-Gathers, with the collective time that they expect.

Each is (dimensions, chunks per NPU, gathered bytes, microseconds). Upstream takes the best of 20 random runs and allows 1%.
"""

from __future__ import annotations

GIB = 1 << 30


def grid(block: str, sizes: tuple[int, ...], bandwidths: tuple[float, ...], latency: float):
    return tuple((block, size, bandwidth, latency) for size, bandwidth in zip(sizes, bandwidths, strict=True))


CASES = {
    "mesh 5x5": (grid("Mesh", (5, 5), (50.0, 50.0), 500.0), 1, GIB, 9606.0),
    "mesh 10x10": (grid("Mesh", (10, 10), (100.0, 100.0), 1000.0), 2, GIB, 5049.0),
    "mesh 7x12": (grid("Mesh", (7, 12), (100.0, 100.0), 1000.0), 3, 4 * GIB, 19966.27),
    "mesh 5x5, 50 and 75": (grid("Mesh", (5, 5), (50.0, 75.0), 500.0), 1, GIB, 8005.0),
    "mesh 8x5, 80 and 35": (grid("Mesh", (8, 5), (80.0, 35.0), 1000.0), 2, GIB, 8595.43),
    "mesh 7x10, 16 and 73": (grid("Mesh", (7, 10), (16.0, 73.0), 1500.0), 3, 4 * GIB, 44612.47),
    "torus 3x3x3": (grid("Ring", (3, 3, 3), (50.0,) * 3, 500.0), 1, GIB, 3706.20),
    "torus 3x4x5": (grid("Ring", (3, 4, 5), (50.0,) * 3, 500.0), 2, 2 * GIB, 6676.67),
    "torus 4x2x3": (grid("Ring", (4, 2, 3), (50.0,) * 3, 500.0), 3, 3 * GIB, 11673.67),
    "mesh 3x3x3": (grid("Mesh", (3, 3, 3), (50.0,) * 3, 500.0), 1, GIB, 6671.17),
    "mesh 3x4x5": (grid("Mesh", (3, 4, 5), (50.0,) * 3, 500.0), 2, 2 * GIB, 13353.33),
    "mesh 4x2x3": (grid("Mesh", (4, 2, 3), (50.0,) * 3, 500.0), 3, 3 * GIB, 19178.17),
}
