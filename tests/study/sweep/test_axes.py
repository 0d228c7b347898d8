"""Axes: grids, zips and lists multiply as itertools would have it; ranges are what they say."""

from __future__ import annotations

import itertools

import pytest
import yaml
from helpers.sweep_files import sweep
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.study.sweep.axes import Part, list_values, read_axes
from astra_tacos.support.documents import Value

VALUES = st.lists(st.integers(-9, 9), min_size=1, max_size=4)
GRIDS = st.dictionaries(st.sampled_from("wxyz"), VALUES, min_size=1)


def axes(document):
    def key(name, value, where):
        return Part({name: value}, {name: value})

    return read_axes(document, Value("s.yml", document, "axes"), key, lambda name: Part())


def names(document):
    return [part.names for part in axes(document).combinations()]


@given(GRIDS)
def test_a_grid_is_a_product(document):
    expected = [dict(zip(document, values, strict=True)) for values in itertools.product(*document.values())]
    assert names(document) == expected
    assert names([{"grid": document}]) == expected
    assert axes(document).num_combinations == len(expected)


@given(GRIDS, st.lists(st.tuples(*[st.integers(-9, 9)] * 3), min_size=1), VALUES)
def test_blocks_multiply(grid, rows, entries):
    """A zip goes side by side."""
    zipped = dict(zip("abc", map(list, zip(*rows, strict=True)), strict=True))
    listed = [{"d": entry, "e": not entry} for entry in entries]
    products = itertools.product(names(grid), [dict(zip("abc", row, strict=True)) for row in rows], listed)
    assert names([{"grid": grid}, {"zip": zipped}, {"list": listed}]) == [one | two | three for one, two, three in products]


def test_an_entry_of_a_list_leaves_keys_of_point_as_they_are(tmp_path):
    entries = "[{chunks_per_npu: 1}, {chunks_per_npu: 4, trials: 2}, {trials: 3}]"
    found = sweep(tmp_path, f"{{point: {{chunks_per_npu: 8}}, axes: [{{list: {entries}}}]}}")
    assert [(point.task.options.chunks_per_npu, point.task.options.trials) for point in found.points] == [
        (1, None),
        (4, 2),
        (8, 3),
    ]
    assert found.axes == ("chunks_per_npu", "trials")


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    yaml.safe_load("""
- [b, {from: 50, to: 400, step: 50}, [50, 100, 150, 200, 250, 300, 350, 400]]
- [b, {from: 0, to: 0.3, step: 0.1}, [0, 0.1, 0.2, 0.3]]
- [b, {from: 0.1, to: 1000, factor: 10}, [0.1, 1, 10, 100, 1000]]
- [b, {from: 0, to: 1, count: 5}, [0, 0.25, 0.5, 0.75, 1]]
- [b, {from: "1e2", to: "3e2", step: "1e2"}, [100, 200, 300]]
- [size, {from: 1KiB, to: 16KiB, factor: 4}, [1024, 4096, 16384]]
- [size, {from: 1024, to: 4KiB, step: 1KiB}, [1024, 2048, 3072, 4096]]
- [size, "1MiB:256MiB", [0x100000, 0x400000, 0x1000000, 0x4000000, 0x10000000]]
- [size, [1KiB, 77, "2KiB:8KiB"], [1024, 77, 2048, 8192]]
"""),
)
def test_values(name, document, expected):
    found = [value for _, value in list_values(name, document, Value("x", document))]
    assert found == expected
    assert [type(value) for value in found] == [int if value == int(value) else float for value in expected]


WRONG = """
5 | axes is 5, expected a mapping of axes, or a list of grid, zip and list
{grid: {a: [1]}} | axes has the key 'grid', expected names of axes, or a list with `- grid: ...` in it
[{grids: {a: [1]}}] | axes[0] is a mapping of grids, expected one of grid, zip, list
{a: []} | axes.a is an empty list, expected a list, or {from, to, step, factor or count}
{a: [1, null]} | axes.a[1] is nothing, expected a number, a string, true or false
{a: [9223372036854775808]} | axes.a[0] is 9223372036854775808, expected a whole number of 64 bits
{a: [= b]} | axes.a[0] is '= b', expected a plain value: expressions go under point or define
[{zip: {a: [1, 2], b: [1]}}] | axes[0].zip.b has 1 values, expected 2, as many as a
[{grid: {a: [1]}}, {zip: {a: [2]}}] | axes[1].zip.a: the axis stands at s.yml: axes[0].grid.a already, expected each name once
[{list: []}] | axes[0].list is an empty list, expected a list of mappings
[{list: [{a: 1}, 3]}] | axes[0].list[1] is 3, expected axes with a value each
[{list: [{a: 1}, {b: 1}]}] | axes[0].list[0] lacks b, expected a value, as other entries have one
{a b: [1]} | axes has the key 'a b', expected a name of letters, digits and _, or a key of point
{min: [1]} | axes.min: min is a function of expressions, expected another name
{cost: [1]} | axes.cost: cost is derived from the network, expected another name
{size_bytes: [1]} | axes.size_bytes: every row has a column size_bytes, expected another name, or size
{a: {from: 1, to: 2}} | axes.a has from, to, expected from, to and one of step, factor, count
{a: {from: 1, to: 2, by: 1}} | axes.a has the key 'by', expected from, to, step, factor, count
{a: {from: 3, to: 2, step: 1}} | axes.a.to is 2, expected at least 3, where the range begins
{a: {from: 1, to: 2, step: 0}} | axes.a.step is 0, expected a number above 0
{a: {from: 0, to: 2, factor: 2}} | axes.a.from is 0, expected a number above 0, as there is a factor
{a: {from: 0, to: 2, count: 1}} | axes.a.count is 1, expected a whole number from 2 on
{a: {from: 1, to: 1.0e+300, factor: 1.0000001}} | axes.a gives 1,000,001 values, expected at most 1,000,000
{a: {from: 1, to: 1000001, step: 1}} | axes.a gives 1,000,001 values, expected at most 1,000,000
{a: {from: 0, to: 1.0e+300, step: 1}} | axes.a gives 1e+300 values, expected at most 1,000,000
{a: &r {from: 1, to: 40, step: 1}, b: *r, c: *r, d: *r} | axes makes 2,560,000 points, expected at most 1,000,000
{size: ["1MiB:x"]} | axes.size[0]: found 'x', expected bytes such as 4096, 64MiB or 1GB
{size: "9MiB:1MiB"} | axes.size: found '9MiB:1MiB', expected the smaller size first
"""


@pytest.mark.parametrize("case", WRONG.strip().splitlines())
def test_what_is_wrong_is_told_with_key_and_value(case):
    text, message = case.split(" | ")
    with pytest.raises(ConfigError) as caught:
        axes(yaml.safe_load(text))
    assert str(caught.value) == f"s.yml: {message}"


def test_as_many_values_as_there_may_be(monkeypatch):
    """A range of exactly so many is taken: "gives 1,000 values, expected at most 1,000" is no reason."""
    monkeypatch.setattr("astra_tacos.study.sweep.axes.MAX_POINTS", 1000)
    assert axes({"a": {"from": 1, "to": 1000, "step": 1}}).num_combinations == 1000
