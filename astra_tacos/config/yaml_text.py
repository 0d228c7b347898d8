"""YAML as configuration: one document, no aliases, no duplicate keys, every failure one line that names the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from astra_tacos.errors import ConfigError

_MAX_FILE_BYTES = 64 << 20


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (no bombs, no cycles) and without silently overwritten keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not accepted", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
                seen.add(key)
        return mapping


def read_text(path: Path) -> str:
    """Text of a UTF-8 file.

    Raises
    ------
    ConfigError
        If it cannot be read, is too large for a configuration or is not UTF-8.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(f"{path}: file is larger than {_MAX_FILE_BYTES >> 20} MiB, expected a configuration")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8 text, expected a text file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # a zero byte in the path
        raise ConfigError(f"{str(path)!r}: cannot be read ({error})") from None


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """The mapping at the top of a YAML file.

    Raises
    ------
    ConfigError
        If the file is unreadable, empty, not YAML, nested too deeply or something else than a mapping.
    """
    text = read_text(path)
    try:
        document = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_one_line(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid YAML: nested too deeply") from None
    except ValueError as error:  # PyYAML lets a number or date that it cannot build escape
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if document is None:
        raise ConfigError(f"{path}: file is empty, expected a YAML mapping")
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: found {describe(document)} at the top, expected a YAML mapping")
    return document


def describe(value: object) -> str:
    """A value as an error message shows it: short, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _one_line(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return place + " ".join(str(problem).split())
