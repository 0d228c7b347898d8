"""Sweep files for tests."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import yaml

from astra_tacos.study.sweep.sweep_file import Sweep, read_sweep_file

CONFIGS = Path(__file__).parents[2] / "configs"
NETWORKS = """networks:
- &RING {topology: [Ring], npus_count: [4], bandwidth: [50.0], latency: [500.0]}
- &TORUS {topology: [Ring, Ring], npus_count: [4, 4], bandwidth: [50.0, 50.0], latency: [500.0, 500.0]}
- &THREE {topology: [Ring, FullyConnected, Switch], npus_count: [2, 4, 8],
          bandwidth_per_npu: [= b0, = b1, = 600 - b0 - b1], latency: [50, 250, 500]}
"""
"""What texts of sweep files in tests call *RING, *TORUS and *THREE."""
RING, TORUS, _ = yaml.safe_load(NETWORKS)["networks"]


def read_text(text: str) -> dict[str, Any]:
    """The document that a text of YAML stands for, in which the networks above have names."""
    document = yaml.safe_load(NETWORKS + ("<<: " if text.startswith("{") else "") + textwrap.dedent(text))
    del document["networks"]
    return document


def write_sweep(folder: Path, text: str = "", **document: Any) -> Path:
    """A sweep file of an All-Reduce on a small ring, if nothing else is said; `point` is added to that, less what is `...`."""
    document = read_text(text) | document
    point = {"network": RING, "size": "1MiB"} | document.pop("point", {})
    document = {"point": {key: value for key, value in point.items() if value not in (..., "...")}} | document
    path = folder / "s.yml"
    path.write_text(json.dumps(document))  # JSON is YAML
    return path


def sweep(folder: Path, text: str = "", **document: Any) -> Sweep:
    """The sweep of such a file."""
    return read_sweep_file(write_sweep(folder, text, **document))
