"""Published models by name.

Sources: GPT-3 (Brown et al. 2020, arXiv:2005.14165, table 2.1; MLPs four times as wide as the model), LLaMA (Touvron et al.
2023, arXiv:2302.13971, table 2 and section 2.2; MLPs of the released weights), Mixtral 8x7B (Jiang et al. 2024, arXiv:2401.04088,
table 1).
Embedding and output head are counted separately, even where a model shares their weights.
"""

from __future__ import annotations

from astra_tacos.workload.generator.model import Transformer

PRESETS: dict[str, Transformer] = {
    "gpt3-6.7b": Transformer(layers=32, hidden=4096, ffn=16384, heads=32, kv_heads=32, vocab=50257, sequence=2048),
    "gpt3-175b": Transformer(layers=96, hidden=12288, ffn=49152, heads=96, kv_heads=96, vocab=50257, sequence=2048),
    "llama-7b": Transformer(layers=32, hidden=4096, ffn=11008, heads=32, kv_heads=32, vocab=32000, sequence=2048, is_gated=True),
    "llama-65b": Transformer(layers=80, hidden=8192, ffn=22016, heads=64, kv_heads=64, vocab=32000, sequence=2048, is_gated=True),
    "mixtral-8x7b": Transformer(
        layers=32,
        hidden=4096,
        ffn=14336,
        heads=32,
        kv_heads=8,
        vocab=32000,
        sequence=32768,
        is_gated=True,
        experts=8,
        top_k=2,
    ),
}
