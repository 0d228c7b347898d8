"""Reading communicator groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.damage import refusal

from astra_tacos.run.groups import group_id, read_communicator_groups


def test_members_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text('{"2": [3, 1], "10": [0], "7": []}')
    groups = read_communicator_groups(path)
    assert groups.members == {2: (3, 1), 10: (0,), 7: ()} and groups.source == str(path)


BAD = [
    ('{"0": [1]}', "found the group '0', expected a whole number, 1 or more"),
    ('{"tp": [1]}', "found the group 'tp'"),
    ('{"-1": [1]}', "found the group '-1'"),
    ('{"1.5": [1]}', "found the group '1.5'"),
    ('{"2147483648": [1]}', "expected a whole number"),
    ('{"1": [0], "01": [1]}', "group 1 is given again as '01'"),
    ('{"1": 4}', "group 1 is 4, expected a list of ranks"),
    ('{"1": ["0"]}', "group 1 has '0' at 0, expected a rank"),
    ('{"1": [true]}', "group 1 has True at 0"),
    ('{"1": [0, -1]}', "group 1 has -1 at 1"),
    ('{"1": [0, 2, 0]}', "group 1 has rank 0 twice"),
    ("[1]", "expected a JSON object"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_groups_get_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "groups.json"
    path.write_text(text)
    said = refusal(read_communicator_groups, path)
    assert message in said and said.startswith(f"{path}: ")


def test_group_names() -> None:
    assert [group_id(name) for name in ("1", "007", "2147483647")] == [1, 7, 2147483647]
    assert [group_id(name) for name in ("", "0", "-1", "+1", " 1", "1 ", "1a", "1e3", "٣", "9" * 5000)] == [None] * 10
