"""What a drawing of a network shows: places, marks of devices, colours of links, and their legend; figures and pages draw it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.network.composition import with_failed_links
from astra_tacos.network.devices import SWITCH_KIND
from astra_tacos.network.topology import Topology
from astra_tacos.pages.style import SHADES
from astra_tacos.pages.topology_layout import Layout, layout
from astra_tacos.support.arrays import Floats, Ints, Ints32

_EDGE, _NPU, _OTHER = "#22384f", "#ffffff", "#dfe5ea"
_LOOKS = {
    SWITCH_KIND: ("square", "squares", "switches"),
    "nic": ("diamond", "diamonds", "NICs"),
    "pcie": ("triangle", "triangles", "PCIe switches"),
    "cpu": ("hexagon", "hexagons", "CPUs"),
}
"""For each of `FORWARDING_KINDS`, the shape of its mark, and how legends call the marks and the devices."""
_SHARES = ("#fec44f", "#fe9929", "#ec7014", "#cc4c02", "#993404", "#662506")
"""Colours of shares of time, ColorBrewer's YlOrBr."""
_MOST_BANDWIDTHS = 8
"""Number of distinct bandwidths up to which each has a colour of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """The mark of the devices of one kind.

    Parameters
    ----------
    shape
        `circle`, `square`, `diamond`, `triangle` or `hexagon`.
    devices
        int64[...], the devices.
    """

    shape: str
    text: str
    fill: str
    edge: str
    devices: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Shades:
    """The colours of values of links.

    Parameters
    ----------
    scale
        `steps` if each tick is a colour of its own, `linear` or `log` for values between them.
    """

    title: str
    colours: tuple[str, ...]
    scale: str
    ticks: list[float]
    labels: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class TopologyPicture:
    """A drawing of a network.

    Parameters
    ----------
    src, dst
        int32[num_links + num_failed], the devices that each link joins; failed links are the last.
    values, shades
        float64[num_links], the values that links are coloured by, and their colours.
    failed_colour
        Colour of failed links, which are dashed.
    """

    layout: Layout
    src: Ints32
    dst: Ints32
    values: Floats
    shades: Shades
    marks: tuple[Mark, ...]
    failed_colour: str = "#cc3311"

    @property
    def num_failed(self) -> int:
        """Number of failed links."""
        return len(self.src) - len(self.values)


def topology_picture(topology: Topology, values: Floats, shades: Shades, npus_of_each: int = 1) -> TopologyPicture:
    """The drawing of a network whose links have values.

    Parameters
    ----------
    values, shades
        float64[num_links], what links are coloured by, and how.
    npus_of_each
        Number of NPUs that a mark stands for, at most; failed links are drawn if it is 1.
    """
    kinds: dict[str, list[int]] = {kind: [] for kind in _LOOKS}
    for number, device in enumerate(topology.forwarding):
        kinds[device.kind].append(topology.num_endpoints + number)
    kinds[SWITCH_KIND] += range(topology.num_npus, topology.num_devices)
    dots = "dots: NPUs" if npus_of_each == 1 else f"dots: groups of up to {npus_of_each:,} NPUs"
    marks = [Mark("circle", dots, _NPU, _EDGE, np.arange(topology.num_endpoints))]
    for kind, (shape, shapes, devices) in _LOOKS.items():
        if kinds[kind]:
            marks.append(Mark(shape, f"{shapes}: {devices}", _OTHER, _EDGE, np.array(kinds[kind])))
    complete = with_failed_links(topology) if npus_of_each == 1 else topology
    return TopologyPicture(layout(complete), complete.link_src, complete.link_dst, values, shades, tuple(marks))


def bandwidth_shades(topology: Topology) -> Shades:
    """Colours of the bandwidths of a network."""
    title, distinct = "bandwidth of a link (GiB/s)", np.unique(topology.link_bandwidth_gibps)
    if len(distinct) <= _MOST_BANDWIDTHS:
        return Shades(title, SHADES, "steps", distinct.tolist(), [f"{value:g}" for value in distinct])
    ticks = np.geomspace(distinct[0], distinct[-1], 4).tolist()
    return Shades(title, SHADES, "log", ticks, [f"{value:.3g}" for value in ticks])


def use_shades() -> Shades:
    """Colours of the shares of time for which links are held."""
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    return Shades("share of the time that a link is busy", _SHARES, "linear", ticks, [f"{tick:.0%}" for tick in ticks])
