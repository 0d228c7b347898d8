"""The version of this package."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def package_version() -> str:
    """Version of this package; caches do not use results of other versions."""
    try:
        return version("astra-tacos")
    except PackageNotFoundError:
        return "unknown"
