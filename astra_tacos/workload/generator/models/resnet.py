"""ResNet-50 (He et al. 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution, for images of 224 x 224.

Convolutions have no bias; each is one layer with its batch normalization. 25,557,032 parameters in 161 tensors.
"""

from __future__ import annotations

from astra_tacos.workload.generator.layered_model import LayeredModel, ModelLayer
from astra_tacos.workload.generator.models.operations import convolution, linear

_STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))
"""Width, number of blocks, and width and height of the output of each stage."""
_EXPANSION = 4


def resnet50() -> LayeredModel:
    """ResNet-50 in single precision."""
    layers = [_normalized("conv1", 3, 64, 7, 112, 2)]
    channels = 64
    for number, (width, blocks, size) in enumerate(_STAGES, 1):
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
