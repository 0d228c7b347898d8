"""Files and packages of users that add to the registries of this package.

They add synthesizers, building blocks, export formats, rules of `lint` and policies of `plan --schedule`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.quoted import quoted

GROUP = "astra_tacos.plugins"
"""The entry points of installed packages that are loaded."""
_MODULE = "astra_tacos_plugin_"
"""What the names of the modules of files begin with."""


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """A part that a user registered.

    Parameters
    ----------
    kind
        The part, in words.
    summary
        What help says about the part.
    registry
        Where the part is, by its name.
    """

    kind: str
    name: str
    summary: str
    registry: Collection[str]


_ADDED: list[Added] = []


@dataclass(frozen=True, slots=True)
class Plugin:
    """A file or an entry point that was loaded.

    Parameters
    ----------
    path
        Absolute path of the file; "" for the entry point of an installed package.
    identity
        SHA-256 of the file, or the entry point and the version of its package: results depend on the plugin by this alone.
    """

    path: str
    identity: str


_LOADED: dict[Plugin, None] = {}


def loaded_plugins() -> tuple[Plugin, ...]:
    """The plugins that this process has loaded, in order."""
    return tuple(_LOADED)


def load_plugins(plugins: Collection[Plugin]) -> None:
    """Load the plugins of another process that this one lacks.

    Raises
    ------
    ConfigError
        If a file is another one here, or an installed package is missing or has another version.
    """
    for plugin in plugins:
        if plugin.path and plugin not in _LOADED:
            load_plugin(plugin.path)
    load_installed_plugins()
    for plugin in plugins:
        if plugin not in _LOADED:
            raise ConfigError(f"{plugin.path or plugin.identity}: another plugin in this process, expected the same")


def add(added: Added) -> None:
    """Note that a user registered a part, so that help shows the part."""
    _ADDED.append(added)


def added_parts() -> Iterator[Added]:
    """The parts that users registered, and that are still registered."""
    return iter({(part.kind, part.name): part for part in _ADDED if part.name in part.registry}.values())


def is_added(name: str, registry: Collection[str]) -> bool:
    """Whether a user registered the part of that name."""
    return any(part.name == name and part.registry is registry for part in added_parts())


def check_name(where: str, name: str, form: re.Pattern[str], expected: str, names: Collection[str]) -> None:
    """Check the name of a part that a user registers.

    Parameters
    ----------
    where
        The function that registers, and the parameter.
    form, expected
        What the name has to match; the same in words.
    names
        The names that other parts have.

    Raises
    ------
    ConfigError
        If the name does not match, or is taken.
    """
    if not form.fullmatch(name):
        raise ConfigError(f"{where}: found {quoted(name)}, expected {expected}")
    if name in names:
        raise ConfigError(f"{where}: {quoted(name)} is taken, expected another")


def place_in_plugin(error: BaseException) -> str | None:
    """File and line of a plugin that an exception came through, the innermost; None if it came through none."""
    at, place = error.__traceback__, None
    while at is not None:
        if str(at.tb_frame.f_globals.get("__name__", "")).startswith(_MODULE):
            place = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    return place


def load_plugin(path: str | Path) -> None:
    """Run a file that registers parts: `register_synthesizer`, `register_rule`, and so on.

    Parameters
    ----------
    path
        A Python file. It is run with the rights of the user, like any module that is imported.

    Raises
    ------
    ConfigError
        If there is no such file, or it raises an error.

    Examples
    --------
    >>> from astra_tacos import load_plugin
    >>> load_plugin("no_such_file.py")
    Traceback (most recent call last):
    astra_tacos.support.errors.ConfigError: no_such_file.py: no such file, expected a Python file that registers something
    """
    import importlib.util
    from traceback import extract_tb

    file = Path(path)
    if not file.is_file():
        problem = "is a directory" if file.is_dir() else "no such file"
        raise ConfigError(f"{file}: {problem}, expected a Python file that registers something")
    name = f"{_MODULE}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.absolute())
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file}: is not a Python file, expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except AstraTacosError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (Exception, SystemExit) as error:
        frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename) == file.absolute()]
        where = f"{file}:{frames[-1].lineno}" if frames else str(file)
        raise ConfigError(f"{where}: {type(error).__name__}: {error}, expected a file that runs") from error
    for before in [plugin for plugin in _LOADED if plugin.path == str(file.absolute())]:
        del _LOADED[before]
    _LOADED[Plugin(str(file.absolute()), hashlib.sha256(file.read_bytes()).hexdigest())] = None


def load_installed_plugins() -> None:
    """Load what installed packages name in the entry points `astra_tacos.plugins`.

    Raises
    ------
    ConfigError
        If one of them raises an error.
    """
    from importlib.metadata import entry_points  # takes 20 ms

    for entry in entry_points(group=GROUP):
        version = "" if entry.dist is None else entry.dist.version
        try:
            entry.load()
            _LOADED[Plugin("", f"{entry.name} ({entry.value}) {version}".rstrip())] = None
        except Exception as error:
            raise ConfigError(f"plugin {entry.name} ({entry.value}): {type(error).__name__}: {error}") from error
