"""What kernels take, for numba: named tuples as tables in memory, and arrays whose owner is not counted. Imports numba.

A kernel's caller keeps the arguments alive while it runs. So nothing has to be counted, and a named tuple is one pointer to the
addresses and shapes of its arrays, however many there are. numba's own tuples of arrays take several times as long to compile
and cost atomic operations wherever a field is used.

Types of the arrays that kernels take. Loads no numba.

A kernel's signature is made from the annotations of its parameters, so that it is compiled once and ahead of its first call.
Names say the type of the entries and, if not one, the number of dimensions; `OUT` marks arrays that the kernel writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel, OpaqueModel
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, box, infer_getattr, lower_getattr_generic, register_model, unbox
from numpy.typing import NDArray

# mypy: disable-error-code="no-untyped-call, untyped-decorator, override"


_WORD = cgutils.intp_t
_ADDRESS, _SHAPE = 4, 5
"""Words of an array's description, numba's `arystruct_t`. The first four are its owner, number of entries and bytes of one."""


class LentArray(types.Array):
    """A C-contiguous array that a kernel uses but does not own."""

    def __init__(self, entries: Any, ndim: int, written: bool) -> None:
        name = f"lent array({entries}, {ndim}d{', written' if written else ''})"
        super().__init__(entries, ndim, "C", readonly=not written, name=name)


class Table(types.Type):
    """A named tuple of arrays and scalars.

    Parameters
    ----------
    name
        Name of the named tuple.
    fields
        Its fields' names and types.
    """

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        super().__init__(name)

    @property
    def key(self) -> Any:
        """What makes it different from others."""
        return self.name, self.fields

    @property
    def places(self) -> dict[str, int]:
        """Where each field is, in words; under "" the size of all."""
        places, size = {}, 0
        for name, kind in self.fields:
            places[name] = size
            size += _SHAPE + 2 * kind.ndim if isinstance(kind, LentArray) else 1
        return places | {"": size}


@register_model(LentArray)
class _LentModel(ArrayModel):
    """The fields that numba knows arrays by, of which none is an owner."""

    def has_nrt_meminfo(self) -> bool:
        return False

    def contains_nrt_meminfo(self) -> bool:
        return False

    def traverse(self, builder: Any) -> list[Any]:
        return []


register_model(Table)(OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Table

    def generic_resolve(self, table: Table, name: str) -> Any:
        return dict(table.fields).get(name)


@lower_getattr_generic(Table)
def _field(context: Any, builder: Any, table: Table, value: Any, name: str) -> Any:
    kind = dict(table.fields)[name]
    words = builder.bitcast(value, _WORD.as_pointer())
    place = table.places[name]
    if isinstance(kind, LentArray):
        return _array(context, builder, kind, words, place, is_constant=True)
    model = context.data_model_manager[kind]
    at = builder.bitcast(_at(builder, words, place), model.get_data_type().as_pointer())
    return model.from_data(builder, _constant(builder, builder.load(at)))


def _array(context: Any, builder: Any, kind: LentArray, words: Any, place: int, is_constant: bool) -> Any:
    """The array that is described from some word on."""

    def load(offset: int) -> Any:
        loaded = builder.load(_at(builder, words, place + offset))
        return _constant(builder, loaded) if is_constant else loaded

    model = context.data_model_manager[kind]
    entry = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [load(_SHAPE + axis) for axis in range(kind.ndim)]
    strides = [_WORD(entry)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(length, strides[0], flags=["nsw"]))
    size = shape[0]
    for length in shape[1:]:
        size = builder.mul(size, length, flags=["nsw"])
    address = builder.inttoptr(load(_ADDRESS), context.get_data_type(kind.dtype).as_pointer())
    none = {name: ir.Constant(context.get_value_type(model.get_type(name)), None) for name in ("meminfo", "parent")}
    lengths = {
        "shape": cgutils.pack_array(builder, shape, _WORD),
        "strides": cgutils.pack_array(builder, strides, _WORD),
        "itemsize": _WORD(entry),
        "nitems": size,
    }
    array = ir.Constant(model.get_value_type(), ir.Undefined)
    for name, part in (none | lengths | {"data": address}).items():
        array = builder.insert_value(array, part, model.get_field_position(name))
    return array


def _at(builder: Any, words: Any, place: int) -> Any:
    return builder.gep(words, [_WORD(place)], inbounds=True)


def _constant(builder: Any, loaded: Any) -> Any:
    """Say that what was loaded stays the same while the kernel runs."""
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@unbox(LentArray)
def _lent(kind: LentArray, given: Any, context: Any) -> NativeValue:
    words = cgutils.alloca_once(context.builder, _WORD, size=_SHAPE + 2 * kind.ndim)
    has_failed = _describe(context, given, words)
    array = _array(context.context, context.builder, kind, words, 0, is_constant=False)
    return NativeValue(array, is_error=has_failed)


def _describe(context: Any, array: Any, words: Any) -> Any:
    """Put the description of an array into memory; returns whether that failed."""
    builder, pyapi = context.builder, context.pyapi
    kind = ir.FunctionType(ir.IntType(32), [pyapi.pyobj, pyapi.voidptr])
    describe = cgutils.get_or_insert_function(builder.module, kind, "numba_adapt_ndarray")
    return cgutils.is_not_null(builder, builder.call(describe, (array, builder.bitcast(words, pyapi.voidptr))))


@unbox(Table)
def _table(table: Table, given: Any, context: Any) -> NativeValue:
    builder, places = context.builder, table.places
    words = cgutils.alloca_once(builder, _WORD, size=places[""])
    failed = cgutils.false_bit
    for number, (name, kind) in enumerate(table.fields):
        part = context.pyapi.tuple_getitem(given, number)
        at = _at(builder, words, places[name])
        if isinstance(kind, LentArray):
            has_failed = _describe(context, part, at)
        else:
            native = context.unbox(kind, part)
            data = context.context.data_model_manager[kind].as_data(builder, native.value)
            builder.store(data, builder.bitcast(at, data.type.as_pointer()))
            has_failed = native.is_error
        failed = builder.or_(failed, has_failed)
    return NativeValue(builder.bitcast(words, context.pyapi.voidptr), is_error=failed)


@box(LentArray)
def _returned(kind: LentArray, value: Any, context: Any) -> Any:
    raise TypeError("a kernel returns what is not its own: an array that it was given")


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array is laid out: always C-contiguous.

    Parameters
    ----------
    ndim
        Number of dimensions.
    written
        Whether the kernel writes it; all others are handed over read-only.
    record
        The entries' type, if they are records.
    """

    ndim: int = 1
    written: bool = False
    record: np.dtype[Any] | None = None


U8 = Annotated[NDArray[np.uint8], Layout()]
U8_2D_OUT = Annotated[NDArray[np.uint8], Layout(2, True)]
U8_OUT = Annotated[NDArray[np.uint8], Layout(1, True)]
U16 = Annotated[NDArray[np.uint16], Layout()]
U16_2D_OUT = Annotated[NDArray[np.uint16], Layout(2, True)]
U32_2D = Annotated[NDArray[np.uint32], Layout(2)]
U32_2D_OUT = Annotated[NDArray[np.uint32], Layout(2, True)]
U64 = Annotated[NDArray[np.uint64], Layout()]
U64_2D = Annotated[NDArray[np.uint64], Layout(2)]
U64_OUT = Annotated[NDArray[np.uint64], Layout(1, True)]
U64_2D_OUT = Annotated[NDArray[np.uint64], Layout(2, True)]
U64_3D_OUT = Annotated[NDArray[np.uint64], Layout(3, True)]
I8 = Annotated[NDArray[np.int8], Layout()]
I16_OUT = Annotated[NDArray[np.int16], Layout(1, True)]
I32 = Annotated[NDArray[np.int32], Layout()]
I32_2D = Annotated[NDArray[np.int32], Layout(2)]
I32_OUT = Annotated[NDArray[np.int32], Layout(1, True)]
I32_2D_OUT = Annotated[NDArray[np.int32], Layout(2, True)]
I32_3D_OUT = Annotated[NDArray[np.int32], Layout(3, True)]
I64 = Annotated[NDArray[np.int64], Layout()]
I64_2D = Annotated[NDArray[np.int64], Layout(2)]
I64_OUT = Annotated[NDArray[np.int64], Layout(1, True)]
I64_2D_OUT = Annotated[NDArray[np.int64], Layout(2, True)]
F64 = Annotated[NDArray[np.float64], Layout()]
F64_OUT = Annotated[NDArray[np.float64], Layout(1, True)]
F64_2D_OUT = Annotated[NDArray[np.float64], Layout(2, True)]
BOOL = Annotated[NDArray[np.bool_], Layout()]
BOOL_OUT = Annotated[NDArray[np.bool_], Layout(1, True)]
BOOL_2D_OUT = Annotated[NDArray[np.bool_], Layout(2, True)]
