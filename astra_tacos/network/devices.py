"""Devices of a network that are no NPUs, which forward or add, and the tables of links and devices that a network file names.

A table of directed links has a header line `src,dst,bandwidth,latency`, then one link a line. A table of devices has a header
line `id,kind,name`, then one device a line; NPUs first, then those that forward. The key `astra_tacos: reducing` lists the
devices that add what comes to them, and copy what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from astra_tacos.support.documents import Value
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.csv_files import read_table
from astra_tacos.support.formats.numbers import is_whole, short_number
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import format_size, parse_size

COLUMNS = ("src", "dst", "bandwidth", "latency")
_MOST = 1 << 40
"""Bytes, ns and counts of a device: sums over a run fit int64."""


def read_link_table(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and the four fields, in the order of `COLUMNS`, of each link.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header lacks a column or a line has another number of fields.
    """
    return read_table(path, COLUMNS, "link")


_NODE_COLUMNS = ("id", "kind", "name")
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

    Raises
    ------
    ConfigError
        If it cannot be read, or lists other devices, or an NPU after a device of another kind.
    """
    kinds: dict[int, tuple[str, str]] = {}
    for line, (text, kind, name) in read_table(path, _NODE_COLUMNS, "device"):
        device = short_number(text)
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
        npus_text = f"NPU {max(npus)} after {max(npus) + 1 - len(npus)} other devices" if npus else "no NPU"
        npus_text = "one NPU" if npus == [0] else npus_text
        raise ConfigError(f"{path}: found {npus_text}, expected two or more NPUs with the lowest ids")
    return tuple(ForwardingDevice(*kinds[device]) for device in range(len(npus), num_devices))


def node_table_lines(num_npus: int, forwarding: Sequence[ForwardingDevice]) -> Iterator[str]:
    """The lines of a table of `num_npus` NPUs and the devices after them."""
    yield ",".join(_NODE_COLUMNS) + "\n"
    for npu in range(num_npus):
        yield f"{npu},{NPU_KIND},\n"
    for number, device in enumerate(forwarding):
        name = '"' + device.name.replace('"', '""') + '"' if any(character in device.name for character in ',"') else device.name
        yield f"{num_npus + number},{device.kind},{name}\n"


ALL = "all"


@dataclass(frozen=True, slots=True)
class ReducingDevice:
    """A device that adds and copies, and what it can do at a time.

    Parameters
    ----------
    window_bytes
        Bytes that each sender may have under way in it: sent there to be added, and the result not yet back at the sender. None
        if it has slots for everything. (SwitchML's pool of slots, Sapio et al., NSDI 2021.)
    ports
        From how many others it can add up a chunk, at most; None for any number.
    reduction_ns
        Time that it takes to add a chunk that has arrived; 0 is as fast as ASTRA-sim can, 1 ns.
    """

    device: int
    window_bytes: int | None = None
    ports: int | None = None
    reduction_ns: int = 0

    def describe(self) -> str:
        """`window 256 KiB, 32 ports, 100 ns`, or `no limits`."""
        fields = [] if self.window_bytes is None else [f"window {format_size(self.window_bytes)}"]
        fields += [] if self.ports is None else [f"{self.ports} ports"]
        fields += [f"{self.reduction_ns} ns a reduction"] if self.reduction_ns else []
        return ", ".join(fields) or "no limits"


def reducing_text(devices: Sequence[ReducingDevice]) -> str:
    """The value of the key for some devices: a list of ids, or of mappings where they have limits."""
    alike: dict[tuple[int | None, int | None, int], list[int]] = {}
    for device in devices:
        alike.setdefault((device.window_bytes, device.ports, device.reduction_ns), []).append(device.device)
    if list(alike) == [(None, None, 0)]:
        return f"[ {', '.join(str(device.device) for device in devices)} ]"
    entries = []
    for (window, ports, takes), ids in alike.items():
        fields = [f"devices: [ {', '.join(map(str, ids))} ]"]
        fields += [] if window is None else [f"window: {window}"]
        fields += [] if ports is None else [f"ports: {ports}"]
        fields += [f"reduction_ns: {takes}"] if takes else []
        entries.append(f"{{ {', '.join(fields)} }}")
    return f"[ {', '.join(entries)} ]"


_Ids = Annotated[
    Literal["all"] | Annotated[list[Any], Meta(min_length=1)],
    Meta(description=f"{ALL} or a list of ids of devices after the NPUs"),
]


def _whole(unit: str, least: int) -> Meta:
    return Meta(ge=least, le=_MOST, description=f"a whole number of {unit}, {least} to {_MOST}")


class _Reducing(Struct, frozen=True, forbid_unknown_fields=True):
    devices: _Ids
    window: Annotated[int | str | None, Meta(description="a size, as 256KiB")] = None
    ports: Annotated[int, _whole("ports", 2)] | None = None
    reduction_ns: Annotated[int, _whole("ns", 0)] | None = None


def read_reducing(value: Value, every: Callable[[], Sequence[int]], first: int, end: int) -> tuple[ReducingDevice, ...]:
    """The devices that the key lists, by id.

    Parameters
    ----------
    value
        What the key has: `all`, a list of ids, a mapping of `devices` (one of these two), `window`, `ports` and `reduction_ns`,
        or a list of such mappings.
    every
        The ids that `all` stands for.
    first, end
        Ids of devices that are no NPUs: from `first` up to, but not with, `end`.

    Raises
    ------
    ConfigError
        If it is something else, or names a device twice or one that is no such device.
    """
    content = value.content
    is_list = isinstance(content, list) and any(isinstance(entry, dict) for entry in content)
    reducing: dict[int, ReducingDevice] = {}
    for entry in [value / index for index in range(len(content))] if is_list else [value]:
        has_limits = isinstance(entry.content, dict)
        settings = entry.decoded(_Reducing) if has_limits else _Reducing(entry.decoded(_Ids))
        limits = _window(entry / "window", settings.window), settings.ports, settings.reduction_ns or 0
        for device in _devices(entry / "devices" if has_limits else entry, every, first, end):
            if device in reducing:
                raise ConfigError(f"{entry} names device {device} again, expected each once")
            reducing[device] = ReducingDevice(device, *limits)
    if not reducing:
        raise ConfigError(f"{value} names no device, expected switches of the network")
    return tuple(reducing[device] for device in sorted(reducing))


def check_reducing(source: str, devices: Sequence[ReducingDevice], first: int, end: int) -> None:
    """Check the devices of a network that a program made, as `read_reducing` checks those of a file.

    Raises
    ------
    ConfigError
        If one is none of the devices from `first` up to `end`, comes before one of a smaller id, or has limits out of range.
    """
    ids = [device.device for device in devices]
    if ids != sorted(set(ids)) or not all(first <= device < end for device in ids):
        raise ConfigError(f"{source}: reducing devices are {ids}, expected {_range(first, end)}, ascending")
    for device in devices:
        for name, value, least in (
            ("window_bytes", device.window_bytes, 1),
            ("ports", device.ports, 2),
            ("reduction_ns", device.reduction_ns, 0),
        ):
            if value is not None and not least <= value <= _MOST:
                raise ConfigError(f"{source}: {name} of device {device.device} is {value}, expected {least} to {_MOST}")


def _devices(ids: Value, every: Callable[[], Sequence[int]], first: int, end: int) -> Sequence[int]:
    if ids.content == ALL:
        return every()
    devices: list[int] = ids.content
    for at, device in enumerate(devices):
        if not is_whole(device, first, end - 1):
            raise (ids / at).unlike(_range(first, end))
    return devices


def _range(first: int, end: int) -> str:
    return f"devices after the NPUs, {first} to {end - 1}" if end > first else "a network with switches, which this has none of"


def _window(place: Value, window: int | str | None) -> int | None:
    if window is None:
        return None
    try:
        size = parse_size(str(window))
    except ConfigError:
        raise place.unlike("a size, as 256KiB") from None
    if not 1 <= size <= _MOST:
        raise place.unlike(f"1 to {_MOST} bytes")
    return size
