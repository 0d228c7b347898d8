"""Cache of synthesized cases on disk, keyed by all inputs of the synthesis."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import LINK_ORDERS, Schedule
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.support.archive import one_line
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.formats.numbers import is_number, is_whole
from astra_tacos.support.input_file import forget_inputs, open_regular
from astra_tacos.support.own_files import read_own
from astra_tacos.support.plugins import added_parts
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.verifier.schedule_oracle import check

_log = logging.getLogger(__name__)


def default_cache() -> Path:
    """The directory of caches on this platform.

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
class Wanted:
    """The properties that a cached schedule must have.

    Parameters
    ----------
    collective
        Of the same kind, size, root and members; it may be cut otherwise.
    figures
        What is kept with it, and of which type each is: a key of `_KINDS`.
    """

    topologies: tuple[Topology, ...]
    collective: Collective
    figures: Mapping[str, str]

    def check(self, schedule: Schedule, figures: Mapping[str, Any]) -> None:
        """Raise a `ConfigError` that says what does not fit."""
        collective, wanted = schedule.collective, self.collective
        for name in ("name", "num_npus", "size_bytes", "root"):
            if getattr(collective, name) != getattr(wanted, name):
                raise ConfigError(f"collective has {name} {getattr(collective, name)!r}, expected {getattr(wanted, name)!r}")
        if collective.member_npus.tolist() != wanted.member_npus.tolist():
            raise ConfigError("collective is of other members")
        if not any(_same_links(schedule.topology, topology) for topology in self.topologies):
            raise ConfigError("schedule is for another network")
        if figures.keys() != self.figures.keys() or not all(_KINDS[self.figures[name]](figures[name]) for name in figures):
            raise ConfigError("figures have wrong types")


_KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "link order or None": lambda value: value is None or value in LINK_ORDERS,
    "ns": lambda value: is_whole(value, 0, (1 << 63) - 1),
    "ns or None": lambda value: value is None or _KINDS["ns"](value),
    "seconds": lambda value: is_number(value, 0, 1 << 63),
}


class _About(msgspec.Struct):
    """The JSON file beside a cached schedule."""

    identity: dict[str, Any]
    figures: dict[str, Any]
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SynthesisCache:
    """A directory of schedules with figures of how each was chosen; without one, schedules are kept in memory.

    Schedules are kept in memory, too, while a synthesizer of a user's own is registered: its name does not say what it does.
    """

    directory: Path | None
    _known: dict[str, tuple[Schedule, dict[str, Any]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if any(part.registry is SYNTHESIZERS for part in added_parts()):
            object.__setattr__(self, "directory", None)

    def find(
        self, identity: dict[str, Any], wanted: Wanted, check: Callable[[Schedule], None] = check
    ) -> tuple[Schedule, dict[str, Any]] | None:
        """The schedule of a case and its figures; None where there is none.

        One that is damaged, of something else or refused by `check` counts as missing, and a warning in the log names its file.

        Parameters
        ----------
        check
            Raises an `AstraTacosError` for a schedule that is wrong; by default the oracle.
        """
        if self.directory is None:
            return self._known.get(_name(identity))
        path = self._path(identity)
        about_file = path.with_suffix(".json")
        try:
            if not about_file.exists():
                return None
            entry = read_own(about_file, _About, "plan")
            if entry.identity != json.loads(json.dumps(identity)) or entry.sha256 is None:
                return None  # of another version
            if entry.sha256 != _digest(entry.identity, entry.figures, path):
                raise ConfigError(f"{path}: is not the cached schedule, or {about_file.name} was changed")
            with one_line(path, "cached schedule"):
                schedule, figures = load_schedule(path), entry.figures
                wanted.check(schedule, figures)
                check(schedule)
            return schedule, figures
        except (AstraTacosError, OSError) as error:
            _log.warning("%s; the entry counts as missing and is computed again", error)
            return None
        finally:
            forget_inputs(path, about_file)

    def holds(self, identity: dict[str, Any]) -> bool:
        """Whether there is something for a case; whether it is of use, `find` says."""
        if self.directory is None:
            return _name(identity) in self._known
        return self._path(identity).with_suffix(".json").exists()

    def refuse(self, identities: Sequence[dict[str, Any]], why: str) -> None:
        """Log that schedules found by `find` are not usable, and why."""
        _log.warning("%s: %s; they are computed again", ", ".join(str(self._path(identity)) for identity in identities), why)

    def keep(self, identity: dict[str, Any], schedule: Schedule, figures: dict[str, Any]) -> None:
        """Keep a schedule and its figures; if the directory is not writable, do nothing.

        The figures go last: a case is there when they are. Something else than a file stays as it is: a pipe would wait for a
        reader.
        """
        if self.directory is None:
            self._known[_name(identity)] = schedule, figures
            return
        path = self._path(identity)
        if any(place.exists() and not place.is_file() for place in (path, path.with_suffix(".json"))):
            return
        with contextlib.suppress(OSError, ConfigError):
            save_schedule(schedule, path)
            with replaced_file(path.with_suffix(".json")) as temporary:
                entry = {"identity": identity, "figures": figures, "sha256": _digest(identity, figures, path)}
                temporary.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")

    def _path(self, identity: dict[str, Any]) -> Path:
        assert self.directory is not None
        digest = _name(identity)
        return self.directory / digest[:2] / f"{digest}.npz"


def _name(identity: dict[str, Any]) -> str:
    """The name of what a schedule was synthesized from."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _digest(identity: dict[str, Any], figures: dict[str, Any], schedule_file: Path) -> str:
    """Digest of a schedule's file and its figures, which shows that they belong together."""
    with open_regular(schedule_file, "a cached schedule") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    forget_inputs(schedule_file)
    digest.update(json.dumps([identity, figures], sort_keys=True).encode())
    return digest.hexdigest()


def _same_links(left: Topology, right: Topology) -> bool:
    sizes = (left.num_npus, left.num_switches) == (right.num_npus, right.num_switches)
    names = ("link_src", "link_dst", "link_bandwidth_gibps", "link_latency_ns")
    return sizes and all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)
