"""Tables as CSV: nothing in them is a formula, and text comes back as it was."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tacos.pages.compare_rows import CompareRow, read_rows, write_csv
from astra_tacos.pages.csv_table import original_text, write_table


@given(st.text(st.characters(codec="utf-8")))
@example("=cmd|' /C calc'!A0")
@example("'=1")
@example("-2+3")
@example("\uff1d1")
def test_text_is_no_formula_and_comes_back(text):
    file = io.StringIO(newline="")
    write_table(file, [["a", text], [-1, -2.5]])
    first, second = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert not first[1].startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert original_text(first[1]) == text
    assert second == ["-1", "-2.5"]  # numbers stay numbers


@pytest.mark.parametrize("name", ["=1+1", "@a", "plain"])
def test_a_comparison_comes_back(tmp_path, name):
    row = CompareRow(name, "-Ring 4", 4, "all-reduce", None, 1 << 20, "ring", refusal="+ no")
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        write_csv([row], file)
    assert read_rows(tmp_path / "a.csv") == [row]
