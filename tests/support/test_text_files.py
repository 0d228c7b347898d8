"""XML of unknown origin."""

from __future__ import annotations

import pytest
from helpers.damage import refusal

from astra_tacos.support.formats.xml_files import read_xml


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
