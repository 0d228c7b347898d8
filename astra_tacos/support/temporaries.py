"""Temporary files and directories that show whether their process lives, so that those of a killed process can go.

They are called `.<output>.<process id>-<8 hexadecimal digits>.tmp`. The process that makes one holds a lock on it (flock), which
the system releases when the process ends, however it ends. Process ids alone would not do: they repeat where containers or
machines share a folder. What cannot be locked (another system, some network file systems) is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"\.(?P<output>.+)\.[0-9]+-[0-9a-f]{8}\.(?P<kind>tmp|old)", re.DOTALL)
_ATTEMPTS = 20
_own: dict[Path, int | None] = {}
"""Temporaries of this process, and the descriptor that holds the lock of each."""


def temporary_name(path: Path, kind: str = "tmp") -> Path:
    """An unused name beside `path`; `kind` is "tmp", or "old" for a directory that is being replaced."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.{kind}")


def create_file(path: Path) -> Path:
    """An empty temporary file beside `path`, locked by this process until `remove`; OSError if there can be none."""
    return _create(path, lambda temporary: os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)))


def create_directory(path: Path, mode: int = 0o777) -> Path:
    """A temporary directory beside `path`, locked by this process until `remove`; OSError if there can be none."""
    return _create(path, lambda temporary: temporary.mkdir(mode))


def _create(path: Path, make: Callable[[Path], None]) -> Path:
    for _ in range(_ATTEMPTS):
        temporary = temporary_name(path)
        _own[temporary] = None  # known before it is there: an interrupt may come at any moment
        try:
            make(temporary)
            is_locked, _own[temporary] = lock(temporary)
        except BaseException as error:
            remove(temporary)
            if isinstance(error, FileNotFoundError) and path.parent.is_dir():
                continue
            raise
        if is_locked:
            return temporary
        del _own[temporary]  # in the moment before it was locked another process took it for a stale one, and removes it
    raise FileNotFoundError(errno.ENOENT, "other processes remove its temporary files", str(path))


def is_own(path: Path) -> bool:
    """Whether a path is in a temporary directory of this process."""
    return any(parent in _own for parent in path.parents)


def remove(temporary: Path) -> None:
    """Remove a temporary of this process, or what now has its name, and release its lock."""
    _remove(temporary)
    descriptor = _own.pop(temporary, None)
    if descriptor is not None:
        os.close(descriptor)


def remove_all() -> None:
    """Remove all temporaries of this process, at its end."""
    for temporary in list(_own):
        _remove(temporary)


def remove_stale(folder: Path) -> None:
    """Remove temporaries in a folder whose processes have ended."""
    for path, _ in _temporaries(folder):
        with _abandoned(path) as is_abandoned:
            if is_abandoned:
                _remove(path)


def recover(path: Path) -> None:
    """Rename a directory back, if a process was killed while it replaced it through another name."""
    olds = [old for old, output in _temporaries(path.parent, "old") if output == path.name]
    for old in sorted(olds, key=lambda old: old.stat().st_mtime_ns, reverse=True):
        with _abandoned(old) as is_abandoned:
            if is_abandoned and not path.exists():
                old.rename(path)


def create_scratch_directory() -> Path:
    """A temporary directory where the system keeps such, locked by this process until `remove`."""
    place = Path(tempfile.gettempdir()).resolve() / "astra_tacos"
    remove_stale(place.parent)
    return create_directory(place, 0o700)


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory for files of the moment, where the system keeps such; those of killed processes go."""
    directory = create_scratch_directory()
    try:
        yield directory
    finally:
        remove(directory)


def lock(path: Path) -> tuple[bool, int | None]:
    """Lock a file or directory: whether it is ours now, and the descriptor that holds the lock.

    None where the system or the file system has no such locks; it then counts as ours.

    Raises
    ------
    FileNotFoundError
        If it is not there any more.
    """
    if fcntl is None:
        return True, None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError:
        return True, None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False, None
    except OSError:
        os.close(descriptor)
        return True, None
    if not _is_same(descriptor, path):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return True, descriptor


@contextlib.contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Whether no process has a temporary any more; if so, it is locked within the block."""
    try:
        descriptor = lock(path)[1]
    except FileNotFoundError:
        descriptor = None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _temporaries(folder: Path, kind: str | None = None) -> list[tuple[Path, str]]:
    """Temporaries in a folder that are not of this process, and the names of their outputs."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        matches = [match for entry in entries if (match := _NAME.fullmatch(entry.name)) and kind in (None, match["kind"])]
        temporaries = [(folder / match[0], match["output"]) for match in matches]
        return [(path, output) for path, output in temporaries if path not in _own]
    return []


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Do not collect cyclic garbage in the block, which makes very many objects: what is alive is not looked through again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
