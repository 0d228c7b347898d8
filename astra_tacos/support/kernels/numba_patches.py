# mypy: disable-error-code="no-untyped-call, untyped-decorator, override, misc"
"""Where numba is changed: compiling takes less time. Imports numba.

For numba from `FROM` on and before `BEFORE`, whose insides these changes know. With any other, numba's own types and type
inference take their place, with the same results. What they save is in CPU seconds, one run each on a busy machine, for kernels
of a first `synthesize` (8x8 torus, numba 0.68):

- Tables. A kernel takes a named tuple as one pointer to the addresses and shapes of its arrays. The caller keeps these alive, so
  that no references are counted. numba's own named tuple of arrays goes by value, some 200 numbers to each helper: `advance`
  of the replay took 22 s instead of 8, `match` 5.4 s instead of 3.9.
- Calls of helpers with numbers. numba would compile a helper anew for each number that stands in a call: 14.3 s for these two
  kernels instead of 10.4.
- Type inference (`quicken`). For each call and each operation numba asks all known implementations whether they take the types,
  also where it has asked before, and compares sets of options, which are nearly always equal. Here a resolved call is remembered,
  as are the sizes of LLVM's types, and options are compared as they are stored: 24 s instead of 31 for all 20 kernels.
- Helpers. numba optimises each, and makes it machine code, before it links its intermediate code into what calls it, where both
  happen again: `advance` took 7.5 s instead of 5.0, `match` 3.1 s instead of 2.3.
- Code that was kept. Before numba loads it, numba imports all that it can compile, and SciPy with it. Here only its memory
  management begins (`begin_without_compiler`).
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel, OpaqueModel
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, box, infer_getattr, lower_getattr_generic, register_model, unbox

FROM, BEFORE = (0, 62), (0, 69)


def are_on() -> bool:
    """Whether this is a numba that the changes are made for."""
    return bool(FROM <= numba.version_info.short < BEFORE)


def array_type(entries: Any, ndim: int, written: bool) -> Any:
    """The type of a kernel's C-contiguous array."""
    if are_on():
        return _LentArray(entries, ndim, written)
    return types.Array(entries, ndim, "C", readonly=not written)


def tuple_type(named_tuple: Any, kinds: list[Any]) -> Any:
    """The type of a kernel's named tuple with fields of some types."""
    if are_on():
        return _Table(named_tuple.__qualname__, tuple(zip(named_tuple._fields, kinds, strict=True)))
    return types.NamedTuple(kinds, named_tuple)


def forget_literals(dispatcher: Any) -> Any:
    """Have a helper compiled once for all numbers that stand in calls of it."""
    if are_on():
        resolve = dispatcher.get_call_template
        dispatcher.get_call_template = lambda arguments, keywords: resolve(
            [types.unliteral(kind) for kind in arguments], keywords
        )
    return dispatcher


def quicken() -> None:
    """Have numba do less for each kernel of this process, which compiles kernels that others run.

    Nobody may register implementations later on, and no kernel may multiply matrices: for these, numba would import SciPy.
    """
    if not are_on():
        return
    sys.modules.setdefault("scipy.linalg.cython_blas", None)  # type: ignore[arg-type]
    for owner, name, value in _changes():
        setattr(owner, name, value)


def begin_without_compiler(context: Any) -> bool:
    """Make a target ready to run code that is already compiled; False where only numba knows how."""
    if are_on():
        from numba.core.runtime.nrt import rtsys

        rtsys.initialize(context)
    return are_on()


_Changes = list[tuple[Any, str, Any]]


def _changes() -> _Changes:
    """What `quicken` puts into numba."""
    from numba.core.base import BaseContext
    from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
    from numba.core.registry import cpu_target
    from numba.core.targetconfig import TargetConfig
    from numba.core.types.functions import BaseFunction

    begin_without_compiler(cpu_target.target_context)  # its own code has machine code, though no wrapper for Python
    code = _code_of_helpers(CPUCodeLibrary, JITCPUCodegen)
    return [*_options(TargetConfig), *_resolved_calls(BaseFunction), *_sizes(BaseContext), *code]


def _options(config: Any) -> _Changes:
    """Hashes and comparisons of options by what is stored, which are those of all options with their defaults."""
    defaults: dict[Any, dict[str, Any]] = {}
    hashes: dict[Any, int] = {}

    def values(self: Any) -> dict[str, Any]:
        kind = type(self)
        if kind not in defaults:
            defaults[kind] = {name: option.default for name, option in kind.options.items()}
        return {**defaults[kind], **self._values}

    def by_names(self: Any) -> int:
        kind = type(self)
        if kind not in hashes:
            hashes[kind] = hash(tuple(sorted(kind.options)))
        return hashes[kind]

    def is_equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if not isinstance(other, config):
            return NotImplemented
        return (type(self) is type(other) and self._values == other._values) or values(self) == values(other)

    return [(config, "values", values), (config, "__hash__", by_names), (config, "__eq__", is_equal)]


def _resolved_calls(function: Any) -> _Changes:
    """Signatures of calls of known functions with known types."""
    resolve = function.get_call_type
    known: dict[Any, tuple[Any, Any]] = {}

    def get_call_type(self: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        call = self, context, tuple(arguments)
        if not keywords and call in known:
            signature, implementation = known[call]
            self._impl_keys[signature.args] = implementation
            return signature
        signature = resolve(self, context, arguments, keywords)
        if not keywords and signature is not None and all(kind.is_precise() for kind in (*arguments, signature.return_type)):
            known[call] = signature, self._impl_keys[signature.args]
        return signature

    return [(function, "get_call_type", get_call_type)]


def _sizes(context: Any) -> _Changes:
    """Sizes of LLVM's types, for each of which numba has LLVM read a module."""
    measure = context.get_abi_sizeof
    known: dict[str, int] = {}

    def get_abi_sizeof(self: Any, kind: Any) -> int:
        text = str(kind)
        if text not in known:
            known[text] = measure(self, kind)
        return known[text]

    return [(context, "get_abi_sizeof", get_abi_sizeof)]


def _code_of_helpers(library: Any, codegen: Any) -> _Changes:
    """Helpers stay as lowered: they are optimised, and made machine code, as parts of the kernels that they are linked into."""
    finalize, set_env = library.finalize, codegen.set_env

    def link(self: Any) -> None:
        if not any(function.name.startswith(_OF_PYTHON) for function in self._final_module.functions):
            self._optimize_final_module = lambda: None
            self._finalize_final_module = partial(setattr, self, "_finalized", True)
        finalize(self)

    def set_where_known(self: Any, name: str, environment: Any) -> None:
        if self._engine.get_global_value_address(name):
            set_env(self, name, environment)

    return [(library, "finalize", link), (codegen, "set_env", set_where_known)]


_OF_PYTHON = "_ZN7cpython"
"""How the names of wrappers begin, by which Python calls compiled functions."""
_WORD = cgutils.intp_t
_ADDRESS, _SHAPE = 4, 5
"""Words of an array's description, numba's `arystruct_t`. The first four are its owner, number of entries and bytes of one."""


class _LentArray(types.Array):
    """A C-contiguous array that a kernel uses but does not own."""

    def __init__(self, entries: Any, ndim: int, written: bool) -> None:
        name = f"lent array({entries}, {ndim}d{', written' if written else ''})"
        super().__init__(entries, ndim, "C", readonly=not written, name=name)

    def __hash__(self) -> int:
        return hash(self.name)


class _Table(types.Type):
    """A named tuple of arrays and scalars."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        super().__init__(name)

    @property
    def key(self) -> Any:
        """What makes it different from others."""
        return self.name, self.fields

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def places(self) -> dict[str, int]:
        """Where each field is, in words; under "" the size of all."""
        places, size = {}, 0
        for name, kind in self.fields:
            places[name] = size
            size += _SHAPE + 2 * kind.ndim if isinstance(kind, _LentArray) else 1
        return places | {"": size}


@register_model(_LentArray)
class _LentModel(ArrayModel):
    """The fields that numba knows arrays by, of which none is an owner."""

    def has_nrt_meminfo(self) -> bool:
        return False

    def contains_nrt_meminfo(self) -> bool:
        return False

    def traverse(self, builder: Any) -> list[Any]:
        return []


register_model(_Table)(OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = _Table

    def generic_resolve(self, table: _Table, name: str) -> Any:
        return dict(table.fields).get(name)


@lower_getattr_generic(_Table)
def _field(context: Any, builder: Any, table: _Table, value: Any, name: str) -> Any:
    kind = dict(table.fields)[name]
    words = builder.bitcast(value, _WORD.as_pointer())
    place = table.places[name]
    if isinstance(kind, _LentArray):
        return _array(context, builder, kind, words, place, is_constant=True)
    model = context.data_model_manager[kind]
    at = builder.bitcast(_at(builder, words, place), model.get_data_type().as_pointer())
    return model.from_data(builder, _constant(builder, builder.load(at)))


def _array(context: Any, builder: Any, kind: _LentArray, words: Any, place: int, is_constant: bool) -> Any:
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


@unbox(_LentArray)
def _lent(kind: _LentArray, given: Any, context: Any) -> NativeValue:
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


@unbox(_Table)
def _table(table: _Table, given: Any, context: Any) -> NativeValue:
    builder, places = context.builder, table.places
    words = cgutils.alloca_once(builder, _WORD, size=places[""])
    failed = cgutils.false_bit
    for number, (name, kind) in enumerate(table.fields):
        part = context.pyapi.tuple_getitem(given, number)
        at = _at(builder, words, places[name])
        if isinstance(kind, _LentArray):
            has_failed = _describe(context, part, at)
        else:
            native = context.unbox(kind, part)
            data = context.context.data_model_manager[kind].as_data(builder, native.value)
            builder.store(data, builder.bitcast(at, data.type.as_pointer()))
            has_failed = native.is_error
        failed = builder.or_(failed, has_failed)
    return NativeValue(builder.bitcast(words, context.pyapi.voidptr), is_error=failed)


@box(_LentArray)
def _returned(kind: _LentArray, value: Any, context: Any) -> Any:
    raise TypeError("a kernel returns what is not its own: an array that it was given")
