"""Atomic writing of files: to a temporary place first, then renamed, so that a failure leaves nothing half-written."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.support import temporaries
from astra_tacos.support.errors import AstraTacosError, OutputError
from astra_tacos.support.input_file import inputs_read

ASTRA_SIM_LOG = "log"
"""Folder in which ASTRA-sim writes its own log, where it is started."""
_LOG_FILE = re.compile(rf"(.+/)?{ASTRA_SIM_LOG}/[^/]+\.log")
_TRACE_FILE = re.compile(r".+/[^/]+\.[0-9]+\.et")
_logger = logging.getLogger(__name__)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM)


_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Bytes of a name and of a path that file systems take."""


def output_place(path: Path) -> Path:
    """Where an output goes, an absolute path without links.

    Raises
    ------
    OutputError
        If links go in a circle or to nothing, or a name is too long, also for the temporary that takes its place.
    """
    target = Path(os.path.realpath(path))  # leaves a link of a circle as it is
    temporary = temporaries.temporary_name(target) if target.name else target
    added = len(temporary.name) - len(target.name)
    for name, most in (*((name, _LONGEST_NAME) for name in target.parts[:-1]), (target.name, _LONGEST_NAME - added)):
        if len(os.fsencode(name)) > most:
            excess = f"a name of {len(os.fsencode(name))} bytes, expected at most {most}"
            raise OutputError(f"{path}: has {excess}: choose another output")
    if len(os.fsencode(temporary)) > _LONGEST_PATH:
        raise OutputError(f"{path}: is too long a path, expected at most {_LONGEST_PATH:,} bytes: choose another output")
    for part in (target, *target.parents):
        if part.is_symlink():
            raise OutputError(f"{path}: leads through links that go in a circle ({part}): choose another output")
    for part in (path, *path.parents):
        if part.is_symlink() and not part.exists():
            raise OutputError(f"{path}: {part} is a link to {part.readlink()}, which does not exist: choose another output")
    return target


def check_writable(path: Path) -> None:
    """Check, before any work, that a file may be written to `path`; parent folders may still be missing.

    Raises
    ------
    OutputError
        If not, and why.
    """
    target = _file_place(path)
    if path.exists() and not path.is_file():
        return
    check_folder(path, target)
    _check_no_input(path, target)


def _file_place(path: Path) -> Path:
    """The place of an output that is no directory."""
    target = output_place(path)
    if not path.name or path.is_dir():
        raise OutputError(f"{path}: is a directory, expected a file to write")
    return target


def _check_no_input(path: Path, target: Path) -> None:
    """Check that the command has not read what is written to: `target` itself, or a file inside."""
    if temporaries.is_own(target):
        return
    output, within = str(target), f"{target}{os.sep}"
    for file in inputs_read():
        if file == output or file.startswith(within):
            inside = "" if file == output else f" ({file.removeprefix(within)} inside)"
            raise OutputError(f"{path}: the output would replace an input of this command{inside}: choose another output")


def check_folder(path: Path, target: Path) -> None:
    """Check that the folder of `target`, or the nearest one above that exists, takes what is written to `path`."""
    if target == target.parent:
        raise OutputError(f"{path}: is the root directory, which cannot be replaced: choose another output")
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: cannot be written ({folder} {'is no directory' if not folder.is_dir() else 'is read-only'})")


def check_replaceable(path: Path, kind: str, is_own: Callable[[set[str]], bool], others: Iterable[str] = ()) -> None:
    """Check, before any work, that a directory may be written to `path`: it does not exist, or may be replaced.

    It may be if every file inside is known: by `is_own` or `others`, as a trace in a folder, or as ASTRA-sim's own log.
    One that a killed process left under another name gets its own back.

    Parameters
    ----------
    is_own
        Whether a directory of entries of these names is one of that kind, or empty.

    Raises
    ------
    OutputError
        If anything else is there, it is the current directory, or its folder cannot be written to.
    """
    target = output_place(path)
    check_folder(path, target)
    temporaries.recover(target)
    if not path.exists():
        return
    if not path.is_dir():
        raise OutputError(f"{path}: exists and is not a directory: choose another output")
    known = set(others)
    above = {name.split("/")[0] for name in known}
    names = {entry.name for entry in path.iterdir()}
    if not is_own(names) and not is_own(names - above):
        raise OutputError(f"{path}: exists and is not a {kind}: choose another output")
    for name in _files_in_folders(target):
        if name not in known and not _TRACE_FILE.fullmatch(name) and not _LOG_FILE.fullmatch(name):
            raise OutputError(f"{path}: {name} is inside, which no {kind} has and which would be deleted: choose another output")
    if target == Path.cwd():
        raise OutputError(f"{path}: is the current directory, which cannot be replaced: choose another output")


def _files_in_folders(directory: Path) -> Iterator[str]:
    """Paths of files in the folders of a directory, from the directory on, sorted by folder."""
    for folder, folders, files in os.walk(directory):
        folders.sort()
        if Path(folder) != directory:
            yield from ((Path(folder) / name).relative_to(directory).as_posix() for name in sorted(files))


def check_outside(path: Path, inputs: Iterable[Path | None]) -> None:
    """Check that no input is in a directory that will be replaced.

    Parameters
    ----------
    inputs
        Files that are read; None for those that are not given.

    Raises
    ------
    OutputError
        If one is.
    """
    target = output_place(path)
    inside = [file for file in inputs if file is not None and target in Path(os.path.realpath(file)).parents]
    if inside:
        raise OutputError(f"{path}: {inside[0]} is inside, which would be replaced: choose another output")


def check_apart(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Check, before any work is done, that outputs are files, and none takes the place of an input or of another output.

    Raises
    ------
    OutputError
        If one is a directory, or is given twice.
    """
    places = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        target = _file_place(path)
        if target in places:
            raise OutputError(f"{path} is given twice: an output would replace another file.")
        places.add(target)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON that people can read."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replaced_file(path: Path, suffix: str = "") -> Iterator[Path]:
    """A temporary path beside `path`, which it replaces when the block ends without an error.

    Where a link leads to is replaced, the link stays; what is no regular file (a pipe, a terminal) is written to as it is.
    Temporaries that killed processes left in the folder go.

    Parameters
    ----------
    suffix
        What the temporary's name has to end in, for libraries that append it where it is missing: they write to another file
        otherwise. Such a temporary is not there yet, and alone in a folder of its own.

    Raises
    ------
    OutputError
        If `path` is a directory or cannot be written, also if the disk becomes full in the block.
    """
    _file_place(path)
    if path.exists() and not path.is_file():
        with _named(path, path), temporaries.scratch_directory() if suffix else contextlib.nullcontext() as scratch:
            temporary = path if scratch is None else scratch / f"output{suffix}"
            yield temporary
            if scratch is not None:
                with temporary.open("rb") as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
        return
    make = temporaries.create_directory if suffix else temporaries.create_file
    output = _begun(path, make, f"output{suffix}" if suffix else "")
    with output.placed():
        yield output.temporary


@contextlib.contextmanager
def replaced_directory(path: Path) -> Iterator[Path]:
    """A temporary directory, which replaces `path` when the block ends without an error.

    The two change places in one step where the system can do that, so that a process that is killed leaves the one or the other
    under its name. Elsewhere there is a moment without, after which `recover` finds the old one. Temporaries that killed
    processes left in the folder go.

    Raises
    ------
    OutputError
        If the parent of `path` cannot be written to, or the disk becomes full in the block.
    """
    output = _begun(path, temporaries.create_directory)
    with output.placed():
        yield output.temporary


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What `replaced_file` and `replaced_directory` write in the block gets its place when the block ends: all of it or nothing.

    If one cannot get its place, the others get back what was there. What is no regular file is written to at once.
    """
    global _waiting
    if _waiting is not None:
        yield
        return
    waiting: list[_Output] = []
    _waiting = waiting
    placed: list[tuple[_Output, bool]] = []
    try:
        yield
        _waiting = None
        for output in waiting:
            was_there = output.target.exists()
            output.place(keeps_old=True)
            placed.append((output, was_there))
    except BaseException:
        for output, was_there in reversed(placed):
            output.take_back(was_there)
        for output in waiting:
            output.remove_folders()
        raise
    finally:
        _waiting = None
        for output in waiting:
            temporaries.remove(output.made)


_waiting: list[_Output] | None = None
"""Outputs that `together` gives their places; None outside of it."""


@dataclass(frozen=True, slots=True)
class _Output:
    """A file or directory under a temporary name.

    Parameters
    ----------
    made
        The temporary of this process: `temporary`, or the folder that it is alone in.
    missing
        Folders above the target that were not there.
    """

    path: Path
    made: Path
    temporary: Path
    target: Path
    missing: list[Path]

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Give it its place when the block ends, or leave that to `together`; nothing stays behind on an error."""
        is_waiting = False
        try:
            with _named(self.path, self.made), _named_as(self.path, self.temporary):
                yield
                self.temporary.stat()
            if _waiting is not None and not temporaries.is_own(self.target):
                _waiting.append(self)
                is_waiting = True
            else:
                self.place()
        except BaseException:
            self.remove_folders()
            raise
        finally:
            if not is_waiting:
                temporaries.remove(self.made)

    def place(self, *, keeps_old: bool = False) -> None:
        """Give it its place. What was there is gone, or has the temporary name if it is kept and the system can do that."""
        _check_no_input(self.path, self.target)
        with _named(self.path, self.made):
            if not self.temporary.is_dir():
                if not (keeps_old and self.target.is_file() and exchange(self.temporary, self.target)):
                    self.temporary.replace(self.target)
                return
            logs = [name for name in _files_in_folders(self.target) if _LOG_FILE.fullmatch(name)]
            _replace_directory(self.temporary, self.target)
            if logs:
                _logger.warning("%s: ASTRA-sim's log of the earlier run (%s) went with it", self.path, ", ".join(logs))

    def take_back(self, was_there: bool) -> None:
        """Undo `place`."""
        with contextlib.suppress(OSError):
            if not was_there:
                self.target.rename(self.temporary)
            elif self.temporary.exists():
                exchange(self.temporary, self.target)

    def remove_folders(self) -> None:
        """Remove the folders that were made for it, if they are empty."""
        temporaries.remove(self.made)
        for folder in self.missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _begun(path: Path, make: Callable[[Path], Path], within: str = "") -> _Output:
    """An output whose temporary is made, or its folder, within which the output has a name of its own."""
    target = output_place(path)  # a link stays, what it leads to is replaced
    _check_no_input(path, target)
    missing = [folder for folder in target.parents if not folder.exists()]
    with _named(path, Path(target.anchor)):
        target.parent.mkdir(parents=True, exist_ok=True)
        if make is temporaries.create_directory and not within:
            temporaries.recover(target)
        if not temporaries.is_own(target):
            temporaries.remove_stale(target.parent)
        temporary = make(target)
    return _Output(path, temporary, temporary / within, target, missing)


def _replace_directory(temporary: Path, target: Path) -> None:
    """Have a directory take the place of another, which is then under its temporary name or gone."""
    if not target.exists():
        temporary.rename(target)
        return
    if exchange(temporary, target):
        return
    outgoing = temporaries.temporary_name(target, "old")
    descriptor = temporaries.lock(target)[1]  # as long as it is ours, no other process takes it for a killed one's
    try:
        target.rename(outgoing)
        try:
            temporary.rename(target)
        except BaseException:
            if not target.exists():
                outgoing.rename(target)
            raise
        shutil.rmtree(outgoing, ignore_errors=True)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def exchange(left: Path, right: Path) -> bool:
    """Exchange two names in one step (Linux: renameat2); returns whether the system and the file system can do that.

    Raises
    ------
    OSError
        If they can, but it fails.
    """
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):  # another system, or an old C library
        return False
    if rename(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(right))


@contextlib.contextmanager
def _named_as(path: Path, temporary: Path) -> Iterator[None]:
    """Make errors of this package name the path that the user knows, and not a temporary one."""
    try:
        yield
    except AstraTacosError as error:
        if str(temporary) in str(error):
            raise type(error)(str(error).replace(str(temporary), str(path))) from None
        raise


@contextlib.contextmanager
def _named(path: Path, written: Path) -> Iterator[None]:
    """Make errors of writing name `path`, as the user knows it; errors about files other than `written` are unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads on
    except OSError as error:
        if error.filename is not None and not Path(os.fsdecode(error.filename)).is_relative_to(written):
            raise
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
