"""Models from CSV files: a line per layer with its parameters and its costs, in the order of the forward pass."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import read_text
from astra_tacos.workload.generator.layered_model import MAX_LAYERS, LayeredModel, ModelLayer

_COLUMNS = ("name", "parameters", "activations")
_IN_OPS = ("forward_flops", "backward_flops")
_IN_US = ("forward_us", "backward_us")


def read_layer_file(path: str | Path, dtype_bytes: int = 4) -> LayeredModel:
    """Read a model from a CSV file with a header.

    Columns are `name`, `parameters` (numbers of parameters of its tensors with spaces between, in order of registration),
    `forward_flops` and `backward_flops` for a sample, or `forward_us` and `backward_us` for a micro-batch, and, optionally,
    `activations`, the number of values that the layer writes for a sample. Half of a backward pass is the gradient of the input,
    half that of the weights; without parameters, all of it is that of the input.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a line is not a layer; the message names the line.
    """
    lines = list(csv.reader(read_text(Path(path)).splitlines()))
    if not lines:
        raise ConfigError(f"{path}: no header, expected {','.join((*_COLUMNS[:2], *_IN_OPS))}")
    header = [name.strip() for name in lines[0]]
    units = next((columns for columns in (_IN_OPS, _IN_US) if set(columns) <= set(header)), None)
    known = {*_COLUMNS, *(units or ())}
    if units is None or not {"name", "parameters"} <= set(header) or set(header) - known or len(set(header)) < len(header):
        raise ConfigError(
            f"{path}: line 1: found {','.join(header)[:200]}, expected name,parameters and forward_flops,backward_flops or "
            "forward_us,backward_us, and perhaps activations"
        )
    layers: list[ModelLayer] = []
    before = 0
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        where = f"{path}: line {number}"
        if len(line) != len(header):
            raise ConfigError(f"{where}: found {len(line)} values, expected {len(header)}")
        if len(layers) == MAX_LAYERS:
            raise ConfigError(f"{where}: more than {MAX_LAYERS:,} layers")
        row = dict(zip(header, (value.strip() for value in line), strict=True))
        layers.append(_layer(row, units, before, where))
        before = layers[-1].output_values
    return LayeredModel(Path(path).stem, tuple(layers), dtype_bytes)


def _layer(row: dict[str, str], units: tuple[str, str], before: int, where: str) -> ModelLayer:
    name = row["name"]
    if not name or not name.replace("_", "").replace("-", "").replace(".", "").isalnum() or len(name) > 200:
        raise ConfigError(f"{where}: name: found {name[:60]!r}, expected letters, digits, _, - and .")
    tensors = tuple(size for text in row["parameters"].split() if (size := _whole(text, f"{where}: parameters")) > 0)
    values = _whole(row.get("activations") or "0", f"{where}: activations")
    forward, backward = (_number(row[unit], f"{where}: {unit}") for unit in units)
    of_weights = backward / 2 if tensors else 0.0
    if units == _IN_US:
        return ModelLayer(
            name,
            tensors,
            output_values=values,
            forward_us=forward,
            input_gradient_us=backward - of_weights,
            weight_gradient_us=of_weights,
        )
    costs = (round(forward), round(backward - of_weights), round(of_weights))
    return ModelLayer(name, tensors, *costs, before, values)


def _whole(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ConfigError(f"{where}: found {text[:60]!r}, expected a whole number from 0")
    return int(text)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and 0 <= value <= 1e18):
        raise ConfigError(f"{where}: found {text[:60]!r}, expected a number from 0")
    return value
