"""Units: sizes as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import bytes_per_ns, format_size, format_time, parse_size, parse_time, reduction_ns, reduction_us


@pytest.mark.parametrize(
    ("text", "size"),
    {
        "4096": 4096,
        "64MiB": 64 << 20,
        "1GB": 10**9,
        "1 GiB": 1 << 30,
        "1.5KiB": 1536,
        "0.1GB": 10**8,
        "17b": 17,
        "2kb": 2000,
        "9007199254740992": 1 << 53,
    }.items(),
)
def test_parse_size(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "0",
        "1.5",
        "0.0001KB",
        "1QB",
        "1e9",
        "nan",
        "9007199254740993",
        "9" * 400 + "TB",
        "9" * 5000,
        "0x10",
        "٣",
        "1_000",
    ],
)
def test_parse_size_refuses(text):
    with pytest.raises(ConfigError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "time_ns"), [("1ns", 1), ("10us", 10_000), ("1.5ms", 1_500_000), ("2s", 2 * 10**9), ("0.001us", 1)]
)
def test_parse_time(text, time_ns):
    assert parse_time(text) == time_ns


@pytest.mark.parametrize("text", ["10", "0us", "-1us", "0.5ns", "1m", "us", "4000s", "1e3us", "1 us", ""])
def test_parse_time_refuses(text):
    with pytest.raises(ConfigError, match="found"):
        parse_time(text)


def test_formats():
    assert [format_size(n) for n in (1, 1024, 1536, 64 << 20)] == ["1 B", "1 KiB", "1.50 KiB", "64 MiB"]
    assert [format_time(n) for n in (940, 12_340, 56_000_000, 2e10)] == ["940 ns", "12.34 us", "56.00 ms", "20.00 s"]


def test_a_gigabyte_per_second_of_astra_sim_is_2_to_the_30():
    assert bytes_per_ns(np.array([50.0]))[0] == 50.0 * (1 << 30) / 1e9


def test_reductions_are_whole_microseconds():
    assert reduction_us(np.array([100, 1499, 1501, 10_000]), 1.0).tolist() == [0, 1, 2, 10]
    assert reduction_ns(np.array([0, 3])).tolist() == [1, 3000]
