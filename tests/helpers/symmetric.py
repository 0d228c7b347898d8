"""Symmetric tasks for tests."""

from __future__ import annotations

from helpers.networks import config, dims_of
from hypothesis import strategies as st

from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricTask
from astra_tacos.schedule.timing import LINK_MODELS

_BLOCKS = dims_of(
    "Ring 2, Ring 3, Ring 4, Ring 5, FullyConnected 2, FullyConnected 4, Switch 2, Switch 3, Switch 4, Switch 7, "
    "Hypercube 4, Hypercube 8, TwistedTorus 8, TwistedTorus 9"
)


def task(dimensions, collective="all-gather", size_bytes=1 << 20, chunks_per_npu=1, link_model="blocking", reduce_gbps=0.0):
    """A task on dimensions given in words, or as (block, size, GiB/s, ns)."""
    product = config(*[dimensions] if isinstance(dimensions, str) else dimensions).dimensions
    return SymmetricTask("test", product, collective, size_bytes, chunks_per_npu, link_model, reduce_gbps)


@st.composite
def tasks(draw: st.DrawFn, most_npus: int = 24) -> SymmetricTask:
    """Any collective, on products of unlike dimensions, in a few chunks of like or unlike sizes."""
    dimensions: list[tuple[str, int, float, float]] = []
    npus = 1
    for _ in range(draw(st.integers(1, 3))):
        block, size, *_ = draw(st.sampled_from(_BLOCKS))
        if npus * size <= most_npus:
            npus *= size
            speed = draw(st.sampled_from((12.5, 25.0, 50.0, 400.0))), draw(st.sampled_from((0.0, 30.0, 500.0, 936.25)))
            dimensions.append((block, size, *speed))
    return task(
        dimensions,
        draw(st.sampled_from(SYMMETRIC_COLLECTIVES)),
        draw(st.sampled_from((1 << 20, 1_234_567))),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(LINK_MODELS)),
        draw(st.sampled_from((0.0, 10.0))),
    )
