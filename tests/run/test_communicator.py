"""Reading communicator groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_tacos.run.groups import group_id, read_communicator_groups
from astra_tacos.support.errors import ConfigError


def test_members_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text('{"2": [3, 1], "10": [0], "7": []}')
    groups = read_communicator_groups(path)
    assert groups.members == {2: (3, 1), 10: (0,), 7: ()} and groups.source == str(path)


BAD = {
    "zero": ({"0": [1]}, "found the group '0', expected a whole number, 1 or more"),
    "word": ({"tp": [1]}, "found the group 'tp'"),
    "negative": ({"-1": [1]}, "found the group '-1'"),
    "fraction": ({"1.5": [1]}, "found the group '1.5'"),
    "large": ({str(1 << 31): [1]}, "expected a whole number"),
    "twice": ({"1": [0], "01": [1]}, "group 1 is given again as '01'"),
    "no list": ({"1": 4}, "group 1 is 4, expected a list of ranks"),
    "text": ({"1": ["0"]}, "group 1 has '0' at 0, expected a rank"),
    "bool": ({"1": [True]}, "group 1 has True at 0"),
    "negative rank": ({"1": [0, -1]}, "group 1 has -1 at 1"),
    "rank twice": ({"1": [0, 2, 0]}, "group 1 has rank 0 twice"),
    "a list": ([1], "expected a JSON object"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_groups_get_one_line(tmp_path: Path, name: str) -> None:
    document, message = BAD[name]
    path = tmp_path / "groups.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as error:
        read_communicator_groups(path)
    assert message in str(error.value) and str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_group_names() -> None:
    assert [group_id(name) for name in ("1", "007", "2147483647")] == [1, 7, 2147483647]
    assert [group_id(name) for name in ("", "0", "-1", "+1", " 1", "1 ", "1a", "1e3", "٣", "9" * 5000)] == [None] * 10
