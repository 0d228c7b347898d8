"""Files and packages of users that add to the registries of this package: synthesizers, building blocks, exporters, rules."""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb

from astra_tacos.support.errors import AstraTacosError, ConfigError

GROUP = "astra_tacos.plugins"
"""The entry points of installed packages that are loaded."""


def load_plugin(path: str | Path) -> None:
    """Run a file that registers something, such as a synthesizer (`register_synthesizer`).

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
    file = Path(path)
    if not file.is_file():
        what = "is a directory" if file.is_dir() else "no such file"
        raise ConfigError(f"{file}: {what}, expected a Python file that registers something")
    name = f"astra_tacos_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.absolute())
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file}: is no Python file, expected one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except AstraTacosError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (Exception, SystemExit) as error:
        frames = [each for each in extract_tb(error.__traceback__) if Path(each.filename) == file.absolute()]
        where = f"{file}:{frames[-1].lineno}" if frames else str(file)
        raise ConfigError(f"{where}: {type(error).__name__}: {error}, expected a file that runs") from error


def load_installed_plugins() -> None:
    """Load what installed packages name in the entry points `astra_tacos.plugins`.

    Raises
    ------
    ConfigError
        If one of them raises an error.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(f"plugin {entry.name} ({entry.value}): {type(error).__name__}: {error}") from error
