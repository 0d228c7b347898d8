"""Files that this package has written and reads back: what each has to say is a type, beside the noun that the file is of.

Anybody may have changed such a file since, so it is believed no more than a file of a user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object

T = TypeVar("T")

Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]
"""A number of things, bytes or ns, 0 or more."""
Number = Whole | Annotated[float, msgspec.Meta(ge=0, le=1e18)]
"""A time, bandwidth or share, 0 or more."""


def one_of(names: Iterable[str]) -> msgspec.Meta:
    """What a text must be, beside `str` in an annotation."""
    return msgspec.Meta(pattern=f"^({'|'.join(map(re.escape, names))})$")


def read_own(path: Path, kind: type[T], writer: str) -> T:
    """A file as its type; keys that the type does not know are passed over.

    Parameters
    ----------
    kind
        Its type: a `msgspec.Struct`, a dataclass or a `TypedDict`.

    Raises
    ------
    ConfigError
        If the file is not JSON, or a value is missing or of another type: the message names its place.
    """
    return decoded(read_json_object(path), kind, path, writer)


def decoded(content: dict[str, Any], kind: type[T], where: object, writer: str) -> T:
    """What `read_own` gives, of a JSON object that was read already; `where` names the place of the object."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}, expected the format that {writer} writes: make the file again") from None
