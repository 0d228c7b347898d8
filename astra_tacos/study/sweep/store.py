"""The directory of a sweep, with one file per result, named by the key of the points, so that an interrupted sweep can continue.

    DIR/rows/3f/3fa0....json    the outcome of the points with that key
    DIR/sweep.yml               the sweep file
    DIR/sweep.parquet           the table

Each row is written to a temporary file and renamed as soon as it is computed, so a killed sweep leaves only complete rows. Rows
are not forced to the disk, because fsync would cost more than a small point; after a power failure the last rows may be missing
or incomplete. A row that cannot be read counts as missing, and the log names it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.study.sweep.point import DIED, FAILED, OK, OUT_OF_MEMORY, ROW_FORMAT, TIMEOUT, Conditions, Outcome, fits
from astra_tacos.support.archive import one_line
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.installation import package_version

ROWS, SWEEP_FILE, TABLE_FILE = "rows", "sweep.yml", "sweep.parquet"
_LOCK = ".lock"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome, and the limits under which it was computed: seconds and bytes, None for no limit."""

    outcome: Outcome
    timeout_s: float | None
    memory_bytes: int | None

    def stands(self, conditions: Conditions, retry_failed: bool) -> bool:
        """Whether the row is valid under these conditions, so that its point need not be computed again.

        With `retry_failed`, points that failed are computed again in any case.
        """
        status = self.outcome.status
        if status == DIED or (retry_failed and status in FAILED):
            return False
        if status == TIMEOUT:
            return not _is_more(conditions.timeout_s, self.timeout_s)
        if status == OUT_OF_MEMORY:
            return not _is_more(conditions.memory_bytes, self.memory_bytes)
        return not (status == OK and conditions.with_checks and not self.outcome.results.get("verified"))


def _is_more(now: float | None, then: float | None) -> bool:
    """Whether the limit `now` is higher than the limit `then`; None is no limit."""
    return then is not None and (now is None or now > then)


@dataclass(frozen=True, slots=True)
class Store:
    """The directory of a sweep."""

    directory: Path

    @contextlib.contextmanager
    def opened(self, sweep_file: bytes) -> Iterator[None]:
        """Create the directory if necessary, and lock it while the context lasts.

        Temporary files of killed sweeps are removed, and a table that belongs to another sweep file, too.

        Raises
        ------
        ConfigError
            If the directory holds anything but a sweep, cannot be written, or another sweep writes to it.
        """
        self.check()
        try:
            (self.directory / ROWS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.directory}: cannot be written ({error.strerror})") from None
        with _locked(self.directory):
            for stale in (*self.directory.glob(".*.tmp"), *self.directory.glob(f"{ROWS}/*/.*.tmp")):
                stale.unlink(missing_ok=True)
            known = self.directory / SWEEP_FILE
            if not known.is_file() or known.read_bytes() != sweep_file:  # the old table is not the new sweep's
                with replaced_file(known) as temporary:
                    temporary.write_bytes(sweep_file)
                    (self.directory / TABLE_FILE).unlink(missing_ok=True)
            yield

    def check(self) -> None:
        """Check that rows may be added: the directory does not exist, is empty, or holds a sweep.

        Raises
        ------
        ConfigError
            If anything else is there.
        """
        path = self.directory
        if not path.exists():
            return
        if not path.is_dir():
            raise ConfigError(f"{path}: exists and is not a directory: choose another output")
        names = {entry.name for entry in path.iterdir() if entry.name != _LOCK and entry.suffix != ".tmp"}
        if not names <= {ROWS} and not names >= {ROWS, SWEEP_FILE}:
            raise ConfigError(f"{path}: exists and is not a sweep of astra_tacos: choose another output")

    def read(self, keys: Iterable[str]) -> dict[str, Row]:
        """Read the stored rows of some keys and return them by key.

        A damaged row counts as missing, and a warning in the log names its file.

        Raises
        ------
        ConfigError
            If a directory has the name of a row, which no row could replace.
        """
        rows = {}
        for key in keys:
            path = self._path(key)
            if not path.exists():
                continue
            if path.is_dir():
                raise ConfigError(f"{path}: is a directory, expected a row of a sweep: remove it, or choose another output")
            try:
                with one_line(path, "row of a sweep"):
                    rows[key] = self._read(key)
            except ConfigError as error:
                _log.warning("%s; the entry counts as missing and is computed again", error)
        return rows

    def write(self, key: str, outcome: Outcome, conditions: Conditions) -> Row:
        """Store an outcome with the limits under which it was computed, and return its row."""
        row = Row(outcome, conditions.timeout_s, conditions.memory_bytes)
        about = {
            "format": ROW_FORMAT,
            "version": package_version(),
            "key": key,
            **outcome.to_row(),
            "timeout_s": row.timeout_s,
            "memory_bytes": row.memory_bytes,
        }
        path = self._path(key)
        # One process writes at a time, and `opened` removes what killed sweeps leave: so a plain name does for the temporary.
        temporary = path.with_name(f".{path.name}.tmp")
        content = json.dumps(about) + "\n"
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(content, encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from None
        return row

    def _read(self, key: str) -> Row:
        row = read_json_object(self._path(key))
        if row["format"] != ROW_FORMAT or row["key"] != key:
            raise ValueError("not a row of this key")
        limits = row["timeout_s"], row["memory_bytes"]
        if not all(fits(limit, "float") for limit in limits):
            raise ValueError("limits are not numbers")
        return Row(Outcome.from_row(row), *limits)

    def _path(self, key: str) -> Path:
        return self.directory / ROWS / key[:2] / f"{key}.json"


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory while the context lasts; the system releases it if the process is killed.

    Raises
    ------
    ConfigError
        If another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{directory}: another sweep is writing to this directory, expected one sweep at a time") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
