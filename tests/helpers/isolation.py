"""An environment for tests in which nothing of the user's machine changes what they see: home, caches, variables, ASTRA-sim."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_DROPPED = ("ASTRA_SIM_BIN", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "LINES", "LOCALAPPDATA", "NO_COLOR")
_DROPPED_PREFIXES = ("DASK_", "XDG_")
_BINARIES = "AstraSim*"
_KEPT = {"MPLCONFIGDIR": "matplotlib", "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright"}
"""Folders of the user's cache that take long to make again, and the variables that name them."""


def isolated(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment with an empty home directory, and a PATH without binaries of ASTRA-sim.

    Parameters
    ----------
    environment
        That of the user.
    home
        An empty directory for as long as tests run.
    """
    found = {name: value for name, value in environment.items() if name not in _DROPPED}
    found = {name: value for name, value in found.items() if not name.startswith(_DROPPED_PREFIXES)}
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or home) / ".cache")
    kept = {name: str(cache / folder) for name, folder in _KEPT.items() if name not in found and (cache / folder).is_dir()}
    places = [Path(place) for place in environment.get("PATH", "").split(os.pathsep) if place]
    path = os.pathsep.join(str(_without_binaries(place, home / f"path{number}")) for number, place in enumerate(places))
    return found | kept | {"HOME": str(home), "DASK_CONFIG": str(home / "dask"), "PATH": path}


def _without_binaries(place: Path, stand_in: Path) -> Path:
    """A directory of PATH, or if it has ASTRA-sim in it, one with links to all else that it has."""
    try:
        if not any(place.glob(_BINARIES)):
            return place
        others = set(place.iterdir()) - set(place.glob(_BINARIES))
    except OSError:
        return place
    stand_in.mkdir()
    for other in others:
        (stand_in / other.name).symlink_to(other.absolute())
    return stand_in
