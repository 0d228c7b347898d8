"""VGG-16 (Simonyan and Zisserman 2015, arXiv:1409.1556, configuration D), for images of 224 x 224: 138,357,544 parameters."""

from __future__ import annotations

from astra_tacos.workload.generator.layered_model import LayeredModel
from astra_tacos.workload.generator.models.operations import convolution, linear

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
