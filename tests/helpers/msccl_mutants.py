"""Small changes to MSCCL XML, as a faulty tool would make them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from xml.etree import ElementTree

Draw = Callable[[int], int]
"""A number from 0 to below the argument."""

_SENDS = ("s", "rcs", "rrs", "rrcs")
_RECEIVES = ("r", "rcs", "rrc", "rrs", "rrcs")
_READS = ("s", "rrc", "rrs", "rrcs", "cpy", "re")
_WRITES = ("r", "rcs", "rrc", "rrcs", "cpy", "re")
_DEP = ("depid", "deps")
_LIKE = {
    "r": ("rrc",),
    "rrc": ("r",),
    "rcs": ("rrs", "rrcs"),
    "rrs": ("rcs", "rrcs"),
    "rrcs": ("rcs", "rrs"),
    "cpy": ("re",),
    "re": ("cpy",),
    "s": ("nop",),
    "nop": ("nop",),
}
"""Types that a step can be taken for without a change of its connections."""

KINDS = (
    "offset",
    "other buffer",
    "type",
    "dropped step",
    "twice",
    "swapped",
    "count",
    "peer",
    "channel",
    "no hasdep",
    "dropped dependency",
    "earlier dependency",
    "other dependency",
    "swapped blocks",
)


_WHERE: dict[str, Callable[[tuple], bool]] = {  # type: ignore[type-arg]
    **dict.fromkeys(("offset", "other buffer"), lambda row: row[3].attrib["type"] in _READS + _WRITES),
    "swapped": lambda row: row[2] + 1 < len(row[1]),
    "count": lambda row: row[3].attrib["type"] != "nop",
    **dict.fromkeys(("peer", "channel"), lambda row: row[3].attrib["type"] in _SENDS + _RECEIVES),
    "no hasdep": lambda row: row[3].attrib["hasdep"] == "1",
    **dict.fromkeys(("dropped dependency", "other dependency"), lambda row: min(int(row[3].attrib[k]) for k in _DEP) >= 0),
    "earlier dependency": lambda row: int(row[3].attrib["depid"]) >= 0 and int(row[3].attrib["deps"]) >= 1,
    "swapped blocks": lambda row: len(row[0].findall("tb")) > 1,
}
"""Steps that a kind of change is for, as rows of GPU, thread block, place and step; of the others, all."""


def mutate(algo: ElementTree.Element, kind: str, draw: Draw) -> bool:
    """Change a file in place; False if it has nothing of the kind."""
    gpus = list(algo.iter("gpu"))
    rows = [(gpu, tb, at, step) for gpu in gpus for tb in gpu.iter("tb") for at, step in enumerate(tb)]
    rows = list(filter(_WHERE.get(kind), rows))
    if not rows:
        return False
    gpu, tb, at, step = rows[draw(len(rows))]
    its = step.attrib
    match kind:
        case "offset" | "other buffer":
            ends = [end for end, kinds in (("src", _READS), ("dst", _WRITES)) if its["type"] in kinds]
            end = ends[draw(len(ends))]
            if kind == "other buffer":
                step.set(f"{end}buf", {"i": "o", "o": "i", "s": "o"}[its[f"{end}buf"]])
            else:
                room = max(int(gpu.attrib[f"{its[f'{end}buf']}_chunks"]), 2)
                step.set(f"{end}off", str((int(its[f"{end}off"]) + 1 + draw(room - 1)) % room))
        case "type":
            step.set("type", _LIKE[its["type"]][draw(len(_LIKE[its["type"]]))])
        case "dropped step":
            tb.remove(step)
            _renumber(gpu, tb, at, -1)
        case "twice":
            tb.insert(at + 1, copy.deepcopy(step))
            _renumber(gpu, tb, at + 1, 1)
        case "swapped":
            tb[at], tb[at + 1] = tb[at + 1], tb[at]
            _renumber(gpu, tb, 0, 0)
        case "count":
            step.set("cnt", str(int(its["cnt"]) + (1 if draw(2) else -1)))
        case "peer":
            end = "send" if its["type"] in _SENDS else "recv"
            others = [peer for peer in range(len(gpus)) if peer not in (int(gpu.attrib["id"]), int(tb.attrib[end]))]
            tb.set(end, str(others[draw(len(others))]) if others else "-1")
        case "channel":
            channels = max(int(algo.attrib["nchannels"]), 2)
            tb.set("chan", str((int(tb.attrib["chan"]) + 1) % channels))
            algo.set("nchannels", str(channels))
        case "no hasdep":
            step.set("hasdep", "0")
        case "dropped dependency":
            if its["type"] == "nop":
                tb.remove(step)
                _renumber(gpu, tb, at, -1)
            elif at and tb[at - 1].attrib["type"] == "nop":
                # A step after a nop needs a dependency: it takes that of the nop.
                step.attrib.update({name: tb[at - 1].attrib[name] for name in _DEP})
                tb.remove(tb[at - 1])
                _renumber(gpu, tb, at - 1, -1)
            else:
                step.attrib.update(dict.fromkeys(_DEP, "-1"))
        case "earlier dependency" | "other dependency":
            if kind == "earlier dependency":
                step.set("deps", str(int(its["deps"]) - 1))
            else:
                step.attrib.update(depid=str(draw(len(gpu.findall("tb")))), deps="0")
            for other in gpu.iter("tb"):
                if other.attrib["id"] == its["depid"] and int(its["deps"]) < len(other):
                    other[int(its["deps"])].set("hasdep", "1")
        case "swapped blocks":
            others = [other for other in gpu.iter("tb") if other is not tb]
            other = others[draw(len(others))]
            tb[:], other[:] = list(other), list(tb)
    return True


def _renumber(gpu: ElementTree.Element, tb: ElementTree.Element, first: int, shift: int) -> None:
    """Number the steps of a thread block anew; dependencies on those from `first` on move along."""
    for number, step in enumerate(tb):
        step.set("s", str(number))
    for step in gpu.iter("step"):
        if shift and step.attrib["depid"] == tb.attrib["id"] and int(step.attrib["deps"]) > first - (shift > 0):
            step.set("deps", str(int(step.attrib["deps"]) + shift))
