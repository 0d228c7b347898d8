"""What programs of ASTRA-sim print beside the clock of an answer, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from astra_tacos.run.backend import MODELS, STOCK
from astra_tacos.support.own_files import Number, one_of

PrintsFile = TypedDict(
    "PrintsFile",
    {
        "binary": str,
        "from": str,
        "backend": Annotated[str, one_of(MODELS)],
        "time_ns": Number | None,
        "best_native_ns": Number | None,
    },
)
"""An entry of `prints` in `result.json` and `plan.json`."""


def prints_text(prints: Sequence[Mapping[str, Any]], clock: str) -> str:
    """What stock ASTRA-sim prints for a directory and for the best native run, if its model is not the clock; else "".

    Parameters
    ----------
    prints
        The entry `prints` of a result.
    clock
        The name of the network model that the times of the result are of.
    """
    stock = [printed for printed in prints if printed["from"] == f"stock {STOCK}"]
    if not stock or any(printed["backend"] == clock for printed in stock):
        return ""
    entry = stock[0]
    native = entry["best_native_ns"]
    text = "does not run this" if entry["time_ns"] is None else f"prints {entry['time_ns']:,} ns for this"
    text += "" if native is None else f" and {native:,} ns for the native run"
    has_queues = MODELS[entry["backend"]].models_congestion
    return f"{entry['from']} {text}" + ("" if has_queues else ": its messages do not queue in several dimensions")
