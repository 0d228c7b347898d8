# mypy: disable-error-code="no-untyped-call, misc"
"""How helpers are compiled: as far as kernels need it, which take in their code. Imports numba.

Optimised and made machine code of is the kernel as a whole. numba does both for every helper, too, and throws it away.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class PartCompiler(Compiler):
    """numba's compiler, for what only other compiled functions call."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a function."""
        codegen = self.state.targetctx.codegen()
        self.state.library = _Part(codegen, function.__qualname__)
        return super().compile_extra(function)


class _Part(JITCodeLibrary):
    """Code of a helper, in the form in which it is linked."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address: there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """numba's, without the one thing that it would do to machine code."""
        return _Codegen(self._codegen)


class _Codegen:
    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: what Python does not call has no environment, and helpers in kernels from the cache have none either."""
