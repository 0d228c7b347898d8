"""Writing files so that a failure leaves nothing half-written behind: to a temporary place first, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from astra_tacos.errors import ConfigError


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replaced_directory(path: Path, marker: str) -> Iterator[Path]:
    """A temporary directory that becomes `path` when the block ends well.

    An existing directory is replaced only if it is empty or holds `marker`, a file that tells it was made by this package.

    Raises
    ------
    ConfigError
        If `path` exists and is something else, or its parent cannot be written to.
    """
    if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or (path / marker).is_file())):
        raise ConfigError(f"{path}: exists and is no run directory of astra_tacos (no {marker} in it): choose another output")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        if path.exists():
            outgoing = temporary.with_suffix(".old")
            path.rename(outgoing)
            temporary.rename(path)
            shutil.rmtree(outgoing)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
