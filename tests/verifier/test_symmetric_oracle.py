"""The oracle for symmetric schedules agrees with the ordinary one, and refuses what it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples
from helpers.schedules import codes
from helpers.symmetric import task, tasks
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.blocks.building_block import BlockLinks
from astra_tacos.network.blocks.routing import BitwiseTranslations
from astra_tacos.network.network_config import Dimension
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric
from astra_tacos.verifier.schedule_oracle import verify
from astra_tacos.verifier.symmetric_oracle import verify_symmetric

COLUMNS = ("chunk", "src", "dst", "reduces", "start_ns", "end_ns")


def with_columns(schedule, columns):
    order = np.argsort(columns["start_ns"], kind="stable")
    return replace(schedule, **{name: column[order] for name, column in columns.items()})


@st.composite
def broken(draw):
    """A schedule of which a few rows were changed, dropped or doubled; some are legal still."""
    schedule = synthesize_symmetric(draw(tasks(12)))
    columns = {name: getattr(schedule, name).copy() for name in COLUMNS}
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(columns["chunk"]) - 1))
        other = draw(st.integers(0, len(columns["chunk"]) - 1))
        kind = draw(st.sampled_from(("shift", "swap", "chunk", "dst", "src", "drop", "double", "reduces", "times", "delay")))
        if kind == "shift":
            by = draw(st.sampled_from((-100_000, -1000, -1, 1, 1000)))
            columns["start_ns"][row] += by
            columns["end_ns"][row] += by
        elif kind == "delay":
            columns["end_ns"][row] += draw(st.sampled_from((-1, 1)))
        elif kind == "swap":
            for name in ("src", "dst"):
                columns[name][[row, other]] = columns[name][[other, row]]
        elif kind == "times":
            for name in ("start_ns", "end_ns"):
                columns[name][[row, other]] = columns[name][[other, row]]
        elif kind in ("src", "dst"):
            columns[kind][row] = draw(st.integers(0, schedule.task.num_npus - 1))
        elif kind == "chunk":
            columns["chunk"][row] = columns["chunk"][other]
        elif kind == "reduces":
            columns["reduces"][row] = not columns["reduces"][row]
        else:
            rows = np.arange(len(columns["chunk"]))
            rows = np.delete(rows, row) if kind == "drop" and len(rows) > 1 else np.append(rows, row)
            columns = {name: column[rows] for name, column in columns.items()}
    return with_columns(schedule, columns)


@examples(20)
@given(broken())
def test_accepts_only_what_the_ordinary_oracle_accepts(schedule):
    violations = verify_symmetric(schedule)
    if len({*schedule.task.timing.channel_delay_ns.shape[1:]} - {1}):
        return  # chunks differ by a byte: the expanded schedule has times of its own
    ordinary = verify(schedule.expand())
    assert bool(violations) == bool(ordinary), (violations[:3], ordinary[:3])


def test_each_fault_has_its_code():
    what = task("Ring 4, Switch 3 25 100", "all-reduce", 1 << 20, 2)
    schedule = synthesize_symmetric(what)
    columns = {name: getattr(schedule, name) for name in COLUMNS}

    def of(**changed):
        return codes(verify_symmetric(replace(schedule, **(columns | changed))))

    assert of() == set()
    early = schedule.start_ns - schedule.start_ns[5]
    assert "negative-start" in of(start_ns=early, end_ns=early + (schedule.end_ns - schedule.start_ns))
    assert of(end_ns=schedule.end_ns + (np.arange(schedule.num_rows) == 3)) >= {"delay"}
    assert of(start_ns=schedule.start_ns[::-1].copy(), end_ns=schedule.end_ns[::-1].copy()) >= {"unordered"}
    assert of(chunk=np.zeros_like(schedule.chunk)) >= {"incomplete", "redundant-send"}
    assert of(chunk=schedule.chunk + 2) == {"no-such-chunk"}
    assert of(dst=schedule.dst * 0 + 99) == {"no-such-destination"}
    assert of(dst=schedule.src) == {"no-such-channel"}
    assert of(reduces=~schedule.reduces) >= {"counted-out", "chunk-absent"}
    assert of(chunk=schedule.chunk[:-1]) == {"shape"}
    together = np.zeros_like(schedule.start_ns)
    assert of(start_ns=together, end_ns=schedule.end_ns - schedule.start_ns) >= {"double-booked", "counted-out"}


RING_BLOCK = type(BUILDING_BLOCKS["Ring"])


class Lame(RING_BLOCK):  # type: ignore[misc, valid-type]
    """A ring that lacks a link, although it says that it looks the same from everywhere."""

    __slots__ = ()

    def links(self, size):
        whole = super().links(size)
        return BlockLinks(whole.src[:-1], whole.dst[:-1])


class Flipping(RING_BLOCK):  # type: ignore[misc, valid-type]
    """A ring whose translations do not keep its links."""

    __slots__ = ()

    def translations(self, size):
        return BitwiseTranslations()


@pytest.mark.parametrize("block, size", [(Lame(), 4), (Flipping(), 8)])
def test_a_network_that_is_not_known_to_be_symmetric_is_refused(block, size, monkeypatch):
    what = task(f"Ring {size}")
    schedule = synthesize_symmetric(what)
    assert verify_symmetric(schedule) == ()
    monkeypatch.setitem(BUILDING_BLOCKS, "Ring", block)
    assert [violation.code for violation in verify_symmetric(schedule)] == ["not-symmetric"]


def test_a_mesh_is_refused_even_if_a_task_has_one():
    schedule = synthesize_symmetric(task("Ring 4"))
    forged = task("Ring 4")
    object.__setattr__(forged, "dimensions", (Dimension("Mesh", 4, 50.0, 500.0),))
    assert codes(verify_symmetric(replace(schedule, task=forged))) == {"not-symmetric"}
