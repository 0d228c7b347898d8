"""Types of arguments, checked where a user's program calls the package: `synthesize(None, c)` gets one clear line.

`astra_tacos/__init__.py` hands out every public function by way of `checked`. What is checked are annotations, so a new
function needs nothing more. Calls inside the package do not come here.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted

P = ParamSpec("P")
R = TypeVar("R")
_Place = Callable[[int], str]
"""What error messages call the value of a number."""
_CLASSES: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    bool: (bool, np.bool_),
    None: (types.NoneType,),
}
"""Whose instances fit where that is not the annotation itself."""
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a string",
    types.NoneType: "None",
    Path: "a Path",
}
_DTYPES = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "b": "truth values"}
"""What is in an array, by the letter that NumPy has for it."""
_MOST_BITS = 128
"""Of a whole number: longer ones are no seed, size or time, and Python may refuse to print them."""
_SHOWN = (bool, int, float, complex, str, bytes, types.NoneType, np.generic)


def checked(function: Callable[P, R], name: str) -> Callable[P, R]:
    """A function whose arguments are checked before it is called; errors call it `name`, its name in `astra_tacos`.

    Arguments that are scalars of NumPy become numbers of Python. Truth values are no numbers; lists fit where tuples of any
    length do. A dataclass fits if all its fields do.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        positional, named = tuple(map(plain, arguments)), {key: plain(value) for key, value in keywords.items()}
        try:
            bound = signature.bind(*positional, **named).arguments
        except TypeError:  # Python says it better when it calls
            bound = {}
        for parameter, value in bound.items():
            kind, hint = signature.parameters[parameter].kind, type_hints(function).get(parameter, Any)
            if kind is inspect.Parameter.VAR_KEYWORD:
                of_key = type_hints(typing.get_args(hint)[0]) if typing.get_origin(hint) is typing.Unpack else {}
                for key, entry in value.items():
                    check(f"{name}: {key}", entry, of_key.get(key, Any))
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                for entry in value:
                    check(f"{name}: {parameter}", entry, hint)
            else:
                check(f"{name}: {parameter}", value, hint)
        return function(*positional, **named)

    call.__module__, call.__qualname__ = "astra_tacos", name  # pickle finds it by these
    return call


def plain(value: Any) -> Any:
    """A scalar of NumPy as one of Python; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


@functools.cache
def type_hints(annotated: Any) -> dict[str, Any]:
    """Types of the parameters of a function or the fields of a class; Any for names imported only for type checkers."""
    module = sys.modules[annotated.__module__]
    return typing.get_type_hints(annotated, localns=_Names(vars(builtins) | vars(module)))


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return Any


def check(where: str, value: object, hint: Any) -> None:
    """Check that a value has a type.

    Raises
    ------
    ConfigError
        If it, or what is in it, has not: `where` and the place in it, what was found, what was expected.
    """
    _check_all(lambda _: where, [value], hint)


def check_fields(record: object) -> None:
    """Check that the fields of a dataclass have their types, for its `__post_init__`; errors call them by their names.

    Raises
    ------
    ConfigError
        If one has not.
    """
    record_class: Any = type(record)
    for name, hint in type_hints(record_class).items():
        check(name, getattr(record, name), hint)


def _check_all(place: _Place, values: Sequence[Any], hint: Any) -> None:
    """Check values that all should have a type, field by field: a network may have a million links."""
    if hint is Any:
        return
    hint = _expanded(hint)
    arms = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if Path in arms:
        _check_paths(place, values)
    if set(map(type, values)).issubset({*arms}.intersection((str, float, bool, types.NoneType))):
        return  # many numbers, in no time
    rest = list(range(len(values)))
    arms = tuple(map(_expanded, arms))
    for arm in arms:
        fitting = [number for number in rest if _is_kind(values[number], arm)]
        if fitting:
            _check_parts(lambda index, fitting=fitting: place(fitting[index]), [values[number] for number in fitting], arm)  # type: ignore[misc]
        rest = rest if not fitting else sorted(set(rest).difference(fitting))
    if rest:
        raise ConfigError(f"{place(rest[0])} is {_shown(values[rest[0]])}, expected {' or '.join(map(_words, arms))}")


def _expanded(hint: Any) -> Any:
    """The type that an alias stands for: from NumPy 2.5 on, `NDArray` is one that `typing.get_origin` does not look through."""
    meaning = getattr(typing.get_origin(hint), "__value__", None)
    return hint if meaning is None else meaning[typing.get_args(hint)]


def _check_paths(place: _Place, values: Sequence[Any]) -> None:
    for number, value in enumerate(values):
        if isinstance(value, (str, Path)) and not _can_be_path(value):
            raise ConfigError(f"{place(number)} is {_shown(str(value))}, expected a path without zero bytes and lone surrogates")


def _can_be_path(value: str | Path) -> bool:
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _is_kind(value: object, hint: Any) -> bool:
    """Whether a value is of a type, whatever it contains."""
    if type(value) is hint and (hint is not int or value.bit_length() <= _MOST_BITS):  # type: ignore[attr-defined]
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in parts)
    if isinstance(value, np.ndarray) and origin is np.ndarray:
        (dtype,) = typing.get_args(parts[1])
        kind, expected = _DTYPES.get(value.dtype.kind), None if dtype is Any else _DTYPES.get(np.dtype(dtype).kind)
        return expected is None or kind == expected or (kind, expected) == ("whole numbers", "numbers")
    if isinstance(value, int) and hint in (int, float) and (isinstance(value, bool) or value.bit_length() > _MOST_BITS):
        return False
    if origin is Sequence and isinstance(value, (str, bytes)):
        return False
    if origin is tuple and parts[-1] is Ellipsis:
        return isinstance(value, (tuple, list))
    return isinstance(value, _CLASSES.get(hint) or origin or hint)


def _check_parts(place: _Place, values: Sequence[Any], hint: Any) -> None:
    """Check the content of values that are of a type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        for field in fields(hint):
            of_field = list(map(attrgetter(field.name), values))
            _check_all(lambda number, name=field.name: f"{place(number)}.{name}", of_field, type_hints(hint)[field.name])  # type: ignore[misc]
    elif origin is tuple and parts[-1] is not Ellipsis:
        for number, value in enumerate(values):
            if len(value) != len(parts):
                raise ConfigError(f"{place(number)} is a tuple of {len(value)}, expected {len(parts)} entries")
        for index, part in enumerate(parts):
            _check_all(lambda number, index=index: f"{place(number)}[{index}]", [value[index] for value in values], part)  # type: ignore[misc]
    elif origin in (tuple, list, Sequence):
        for number, value in enumerate(values):
            _check_all(lambda index, number=number: f"{place(number)}[{index}]", value, parts[0])  # type: ignore[misc]
    elif origin in (dict, Mapping):
        for number, value in enumerate(values):
            keys = list(value)
            _check_all(lambda index, number=number: f"a key of {place(number)}", keys, parts[0])  # type: ignore[misc]
            named = lambda index, number=number, keys=keys: f"{place(number)}[{keys[index]!r}]"  # noqa: E731
            _check_all(named, list(value.values()), parts[1])


def _shown(value: object) -> str:
    if isinstance(value, _SHOWN):
        is_long = isinstance(value, int) and value.bit_length() > _MOST_BITS
        return f"a whole number of over {_MOST_BITS} bits" if is_long else quoted(value)
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"a {type(value).__name__}"


def _words(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    if origin is np.ndarray:
        (dtype,) = typing.get_args(parts[1])
        return "an array" if dtype is Any else f"an array of {_DTYPES.get(np.dtype(dtype).kind, str(np.dtype(dtype)))}"
    if origin is Callable:
        return "a function"
    name = (origin or hint).__name__ if hint is not None else ""
    return _WORDS.get(hint) or f"a{'n' * (name[0] in 'AEIOU')} {name if not origin else name.lower()}"
