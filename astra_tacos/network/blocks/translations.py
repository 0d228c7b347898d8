"""Translations: permutations of a group's members that map links onto links, one for every image of member 0.

A block that has them is the Cayley graph of an Abelian group (Akers, Krishnamurthy, "A Group-Theoretic Model for Symmetric
Interconnection Networks", IEEE Transactions on Computers, 1989): it looks the same from every member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Members = NDArray[np.int64]


class Translations(Protocol):
    """A group's translations; that `by` member b takes member 0 to member b."""

    def move(self, member: Members, by: Members) -> Members:
        """Where `member[i]` goes in the translation by `by[i]`."""

    def offset(self, src: Members, dst: Members) -> Members:
        """Where `dst[i]` goes in the translation that takes `src[i]` to 0."""


@dataclass(frozen=True, slots=True)
class CyclicTranslations:
    """Addition modulo the number of members."""

    size: int

    def move(self, member: Members, by: Members) -> Members:
        """`(member + by) mod size`."""
        moved: Members = (member + by) % self.size
        return moved

    def offset(self, src: Members, dst: Members) -> Members:
        """`(dst - src) mod size`."""
        moved: Members = (dst - src) % self.size
        return moved


@dataclass(frozen=True, slots=True)
class BitwiseTranslations:
    """Addition of bits without carry: exclusive or."""

    def move(self, member: Members, by: Members) -> Members:
        """`member xor by`."""
        return member ^ by

    def offset(self, src: Members, dst: Members) -> Members:
        """`dst xor src`."""
        return dst ^ src
