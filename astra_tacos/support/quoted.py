"""Values as error messages quote them."""

from __future__ import annotations

_LONGEST = 60
"""Characters of a value that are shown."""


def quoted(value: object) -> str:
    """A value in one line, as Python writes it; a long one is cut, and `...` says so."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
