"""Rows on disk: found again, never torn, computed again when that may change something."""

from __future__ import annotations

import json

import pytest
import yaml
from helpers.damage import ANY_BYTES, damages, refusal
from helpers.sweeps import collective_point
from hypothesis import given

from astra_tacos import AstraTacosError, ConfigError
from astra_tacos.study.sweep.point import STATUSES, Conditions, Outcome
from astra_tacos.study.sweep.store import TABLE_FILE, Store
from astra_tacos.study.sweep.table import table_columns, table_row, write_table

KEY = collective_point().key
OTHER = collective_point(seed=1).key
GOOD = Outcome("ok", None, {"predicted_ns": 12, "efficiency": 0.5, "verified": True, "made_by": "tacos", "seconds": 0.25})


def row_file(folder, key=KEY):
    return folder / "rows" / key[:2] / f"{key}.json"


def test_a_row_is_found_again(tmp_path):
    store = Store(tmp_path / "sweep")
    with store.opened(b"name: x\n"):
        store.write(KEY, GOOD, Conditions(timeout_s=2.5, memory_bytes=7))
    row = store.read([KEY, OTHER])
    assert list(row) == [KEY]
    assert (row[KEY].outcome, row[KEY].timeout_s, row[KEY].memory_bytes) == (GOOD, 2.5, 7)
    assert (tmp_path / "sweep" / "sweep.yml").read_bytes() == b"name: x\n"
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".tmp"]


def torn(text):
    about = json.loads(text)
    changes = yaml.safe_load(f"""
- {{key: {OTHER}}}
- {{format: astra_tacos sweep 0}}
- {{status: fine}}
- {{error: but why}}
- {{results: {{predicted_ns: "12"}}}}
- {{results: {{predicted_ns: true}}}}
- {{results: {{unheard: 1}}}}
- {{results: null}}
- {{timeout_s: long}}
""")
    deep = ["[" * 100_000, text.replace("12", "1" * 40), text.replace("12", "1" * 5000), text.replace("0.25", "1e999")]
    return ["", "\x00" * 40, text[:10], text[:-3], "[]", "null", *deep, *(json.dumps(about | change) for change in changes)]


def test_whatever_is_no_row_counts_as_missing(tmp_path, caplog):
    store = Store(tmp_path)
    store.write(KEY, GOOD, Conditions())
    file = row_file(tmp_path)
    whole = file.read_text()
    for text in torn(whole):
        file.write_text(text)
        caplog.clear()
        assert store.read([KEY]) == {}, text
        (message,) = caplog.messages
        assert message.startswith(f"{file}: ") and message.endswith("; the entry counts as missing and is computed again")
    file.write_bytes(b"\xff\xfe" + whole.encode())
    assert store.read([KEY]) == {}
    file.unlink()
    caplog.clear()
    assert store.read([KEY]) == {}
    assert not caplog.messages


@given(damage=damages())
@ANY_BYTES
def test_any_damage_of_a_row_counts_as_missing(tmp_path, damage):
    store = Store(tmp_path)
    store.write(KEY, GOOD, Conditions(timeout_s=2.5))
    file = row_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    for row in store.read([KEY]).values():  # what reads as a row can be put into the table
        columns = table_columns([collective_point()])
        write_table(tmp_path / TABLE_FILE, "x", [], columns, [table_row(collective_point(), row.outcome)])


@pytest.mark.parametrize("status", STATUSES)
def test_what_is_computed_again(status, tmp_path):
    error = None if status == "ok" else "why"
    store = Store(tmp_path)
    row = store.write(KEY, Outcome(status, error, {"verified": True} if status == "ok" else {}), Conditions(10.0, 1000))
    for seconds, memory, again in (
        (10.0, 1000, "died"),
        (5.0, 500, "died"),
        (11.0, 1000, "timeout"),
        (None, 1000, "timeout"),
        (10.0, 1001, "out-of-memory"),
        (10.0, None, "out-of-memory"),
    ):
        assert row.stands(Conditions(seconds, memory), False) == (status not in ("died", again))
    assert row.stands(Conditions(10.0, 1000), True) == (status in ("ok", "refused"))


def test_a_schedule_that_was_not_checked_is_not_taken_for_one_that_was(tmp_path):
    row = Store(tmp_path).write(KEY, Outcome("ok", None, {"verified": False}), Conditions(with_checks=False))
    assert row.stands(Conditions(with_checks=False), False)
    assert not row.stands(Conditions(with_checks=True), False)


def test_only_a_sweep_is_added_to(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.tex").write_text("x")
    with pytest.raises(ConfigError, match="thesis: exists and is not a sweep of astra_tacos: choose another output"):
        Store(folder).check()
    with pytest.raises(ConfigError, match=r"chapter1\.tex: exists and is not a directory"):
        Store(folder / "chapter1.tex").check()
    (folder / "sweep.yml").write_text("a sweep file of one's own is no sweep")
    with pytest.raises(ConfigError, match="is not a sweep"), Store(folder).opened(b""):
        pass
    assert {path.name for path in folder.iterdir()} == {"chapter1.tex", "sweep.yml"}


def test_a_sweep_that_was_killed_at_its_very_start_goes_on(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / ".sweep.yml.77.tmp").write_text("half")
    with Store(tmp_path).opened(b"whole"):
        pass
    assert (tmp_path / "sweep.yml").read_bytes() == b"whole"
    assert not (tmp_path / ".sweep.yml.77.tmp").exists()


def test_stale_temporaries_go(tmp_path):
    store = Store(tmp_path)
    with store.opened(b""):
        store.write(KEY, GOOD, Conditions())
    stale = (row_file(tmp_path).with_name(f".{KEY}.json.77.tmp"), tmp_path / ".sweep.parquet.77.tmp")
    for path in stale:
        path.write_text("half")
    (tmp_path / "report.html").write_text("mine")
    with store.opened(b""):
        assert not any(path.exists() for path in stale)
        assert list(store.read([KEY])) == [KEY]
    assert (tmp_path / "report.html").exists()


def test_two_sweeps_do_not_write_to_one_directory(tmp_path):
    store = Store(tmp_path)
    with store.opened(b"first"):
        with pytest.raises(ConfigError, match="another sweep is writing to this directory"), store.opened(b"second"):
            pass
        assert (tmp_path / "sweep.yml").read_bytes() == b"first"
    with store.opened(b"second"):
        pass


def test_a_table_does_not_outlive_its_sweep_file(tmp_path):
    """A sweep that is killed leaves none, and not that of the sweep before it."""
    table = tmp_path / TABLE_FILE
    with Store(tmp_path).opened(b"one"):
        table.write_text("rows")
    with Store(tmp_path).opened(b"one"):
        assert table.exists()
    with Store(tmp_path).opened(b"two"):
        assert not table.exists()


def test_a_directory_in_place_of_a_row_is_refused_before_points_are_computed(tmp_path):
    row_file(tmp_path).mkdir(parents=True)
    assert "is a directory, expected a row of a sweep: remove it" in refusal(Store(tmp_path).read, [KEY])


def test_a_refused_sweep_file_leaves_the_table(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "sweep.yml").symlink_to("nothing")
    (tmp_path / TABLE_FILE).write_bytes(b"table")
    assert "which does not exist" in refusal(Store(tmp_path).opened(b"name: x\n").__enter__, error=AstraTacosError)
    assert (tmp_path / TABLE_FILE).read_bytes() == b"table"
