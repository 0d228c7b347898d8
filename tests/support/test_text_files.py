"""YAML means what it means to ASTRA-sim, which reads it by yaml-cpp (what that says was recorded from its release 0.7); XML."""

from __future__ import annotations

import pytest
from helpers.damage import refusal

from astra_tacos.network.network_config import read_network
from astra_tacos.run.system import read_per_node
from astra_tacos.support import text_files as yaml_text
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import read_xml, read_yaml_mapping

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
!!int 8 8 8.0
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
    return read_yaml_mapping(path)


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
        "v:\n\t8",
        "v:\n  \t8",
        "v:\n-\t8",
        "v:\n- \t8",
        "v: [8\t,\n\t9]",
        "v: 8\t",
        "v: 8\t# tab",
        "\t\nv: 8",
        "v: [8]\n\t\nw: 9",
    ],
)
def test_tabs_separate_as_for_yaml_cpp(tmp_path, text):
    assert read(tmp_path, text)["v"] in (8, [8], [8, 9])


@pytest.mark.parametrize("text", ["\tv: 8", "v:\n\t- 8", "x: 1\n\tv: 8", "v: 8\n\t\nw: 9", "v: 8\n\t# c\nw: 9", "v:\n  -\ta: 1"])
def test_tabs_that_yaml_cpp_refuses_are_refused(tmp_path, text):
    with pytest.raises(ConfigError, match=r"a\.yml: not valid YAML: line \d, column \d: "):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["v: 8\rw: 9", "v: 8 # c\rw: 9\n", "v: 8\x85w: 9", "v: 8\u2028w: 9", "v: 8\n\u2029w: 9"])
def test_lines_end_in_a_newline_only(tmp_path, text):
    with pytest.raises(ConfigError, match=r"a\.yml: not valid YAML: line \d: found '.*', expected lines that end in a newline"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["{v:[8]}", "{v:{w: 8}}", "{v :[8]}", "v: [w:[8]]"])
def test_a_bracket_right_behind_a_colon_is_no_value(tmp_path, text):
    with pytest.raises(ConfigError, match="expected a blank between the colon and the bracket"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ['{"v":[8]}', "{'v':[8]}", "{v: [8]}", "v: [8]\r\n", "{v:\n[8]}"])
def test_other_flows_are_read_as_by_yaml_cpp(tmp_path, text):
    assert read(tmp_path, text)["v"] == [8]


def test_a_network_may_have_tabs(tmp_path):
    path = tmp_path / "net.yml"
    path.write_text("topology:\t[ Ring ]\nnpus_count:\t[ 8 ]\t# eight\nbandwidth:\t[ 50.0\t]\nlatency:\n-\t500\n")
    (dimension,) = read_network(path).dimensions
    assert (dimension.block, dimension.size, dimension.bandwidth_gibps, dimension.latency_ns) == ("Ring", 8, 50.0, 500.0)


def test_prefixes_of_nodes_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "nodes.yml"
    path.write_text("1: 0123\n+2: true\n3: 1_000\n4: 2001-01-01\n")
    assert read_per_node(path) == {1: "0123", 2: "true", 3: "1_000", 4: "2001-01-01"}
    for text, expected in {
        "010: a": "the id of a workload node",
        "5: a\n+5: b": "node 5 is given again",
        "5: ~": "nothing",
    }.items():
        path.write_text(text)
        with pytest.raises(ConfigError, match=expected):
            read_per_node(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
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
    monkeypatch.setattr(yaml_text, "_MAX_YAML_VALUES", 1000)
    assert len(read(tmp_path, f"v: [{'1,' * 997}]")["v"]) == 997
    with pytest.raises(ConfigError, match=r"line 1, column \d+: more than 1,000 values"):
        read(tmp_path, f"v: [{'1,' * 998}]")


@pytest.mark.parametrize(
    "text, expected",
    (
        ("", "not XML"),
        ("<a", "not XML"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "not XML (unknown encoding"),
        ('<?xml version="1.0"?><!DOCTYPE a><a/>', "document type or entities"),
        ("<b/>", "found element 'b', expected 'a'"),
        (f"<a>{'x' * 200}</a>", "larger than 100 bytes, expected an example"),
    ),
)
def test_bad_xml_gets_one_line(tmp_path, text, expected):
    path = tmp_path / "some.xml"
    path.write_text(text, encoding="utf-8")
    assert expected in refusal(read_xml, path, 100, "an example", "a")


def test_the_root_element_is_returned(tmp_path):
    path = tmp_path / "some.xml"
    path.write_text("<a><b at='1'/></a>", encoding="utf-8")
    assert read_xml(path, 100, "an example", "a")[0].get("at") == "1"
