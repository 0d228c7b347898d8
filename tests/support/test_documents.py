"""YAML means what it means to ASTRA-sim, which reads it by yaml-cpp, or is refused (that was recorded from its release 0.7)"""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from helpers.damage import refusal
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType

from astra_tacos.network.network_config import read_network
from astra_tacos.run.system import read_per_node
from astra_tacos.support import documents
from astra_tacos.support.documents import Value, read_yaml
from astra_tacos.support.errors import ConfigError

NUMBERS = """
8 8 8.0
+8 8 8.0
-8 -8 -8.0
08 None 8.0
010 8 10.0
0x10 16 None
0o10 None None
0b11 None None
1_000 None None
190:20:30 None None
1:30.5 None None
8.0 None 8.0
8. None 8.0
1e3 None 1000.0
1E3 None 1000.0
1e+3 None 1000.0
.5 None 0.5
-.5 None -0.5
+.5 None 0.5
.inf None inf
inf None None
.nan None nan
nan None None
1e-400 None 0.0
1.0e-320 None 1e-320
1_0.5 None None
true None None
99999999999 None 99999999999.0
1.5.2 None None
00.5 None 0.5
007.5 None 7.5
-0 0 -0.0
\u0663 None None
\uff11 None None
1e None None
0x1p3 None None
infinity None None
2001-01-01 None None
1f None None
"""
"""A text, and the `int` and the `double` that yaml-cpp reads; None if it refuses."""


def read(folder, text):
    path = folder / "a.yml"
    path.write_bytes(text.encode())
    return read_yaml(path).content


@pytest.mark.parametrize("line", NUMBERS.strip().splitlines())
def test_numbers_are_those_of_yaml_cpp_or_none(tmp_path, line):
    text, *read_as = line.rsplit(maxsplit=2)
    whole, number = (None if said == "None" else kind(said) for kind, said in zip((int, float), read_as, strict=True))
    found = read(tmp_path, f"v: [ {text} ]")["v"][0]
    if isinstance(found, float):
        assert number is not None
        assert found.hex() == number.hex()
    elif isinstance(found, int) and not isinstance(found, bool):
        assert found == number
        assert found == whole or abs(found) > 2**31
    else:  # no network gives a number for it
        assert found in (text, True)
        ambiguous = whole is not None and number is not None and whole != number
        assert whole is None or number is None or ambiguous


@pytest.mark.parametrize(
    "text",
    [
        "v:\t[ 8 ]",
        "v:\t8",
        "v: [\t8\t]",
        "v\t: 8",
        "v: [8\t,\n\t9]",
        "v: 8\t",
        "v: 8\t# tab",
    ],
)
def test_tabs_separate(tmp_path, text):
    assert read(tmp_path, text)["v"] in (8, [8], [8, 9])


TABS = ["\tv: 8", "v:\n\t- 8", "x: 1\n\tv: 8", "v: 8\n\t\nw: 9", "v: 8\n\t# c\nw: 9", "v:\n  -\ta: 1", "---\tv: 1", "v:\n-\t8"]


@pytest.mark.parametrize("text", TABS)
def test_tabs_in_an_indentation_are_refused(tmp_path, text):
    with pytest.raises(ConfigError, match=r"a\.yml:\d:\d: not valid YAML: "):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["v: 8\rw: 9", "v: 8 # c\rw: 9\n", "v: 8\x85w: 9", "v: 8\u2028w: 9", "v: 8\n\u2029w: 9"])
def test_lines_end_in_a_newline_only(tmp_path, text):
    with pytest.raises(ConfigError, match=r"a\.yml:\d:\d+: not valid YAML: found '.*', expected lines that end in a newline"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["{v:[8]}", "{v:{w: 8}}", "{v :[8]}", "v: [w:[8]]"])
def test_a_bracket_right_behind_a_colon_is_no_value(tmp_path, text):
    with pytest.raises(ConfigError, match=r"a\.yml:1:\d+: not valid YAML: found unexpected ':'"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ['{"v":[8]}', "{'v':[8]}", "{v: [8]}", "v: [8]\r\n", "{v:\n[8]}"])
def test_other_flows_are_read_as_by_yaml_cpp(tmp_path, text):
    assert read(tmp_path, text)["v"] == [8]


def test_a_network_may_have_tabs(tmp_path):
    path = tmp_path / "net.yml"
    path.write_text("topology:\t[ Ring ]\nnpus_count:\t[ 8 ]\t# eight\nbandwidth:\t[ 50.0\t]\nlatency:\n- 500\n")
    (dimension,) = read_network(path).dimensions
    assert (dimension.block, dimension.size, dimension.bandwidth_gibps, dimension.latency_ns) == ("Ring", 8, 50.0, 500.0)


def test_prefixes_of_nodes_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "nodes.yml"
    path.write_text("1: 0123\n+2: true\n3: 1_000\n4: 2001-01-01\n")
    assert read_per_node(path) == {1: "0123", 2: "true", 3: "1_000", 4: "2001-01-01"}
    for text, expected in {
        "010: a": "the id of a workload node",
        "5: a\n+5: b": "expected node 5 once",
        "5: ~": "nothing",
    }.items():
        path.write_text(text)
        with pytest.raises(ConfigError, match=expected):
            read_per_node(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "nest"),
        ("{a: " * 100_000, "nest"),
        ("- " * 100_000, "nested too deeply"),
        ("v: " + "1" * 5000, "found '111"),
        (f'v: "{chr(92)}UFFFFFFFF"', "not valid YAML"),
        ("# " + "x" * (16 << 20), "file is larger than 16 MiB, expected a text file"),
    ],
    ids=lambda text: text[:12],
)
def test_what_would_take_too_long_gets_one_line(tmp_path, text, expected):
    said = refusal(read, tmp_path, text)
    assert expected in said and len(said) < 300


def test_values_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "_MAX_VALUES", 1000)
    assert len(read(tmp_path, f"v: [{'1,' * 997}]")["v"]) == 997
    with pytest.raises(ConfigError, match=r"a\.yml:1:\d+: not valid YAML: more than 1,000 values"):
        read(tmp_path, f"v: [{'1,' * 998}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v: !!int 8", "1:4: not valid YAML: tags ('tag:yaml.org,2002:int') are not accepted"),
        ("v: &a 8", "1:4: not valid YAML: anchors"),
        ("v: 8\nw: *v", "2:4: not valid YAML: anchors"),
        ("v: 8\n<<: {w: 8}", "2:1: not valid YAML: merge keys"),
        ("v: 8\n? [w]\n: 8", "2:3: not valid YAML: found a mapping or a list as a key"),
        ("v: 8\nw: 9\nv: 8", "3:1: not valid YAML: key 'v' is given twice"),
        ("v: 8\n---\nw: 8", "2:1: not valid YAML: found a second document"),
    ],
)
def test_what_yaml_cpp_may_read_otherwise_is_refused(tmp_path, text, expected):
    assert f"a.yml:{expected}" in refusal(read, tmp_path, text)


class _Link(Struct, forbid_unknown_fields=True):
    src: Annotated[int, Meta(ge=0, description="an id")]
    gbps: Annotated[float, Meta(ge=1, description="a rate")] | UnsetType = UNSET


class _File(Struct):
    links: Annotated[list[_Link], Meta(description="a list of links")]
    pairs: list[Annotated[tuple[int, int], Meta(description="two ids")]] = []


WRONG = {
    "links: []\npairs: [[1, 2],\n  [3]]": "3:3: pairs[1] is [3], expected two ids",
    "links:\n- src: 1\n- gbps: 2": "3:3: links[1].src is missing, expected an id",
    "links:\n- src: 1\n  rate: 2": "3:3: links[0] has the key 'rate', expected src, gbps",
    "links: [{src: 1, gbps: 0.5}]": "1:24: links[0].gbps is 0.5, expected a rate",
    "links: [{src: 1, gbps: ~}]": "1:24: links[0].gbps is nothing, expected a rate",
    "links:\n- {src: true}": "2:9: links[0].src is True, expected an id",
    "links:\n- {src: 010}": "2:9: links[0].src is '010', expected an id",
    "links:\n- {src: '1'}": "2:9: links[0].src is '1', expected an id",
    "links: [{'a\\nb': 1}]": "1:10: links[0] has the key 'a\\\\nb', expected src, gbps",
    "links: 3": "1:8: links is 3, expected a list of links",
    "other: 3\npairs: []": "1:1: links is missing, expected a list of links",
    'links: []\n"` - at `$.links[3].src`": 3\npairs: 3': "3:8: pairs is 3, expected Expected `array`, got `int` - at `$.pairs`",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_value_of_another_type_is_named_with_its_place(tmp_path, text):
    path = tmp_path / "a.yml"
    path.write_text(text)
    assert refusal(lambda: read_yaml(path).decoded(_File)) == f"{path}:{WRONG[text]}"


@given(
    st.recursive(st.integers(0, 9), lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text("ab", min_size=1), inner))
)
def test_a_place_is_where_the_value_stands(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "places.yml"
    text = json.dumps({"top": value}, indent=1)
    path.write_text(text)
    left = [read_yaml(path) / "top"]
    while left:
        part = left.pop()
        line, column = (int(number) for number in str(part).removeprefix(f"{path}:").split(":")[:2])
        rest = text.splitlines()[line - 1][column - 1 :]
        assert rest.startswith(json.dumps(part.content, indent=1).splitlines()[0])
        steps = (
            part.content if isinstance(part.content, dict) else range(len(part.content)) if isinstance(part.content, list) else ()
        )
        left += [part / step for step in steps]


def test_a_document_without_lines_names_its_keys():
    assert str(Value("system.json", {"a": [1]}) / "a" / 0) == "system.json: a[0]"
