"""Published models as lists of layers, one file each."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.workload.generator.layered_model import LayeredModel
from astra_tacos.workload.generator.models.bert import bert_large
from astra_tacos.workload.generator.models.dlrm import dlrm
from astra_tacos.workload.generator.models.resnet import resnet50
from astra_tacos.workload.generator.models.vgg import vgg16

LAYERED_MODELS: dict[str, Callable[[], LayeredModel]] = {
    "resnet50": resnet50,
    "vgg16": vgg16,
    "bert-large": bert_large,
    "dlrm": dlrm,
}
"""Models by the name that `generate --model` takes."""
