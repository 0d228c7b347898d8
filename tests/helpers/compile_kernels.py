"""Compiles all kernels on all cores, before each worker of pytest compiles the same ones."""

from __future__ import annotations

import importlib
import pkgutil

import astra_tacos
from astra_tacos.support.kernels.compiled import Kernel
from astra_tacos.support.kernels.first_use import compile_kernels, missing_kernels


def kernel_names() -> list[str]:
    """The names of all kernels of the package."""
    found = pkgutil.walk_packages(astra_tacos.__path__, "astra_tacos.")
    modules = [importlib.import_module(each.name) for each in found if each.name.endswith("_kernels")]
    return sorted({value.name for module in modules for value in vars(module).values() if isinstance(value, Kernel)})


if __name__ == "__main__":
    compile_kernels(missing_kernels(kernel_names()))
