"""Writing files so that a failure leaves nothing half-written behind: to a temporary place first, then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from astra_tacos.errors import ConfigError


def check_writable(path: Path) -> None:
    """Check, before the work, that a file may be written to `path`; folders on the way may still be missing.

    Raises
    ------
    ConfigError
        If not, and why.
    """
    if not path.name or path.is_dir():
        raise ConfigError(f"{path}: is a directory, expected a file to write")
    if path.exists() and not path.is_file():
        return
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: cannot be written ({folder} {'is no directory' if not folder.is_dir() else 'is read-only'})")


def check_replaceable(path: Path, what: str, is_own: Callable[[set[str]], bool]) -> None:
    """Check, before the work, that a directory may be written to `path`: nothing is there, or what may be replaced.

    Parameters
    ----------
    what
        Of what kind it should be, in words: "plan of astra_tacos".
    is_own
        Whether a directory of entries of these names is one of that kind, or empty.

    Raises
    ------
    ConfigError
        If anything else is there, or it is the current directory.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise ConfigError(f"{path}: exists and is no directory: choose another output")
    if not is_own({entry.name for entry in path.iterdir()}):
        raise ConfigError(f"{path}: exists and is no {what}: choose another output")
    if path.resolve() == Path.cwd():
        raise ConfigError(f"{path}: is the current directory, which cannot be replaced: choose another output")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON that people can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well.

    Where a link leads to is replaced, the link stays; what is no regular file (a pipe, a terminal) is written to as it is.

    Raises
    ------
    ConfigError
        If `path` is a directory or cannot be written.
    """
    if not path.name or path.is_dir():
        raise ConfigError(f"{path}: is a directory, expected a file to write")
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    # Process ids repeat where containers or machines share a folder, say a cache: chance tells their files apart.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replaced_directory(path: Path) -> Iterator[Path]:
    """A temporary directory that takes the place of `path`, if there is one, when the block ends well.

    Raises
    ------
    ConfigError
        If the parent of `path` cannot be written to.
    """
    path = path.resolve()  # a link stays, what it leads to is replaced
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
    outgoing = temporary.with_suffix(".old")
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        if path.exists():
            path.rename(outgoing)
        try:
            temporary.rename(path)
        except OSError:
            if outgoing.exists():
                outgoing.rename(path)
            raise
    finally:
        for rest in (temporary, outgoing):
            shutil.rmtree(rest, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
