"""Traffic of a mixture of experts: how much every NPU has for every other one, where experts are not equally popular."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.decimal_text import parse_decimal, parse_whole
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import parse_size

ZIPF = "zipf"
_KEYS = ("skew", "token", "seed")
_TOKEN_BYTES = 4096
_MOST_TOKENS = 1 << 40


def zipf_parts(
    num_npus: int, size_bytes: int, skew: float = 1.0, token_bytes: int = _TOKEN_BYTES, seed: int = 0
) -> NDArray[np.int64]:
    """int64[num_npus, num_npus], bytes from each NPU to each, with one expert on every NPU.

    Every NPU sends as many tokens as `size_bytes` has. Each of them goes to the r-th most popular expert with a probability in
    proportion to r**-skew; which expert is how popular is drawn, too.

    Parameters
    ----------
    num_npus
        NPUs, and experts.
    size_bytes
        Bytes of each NPU's buffer; what does not fill a token is left out.
    skew
        0: all experts are equally popular.
    token_bytes
        Bytes of a token.
    seed
        The same arguments give the same traffic.

    Raises
    ------
    ConfigError
        If there are fewer than 2 NPUs, no whole token or too many, or the skew is no number from 0 on.
    """
    if num_npus < 2:
        raise ConfigError(f"{ZIPF}: found {num_npus} NPUs, expected at least 2")
    if not (math.isfinite(skew) and 0 <= skew <= 100):
        raise ConfigError(f"{ZIPF}: found skew {skew}, expected a number, 0 to 100")
    if token_bytes < 1 or not 1 <= size_bytes // token_bytes <= _MOST_TOKENS:
        raise ConfigError(f"{ZIPF}: {size_bytes} bytes in tokens of {token_bytes}, expected 1 to {_MOST_TOKENS} tokens")
    random = np.random.default_rng(seed)
    popularity = np.arange(1, num_npus + 1, dtype=np.float64) ** -skew
    popularity = random.permutation(popularity / popularity.sum())
    tokens = random.multinomial(size_bytes // token_bytes, popularity / popularity.sum(), size=num_npus)
    return tokens.astype(np.int64) * token_bytes


def parse_zipf(text: str, num_npus: int, size_bytes: int) -> NDArray[np.int64]:
    """The traffic that `zipf`, `zipf:1.2` or `zipf:skew=1.2,token=14336,seed=3` describes.

    Parameters
    ----------
    text
        The description.
    num_npus, size_bytes
        As for `zipf_parts`.

    Raises
    ------
    ConfigError
        If it is no such description, or what `zipf_parts` refuses.
    """
    _, _, rest = text.partition(":")
    found: dict[str, str] = {}
    for number, part in enumerate(rest.split(",") if rest else ()):
        name, has_name, value = part.partition("=")
        name, value = (name.strip(), value) if has_name else ("skew" if number == 0 else "", name)
        if name not in _KEYS or name in found:
            raise ConfigError(
                f"{text[:60]!r}: found {part[:40]!r}, expected {', '.join(f'{key}=...' for key in _KEYS)}, each once"
            )
        found[name] = value.strip()
    skew = parse_decimal(found.get("skew", "1"))
    seed = parse_whole(found.get("seed", "0"))
    if skew is None:
        raise ConfigError(f"{text[:60]!r}: skew is {found['skew'][:40]!r}, expected a number")
    if seed is None or seed < 0:
        raise ConfigError(f"{text[:60]!r}: seed is {found['seed'][:40]!r}, expected a whole number, 0 or more")
    token = parse_size(found["token"], f"{text[:60]!r}: token") if "token" in found else min(_TOKEN_BYTES, size_bytes)
    return zipf_parts(num_npus, size_bytes, float(skew), token, seed)
