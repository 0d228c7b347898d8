"""TwistedTorus: a two-dimensional torus, whose wrap-around links lead to another row or column than they come from.

The size decides the shape. With columns x that vary fastest and rows y, id = x + width * y:

- 2 k**2 NPUs (8, 18, 32, 50, ...) are k rows of 2 k, and the way up from the last row leads into the first one k columns on. This
  rectangular twisted torus has a diameter of k, and the torus of its size one of k + k // 2. Source: Cámara, Moretó, Vallejo,
  Beivide, Miguel-Alonso, Martínez, Navaridas, "Twisted Torus Topologies for Enhanced Interconnection Networks", IEEE
  Transactions on Parallel and Distributed Systems 21 (2010). Of the twisted slices of a TPU v4 (Jouppi et al., "TPU v4: An
  Optically Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings", ISCA 2023), it is the 4 x 2
  example of the paper; its slices k x k x 2k and k x 2k x 2k are twisted in three dimensions, which no block is.
- k**2 NPUs (9, 16, 25, ...) are k rows of k, and the way right from the last column leads into the first one a row further up:
  ids that differ by 1 or k modulo k**2 are neighbours, as in the ILLIAC IV (Barnes et al., "The ILLIAC IV Computer", IEEE
  Transactions on Computers, 1968).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.blocks.building_block import BlockLinks, BuildingBlock, Tour
from astra_tacos.blocks.translations import CyclicTranslations, Members, Translations


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
        """In a square by ids; else along the first row, and through the columns of all others, to and fro, back."""
        width = _width(size)
        if width * width == size:
            return Tour(np.arange(size), is_closed=True)
        ids = np.arange(size).reshape(-1, width)
        columns = [ids[1:, x] if (width - 1 - x) % 2 == 0 else ids[:0:-1, x] for x in range(width - 1, -1, -1)]
        return Tour(np.concatenate((ids[0], *columns)), is_closed=True)

    def axes(self, size: int) -> NDArray[np.int64]:
        npus = np.arange(size)
        return np.stack([self.translations(size).move(npus, np.array([way])) for way in (1, _width(size))])


@dataclass(frozen=True, slots=True)
class _RectangularTranslations:
    """Addition of columns modulo 2 k and of rows, of which k are as good as k columns."""

    k: int

    def move(self, member: Members, by: Members) -> Members:
        return self._member(member % (2 * self.k) + by % (2 * self.k), member // (2 * self.k) + by // (2 * self.k))

    def offset(self, src: Members, dst: Members) -> Members:
        return self._member(dst % (2 * self.k) - src % (2 * self.k), dst // (2 * self.k) - src // (2 * self.k))

    def _member(self, x: Members, y: Members) -> Members:
        member: Members = (x + y // self.k * self.k) % (2 * self.k) + 2 * self.k * (y % self.k)
        return member


def _width(size: int) -> int:
    """Columns of a row, 0 for sizes that there are none of."""
    root = math.isqrt(size)
    if root * root == size:
        return root if root > 2 else 0
    root = math.isqrt(size // 2)
    return 2 * root if 2 * root * root == size and root > 1 else 0


TWISTED_TORUS = _TwistedTorus()
