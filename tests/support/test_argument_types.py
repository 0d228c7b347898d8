"""What a user's program passes to the package is of the type that it should be, or the error says so in one line."""

from __future__ import annotations

import inspect
import pickle
import typing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar

import numpy as np
import pytest
from helpers.damage import refusal

import astra_tacos
from astra_tacos import (
    Device,
    Dimension,
    LinkSpec,
    NetworkConfig,
    Parallelism,
    SearchOptions,
    Step,
    Transformer,
    all_reduce,
    build_topology,
    make_collective,
    synthesize,
)
from astra_tacos.support.argument_types import check, checked, type_hints
from astra_tacos.support.errors import ConfigError

FUNCTIONS = sorted(name for name in astra_tacos.__all__ if inspect.isfunction(getattr(astra_tacos, name)))
UNCHECKED = {("Backend", "link_model"), ("Source", "run"), ("Option", "default")}
"""Fields whose type is only imported for type checkers, and the default of an option, which has the type of the option."""
MODEL = Transformer(layers=2, hidden=8, ffn=8, heads=2, vocab=8, sequence=8, kv_heads=2)
RING = NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),))


def parameters(name: str) -> dict[str, Any]:
    """Type of each parameter, those behind `**` by their own names."""
    found: dict[str, Any] = {}
    for parameter, hint in type_hints(inspect.unwrap(getattr(astra_tacos, name))).items():
        if typing.get_origin(hint) is typing.Unpack:
            found |= type_hints(typing.get_args(hint)[0])
        elif parameter != "return":
            found[parameter] = hint
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_refuses_what_is_of_no_type(name: str) -> None:
    function, strange = getattr(astra_tacos, name), object()
    required = {
        parameter.name: strange
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    first = next(iter(required))
    with pytest.raises(ConfigError, match=rf"^{name}: {first} is a object, expected \S+"):
        function(**required)
    for parameter, hint in parameters(name).items():
        if hint is not Any:
            with pytest.raises(ConfigError, match=f"^{parameter} is a object, expected "):
                check(parameter, strange, hint)


def test_no_field_goes_unchecked_by_accident() -> None:
    seen: set[Any] = set()
    unchecked: set[tuple[str, str]] = set()

    def visit(hint: Any) -> None:
        if is_dataclass(hint) and hint not in seen:
            seen.add(hint)
            for field, inner in type_hints(hint).items():
                if inner is Any:
                    unchecked.add((hint.__name__, field))
                visit(inner)
        if typing.get_origin(hint) is not typing.Literal:
            for part in typing.get_args(hint):
                visit(part)

    for name in FUNCTIONS:
        for hint in parameters(name).values():
            visit(hint)
    assert {astra_tacos.Schedule, astra_tacos.Topology, NetworkConfig, LinkSpec} <= seen
    assert unchecked == UNCHECKED


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: synthesize(build_topology(RING), all_reduce(4, 100), seed=1.5),
            "seed: found 1.5, expected a whole number",
        ),
        (lambda: synthesize(build_topology(RING), all_reduce(4, 100), on_progress=3), "on_progress is 3, expected a function"),
        (lambda: all_reduce(8, 10**5000), "all_reduce: size_bytes is a whole number of over 128 bits"),
        (lambda: all_reduce(10**9, 10**12), "all-reduce: found 1000000000 NPUs, expected at most 2,000,000"),
        (lambda: make_collective("all-reduce", 8, 100, members=[1, "2"]), "members[1] is '2', expected a whole number"),
        (
            lambda: build_topology(NetworkConfig("x", (Dimension("Ring", np.int64(4), 1.0, 1.0),))),
            "dimensions[0].size is ",
        ),
        (
            lambda: build_topology(NetworkConfig("x", links=(LinkSpec(0, 1, 1.0, 1.0), 3))),
            "network.links[1] is 3, expected a LinkSpec",
        ),
        (lambda: build_topology(replace(RING, failed_links=((0, 1, 2),))), "failed_links[0] is a tuple of 3, expected 2 entries"),
        (lambda: astra_tacos.read_network("a\0b"), r"read_network: path is 'a\x00b', expected a path without zero bytes"),
        (lambda: astra_tacos.load_schedule(Path("\ud800")), r"load_schedule: path is '\ud800', expected a path without"),
    ],
)
def test_what_is_wrong_is_named(call: Any, expected: str) -> None:
    assert expected in refusal(call)


@pytest.mark.parametrize(
    "record",
    [
        SearchOptions(),
        Device(),
        Parallelism(dp=2),
        MODEL,
        Step(MODEL, Parallelism(dp=2)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_that_users_make_refuse_what_is_of_no_type(record: Any) -> None:
    for field in fields(record):
        for strange in (object(), [], "no such word"):
            if strange == [] and field.default == ():
                continue  # an empty list is none
            with pytest.raises(ConfigError) as caught:
                replace(record, **{field.name: strange})
            assert "\n" not in str(caught.value)


def test_what_fits_passes() -> None:
    topology = build_topology(NetworkConfig("ring", [Dimension("Ring", 4, 50, np.float64(500))]))
    schedule = synthesize(
        topology, all_reduce(np.int32(4), 1 << 20), seed=np.int64(3), synthesizer="ring", trials=None, reduce_bandwidth_gbps=3
    )
    assert not astra_tacos.verify(schedule)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        synthesize(topology)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
        synthesize(topology, schedule.collective, sed=1)


@pytest.mark.parametrize(
    ("array", "hint", "fits"),
    [
        (np.zeros(3, np.int64), np.ndarray[Any, np.dtype[np.int32]], True),
        (np.zeros(3), np.ndarray[Any, np.dtype[np.int32]], False),
        (np.zeros(3, np.int32), np.ndarray[Any, np.dtype[np.float64]], True),
        (np.zeros(3, bool), np.ndarray[Any, np.dtype[np.int32]], False),
        ([0], np.ndarray[Any, np.dtype[np.int32]], False),
        (np.array(["a"]), np.ndarray[Any, np.dtype[np.float64]], False),
    ],
)
def test_arrays_fit_by_what_is_in_them(array: Any, hint: Any, fits: bool) -> None:
    if fits:
        check("a", array, hint)
    else:
        with pytest.raises(ConfigError, match=r"^a is .*, expected an array of "):
            check("a", array, hint)


def test_an_alias_of_an_array_is_looked_through() -> None:
    """As `NDArray` is one from NumPy 2.5 on, where Python has the `type` statement."""
    entry = TypeVar("entry", bound=np.generic)
    hint = GenericAlias(type("Alias", (), {"__value__": np.ndarray[Any, np.dtype[entry]]}), (np.int64,))
    for either in (hint, hint | None):
        check("a", np.zeros(3, np.int32), either)
        for strange in (np.zeros(3), [0]):
            with pytest.raises(ConfigError, match=r"^a is .*, expected an array of whole numbers"):
                check("a", strange, either)


def test_functions_can_be_pickled_and_looked_at() -> None:
    assert pickle.loads(pickle.dumps(synthesize)) is synthesize
    assert synthesize.__doc__ == inspect.unwrap(synthesize).__doc__
    assert list(inspect.signature(all_reduce).parameters) == ["num_npus", "size_bytes", "chunks_per_npu", "num_owners"]


def test_all_positional_values_are_checked() -> None:
    def total(*numbers: int) -> int:
        return sum(numbers)

    assert checked(total, "total")(1, 2) == 3
    with pytest.raises(ConfigError, match="total: numbers is '2'"):
        checked(total, "total")(1, "2")
