"""Bounded reading of files that users name: at most a given size, and never blocking on what is not a regular file."""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from astra_tacos.support.errors import ConfigError

_STEP_BYTES = 1 << 20
_read: set[Path] | None = None
"""What the command has read, None where nobody asks."""
_PATIENCE_MS = 1000
"""How long a pipe that nobody has opened for writing is waited for."""


@contextlib.contextmanager
def inputs_noted() -> Iterator[None]:
    """Within a command: note what is read, so that no output takes its place."""
    global _read
    before, _read = _read, set()
    try:
        yield
    finally:
        _read = before


def note_input(path: Path) -> None:
    """Note that the command reads a file."""
    if _read is not None:
        _read.add(path.resolve())


def forget_inputs(*paths: Path) -> None:
    """Note that files which were read are no inputs of the user, but of a store that the command may write again."""
    if _read is not None:
        _read.difference_update(path.resolve() for path in paths)


def inputs_read() -> frozenset[Path]:
    """What the command has read so far; nothing outside of a command."""
    return frozenset(_read or ())


def read_bounded(path: Path, max_bytes: int, expected: str) -> bytes:
    """All bytes of a file or pipe.

    Parameters
    ----------
    path
        File to read.
    max_bytes
        More than these are not read.
    expected
        What the file should be, for the message: "a configuration".

    Raises
    ------
    ConfigError
        If it cannot be read, is neither a file nor a pipe, or is larger.
    """
    with _opened(path, expected) as file:
        mode = os.fstat(file.fileno())
        if not stat.S_ISFIFO(mode.st_mode):
            _check_regular(path, mode.st_mode, expected)
        content = bytearray()
        while len(content) <= max_bytes and mode.st_size <= max_bytes:
            part = _read_pipe(file) if stat.S_ISFIFO(mode.st_mode) else file.read(_STEP_BYTES)
            if not part:
                return bytes(content)
            content += part
        limit = f"{max_bytes >> 20} MiB" if max_bytes >> 20 else f"{max_bytes} bytes"
        raise ConfigError(f"{path}: file is larger than {limit}, expected {expected}")


def text_of(path: str | Path) -> str:
    r"""A path as text that files can hold: bytes that are not UTF-8 are escapes as `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read_begin(path: Path, count: int) -> bytes:
    """The first bytes of a regular file, by which its kind is told; none of what cannot be read."""
    try:
        with open_regular(path, "a file") as file:
            return file.read(count) or b""
    except ConfigError:
        return b""


@contextlib.contextmanager
def open_regular(path: Path, expected: str) -> Iterator[FileIO]:
    """A regular file, open for reading, unbuffered.

    Parameters
    ----------
    path
        File to open.
    expected
        What the file should be, for the message: "a Chakra trace".

    Raises
    ------
    ConfigError
        If it cannot be opened or read, or is a directory, pipe or device.
    """
    with _opened(path, expected) as file:
        _check_regular(path, os.fstat(file.fileno()).st_mode, expected)
        yield file


@contextlib.contextmanager
def _opened(path: Path, expected: str) -> Iterator[FileIO]:
    try:
        # Without O_NONBLOCK a pipe that has no writer is waited for in `open`.
        note_input(path)
        with FileIO(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            yield file
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}), expected {expected}") from None
    except ValueError as error:  # a zero byte in the path
        raise ConfigError(f"{str(path)!r}: cannot be read ({error})") from None


def _check_regular(path: Path, mode: int, expected: str) -> None:
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path}: is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}, expected {expected}")


def _read_pipe(file: FileIO) -> bytes:
    """What comes next; nothing at its end, or if nobody writes."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    while True:
        waiting.poll(_PATIENCE_MS)
        part = file.read(_STEP_BYTES)
        if part is not None:  # None: it is open for writing, and nothing has come
            return part
