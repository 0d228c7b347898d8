"""The model that is trained: the sizes of a transformer, and its numbers of parameters.

Published models by name.

Sources: GPT-3 (Brown et al. 2020, arXiv:2005.14165, table 2.1; MLPs four times as wide as the model), LLaMA (Touvron et al.
2023, arXiv:2302.13971, table 2 and section 2.2; MLPs of the released weights), Mixtral 8x7B (Jiang et al. 2024, arXiv:2401.04088,
table 1).
Embedding and output head are counted separately, even where a model shares their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder-only transformer: embedding, `layers` layers of attention and MLP, and an output head with its own weights.

    Biases, norms and learned positions are left out, as they are less than 0.1% of the parameters.

    Parameters
    ----------
    layers, hidden, ffn, heads, vocab, sequence
        Number of layers, width of the model, width of the MLP, number of attention heads, size of the vocabulary, tokens per
        sequence.
    kv_heads
        Number of heads of keys and values, fewer than `heads` in grouped-query attention (Ainslie et al. 2023).
    is_gated
        Whether the MLP has three matrices (SwiGLU, Shazeer 2020) instead of two.
    experts, top_k
        Number of MLPs in each layer, and of those that a token passes through. With 0 experts a layer has one MLP and no router.
    dtype_bytes
        Bytes per parameter, activation or gradient.

    Raises
    ------
    ConfigError
        If a size is out of range, or one that has to divide another one does not.

    Examples
    --------
    >>> from astra_tacos import Transformer
    >>> Transformer(layers=2, hidden=256, ffn=1024, heads=4, vocab=1000, sequence=128, kv_heads=4).hidden
    256
    """

    layers: int
    hidden: int
    ffn: int
    heads: int
    vocab: int
    sequence: int
    kv_heads: int
    is_gated: bool = False
    experts: int = 0
    top_k: int = 1
    dtype_bytes: int = 2

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("layers", "hidden", "ffn", "heads", "vocab", "sequence", "kv_heads", "top_k", "dtype_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name.replace('_', '-')}: found {getattr(self, name):,}, expected 1 or more")
        if self.experts < 0:
            raise ConfigError(f"experts: found {self.experts:,}, expected 0 or more")
        if self.hidden % self.heads:
            raise ConfigError(f"heads: found {self.heads:,}, expected a divisor of hidden, which is {self.hidden:,}")
        if self.heads % self.kv_heads:
            raise ConfigError(f"kv-heads: found {self.kv_heads:,}, expected a divisor of heads, which is {self.heads:,}")
        if self.top_k > max(self.experts, 1):
            have = f"there are {self.experts:,} experts" if self.experts else "there are no experts"
            raise ConfigError(f"top-k: found {self.top_k:,}, but {have}")

    @property
    def kv_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def attention_weights(self) -> int:
        """Parameters of a layer's attention: queries and output, keys and values."""
        return 2 * self.hidden * self.hidden + 2 * self.hidden * self.kv_width

    @property
    def mlp_weights(self) -> int:
        """Parameters of one MLP."""
        return (3 if self.is_gated else 2) * self.hidden * self.ffn

    @property
    def router_weights(self) -> int:
        """Parameters of a layer's router."""
        return self.hidden * self.experts

    @property
    def parameters(self) -> int:
        """Number of all parameters."""
        layer = self.attention_weights + self.router_weights + max(self.experts, 1) * self.mlp_weights
        return self.layers * layer + 2 * self.vocab * self.hidden

    @property
    def active_parameters(self) -> int:
        """Number of parameters that a token is multiplied with: all but the embedding, and `top_k` of the experts."""
        layer = self.attention_weights + self.router_weights + self.top_k * self.mlp_weights
        return self.layers * layer + self.vocab * self.hidden


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
