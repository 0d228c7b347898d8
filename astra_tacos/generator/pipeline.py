"""Pipeline schedules: the order in which a stage runs the micro-batches forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Pass(NamedTuple):
    """A forward or backward pass of a micro-batch."""

    is_forward: bool
    micro_batch: int


def one_forward_one_backward(stage: int, num_stages: int, micro_batches: int) -> Iterator[Pass]:
    """1F1B: one forward, one backward (Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1, without interleaving).

    A stage first runs one forward pass for each stage after it, then alternates between forward and backward passes. It holds the
    activations of at most `num_stages` micro-batches.
    """
    ahead = min(num_stages - 1 - stage, micro_batches)
    for number in range(ahead):
        yield Pass(True, number)
    for number in range(micro_batches):
        if ahead + number < micro_batches:
            yield Pass(True, ahead + number)
        yield Pass(False, number)


def gpipe(stage: int, num_stages: int, micro_batches: int) -> Iterator[Pass]:
    """GPipe (Huang et al. 2019, arXiv:1811.06965, figure 2): all forward passes, then all backward passes in reverse order."""
    for number in range(micro_batches):
        yield Pass(True, number)
    for number in reversed(range(micro_batches)):
        yield Pass(False, number)


PIPELINE_SCHEDULES: dict[str, Callable[[int, int, int], Iterator[Pass]]] = {
    "1f1b": one_forward_one_backward,
    "gpipe": gpipe,
}
