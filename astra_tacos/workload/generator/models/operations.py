"""Layers of common operations: convolutions and products with matrices, with their numbers of operations.

A product of n rows with a matrix of W entries takes 2nW operations forward, as many for the gradient of its input, and as many
for that of its weights. A convolution is such a product with a row per pixel of its output.
"""

from __future__ import annotations

from astra_tacos.workload.generator.layered_model import ModelLayer


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
