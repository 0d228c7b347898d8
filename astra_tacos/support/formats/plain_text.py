"""Text files in UTF-8."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import read_bounded, refuse_foreign

_MAX_FILE_BYTES = 64 << 20


def read_text(path: Path, max_bytes: int = _MAX_FILE_BYTES) -> str:
    """Text of a UTF-8 file.

    Raises
    ------
    ConfigError
        If it cannot be read, is too large for a configuration, is not UTF-8, or is a file of another tool.
    """
    content = read_bounded(path, max_bytes, "a text file")
    refuse_foreign(path, content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8 text, expected a text file") from None
