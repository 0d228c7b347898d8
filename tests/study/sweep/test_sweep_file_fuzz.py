"""Whatever stands in a sweep file, it makes points or one line that says why not."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from helpers.sweep_files import CONFIGS, read_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.study.sweep.sweep_file import read_sweep_file

WHOLE = read_text("""
name: x
point: {network: *THREE, failed_links: {fraction: = f, seed: 1}, size: 1MiB, collective: all-gather, chunks_per_npu: = n,
        trials: 2, budget: 1.5}
axes:
- grid: {b0: {from: 100, to: 200, step: 100}, f: [0, 0.1]}
- zip: {b1: [100, 200], n: [1, 2]}
- list: [{network: {<<: *TORUS, name: t}}, {seed: 3}, {failed_links: null, size: 4KiB}]
define: {b2: 600 - b0 - b1}
where: [b2 >= 50, num_npus > 3]
""")
TEXTS = """
= b0
= [1, 2]
= 'x'
= b0 /
1e3
64MiB
ring
no.yml
b0 < 300
=
= 1 / 0
b2
grid
2 ** 62"""
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS.split("\n"))
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["from", "to", "step", "size", "b0", "x", "fraction", "network", "topology", "name"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def places(document):
    """Ways to every value of a document."""
    entries = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    return [way for key, value in entries for way in ((key,), *((key, *rest) for rest in places(value)))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=200)
@given(st.sampled_from(places(WHOLE)), st.one_of(VALUES, st.just(...)))
@example(("point", "network", "npus_count"), [2, 4, 10**30])
@example(("axes", 0, "grid", "f"), [float("inf")])
@example(("axes", 2, "list", 0, "network", "name"), "= 'x'")
@example(("cost_model",), str(CONFIGS / "cost" / "three_tiers.yml"))
def test_points_or_one_line(folder, way, value):
    document = copy.deepcopy(WHOLE)
    inner: Any = document
    for key in way[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[way[-1]]
    else:
        inner[way[-1]] = value
    path = folder / "s.yml"
    path.write_text(json.dumps(document))
    try:
        sweep = read_sweep_file(path)
    except ConfigError as error:
        assert "\n" not in str(error) and "s.yml" in str(error)
        return
    for index, point in enumerate(sweep.points):
        assert point.index == index
        assert pickle.loads(pickle.dumps(point)).key == point.key


def test_the_whole_one_is_read(folder):
    path = folder / "s.yml"
    path.write_text(json.dumps(WHOLE))
    points = read_sweep_file(path).points
    assert len(points) == 2 * 2 * 2 * 3
    assert {point.inputs["network"] for point in points} == {"t", "Ring 2 x FullyConnected 4 x Switch 8"}
