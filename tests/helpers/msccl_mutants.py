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


def mutate(algo: ElementTree.Element, kind: str, draw: Draw) -> bool:
    """Change a file in place; False if it has nothing of the kind."""
    gpus = list(algo.iter("gpu"))
    rows = [(gpu, tb, at, step) for gpu in gpus for tb in gpu.iter("tb") for at, step in enumerate(tb)]

    def one(where: Callable[[tuple], bool]) -> tuple | None:  # type: ignore[type-arg]
        found = [row for row in rows if where(row)]
        return found[draw(len(found))] if found else None

    match kind:
        case "offset" | "other buffer":
            row = one(lambda row: row[3].attrib["type"] in _READS + _WRITES)
            if row is None:
                return False
            step = row[3]
            ends = [end for end, kinds in (("src", _READS), ("dst", _WRITES)) if step.attrib["type"] in kinds]
            end = ends[draw(len(ends))]
            if kind == "other buffer":
                step.set(f"{end}buf", {"i": "o", "o": "i", "s": "o"}[step.attrib[f"{end}buf"]])
            else:
                room = max(int(row[0].attrib[f"{step.attrib[f'{end}buf']}_chunks"]), 2)
                step.set(f"{end}off", str((int(step.attrib[f"{end}off"]) + 1 + draw(room - 1)) % room))
        case "type":
            row = one(lambda row: True)
            other = _LIKE[row[3].attrib["type"]]
            row[3].set("type", other[draw(len(other))])
        case "dropped step":
            row = one(lambda row: True)
            row[1].remove(row[3])
            _renumber(row[0], row[1], row[2], -1)
        case "twice":
            row = one(lambda row: True)
            row[1].insert(row[2] + 1, copy.deepcopy(row[3]))
            _renumber(row[0], row[1], row[2] + 1, 1)
        case "swapped":
            row = one(lambda row: row[2] + 1 < len(row[1]))
            if row is None:
                return False
            tb, at = row[1], row[2]
            tb[at], tb[at + 1] = tb[at + 1], tb[at]
            _renumber(row[0], tb, 0, 0)
        case "count":
            row = one(lambda row: row[3].attrib["type"] != "nop")
            count = int(row[3].attrib["cnt"])
            row[3].set("cnt", str(count + 1 if draw(2) else count - 1))
        case "peer":
            row = one(lambda row: row[3].attrib["type"] in _SENDS + _RECEIVES)
            end = "send" if row[3].attrib["type"] in _SENDS else "recv"
            others = [p for p in range(len(gpus)) if p not in (int(row[0].attrib["id"]), int(row[1].attrib[end]))]
            row[1].set(end, str(others[draw(len(others))]) if others else "-1")
        case "channel":
            row = one(lambda row: row[3].attrib["type"] in _SENDS + _RECEIVES)
            row[1].set("chan", str((int(row[1].attrib["chan"]) + 1) % max(int(algo.attrib["nchannels"]), 2)))
            algo.set("nchannels", str(max(int(algo.attrib["nchannels"]), 2)))
        case "no hasdep":
            row = one(lambda row: row[3].attrib["hasdep"] == "1")
            if row is None:
                return False
            row[3].set("hasdep", "0")
        case "dropped dependency" | "earlier dependency" | "other dependency":
            least = 1 if kind == "earlier dependency" else 0
            row = one(lambda row: int(row[3].attrib["depid"]) >= 0 and int(row[3].attrib["deps"]) >= least)
            if row is None:
                return False
            gpu, tb, at, step = row
            if kind == "dropped dependency":
                if step.attrib["type"] == "nop":
                    tb.remove(step)
                    _renumber(gpu, tb, at, -1)
                elif at and tb[at - 1].attrib["type"] == "nop":
                    # A step after a nop needs a dependency: it takes that of the nop.
                    step.set("depid", tb[at - 1].attrib["depid"])
                    step.set("deps", tb[at - 1].attrib["deps"])
                    tb.remove(tb[at - 1])
                    _renumber(gpu, tb, at - 1, -1)
                else:
                    step.set("depid", "-1")
                    step.set("deps", "-1")
                return True
            if kind == "earlier dependency":
                step.set("deps", str(int(step.attrib["deps"]) - 1))
            else:
                step.set("depid", str(draw(len(gpu.findall("tb")))))
                step.set("deps", "0")
            for other in gpu.iter("tb"):
                if other.attrib["id"] == step.attrib["depid"] and int(step.attrib["deps"]) < len(other):
                    other[int(step.attrib["deps"])].set("hasdep", "1")
        case "swapped blocks":
            row = one(lambda row: len(row[0].findall("tb")) > 1)
            if row is None:
                return False
            others = [tb for tb in row[0].iter("tb") if tb is not row[1]]
            other = others[draw(len(others))]
            one_list, other_list = list(row[1]), list(other)
            row[1][:], other[:] = other_list, one_list
    return True


def _renumber(gpu: ElementTree.Element, tb: ElementTree.Element, first: int, shift: int) -> None:
    """Number the steps of a thread block anew; dependencies on those from `first` on move along."""
    for number, step in enumerate(tb):
        step.set("s", str(number))
    for step in gpu.iter("step"):
        if shift and step.attrib["depid"] == tb.attrib["id"] and int(step.attrib["deps"]) > first - (shift > 0):
            step.set("deps", str(int(step.attrib["deps"]) + shift))
