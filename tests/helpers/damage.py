"""Damaged inputs, and the one line that says why they are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from astra_tacos.support.errors import ConfigError

ANY_BYTES = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refusal(function: Callable[..., object], *arguments: object, error: type[Exception] = ConfigError) -> str:
    """The one line that says why something is refused."""
    with pytest.raises(error) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Functions that flip, cut, insert or repeat bytes somewhere."""
    edits = draw(st.lists(st.tuples(st.sampled_from("fcir"), st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=4))

    def damaged(content: bytes) -> bytes:
        for what, where, other in edits:
            at = int(where * len(content))
            if what == "f":
                flipped = bytes(a ^ b for a, b in zip(content[at : at + len(other)], other, strict=False))
                content = content[:at] + flipped + content[at + len(flipped) :]
            elif what == "c":
                content = content[:at] if other[0] < 100 else content[:at] + content[at + len(other) :]
            else:
                content = content[:at] + (other if what == "i" else content[at : at + 50]) + content[at:]
        return content

    return damaged
