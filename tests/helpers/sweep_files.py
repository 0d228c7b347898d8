"""Sweep files for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from astra_tacos.study.sweep.sweep_file import Sweep, read_sweep_file

CONFIGS = Path(__file__).parents[2] / "configs"
RING = {"topology": ["Ring"], "npus_count": [4], "bandwidth": [50.0], "latency": [500.0]}
TORUS = {"topology": ["Ring", "Ring"], "npus_count": [4, 4], "bandwidth": [50.0, 50.0], "latency": [500.0, 500.0]}
THREE = {
    "topology": ["Ring", "FullyConnected", "Switch"],
    "npus_count": [2, 4, 8],
    "bandwidth_per_npu": ["= b0", "= b1", "= 600 - b0 - b1"],
    "latency": [50, 250, 500],
}


def write_sweep(folder: Path, **document: Any) -> Path:
    """A sweep file of an All-Reduce on a small ring, if nothing else is said; `point` is added to that."""
    point = {"network": RING, "size": "1MiB"} | document.pop("point", {})
    document = {"point": {key: value for key, value in point.items() if value is not ...}} | document
    path = folder / "s.yml"
    path.write_text(json.dumps(document))  # JSON is YAML
    return path


def sweep(folder: Path, **document: Any) -> Sweep:
    """The sweep of such a file."""
    return read_sweep_file(write_sweep(folder, **document))
