# mypy: disable-error-code="no-untyped-call"
"""How loops are compiled: `kernel` for what Python calls, `helper` and `inlined` for what kernels call. Imports numba.

A kernel has one signature, made from its annotations: `int`, `float`, `bool`, types of `arrays`, and named tuples of these. It is
compiled for these types alone, whatever mixture of read-only and writable arrays callers have, and can be compiled before
anyone calls it. Compiled code is kept next to the source or in a user's cache; it counts as fresh as long as no kernel
file in its folder and no file of this folder has changed, so a kernel may import from there and from nowhere else.

Names of arrays say the type of the entries and, if not one, the number of dimensions; `OUT` marks arrays that the kernel writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.kernels.first_use import await_kernel
from astra_tacos.support.kernels.numba_patches import array_type, begin_without_compiler, forget_literals, tuple_type

_settings: Any = numba.config
if _settings.DISABLE_JIT:  # some operations on bits are instructions, and arithmetic is that of 64 bits
    raise ConfigError("NUMBA_DISABLE_JIT: found 1, expected 0 or nothing: the loops of astra_tacos run compiled only")

_njit: Any = numba.njit
_SCALARS: dict[Any, Any] = {int: types.int64, float: types.float64, bool: types.boolean}


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array is laid out: always C-contiguous.

    Parameters
    ----------
    written
        Whether the kernel writes it; all others are handed over read-only.
    """

    ndim: int = 1
    written: bool = False
    record: np.dtype[Any] | None = None


U8 = Annotated[NDArray[np.uint8], Layout()]
U8_2D_OUT = Annotated[NDArray[np.uint8], Layout(2, True)]
U8_OUT = Annotated[NDArray[np.uint8], Layout(1, True)]
U16 = Annotated[NDArray[np.uint16], Layout()]
U32_2D_OUT = Annotated[NDArray[np.uint32], Layout(2, True)]
U64 = Annotated[NDArray[np.uint64], Layout()]
U64_OUT = Annotated[NDArray[np.uint64], Layout(1, True)]
U64_2D_OUT = Annotated[NDArray[np.uint64], Layout(2, True)]
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

_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def helper(function: Callable[..., Any]) -> Any:
    """Decorate a function that kernels call."""
    return forget_literals(_njit(**_HELPER)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a helper whose code stands wherever it is called: a small one in an innermost loop, or a part of a long loop."""
    return forget_literals(_njit(**_HELPER, forceinline=True)(function))


class Kernel:
    """A compiled function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.py_func = function
        self._dispatcher = _njit(nogil=True, no_cfunc_wrapper=True)(function)
        try:
            self._dispatcher._cache = _Cache(function)
        except RuntimeError:  # nowhere to keep it: compiled in each process
            self.is_kept = False
        else:
            self.is_kept = True

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @property
    def name(self) -> str:
        """Module and name, which `find` takes."""
        return f"{self.__module__}:{self.__name__}"

    @property
    def size(self) -> int:
        """Bytes of its code and of the helpers' that it calls: how long it takes to compile, roughly."""
        return _code_size(self.py_func, set())

    @cached_property
    def _parameters(self) -> list[tuple[str, Any]]:
        hints = get_type_hints(self.py_func, include_extras=True)
        hints.pop("return", None)
        return list(hints.items())

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """The numba types of the parameters."""
        return tuple(_numba_type(hint) for _, hint in self._parameters)

    @cached_property
    def _entry(self) -> Callable[..., Any]:
        """What numba's dispatcher would find to be called, for any arguments."""
        return cast(Callable[..., Any], self._dispatcher.overloads[self.signature].entry_point)

    @cached_property
    def _takers(self) -> list[Callable[[Any], Any]]:
        return [_taker(f"{self.__name__}: {name}", hint) for name, hint in self._parameters]

    @property
    def is_compiled(self) -> bool:
        """Whether this process has it."""
        return bool(self._dispatcher.overloads)

    @property
    def is_ready(self) -> bool:
        """Whether this process has it or can load it."""
        return self.is_compiled or (self.is_kept and self._dispatcher._cache.holds(self.signature))

    def compile(self) -> None:
        """Load it, or compile and keep it."""
        if not self.is_compiled:
            await_kernel(self)
            self._dispatcher.compile(self.signature)

    def __call__(self, *arguments: Any) -> Any:
        """Run it on arguments of the annotated types; compile it first if that was not done."""
        self.compile()
        converted = [take(argument) for take, argument in zip(self._takers, arguments, strict=True)]
        return self._entry(*converted)


def _code_size(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> int:
    if function in seen:
        return 0
    seen.add(function)
    called = [getattr(function.__globals__.get(name), "py_func", None) for name in function.__code__.co_names]
    return len(function.__code__.co_code) + sum(_code_size(other, seen) for other in called if isinstance(other, FunctionType))


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorate a function that Python calls: nothing is compiled before it is called or `compile` is."""
    return Kernel(function)


def _numba_type(hint: Any) -> Any:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if get_origin(hint) is Annotated:
        array, layout = get_args(hint)
        return array_type(numba.from_dtype(_dtype(array, layout)), layout.ndim, layout.written)
    if hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True)
        return tuple_type(hint, [_numba_type(fields[name]) for name in hint._fields])
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return numba.from_dtype(np.dtype(hint))
    raise TypeError(f"a kernel takes no {hint}")


def _dtype(array: Any, layout: Layout) -> np.dtype[Any]:
    if layout.record is not None:
        return layout.record
    entry = get_args(array)[-1]  # of NDArray[np.int64]: np.dtype[np.int64], or np.int64 from NumPy 2.5 on
    dtype: np.dtype[Any] = np.dtype((get_args(entry) or (entry,))[0])
    return dtype


def _taker(name: str, hint: Any) -> Any:
    """A function that makes an argument what the kernel was compiled for."""
    if hint in _SCALARS:
        return hint
    if get_origin(hint) is Annotated:
        array, layout = get_args(hint)
        return _array_taker(name, _dtype(array, layout), layout)
    if hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True)
        takers = [_taker(f"{name}.{field}", fields[field]) for field in hint._fields]

        def take_all(given: Any) -> Any:
            if type(given) is not hint:
                raise TypeError(f"{name} is a {type(given).__name__}, expected a {hint.__name__}")
            return hint(*[take(value) for take, value in zip(takers, given, strict=True)])

        return take_all
    return hint


def _array_taker(name: str, dtype: np.dtype[Any], layout: Layout) -> Callable[[Any], Any]:
    ndim = layout.ndim

    def check(array: Any) -> None:
        if not isinstance(array, np.ndarray) or array.ndim != ndim:
            raise TypeError(f"{name} is {getattr(array, 'shape', type(array))}, expected an array of {ndim} dimensions")

    def written(array: Any) -> Any:
        check(array)
        flags = array.flags
        if array.dtype != dtype or not flags.c_contiguous or not flags.writeable:
            raise TypeError(f"{name} is {array.dtype}, expected a writable C-contiguous array of {dtype}")
        return array

    def read(array: Any) -> Any:
        check(array)
        if array.dtype != dtype or not array.flags.c_contiguous:
            if not np.can_cast(array.dtype, dtype, "safe"):
                raise TypeError(f"{name} is {array.dtype}, expected {dtype}")
            array = np.ascontiguousarray(array, dtype)
        return array

    return written if layout.written else read


class _Stamped:
    """Freshness by the content of all files that the function may use."""

    _py_file: str

    def get_source_stamp(self) -> str:
        return _stamp(str(Path(self._py_file).parent))


class _Provided(_Stamped, UserProvidedCacheLocator):
    """Where NUMBA_CACHE_DIR says."""


class _InTree(_Stamped, InTreeCacheLocator):
    """Next to the source."""


class _UserWide(_Stamped, UserWideCacheLocator):
    """In the user's cache directory."""


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Provided, _InTree, _UserWide]  # noqa: RUF012


class _Cache(FunctionCache):
    """Compiled code on disk; what cannot be read counts as missing, what cannot be written is not kept."""

    _impl_class = _CacheImpl

    def holds(self, signature: tuple[Any, ...]) -> bool:
        from numba.core.registry import cpu_target

        file = self._cache_file
        try:
            name = file._load_index().get(self._index_key(signature, cpu_target.target_context.codegen()))
        except Exception:  # whatever unpickling a damaged file raises
            return False
        return name is not None and Path(file._data_path(name)).exists()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        load = self._load_overload if begin_without_compiler(target_context) else super().load_overload
        try:
            return load(sig, target_context)
        except Exception:  # whatever unpickling a damaged file raises
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            return
        except Exception:  # a damaged index, which is made anew
            self.flush()
            super().save_overload(sig, data)


def kernel_files(folder: Path) -> list[Path]:
    """Files that a kernel of a folder may use: all kernel files there, and all of this folder."""
    return sorted({*folder.glob("_*_kernels.py"), *Path(__file__).parent.glob("*.py")})


@cache
def _stamp(folder: str) -> str:
    content = hashlib.sha256()
    for path in kernel_files(Path(folder)):
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()
