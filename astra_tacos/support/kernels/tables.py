# mypy: disable-error-code="no-untyped-call, untyped-decorator, override"
"""What kernels take, for numba: named tuples as tables in memory, and arrays whose owner is not counted. Imports numba.

A kernel's caller keeps the arguments alive while it runs. So nothing has to be counted, and a named tuple is one pointer to the
addresses and shapes of its arrays, however many there are. numba's own tuples of arrays take several times as long to compile
and cost atomic operations wherever a field is used.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel, OpaqueModel
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, box, infer_getattr, lower_getattr_generic, register_model, unbox

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
