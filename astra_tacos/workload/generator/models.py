"""Published models as lists of layers.

Layers of common operations: convolutions and products with matrices, with their numbers of operations.

A product of n rows with a matrix of W entries takes 2nW operations forward, as many for the gradient of its input, and as many
for that of its weights. A convolution is such a product with a row per pixel of its output.

DLRM (Naumov et al. 2019, arXiv:1906.00091) in the sizes of MLPerf's training benchmark on the Criteo data.

Bottom MLP 13-512-256-128, 26 embedding tables of width 128 that are divided among the ranks, products of all pairs of the 27
vectors, top MLP 479-1024-1024-512-256-1. An All-to-All brings the looked-up vectors to the ranks that have the samples, and their
gradients back. Tables do not get a gradient All-Reduce, and their rows are not counted as parameters here, as no schedule depends
on their number.

VGG-16 (Simonyan and Zisserman 2015, arXiv:1409.1556, configuration D), for images of 224 x 224: 138,357,544 parameters.

BERT-large (Devlin et al. 2019, arXiv:1810.04805, section 3): 335,141,888 parameters, for sequences of 512 tokens.

Embeddings (30,522 words, 512 positions, 2 segments), 24 layers of attention and MLP with their norms, and the pooler. The head
that predicts words shares its matrix with the embedding and is left out.

ResNet-50 (He et al. 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution, for images of 224 x 224.

Convolutions have no bias; each is one layer with its batch normalization. 25,557,032 parameters in 161 tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from astra_tacos.workload.generator.layered_model import LayeredModel, ModelLayer


def convolution(
    name: str, channels: int, filters: int, kernel: int, out_size: int, *, stride: int = 1, more: tuple[int, ...]
) -> ModelLayer:
    """A square convolution.

    Parameters
    ----------
    name
        Name of the layer.
    channels, filters
        Number of channels of its input, and of its output.
    kernel, stride
        Width of the kernel, and distance of two pixels of the output in the input.
    out_size
        Width and height of the output.
    more
        Numbers of parameters of further tensors: a bias, or scales and shifts of the batch normalization behind it.
    """
    weights = channels * filters * kernel * kernel
    operations = 2 * weights * out_size * out_size
    values = channels * (out_size * stride) ** 2
    return ModelLayer(name, (weights, *more), operations, operations, operations, values, filters * out_size * out_size)


def linear(name: str, inputs: int, outputs: int, rows: int = 1, *, more: tuple[int, ...] = ()) -> ModelLayer:
    """A fully connected layer with a bias.

    Parameters
    ----------
    name
        Name of the layer.
    inputs, outputs
        Numbers of values of a row.
    rows
        Number of rows of a sample.
    more
        Numbers of parameters of further tensors.
    """
    operations = 2 * inputs * outputs * rows
    tensors = (inputs * outputs, outputs, *more)
    return ModelLayer(name, tensors, operations, operations, operations, rows * inputs, rows * outputs)


_BOTTOM, _TOP = (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)
_TABLES, _WIDTH = 26, 128


def dlrm() -> LayeredModel:
    """DLRM in single precision; a sample is a click."""
    bottom = [linear(f"bottom{place}", *sizes) for place, sizes in enumerate(pairwise(_BOTTOM))]
    vectors = _TABLES + 1
    products = 2 * vectors * vectors * _WIDTH
    values = _TABLES * _WIDTH
    tables = ModelLayer("tables", (), values, 0, values, values, values, exchanged_values=values, joins=len(bottom) + 1)
    interaction = ModelLayer("interaction", (), products, 2 * products, 0, vectors * _WIDTH, _TOP[0])
    top = [linear(f"top{place}", *sizes) for place, sizes in enumerate(pairwise(_TOP))]
    return LayeredModel("DLRM", (tables, *bottom, interaction, *top))


_STAGES = ((64, 2, 224), (128, 2, 112), (256, 3, 56), (512, 3, 28), (512, 3, 14))
"""Number of filters, number of convolutions, and width and height of the output of each stage."""


def vgg16() -> LayeredModel:
    """VGG-16 in single precision."""
    layers = []
    channels = 3
    for number, (filters, count, size) in enumerate(_STAGES, 1):
        for place in range(1, count + 1):
            layers.append(convolution(f"conv{number}_{place}", channels, filters, 3, size, more=(filters,)))
            channels = filters
    layers += [linear("fc1", 512 * 7 * 7, 4096), linear("fc2", 4096, 4096), linear("fc3", 4096, 1000)]
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
        projection = linear("", _HIDDEN, _HIDDEN, _SEQUENCE)
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
            linear(f"mlp_in{number}", _HIDDEN, _FFN, _SEQUENCE),
            linear(f"mlp_out{number}", _FFN, _HIDDEN, _SEQUENCE, more=norm),
        ]
    layers.append(linear("pooler", _HIDDEN, _HIDDEN))
    return LayeredModel("BERT-large", tuple(layers))


_RESNET_STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))
"""Width, number of blocks, and width and height of the output of each stage."""
_EXPANSION = 4


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
    layers.append(linear("fc", channels, 1000))
    return LayeredModel("ResNet-50", tuple(layers))


def _normalized(name: str, channels: int, filters: int, kernel: int, size: int, stride: int) -> ModelLayer:
    return convolution(name, channels, filters, kernel, size, stride=stride, more=(filters, filters))


LAYERED_MODELS: dict[str, Callable[[], LayeredModel]] = {
    "resnet50": resnet50,
    "vgg16": vgg16,
    "bert-large": bert_large,
    "dlrm": dlrm,
}
"""Models by the name that `generate --model` takes."""
