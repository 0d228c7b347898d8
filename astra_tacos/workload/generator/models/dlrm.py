"""DLRM (Naumov et al. 2019, arXiv:1906.00091) in the sizes of MLPerf's training benchmark on the Criteo data.

Bottom MLP 13-512-256-128, 26 embedding tables of width 128 that are divided among the ranks, products of all pairs of the 27
vectors, top MLP 479-1024-1024-512-256-1. An All-to-All brings the looked-up vectors to the ranks that have the samples, and their
gradients back. Tables do not get a gradient All-Reduce, and their rows are not counted as parameters here, as no schedule depends
on their number.
"""

from __future__ import annotations

from itertools import pairwise

from astra_tacos.workload.generator.layered_model import LayeredModel, ModelLayer
from astra_tacos.workload.generator.models.operations import linear

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
