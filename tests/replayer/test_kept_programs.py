"""Kept native programs: one program per request, a bounded number of nodes, shared by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.replayer.native import NativeCollective, composition, native_program
from astra_tacos.replayer.native.composition import KeptPrograms
from astra_tacos.run.system import SystemConfig

SYSTEM = SystemConfig("system.json", preferred_dataset_splits=3, collective_optimization="baseline", local_mem_bw_gbps=50.0)


def program(size_bytes=3072, implementation="ring", earlier_chunks=0):
    collective = NativeCollective("all-reduce", (implementation,), size_bytes, (4,), earlier_chunks=earlier_chunks)
    return native_program(collective, SYSTEM)


def assert_same(kept, made):
    for name in (field.name for field in fields(CollectiveProgram)):
        np.testing.assert_array_equal(getattr(kept, name), getattr(made, name), name)


@pytest.mark.parametrize("implementation", ["ring", "direct", "halvingDoubling", "doubleBinaryTree"])
def test_a_kept_program_is_the_one_that_is_made_anew(implementation, monkeypatch):
    requests = [(size_bytes, earlier) for size_bytes in (3072, 4096, 3072) for earlier in (0, 1, 2, 0)]
    kept = [program(size_bytes, implementation, earlier) for size_bytes, earlier in requests]
    for (size_bytes, earlier), each in zip(requests, kept, strict=True):
        monkeypatch.setattr(composition, "_kept", KeptPrograms())
        assert_same(each, program(size_bytes, implementation, earlier))


def test_the_least_recently_used_programs_go_first():
    small = program()
    kept = KeptPrograms(most_nodes=2 * small.num_nodes)
    made: list[str] = []

    def get(key):
        kept.get(key, lambda: made.append(key) or small)

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]


def test_a_program_above_the_limit_is_made_and_not_kept():
    large = program()
    kept = KeptPrograms(most_nodes=large.num_nodes - 1)
    assert kept.get("large", lambda: large) is large
    other = program(4096)
    assert kept.get("large", lambda: other) is other


def test_threads_share_programs():
    kept = KeptPrograms(most_nodes=3 * program().num_nodes)
    programs = [program(1024 * (1 + number)) for number in range(8)]

    def get(number):
        return kept.get(number % 8, lambda: programs[number % 8]) is programs[number % 8]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(get, range(4000)))
