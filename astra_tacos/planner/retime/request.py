"""What `--schedule` asks for: policies with options, by their own names or by those of the systems that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.planner.request import SEARCH
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted

AS_IS = "as-is"
FIFO = "fifo"
"""No policy: collectives in the order in which they become ready."""


@dataclass(frozen=True, slots=True)
class System:
    """A published system."""

    source: str
    policies: str
    options: Mapping[str, tuple[str, str]]


_PARTITION = {"partition": ("split", "partition")}
_CAP = {"cap": ("fuse", "cap")}
_PIECES = {"pieces": ("pipeline", "pieces")}
SYSTEMS: dict[str, System] = {
    "wfbp": System("Poseidon, Zhang et al. 2017, arXiv:1706.03292 (wait-free backpropagation)", "", {}),
    "ddp": System(
        "PyTorch DDP, Li et al. 2020, arXiv:2006.15704", "fuse:cap=25MiB,first=1MiB", _CAP | {"first": ("fuse", "first")}
    ),
    "horovod": System("Horovod, Sergeev and Del Balso 2018, arXiv:1802.05799", "fuse:cap=64MB", _CAP),
    "gradientflow": System("GradientFlow, Sun et al. 2019, arXiv:1902.06855 (fusion only)", "fuse:cap=64MB", _CAP),
    "mgwfbp": System("MG-WFBP, Shi et al. 2019, arXiv:1811.11141", "fuse:rule=mgwfbp", {}),
    "p3": System("P3, Jayarajan et al. 2019, arXiv:1905.03960", "split:partition=200000,priority", _PARTITION),
    "tictac": System("TicTac, Hashemi et al. 2019, arXiv:1803.03288", "priority", {}),
    "bytescheduler": System(
        "ByteScheduler, Peng et al. 2019, SOSP",
        "split:partition=4MB,priority:credit=16MB",
        _PARTITION | {"credit": ("priority", "credit")},
    ),
    "pace": System("PACE, Bao et al. 2020, INFOCOM", "fuse:cap=25MiB,split:partition=4MiB,priority", _CAP | _PARTITION),
    "dear": System(
        "DeAR, Zhang et al. 2023, arXiv:2302.12445", "fuse:cap=25MB,decouple", _CAP | {"barrier": ("decouple", "barrier")}
    ),
    "lina": System("Lina, Li et al. 2023, USENIX ATC", "split:partition=4MB,of=both,priority:first=all-to-all", _PARTITION),
    "ooo-backprop": System("Out-of-order backpropagation, Oh et al. 2022, EuroSys", "reorder,priority", {}),
    "collective-matmul": System("Wang et al. 2023, ASPLOS", "pipeline:pieces=4", _PIECES),
    "coconet": System("CoCoNet, Jangda et al. 2022, arXiv:2105.05720", "pipeline:pieces=8", _PIECES),
    "t3": System("T3, Pati et al. 2024, arXiv:2401.16677", "pipeline:pieces=8", _PIECES),
    "centauri": System("Centauri, Chen et al. 2024, ASPLOS", "pipeline:pieces=4,priority", _PIECES),
}
"""Published systems by name. Kernels and transports are not modelled: only what is sent when, and in which parts."""


@dataclass(frozen=True, slots=True)
class Request:
    """A policy with a value for each of its options."""

    name: str
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        policy = POLICIES[self.name]
        given = [f"{key}={value}" for key, value in self.values if value != policy.options[key].default]
        return f"{self.name}:{','.join(given)}" if given else self.name


def describe(requests: tuple[Request, ...]) -> str:
    """`fuse:cap=1000,priority`; `fifo` for none: the run's collectives in the order in which they become ready."""
    return ",".join(map(str, requests)) or FIFO


def parse_schedule(text: str) -> tuple[Request, ...]:
    """The policies that a text asks for, in its order.

    Policies are separated by commas; options follow a colon and are separated by commas, too, as in
    `split:partition=1MB,of=both,priority`.

    Raises
    ------
    ConfigError
        If a policy, system or option is not known, or a value does not fit.
    """
    requests: list[Request] = []
    for name, options in _parts(text):
        if name in (AS_IS, SEARCH):
            raise ConfigError(
                f"schedule: found {name!r} in {quoted(text)}, expected it alone: it has no options and no other policies"
            )
        if name in SYSTEMS:
            requests += _of_system(name, options)
        elif name in POLICIES:
            requests.append(_request(name, options))
        else:
            known = ", ".join((AS_IS, SEARCH, FIFO, *POLICIES, *SYSTEMS))
            raise ConfigError(f"schedule: found {quoted(name)}, expected {known}")
    return tuple(requests)


def check_asked(text: str) -> None:
    """Check that a text asks for a schedule: `as-is`, `search` or policies.

    Raises
    ------
    ConfigError
        If it does not.
    """
    if text not in (AS_IS, SEARCH):
        parse_schedule(text)


def default_request(name: str, **values: Any) -> Request:
    """A policy with its defaults, but for the values given."""
    return Request(name, tuple((key, values.get(key, option.default)) for key, option in POLICIES[name].options.items()))


def _parts(text: str) -> list[tuple[str, dict[str, str]]]:
    parts: list[tuple[str, dict[str, str]]] = []
    for token in text.split(","):
        name, colon, rest = token.strip().partition(":")
        if not colon and "=" in name:
            if not parts:
                raise ConfigError(f"schedule: found {quoted(token.strip())}, expected a policy before its options")
            rest, name = name, ""
        if name:
            if name == FIFO:
                continue
            parts.append((name, {}))
        elif not rest:
            raise ConfigError(f"schedule: found {quoted(text)}, expected POLICY or POLICY:OPTION=VALUE, separated by commas")
        if rest:
            key, equals, value = rest.partition("=")
            if not equals or key in parts[-1][1]:
                raise ConfigError(f"schedule: {parts[-1][0]}: found {quoted(rest)}, expected OPTION=VALUE, each option once")
            parts[-1][1][key] = value
    return parts


def _request(name: str, given: Mapping[str, str]) -> Request:
    options = POLICIES[name].options
    for key in given:
        if key not in options:
            expected = " or ".join(options) or "none"
            raise ConfigError(f"schedule: {name}: found option {quoted(key)}, expected {expected}")
    values = {key: options[key].parse(value, f"schedule: {name}: {key}") for key, value in given.items()}
    return default_request(name, **values)


def _of_system(name: str, given: Mapping[str, str]) -> list[Request]:
    system = SYSTEMS[name]
    parts = _parts(system.policies) if system.policies else []
    for key, value in given.items():
        if key not in system.options:
            expected = " or ".join(system.options) or "none"
            raise ConfigError(f"schedule: {name}: found option {quoted(key)}, expected {expected}")
        policy, option = system.options[key]
        dict(parts)[policy][option] = value
    return [_request(policy, options) for policy, options in parts]
