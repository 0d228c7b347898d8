"""Pipeline schedules: the order in which a rank runs the micro-batches forward and backward through its chunks of layers.

With v virtual stages, a rank of p has v chunks of layers: chunk c of stage s is the virtual stage c * p + s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple


class Pass(NamedTuple):
    """A forward or backward pass of a micro-batch through a chunk of layers."""

    is_forward: bool
    micro_batch: int
    chunk: int = 0


def one_forward_one_backward(stage: int, num_stages: int, micro_batches: int, virtual_stages: int = 1) -> Iterator[Pass]:
    """1F1B: one forward, one backward (Narayanan et al. 2021, arXiv:2104.04473, sections 2.2.1 and 2.2.2).

    A stage first runs one forward pass for each stage after it, then alternates between forward and backward passes. It holds the
    activations of at most `num_stages` micro-batches. With virtual stages (interleaved 1F1B) chunks take turns after
    `num_stages` micro-batches, and the number of micro-batches is a multiple of `num_stages`.
    """
    if virtual_stages == 1:
        turns = [(number, 0) for number in range(micro_batches)]
        ahead = min(num_stages - 1 - stage, micro_batches)
    else:
        turns = [
            (first + number, chunk)
            for first in range(0, micro_batches, num_stages)
            for chunk in range(virtual_stages)
            for number in range(num_stages)
        ]
        ahead = 2 * (num_stages - 1 - stage) + (virtual_stages - 1) * num_stages
        ahead = len(turns) if micro_batches == num_stages else min(ahead, len(turns))
    for number, chunk in turns[:ahead]:
        yield Pass(True, number, chunk)
    for turn, (number, chunk) in enumerate(turns):
        if ahead + turn < len(turns):
            yield Pass(True, *turns[ahead + turn])
        yield Pass(False, number, virtual_stages - 1 - chunk)


def forward_first(
    stage: int, num_stages: int, micro_batches: int, virtual_stages: int = 1, *, newest_first: bool = False
) -> Iterator[Pass]:
    """All forward passes, a chunk after the other, then all backward passes.

    Breadth-first (Lamy-Poirier 2023, arXiv:2211.05953) goes backward in the order of micro-batches, GPipe (Huang et al. 2019,
    arXiv:1811.06965, figure 2) in reverse order.
    """
    numbers = range(micro_batches)
    yield from (Pass(True, number, chunk) for chunk in range(virtual_stages) for number in numbers)
    back = numbers[::-1] if newest_first else numbers
    yield from (Pass(False, number, chunk) for chunk in reversed(range(virtual_stages)) for number in back)


PIPELINE_SCHEDULES: dict[str, Callable[..., Iterator[Pass]]] = {
    "1f1b": one_forward_one_backward,
    "gpipe": partial(forward_first, newest_first=True),
    "breadth-first": forward_first,
}
