"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.files import replaced_file


def test_two_that_write_one_file_at_a_time_do_not_share_a_temporary(tmp_path: Path) -> None:
    """As processes of one id do, in containers that share a folder."""
    path = tmp_path / "row.json"
    with replaced_file(path) as first:
        first.write_text("first, not yet complete")
        with replaced_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        first.write_text("first")
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["row.json"]
