"""The `EndpointChoice` class: an endpoint as one text, such as `host:cores=64,comm-cores=6,comm-memory=450`."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tacos.planner.endpoint.npu import Mode, Npu, Partition
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import parse_decimal

_NPU = {"cores": "cores", "core-bandwidth": "core_gbps", "memory": "memory_gbps", "peak": "peak_tflops"}
"""Options of an NPU, and the fields of `Npu` that they set."""
_PARTITION = ("comm-cores", "comm-memory")
EXPECTED = (
    "host, ace or ideal, after a colon with cores, core-bandwidth, memory, peak, comm-cores or comm-memory, like ace:memory=1200"
)


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Who drives communication, on which NPUs.

    Parameters
    ----------
    mode, npu
        Who drives, and the NPU.
    partition
        What communication takes of the NPU; None for the best that is tried.
    """

    mode: Mode
    npu: Npu
    partition: Partition | None = None


def parse_endpoint(text: str) -> EndpointChoice:
    """The endpoint of a text: a mode, and after a colon any options `name=number`, with commas between them.

    `cores`, `core-bandwidth` (10**9 bytes per second), `memory` (the same) and `peak` (10**12 operations per second) are those of
    the NPU; `comm-cores` and `comm-memory` are what communication takes. An engine takes no cores, and an ideal endpoint nothing.

    Raises
    ------
    ConfigError
        If it is none.
    """
    name, _, rest = text.partition(":")
    if name not in tuple(Mode) or (":" in text and not rest):
        raise ConfigError(f"endpoint: found {text[:60]!r}, expected {EXPECTED}")
    mode = Mode(name)
    given: dict[str, float] = {}
    for part in rest.split(",") if rest else ():
        option, _, value = part.partition("=")
        if option not in (*_NPU, *_PARTITION) or option in given:
            raise ConfigError(
                f"endpoint: found {part[:60]!r}, expected {', '.join((*_NPU, *_PARTITION))}, each once, with a number"
            )
        given[option] = _number(option, value)
    npu = Npu(**{field: given[option] for option, field in _NPU.items() if option in given})  # type: ignore[arg-type]
    return EndpointChoice(mode, npu, _partition(mode, npu, given))


def _number(option: str, value: str) -> float:
    is_count = option in ("cores", "comm-cores")
    number = parse_decimal(value)
    if number is None or (is_count and not number.is_integer()):
        raise ConfigError(f"endpoint: {option}: found {value[:40]!r}, expected a {'whole ' if is_count else ''}number")
    return int(number) if is_count else number


def _partition(mode: Mode, npu: Npu, given: dict[str, float]) -> Partition | None:
    needed = {Mode.HOST: _PARTITION, Mode.ACE: _PARTITION[1:], Mode.IDEAL: ()}[mode]
    found = tuple(option for option in _PARTITION if option in given)
    if found and found != needed:
        both = " and ".join(needed) or "neither comm-cores nor comm-memory"
        raise ConfigError(
            f"endpoint: found {' and '.join(found)}, expected {both} for {mode}, or none for the best that is tried"
        )
    if not found:
        return None
    partition = Partition(int(given.get("comm-cores", 0)), float(given["comm-memory"]))
    npu.check(partition, mode)
    return partition
