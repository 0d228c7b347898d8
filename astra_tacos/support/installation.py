"""Extras: what an installation can leave out, and which of them brings a package that is not there; and the package's version."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from astra_tacos.support.errors import MissingExtraError

EXTRAS = {
    "sweep": ("distributed", "pebble", "psutil", "pyarrow"),
    "report": ("jinja2", "plotly"),
    "plot": ("matplotlib",),
}
"""The packages that each extra of `pyproject.toml` brings, by the names under which they are imported."""


def require(extra: str) -> None:
    """Check, before any work, that an extra is installed.

    Parameters
    ----------
    extra
        Key of `EXTRAS`.

    Raises
    ------
    MissingExtraError
        If a package of it is missing. The message names the package and the command that installs it.
    """
    for package in EXTRAS[extra]:
        if find_spec(package) is None:
            raise MissingExtraError(f"this needs {package}, which is not installed: pip install 'astra-tacos[{extra}]'")


@lru_cache(maxsize=1)
def package_version() -> str:
    """Version of this package; caches do not use results of other versions."""
    try:
        return version("astra-tacos")
    except PackageNotFoundError:
        return "unknown"
