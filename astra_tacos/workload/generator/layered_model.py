"""Models that are lists of layers, each with its own tensors and costs, for data-parallel training: from CSV files, or published.

A product of n rows with a matrix of W entries takes 2nW operations forward, as many for the gradient of its input, and as many
for that of its weights. A convolution is such a product with a row per pixel of its output.

DLRM (Naumov et al. 2019, arXiv:1906.00091) in the sizes of MLPerf's training benchmark on the Criteo data: bottom MLP
13-512-256-128, 26 embedding tables of width 128 that are divided among the ranks, products of all pairs of the 27 vectors, top
MLP 479-1024-1024-512-256-1. An All-to-All brings the looked-up vectors to the ranks that have the samples, and their gradients
back. Tables do not get a gradient All-Reduce, and their rows are not counted as parameters here, as no schedule depends on their
number.

VGG-16 (Simonyan and Zisserman 2015, arXiv:1409.1556, configuration D), for images of 224 x 224: 138,357,544 parameters.

BERT-large (Devlin et al. 2019, arXiv:1810.04805, section 3): 335,141,888 parameters, for sequences of 512 tokens. Embeddings
(30,522 words, 512 positions, 2 segments), 24 layers of attention and MLP with their norms, and the pooler. The head that predicts
words shares its matrix with the embedding and is left out.

ResNet-50 (He et al. 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution, for images of 224 x 224.
Convolutions have no bias; each is one layer with its batch normalization. 25,557,032 parameters in 161 tensors.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.quoted import quoted
from astra_tacos.workload.generator.cost import Cost

_MOST = 1 << 60
"""Parameters, values and operations of a layer: sums of them fit int64."""
_EXPANSION = 4
"""Channels that a block of ResNet gives, by those of its inner convolution."""


@dataclass(frozen=True, slots=True)
class ModelLayer:
    """A layer of a model. Costs are for one sample, and for what does not depend on the number of samples.

    Parameters
    ----------
    name
        Its name.
    tensors
        Numbers of parameters of its tensors, in order of registration; empty for a layer without parameters.
    forward_ops, input_gradient_ops, weight_gradient_ops
        Operations for a sample, forward, for the gradient of its input, and for that of its weights.
    input_values, output_values
        Numbers of activations that it reads and writes for a sample.
    forward_us, input_gradient_us, weight_gradient_us
        Durations of a micro-batch in microseconds, which count instead of operations if any of them is not None.
    exchanged_values
        For a layer whose parameters are divided among the ranks, number of values for a sample that an All-to-All brings to the
        ranks that need them (and the same number of gradients back); such a layer reads the input of the model. 0 for all others.
    joins
        For a layer with an All-to-All, the number of the layer that reads its output beside that of the layer before.

    Examples
    --------
    >>> from astra_tacos import ModelLayer
    >>> ModelLayer("convolution", tensors=(64, 9 * 64 * 64), forward_ops=115_605_504, output_values=200_704).name
    'convolution'
    """

    name: str
    tensors: tuple[int, ...]
    forward_ops: int = 0
    input_gradient_ops: int = 0
    weight_gradient_ops: int = 0
    input_values: int = 0
    output_values: int = 0
    forward_us: float | None = None
    input_gradient_us: float | None = None
    weight_gradient_us: float | None = None
    exchanged_values: int = 0
    joins: int = 0

    @property
    def parameters(self) -> int:
        """Number of its parameters."""
        return sum(self.tensors)

    @property
    def is_divided(self) -> bool:
        """Whether its parameters are divided among the ranks."""
        return self.exchanged_values > 0

    def costs(self, samples: int, dtype_bytes: int, ops_per_us: float) -> tuple[Cost, Cost, Cost]:
        """Forward, input gradient and weight gradient of a micro-batch.

        Parameters
        ----------
        samples
            Samples of a micro-batch.
        dtype_bytes
            Bytes of a value.
        ops_per_us
            Operations that stand for a microsecond, where the layer has durations.
        """
        if self.forward_us is not None:
            times = (self.forward_us, self.input_gradient_us or 0.0, self.weight_gradient_us or 0.0)
            forward, inputs, weights = (Cost(round(us * ops_per_us), 1) for us in times)
            return forward, inputs, weights
        # A layer with divided parameters reads only the rows that it is asked for, which its activations count.
        own_parameters = 0 if self.is_divided else self.parameters
        moved = dtype_bytes * (own_parameters + samples * (self.input_values + self.output_values))
        return (
            Cost(samples * self.forward_ops, moved),
            Cost(samples * self.input_gradient_ops, moved),
            Cost(samples * self.weight_gradient_ops, moved + dtype_bytes * own_parameters),
        )


@dataclass(frozen=True, slots=True)
class LayeredModel:
    """A model as a list of layers, in the order of the forward pass.

    Parameters
    ----------
    name
        Its name.
    layers
        Its layers.
    dtype_bytes
        Bytes per parameter, activation or gradient.

    Raises
    ------
    ConfigError
        If there is no layer, or a number is out of range.

    Examples
    --------
    >>> from astra_tacos import LayeredModel, ModelLayer
    >>> LayeredModel("two", (ModelLayer("first", (1000,), forward_us=3.0), ModelLayer("second", (500,), forward_us=2.0))).name
    'two'
    """

    name: str
    layers: tuple[ModelLayer, ...]
    dtype_bytes: int = 4

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.layers:
            raise ConfigError(f"{self.name}: found no layers, expected 1 or more")
        if not 1 <= self.dtype_bytes <= 64:
            raise ConfigError(f"dtype-bytes: found {self.dtype_bytes}, expected 1 to 64")
        for number, layer in enumerate(self.layers):
            ops = (layer.forward_ops, layer.input_gradient_ops, layer.weight_gradient_ops)
            if not all(0 <= value <= _MOST for value in (*layer.tensors, *ops, layer.input_values, layer.output_values)):
                raise ConfigError(f"{self.name}: layer {layer.name}: a number is below 0 or above 2**60")
            if layer.is_divided and not number < layer.joins < len(self.layers):
                raise ConfigError(f"{self.name}: layer {layer.name}: joins layer {layer.joins}, expected a later one")

    @property
    def parameters(self) -> int:
        """Number of all parameters."""
        return sum(layer.parameters for layer in self.layers)


_COLUMNS = ("name", "parameters", "activations")
_IN_OPS = ("forward_flops", "backward_flops")
_IN_US = ("forward_us", "backward_us")


def read_layer_file(path: str | Path, dtype_bytes: int = 4) -> LayeredModel:
    r"""Read a model from a CSV file with a header.

    Columns are `name`, `parameters` (numbers of parameters of its tensors with spaces between, in order of registration),
    `forward_flops` and `backward_flops` for a sample, or `forward_us` and `backward_us` for a micro-batch, and, optionally,
    `activations`, the number of values that the layer writes for a sample. Half of a backward pass is the gradient of the input,
    half that of the weights; without parameters, all of it is that of the input.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a line is not a layer; the message names the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import read_layer_file
    >>> written = Path("two.csv").write_text("name,parameters,forward_us,backward_us\nfirst,1000,3.0,6.0\n")
    >>> [layer.name for layer in read_layer_file("two.csv").layers]
    ['first']
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
        row = dict(zip(header, (value.strip() for value in line), strict=True))
        layers.append(_layer(row, units, before, where))
        before = layers[-1].output_values
    return LayeredModel(Path(path).stem, tuple(layers), dtype_bytes)


def _layer(row: dict[str, str], units: tuple[str, str], before: int, where: str) -> ModelLayer:
    name = row["name"]
    if not name or not name.replace("_", "").replace("-", "").replace(".", "").isalnum() or len(name) > 200:
        raise ConfigError(f"{where}: name: found {quoted(name)}, expected letters, digits, _, - and .")
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
        raise ConfigError(f"{where}: found {quoted(text)}, expected a whole number from 0")
    return int(text)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and 0 <= value <= 1e18):
        raise ConfigError(f"{where}: found {quoted(text)}, expected a number from 0")
    return value


def _convolution(
    name: str, channels: int, filters: int, kernel: int, out_size: int, *, stride: int = 1, more: tuple[int, ...]
) -> ModelLayer:
    """A square convolution.

    Parameters
    ----------
    kernel, stride
        Width of the kernel, and distance of two pixels of the output in the input.
    more
        Numbers of parameters of further tensors: a bias, or scales and shifts of the batch normalization behind it.
    """
    weights = channels * filters * kernel * kernel
    operations = 2 * weights * out_size * out_size
    values = channels * (out_size * stride) ** 2
    return ModelLayer(name, (weights, *more), operations, operations, operations, values, filters * out_size * out_size)


def _linear(name: str, inputs: int, outputs: int, rows: int = 1, *, more: tuple[int, ...] = ()) -> ModelLayer:
    """A fully connected layer with a bias."""
    operations = 2 * inputs * outputs * rows
    tensors = (inputs * outputs, outputs, *more)
    return ModelLayer(name, tensors, operations, operations, operations, rows * inputs, rows * outputs)


_BOTTOM, _TOP = (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)
_TABLES, _WIDTH = 26, 128


def dlrm() -> LayeredModel:
    """DLRM in single precision; a sample is a click."""
    bottom = [_linear(f"bottom{place}", *sizes) for place, sizes in enumerate(pairwise(_BOTTOM))]
    vectors = _TABLES + 1
    products = 2 * vectors * vectors * _WIDTH
    values = _TABLES * _WIDTH
    tables = ModelLayer("tables", (), values, 0, values, values, values, exchanged_values=values, joins=len(bottom) + 1)
    interaction = ModelLayer("interaction", (), products, 2 * products, 0, vectors * _WIDTH, _TOP[0])
    top = [_linear(f"top{place}", *sizes) for place, sizes in enumerate(pairwise(_TOP))]
    return LayeredModel("DLRM", (tables, *bottom, interaction, *top))


_STAGES = ((64, 2, 224), (128, 2, 112), (256, 3, 56), (512, 3, 28), (512, 3, 14))
"""Number of filters, number of convolutions, and width and height of the output of each stage."""


def vgg16() -> LayeredModel:
    """VGG-16 in single precision."""
    layers = []
    channels = 3
    for number, (filters, count, size) in enumerate(_STAGES, 1):
        for place in range(1, count + 1):
            layers.append(_convolution(f"conv{number}_{place}", channels, filters, 3, size, more=(filters,)))
            channels = filters
    layers += [_linear("fc1", 512 * 7 * 7, 4096), _linear("fc2", 4096, 4096), _linear("fc3", 4096, 1000)]
    return LayeredModel("VGG-16", tuple(layers))


_HIDDEN, _FFN, _LAYERS, _SEQUENCE = 1024, 4096, 24, 512
_WORDS, _POSITIONS, _SEGMENTS = 30522, 512, 2


def bert_large() -> LayeredModel:
    """BERT-large in single precision; a sample is a sequence."""
    values = _SEQUENCE * _HIDDEN
    tables = (_WORDS * _HIDDEN, _POSITIONS * _HIDDEN, _SEGMENTS * _HIDDEN, _HIDDEN, _HIDDEN)
    layers = [ModelLayer("embeddings", tables, 3 * values, 0, 3 * values, 3 * values, values)]
    scores = 4 * _SEQUENCE * _SEQUENCE * _HIDDEN
    norm = (_HIDDEN, _HIDDEN)
    for number in range(_LAYERS):
        projection = _linear("", _HIDDEN, _HIDDEN, _SEQUENCE)
        attention = replace(
            projection,
            name=f"attention{number}",
            tensors=4 * projection.tensors + norm,
            forward_ops=4 * projection.forward_ops + scores,
            input_gradient_ops=4 * projection.input_gradient_ops + 2 * scores,
            weight_gradient_ops=4 * projection.weight_gradient_ops,
            input_values=4 * values,
            output_values=4 * values,
        )
        layers += [
            attention,
            _linear(f"mlp_in{number}", _HIDDEN, _FFN, _SEQUENCE),
            _linear(f"mlp_out{number}", _FFN, _HIDDEN, _SEQUENCE, more=norm),
        ]
    layers.append(_linear("pooler", _HIDDEN, _HIDDEN))
    return LayeredModel("BERT-large", tuple(layers))


_RESNET_STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))
"""Width, number of blocks, and width and height of the output of each stage."""


def resnet50() -> LayeredModel:
    """ResNet-50 in single precision."""
    layers = [_normalized("conv1", 3, 64, 7, 112, 2)]
    channels = 64
    for number, (width, blocks, size) in enumerate(_RESNET_STAGES, 1):
        for block in range(blocks):
            name = f"layer{number}_{block}"
            stride = 2 if block == 0 and number > 1 else 1
            layers.append(_normalized(f"{name}_conv1", channels, width, 1, size * stride, 1))
            layers.append(_normalized(f"{name}_conv2", width, width, 3, size, stride))
            layers.append(_normalized(f"{name}_conv3", width, width * _EXPANSION, 1, size, 1))
            if block == 0:
                layers.append(_normalized(f"{name}_downsample", channels, width * _EXPANSION, 1, size, stride))
            channels = width * _EXPANSION
    layers.append(_linear("fc", channels, 1000))
    return LayeredModel("ResNet-50", tuple(layers))


def _normalized(name: str, channels: int, filters: int, kernel: int, size: int, stride: int) -> ModelLayer:
    return _convolution(name, channels, filters, kernel, size, stride=stride, more=(filters, filters))


LAYERED_MODELS: dict[str, Callable[[], LayeredModel]] = {
    "resnet50": resnet50,
    "vgg16": vgg16,
    "bert-large": bert_large,
    "dlrm": dlrm,
}
"""Models by the name that `generate --model` takes.

Examples
--------
>>> from astra_tacos import LAYERED_MODELS
>>> len(LAYERED_MODELS["vgg16"]().layers)
16
"""
