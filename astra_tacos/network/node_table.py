"""CSV files of the devices of a list of links: a header line `id,kind,name`, then one device a line; NPUs first.

CSV files of directed links: a header line `src,dst,bandwidth,latency`, then one link a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, read_table

COLUMNS = ("src", "dst", "bandwidth", "latency")


def read_link_table(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and the four fields, in the order of `COLUMNS`, of each link.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header lacks a column or a line has another number of fields.
    """
    return read_table(path, COLUMNS, "link")


NODE_COLUMNS = ("id", "kind", "name")
NPU_KIND = "npu"
SWITCH_KIND = "switch"
FORWARDING_KINDS = (SWITCH_KIND, "nic", "pcie", "cpu")
"""Kinds of devices that take a chunk in on one link and give it out on another; switches may also add (see `reducing`)."""


@dataclass(frozen=True, slots=True)
class ForwardingDevice:
    """A device that only forwards: its kind, one of `FORWARDING_KINDS`, and its name, "" for none."""

    kind: str = SWITCH_KIND
    name: str = ""


def read_node_table(path: Path, num_devices: int) -> tuple[ForwardingDevice, ...]:
    """The devices of a table that are no NPUs, in the order of their ids.

    Parameters
    ----------
    path
        The table. It lists every device once, in any order; the NPUs have the lowest ids.
    num_devices
        How many devices the links have.

    Raises
    ------
    ConfigError
        If it cannot be read, or lists other devices, or an NPU after a device of another kind.
    """
    kinds: dict[int, tuple[str, str]] = {}
    for line, (text, kind, name) in read_table(path, NODE_COLUMNS, "device"):
        device = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
        if not 0 <= device < num_devices:
            raise ConfigError(f"{path}:{line}: id is {describe(text)}, expected a device of the links, 0 to {num_devices - 1}")
        if device in kinds:
            raise ConfigError(f"{path}:{line}: device {device} again, expected each once")
        if kind not in (NPU_KIND, *FORWARDING_KINDS):
            raise ConfigError(f"{path}:{line}: kind is {describe(kind)}, expected {', '.join((NPU_KIND, *FORWARDING_KINDS))}")
        if not name.isprintable():
            raise ConfigError(f"{path}:{line}: name is {describe(name)}, expected one without control characters")
        kinds[device] = kind, name
    if len(kinds) < num_devices:
        missing = next(device for device in range(num_devices) if device not in kinds)
        raise ConfigError(f"{path}: device {missing} of the links is missing, expected a line for each")
    npus = [device for device, (kind, _) in kinds.items() if kind == NPU_KIND]
    if len(npus) < 2 or max(npus) >= len(npus):
        found = f"NPU {max(npus)} after {max(npus) + 1 - len(npus)} other devices" if npus else "no NPU"
        found = "one NPU" if npus == [0] else found
        raise ConfigError(f"{path}: found {found}, expected two or more NPUs with the lowest ids")
    return tuple(ForwardingDevice(*kinds[device]) for device in range(len(npus), num_devices))


def node_table_lines(num_npus: int, forwarding: Sequence[ForwardingDevice]) -> Iterator[str]:
    """The lines of a table of `num_npus` NPUs and the devices after them."""
    yield ",".join(NODE_COLUMNS) + "\n"
    for npu in range(num_npus):
        yield f"{npu},{NPU_KIND},\n"
    for number, device in enumerate(forwarding):
        name = '"' + device.name.replace('"', '""') + '"' if any(each in device.name for each in ',"') else device.name
        yield f"{num_npus + number},{device.kind},{name}\n"
