"""Files of JSON with a value changed, by a source of randomness."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

_DEEP: Any = []
for _ in range(40):
    _DEEP = [_DEEP]
VALUES = (None, True, "text", "", 0, -1, 1.9, 1e300, -0.5, 10**30, float("nan"), float("inf"), [], {}, [[1]], {"a": 1}, _DEEP)
"""What takes the place of a value; NaN and Infinity are written as Python writes them."""


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value, with each of its keys."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in entries for place in ((value, key), *places(inner))]


def mutated_json(text: str, random: Random) -> tuple[str, str]:
    """Another text, with one or two changes, and what they are: a value is replaced or goes, or a list ends early."""
    content, said = json.loads(text), []
    for _ in range(random.choice((1, 1, 2))):
        found = places(content)
        # Lists of many alike values would hide the others: first the name, then the place.
        name = random.choice(sorted({str(key) for _, key in found}))
        container, key = random.choice([place for place in found if str(place[1]) == name])
        what = random.choice(("value", "value", "gone", "short", "number"))
        if what == "gone":
            del container[key]
        elif what == "short" and isinstance(container[key], list) and container[key]:
            del container[key][-1]
        elif what == "number" and type(container[key]) in (int, float):
            container[key] = random.choice((container[key] + 1, container[key] * 1000, -container[key], str(container[key])))
        else:
            container[key] = copy.deepcopy(random.choice(VALUES))
        said.append(f"{key}: {what}")
    return json.dumps(content), "; ".join(said)
