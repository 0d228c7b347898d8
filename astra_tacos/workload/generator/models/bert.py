"""BERT-large (Devlin et al. 2019, arXiv:1810.04805, section 3): 335,141,888 parameters, for sequences of 512 tokens.

Embeddings (30,522 words, 512 positions, 2 segments), 24 layers of attention and MLP with their norms, and the pooler. The head
that predicts words shares its matrix with the embedding and is left out.
"""

from __future__ import annotations

from dataclasses import replace

from astra_tacos.workload.generator.layered_model import LayeredModel, ModelLayer
from astra_tacos.workload.generator.models.operations import linear

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
