"""What error messages quote is whole, or `...` says that it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.planner.endpoint.endpoint import parse_endpoint
from astra_tacos.planner.retime.request import parse_schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import parse_size
from astra_tacos.synthesizer.work import parse_budget

_NUMBER = "".join(str(digit % 10) for digit in range(1, 100))


@given(st.one_of(st.text(max_size=200), st.integers()))
def test_a_value_is_whole_or_says_that_it_is_cut(value):
    text = quoted(value)
    assert len(text) <= 60 and "\n" not in text
    assert text == repr(value) or (text.endswith("...") and repr(value).startswith(text.removesuffix("...")))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_size, f"{_NUMBER}x"),
        (parse_schedule, f"split:partition={_NUMBER}x"),
        (parse_endpoint, f"memory={_NUMBER}x"),
        (parse_budget, f"{_NUMBER}x"),
    ],
)
def test_a_number_that_is_cut_says_so(parse, text):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert "..." in str(caught.value)
