"""A result says its figures once: consoles, notebooks and data frames show the same rows and tables."""

from __future__ import annotations

import builtins
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.cli.shared.console import print_result
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import (
    Answer,
    Figure,
    Importance,
    Row,
    Severity,
    Table,
    detail,
    figure_of,
    notes_of,
    share_of,
    size_figure,
    time_figure,
)

TEXTS = st.text(st.characters(categories=("L", "N"), codec="ascii"), min_size=1, max_size=8)
ROWS = st.lists(st.builds(Row, TEXTS, st.integers() | TEXTS | st.none(), TEXTS, TEXTS, st.sampled_from(Importance)), max_size=6)
TABLES = st.lists(
    st.builds(Table, TEXTS, st.just(("what", "ns")), st.lists(st.tuples(TEXTS, st.integers()), max_size=3)), max_size=2
)


@given(ROWS, TABLES)
def test_everything_stands_in_a_notebook(rows, tables):
    page = unescape(Answer("what was found", tuple(rows), tuple(tables))._repr_html_())
    texts = [text for row in rows for text in (row.name, row.figure, row.note)]
    texts += [text for table in tables for cells in (table.columns, *table.texts()) for text in cells]
    assert all(text in re.split("<[^>]*>|: ", page) for text in texts)


def test_names_are_no_markup_in_a_notebook():
    page = Answer("what was found", (Row("<b>", "<script>", note="&"),))._repr_html_()
    assert "<b>" not in page and "<script>" not in page and "&amp;" in page


@pytest.mark.parametrize(("value", "unit", "text"), [(1234567, "ns", "1,234,567 ns"), (None, "ns", "-"), ("a x2", "", "a x2")])
def test_a_figure_has_its_unit_and_its_thousands(value, unit, text):
    assert figure_of(value, unit) == (text if value is not None else "-")


def test_an_answer_is_short_and_details_are_asked_for(capsys):
    short = Table("few", ("what", "ns"), [("a", 1)])
    tables = (
        Table("all", ("what", "ns"), [("a", 1), ("b", None)], Importance.DETAIL, remarks=("below",), short=short),
        Table("detail", ("what", "ns"), [("c", 12345)], Importance.DETAIL),
    )
    found = Answer(
        "what was found", (Row("time", 1000, "ns", "best"), detail("bound", 900, "ns", "a link"), *notes_of(["careful"])), tables
    )
    print_result(found, error=0.05)
    assert capsys.readouterr().out.splitlines() == [
        *("what was found", "", "  time  1,000 ns  plus or minus 5.0%, best", "", "few", "what  ns", "a      1"),
        *("", "add --verbose to read 1 note"),
    ]
    print_result(found, verbose=True)
    assert capsys.readouterr().out.splitlines() == [
        *("what was found", "", "  time  1,000 ns  best", "", "bound  900 ns: a link", "note   careful"),
        *("", "all", "what  ns", "a      1", "b      -", "below", "", "detail", "what      ns", "c     12,345"),
    ]


def test_without_pandas_a_frame_is_refused_in_one_line(monkeypatch):
    imported = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="a data frame needs pandas, which is not installed: pip install pandas"):
        Answer("what was found", (Row("time", 1),)).to_pandas()


def test_marked_and_rounded_figures_are_numbers_of_a_frame():
    pytest.importorskip("pandas")
    rows = [(size_figure(1 << 20), time_figure(1500.4, "*"), share_of(0.0449)), (size_figure(3), None, Figure(2, "2 ~"))]
    table = Table("t", ("size", "time", "share"), rows)
    assert table.texts() == [("1 MiB", "1,500 ns*", "4.5%"), ("3 B", "-", "2 ~")]
    frame = table.to_pandas()
    assert list(frame.columns) == ["size bytes", "time ns", "share"]
    assert frame["size bytes"].tolist() == [1 << 20, 3] and frame["share"].tolist() == [0.0449, 2]
    assert frame["time ns"][0] == 1500.4 and frame["time ns"].isna()[1]


def test_with_pandas_rows_and_tables_are_frames():
    pytest.importorskip("pandas")
    table = Table("t", ("what", "ns"), [("a", 1), ("b", None)])
    assert list(Answer("what was found", (Row("time", 1, "ns"),)).to_pandas().columns) == ["name", "value", "unit", "note"]
    assert list(Answer("what was found", (), (table,)).to_pandas()["what"]) == ["a", "b"]


def test_findings_are_rows_that_the_printer_and_a_notebook_show(capsys):
    texts = [Row("N201", Severity.ERROR, note="node 3: " + "x " * 60), Row("", note="... and 2 more of N201")]
    found = Answer("3 errors in a run", texts)
    print_result(found)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("N201 error   node 3: x x") and printed[1].startswith(" " * 13 + "x x")
    assert printed[-3:] == ["            ... and 2 more of N201", "", "3 errors in a run"]
    assert all(row.note in found._repr_html_() for row in texts)
    print_result(Answer("nothing found"))
    assert capsys.readouterr().out == "nothing found\n"
