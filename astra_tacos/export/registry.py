"""Export formats of a user's own, checked when they are registered."""

from __future__ import annotations

import inspect
import re
from typing import Any

from astra_tacos.export import EXPORTERS
from astra_tacos.export.exporter import Exporter
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.plugins import Added, add, check_name

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_RUN = "run"
"""The format of compact runs, which is no exporter."""
_TAKES = ("schedule", "path")


def register_exporter(exporter: Exporter[Any]) -> None:
    r"""Make an `Exporter` a format of `export` and of `export_schedule`.

    Parameters
    ----------
    exporter
        The format. Its `write` takes `schedule`, `path`, and a keyword for each of its `options`.

    Raises
    ------
    ConfigError
        If the name is taken, or a field is wrong.

    Examples
    --------
    >>> from astra_tacos import EXPORTERS, Exported, Exporter, register_exporter
    >>> def write(schedule, path):
    ...     path.write_text(f"{schedule.num_sends}\n", encoding="ascii")
    ...     return Exported(path)
    >>> register_exporter(Exporter("count", "the number of sends", "file", ".txt", write))
    >>> "count" in EXPORTERS
    True
    >>> del EXPORTERS["count"]
    """
    name = exporter.name
    check_name("register_exporter: name", name, _NAME, "letters, digits and dashes like my-format", {*EXPORTERS, _RUN})
    where = f"format {name}"
    if exporter.writes not in ("file", "directory"):
        raise ConfigError(f"{where}: writes: found {exporter.writes!r}, expected file or directory")
    if not callable(exporter.write):
        raise ConfigError(f"{where}: write: found {type(exporter.write).__name__}, expected a function of (schedule, path)")
    takes = tuple(inspect.signature(exporter.write).parameters)
    expected = (*_TAKES, *(option.replace("-", "_") for option in exporter.options))
    if takes[:2] != _TAKES or not set(expected) <= set(takes):
        raise ConfigError(f"{where}: write: a function of ({', '.join(takes)}), expected one of ({', '.join(expected)})")
    EXPORTERS[name] = exporter
    add(Added("format of export", name, exporter.summary, EXPORTERS))
