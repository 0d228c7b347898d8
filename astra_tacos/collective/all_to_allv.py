"""All-to-All of parts of unequal sizes (MPI_Alltoallv): each NPU starts with a part of its own size for every other NPU.

Traffic of a mixture of experts: how much every NPU has for every other one, where experts are not equally popular.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective, check_size
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import parse_decimal, parse_whole
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import MAX_SIZE_BYTES, parse_size

ZIPF = "zipf"
_KEYS = ("skew", "token", "seed")
_TOKEN_BYTES = 4096
_MOST_TOKENS = 1 << 40


def zipf_parts(num_npus: int, size_bytes: int, skew: float = 1.0, token_bytes: int = _TOKEN_BYTES, seed: int = 0) -> Ints:
    """int64[num_npus, num_npus], bytes from each NPU to each, with one expert on every NPU.

    Every NPU sends as many tokens as `size_bytes` has. Each of them goes to the r-th most popular expert with a probability in
    proportion to r**-skew; which expert is how popular is drawn, too.

    Parameters
    ----------
    size_bytes
        Bytes of each NPU's buffer; what does not fill a token is left out.
    skew
        0: all experts are equally popular.

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


def parse_zipf(text: str, num_npus: int, size_bytes: int) -> Ints:
    """The traffic that `zipf`, `zipf:1.2` or `zipf:skew=1.2,token=14336,seed=3` describes.

    Parameters
    ----------
    num_npus, size_bytes
        As for `zipf_parts`.

    Raises
    ------
    ConfigError
        If it is no such description, or what `zipf_parts` refuses.
    """
    _, _, rest = text.partition(":")
    fields: dict[str, str] = {}
    for number, part in enumerate(rest.split(",") if rest else ()):
        name, has_name, value = part.partition("=")
        name, value = (name.strip(), value) if has_name else ("skew" if number == 0 else "", name)
        if name not in _KEYS or name in fields:
            raise ConfigError(
                f"{quoted(text)}: found {quoted(part)}, expected {', '.join(f'{key}=...' for key in _KEYS)}, each once"
            )
        fields[name] = value.strip()
    skew = parse_decimal(fields.get("skew", "1"))
    seed = parse_whole(fields.get("seed", "0"))
    if skew is None:
        raise ConfigError(f"{quoted(text)}: skew is {quoted(fields['skew'])}, expected a number")
    if seed is None or seed < 0:
        raise ConfigError(f"{quoted(text)}: seed is {quoted(fields['seed'])}, expected a whole number, 0 or more")
    token = parse_size(fields["token"], f"{quoted(text)}: token") if "token" in fields else min(_TOKEN_BYTES, size_bytes)
    return zipf_parts(num_npus, size_bytes, float(skew), token, seed)


MOST_PARTS = 1 << 24


def all_to_allv(part_bytes: Ints, chunks_per_npu: int = 1) -> Collective:
    """All-to-All of unequal parts, the largest of which is cut into `chunks_per_npu` chunks.

    Other parts are cut into as many chunks as they need for none to be larger than those. Chunks of a part are of almost equal
    size, and whole multiples of the greatest common divisor of all parts, such as a token. An NPU's part for itself stays where
    it is. Chunks of an NPU follow one another, by their targets.

    Parameters
    ----------
    part_bytes
        int64[num_npus, num_npus], bytes that each NPU (row) has for each NPU (column); 0 for nothing.

    Raises
    ------
    ConfigError
        If this is no square matrix of sizes, no NPU has anything for another, or the largest part has fewer bytes than chunks.
    """
    parts = check_parts(part_bytes)
    num_npus = len(parts)
    sent = parts.copy()
    np.fill_diagonal(sent, 0)
    largest, size_bytes = int(sent.max()), int(parts.sum(axis=1).max())
    if not largest:
        raise ConfigError("all-to-allv: found no bytes from an NPU to another, expected some")
    check_size("all-to-allv", num_npus, largest, chunks_per_npu, chunks_per_npu)
    src, dst = np.nonzero(sent)
    size = sent[src, dst]
    unit = int(np.gcd.reduce(size))
    if largest // unit < chunks_per_npu:
        unit = 1
    most = -(-(largest // unit) // chunks_per_npu)  # units of a chunk
    units = size // unit
    count = -(-units // most)
    which = np.repeat(np.arange(len(size)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    chunk_bytes = (units[which] // count[which] + (place < units[which] % count[which])) * unit
    return of_chunks(parts, size_bytes, chunks_per_npu, chunk_bytes, src[which], dst[which])


def of_chunks(
    part_bytes: Ints,
    size_bytes: int,
    chunks_per_npu: int,
    chunk_bytes: Ints,
    owner: NDArray[np.integer],
    target: NDArray[np.integer],
) -> Collective:
    """The same of given chunks, which the oracle checks: those of every pair add up to its part.

    Parameters
    ----------
    part_bytes
        As for `all_to_allv`.
    chunk_bytes, owner, target
        int[num_chunks], sizes and ends of the chunks.
    """
    return Collective(
        "all-to-allv",
        len(part_bytes),
        size_bytes,
        chunks_per_npu,
        False,
        False,
        chunk_bytes.astype(np.int64),
        owner.astype(np.int32),
        None,
        target.astype(np.int32),
        part_bytes=part_bytes,
    )


def check_parts(part_bytes: Ints) -> Ints:
    """The matrix as int64, checked.

    Raises
    ------
    ConfigError
        If it is no square matrix of sizes from 0 on, or an NPU's sizes add up to too much.
    """
    parts = np.asarray(part_bytes)
    if parts.ndim != 2 or parts.shape[0] != parts.shape[1] or not 2 <= len(parts) <= MOST_PARTS >> 12:
        raise ConfigError(f"all-to-allv: found sizes {list(parts.shape)}, expected as many rows as columns, 2 or more")
    if not np.issubdtype(parts.dtype, np.integer):
        raise ConfigError(f"all-to-allv: found sizes of type {parts.dtype}, expected whole numbers of bytes")
    if int(parts.min()) < 0:
        row, column = (int(at) for at in np.argwhere(parts < 0)[0])
        raise ConfigError(f"all-to-allv: found {parts[row, column]} bytes from NPU {row} to NPU {column}, expected 0 or more")
    total = parts.astype(np.float64)
    if float(max(total.sum(axis=0).max(), total.sum(axis=1).max())) > MAX_SIZE_BYTES:
        raise ConfigError(f"all-to-allv: an NPU sends or receives more than {MAX_SIZE_BYTES} bytes, expected at most so many")
    return parts.astype(np.int64)
