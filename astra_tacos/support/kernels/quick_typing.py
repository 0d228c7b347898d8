# mypy: disable-error-code="no-untyped-call"
"""numba's type inference without repetitions: a third less work for a process that only compiles. Imports numba.

For each call and each operation numba asks all known implementations whether they take the types, also where it has asked before:
a sum of integers takes a dozen failed attempts. Most of their time goes into comparing sets of options, which are nearly always
equal. Here a resolved call is remembered, as are the sizes of LLVM's types, and options are compared as they are stored. The
machine code is the same (`tests/support/test_quick_typing.py`). Where numba is built in another way, it stays as it is.
"""

from __future__ import annotations

from typing import Any


def quicken() -> None:
    """Change numba in this process; for processes in which nobody registers implementations later on."""
    try:
        from numba.core.base import BaseContext
        from numba.core.targetconfig import TargetConfig
        from numba.core.types.functions import BaseFunction

        TargetConfig()._values.items()  # where options are kept
        changes = [*_options(TargetConfig), *_resolved_calls(BaseFunction), *_sizes(BaseContext)]
    except (ImportError, AttributeError):
        return
    for owner, name, value in changes:
        setattr(owner, name, value)


_Changes = list[tuple[Any, str, Any]]


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
