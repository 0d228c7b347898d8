"""XML of unknown origin: bounded, without document types and entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import read_bounded, refuse_foreign
from astra_tacos.support.quoted import quoted

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def read_xml(path: Path, max_bytes: int, expected: str, tag: str) -> Element:
    """The root element of an XML file.

    Parameters
    ----------
    max_bytes
        More than these are not read.

    Raises
    ------
    ConfigError
        If it cannot be read, is not XML, has a document type or entities, or another root element.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    content = read_bounded(path, max_bytes, expected)
    refuse_foreign(path, content)
    try:
        root: Element = fromstring(content, forbid_dtd=True)
    except DefusedXmlException:
        raise ConfigError(f"{path}: has a document type or entities, expected plain elements") from None
    except (ParseError, ValueError, LookupError) as error:  # LookupError: an encoding that nobody knows
        raise ConfigError(f"{path}: not XML ({' '.join(str(error).split())})") from None
    if root.tag != tag:
        raise ConfigError(f"{path}: found element {quoted(str(root.tag))}, expected {tag!r}")
    return root
