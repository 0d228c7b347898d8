"""Synthesized cases on disk, found again by what they were synthesized for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.errors import ConfigError
from astra_tacos.files import replaced_file
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import load_schedule, save_schedule


def default_cache() -> Path:
    """Where caches belong on this platform.

    `$XDG_CACHE_HOME`, else `~/.cache` (macOS: `~/Library/Caches`, Windows: `%LOCALAPPDATA%`).
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "astra_tacos"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "astra_tacos"
    local = os.environ.get("LOCALAPPDATA", "")
    if sys.platform == "win32" and local:
        return Path(local) / "astra_tacos"
    return Path.home() / ".cache" / "astra_tacos"


@dataclass(frozen=True, slots=True)
class SynthesisCache:
    """A directory of schedules, each with figures of how it was chosen; None keeps nothing."""

    directory: Path | None

    def find(self, identity: dict[str, Any]) -> tuple[Schedule, dict[str, Any]] | None:
        """The schedule of a case and its figures, None where there is none that can be read."""
        if self.directory is None:
            return None
        path = self._path(identity)
        try:
            about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            if about["identity"] != json.loads(json.dumps(identity)):
                return None
            return load_schedule(path), dict(about["figures"])
        except (OSError, ValueError, KeyError, TypeError, ConfigError):
            return None

    def keep(self, identity: dict[str, Any], schedule: Schedule, figures: dict[str, Any]) -> None:
        """Write a schedule and its figures; a cache that cannot be written to is none.

        The figures go last: a case is there when they are.
        """
        if self.directory is None:
            return
        path = self._path(identity)
        with contextlib.suppress(OSError, ConfigError):
            save_schedule(schedule, path)
            with replaced_file(path.with_suffix(".json")) as temporary:
                temporary.write_text(json.dumps({"identity": identity, "figures": figures}, indent=1) + "\n", encoding="utf-8")

    def _path(self, identity: dict[str, Any]) -> Path:
        assert self.directory is not None
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return self.directory / digest[:2] / f"{digest}.npz"
