"""TwistedTorus: a two-dimensional torus whose wrap-around links end in another row or column than they begin in.

The size determines the shape. NPUs have column x and row y, id = x + width * y:

- 2 k**2 NPUs (8, 18, 32, 50, ...) form k rows of 2 k. The links up from the last row end in the first row, k columns further on.
  This rectangular twisted torus has a diameter of k, the torus of the same size k + k // 2. Source: Cámara, Moretó, Vallejo,
  Beivide, Miguel-Alonso, Martínez, Navaridas, "Twisted Torus Topologies for Enhanced Interconnection Networks", IEEE
  Transactions on Parallel and Distributed Systems 21 (2010). The paper on the TPU v4 (Jouppi et al., "TPU v4: An Optically
  Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings", ISCA 2023) shows it as its 4 x 2
  example. The twisted slices of that machine, k x k x 2k and k x 2k x 2k, are three-dimensional; no block models them.
- k**2 NPUs (9, 16, 25, ...) form k rows of k. The links right from the last column end in the first column, one row up: ids that
  differ by 1 or k modulo k**2 are neighbours, as in the ILLIAC IV (Barnes et al., "The ILLIAC IV Computer", IEEE Transactions on
  Computers, 1968).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock, Tour
from astra_tacos.network.blocks.routing import CyclicTranslations, Members, Translations


class _TwistedTorus(BuildingBlock):
    """Four links out of every NPU, to the right, left, up and down. Routes go along rows first."""

    __slots__ = ()

    name = "TwistedTorus"

    def expected_size(self, size: int) -> str | None:
        return None if _width(size) else "k**2 with k above 2, or 2 * k**2 with k above 1 (8, 9, 16, 18, 25, 32, ...)"

    def links(self, size: int) -> BlockLinks:
        npus, translations = np.arange(size), self.translations(size)
        zero = np.zeros(1, np.int64)
        right, up = np.array([1]), np.array([_width(size)])
        ways = (right, translations.offset(right, zero), up, translations.offset(up, zero))
        return BlockLinks(np.tile(npus, 4), np.concatenate([translations.move(npus, way) for way in ways]))

    def estimated_channels(self, size: int) -> int:
        return 4 * size

    def translations(self, size: int) -> Translations:
        width = _width(size)
        return CyclicTranslations(size) if width * width == size else _RectangularTranslations(width // 2)

    def tour(self, size: int) -> Tour:
        """In a square, the order of ids; else the first row, then the other rows column by column, from right to left."""
        width = _width(size)
        if width * width == size:
            return Tour(np.arange(size), is_closed=True)
        ids = np.arange(size).reshape(-1, width)
        columns = [ids[1:, x] if (width - 1 - x) % 2 == 0 else ids[:0:-1, x] for x in range(width - 1, -1, -1)]
        return Tour(np.concatenate((ids[0], *columns)), is_closed=True)


@dataclass(frozen=True, slots=True)
class _RectangularTranslations:
    """Addition of columns and rows. Columns count modulo 2 k; k rows are the same as k columns."""

    k: int

    def move(self, member: Members, by: Members) -> Members:
        return self._member(member % (2 * self.k) + by % (2 * self.k), member // (2 * self.k) + by // (2 * self.k))

    def offset(self, src: Members, dst: Members) -> Members:
        return self._member(dst % (2 * self.k) - src % (2 * self.k), dst // (2 * self.k) - src // (2 * self.k))

    def _member(self, x: Members, y: Members) -> Members:
        member: Members = (x + y // self.k * self.k) % (2 * self.k) + 2 * self.k * (y % self.k)
        return member


def _width(size: int) -> int:
    """Number of columns, 0 for sizes that the block cannot have."""
    root = math.isqrt(size)
    if root * root == size:
        return root if root > 2 else 0
    root = math.isqrt(size // 2)
    return 2 * root if 2 * root * root == size and root > 1 else 0


TWISTED_TORUS = _TwistedTorus()
