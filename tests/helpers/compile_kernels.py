"""Compiles all kernels on all cores, before each worker of pytest compiles the same ones."""

from __future__ import annotations

import pkgutil

import astra_tacos
from astra_tacos.support.kernels.first_use import compile_kernels, missing_kernels

if __name__ == "__main__":
    found = [each.name for each in pkgutil.walk_packages(astra_tacos.__path__, "astra_tacos.")]
    compile_kernels(missing_kernels(name for name in found if name.endswith(("_kernels", "kernels.shared"))))
