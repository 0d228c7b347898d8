"""The version of this package."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def package_version() -> str:
    """Version of this package: what another one found is not taken from a cache."""
    try:
        return version("astra-tacos")
    except PackageNotFoundError:
        return "unknown"
