"""`result.json` beside a schedule: what its page shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

import msgspec

from astra_tacos.pages.prints import PrintsFile
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.own_files import Number, Whole, decoded

_Algorithms = Annotated[list[str], msgspec.Meta(min_length=1)]


class LinkShare(TypedDict):
    """A link in words, and the share of the time for which it is busy."""

    link: str
    busy_share: Number


_NativeKeys = TypedDict(
    "_NativeKeys",
    {
        "all-reduce-implementation": NotRequired[_Algorithms],
        "all-gather-implementation": NotRequired[_Algorithms],
        "reduce-scatter-implementation": NotRequired[_Algorithms],
        "all-to-all-implementation": NotRequired[_Algorithms],
        "preferred-dataset-splits": Whole,
        "active-chunks-per-dimension": Whole,
        "collective-optimization": NotRequired[str],
        "scheduling-policy": NotRequired[str],
    },
)


class NativeFile(TypedDict):
    """The best native algorithm."""

    system: _NativeKeys


class NativeSearchFile(TypedDict):
    """How the best native algorithm was looked for."""

    tried: Whole
    space: str
    refusal: str | None


class SearchFile(TypedDict):
    """Extent of the search."""

    candidates: Whole
    candidates_tried: Whole
    cut_off_by_budget: bool
    cut_off_by_time_limit: bool
    more_may_help: NotRequired[bool]
    refusals: dict[str, str]


class CertificateFile(TypedDict):
    """The figures of a schedule, of this release and of those before."""

    network: str
    topology: str
    num_npus: Whole
    num_links: Whole
    collective: str
    size_bytes: Whole
    asked_bytes: NotRequired[Whole]
    chunks_per_npu: Whole
    root: Whole | None
    num_chunks: Whole
    chunk_bytes: Annotated[list[Whole], msgspec.Meta(min_length=1)]
    synthesizer: str
    seed: int
    link_model: str
    link_model_reason: NotRequired[str | None]
    num_sends: Whole
    num_messages: NotRequired[Whole]
    predicted_ns: Whole
    time_ns: Number
    bounds_ns: dict[str, Number]
    bound_ns: Number | None
    bound: str | None
    bound_where: str | None
    bound_links: NotRequired[list[str] | None]
    chunked_bound_ns: Number | None
    chunked_bound: str | None
    chunked_bound_where: str | None
    efficiency: Number | None
    optimal: bool
    algorithm_bandwidth_gbps: Number
    bus_bandwidth_gbps: Number
    busiest_link: LinkShare
    idlest_link: LinkShare
    backend: NotRequired[str]
    verified: NotRequired[bool]
    best_native_ns: NotRequired[Number | None]
    best_native: NotRequired[NativeFile | None]
    native_search: NotRequired[NativeSearchFile | None]
    prints: NotRequired[list[PrintsFile]]
    search: NotRequired[SearchFile]


def read_certificate(path: Path, schedule: Schedule) -> CertificateFile:
    """The figures in `result.json`, if they are a certificate, and this schedule's.

    Raises
    ------
    ConfigError
        If not.
    """
    content = read_json_object(path)
    if "time_ns" not in content:  # releases before this key
        content["time_ns"] = content.get("exact_ns", content.get("predicted_ns"))
    result = decoded(content, CertificateFile, path, "synthesize --output")
    known: list[tuple[str, object, object]] = [
        ("num_sends", result["num_sends"], schedule.num_sends),
        ("predicted_ns", result["predicted_ns"], max(schedule.collective_time_ns, 1)),
        ("collective", result["collective"], schedule.collective.name),
        ("num_npus", result["num_npus"], schedule.topology.num_endpoints),
    ]
    for name, value, expected in known:
        if value != expected:
            raise ConfigError(f"{path}: {name} is {value}, the schedule beside it has {expected}: they belong to different runs")
    native = result.get("best_native")
    if native is not None and not any(key.endswith("-implementation") for key in native["system"]):
        raise ConfigError(
            f"{path}: best_native names no algorithm, expected one algorithm per dimension: synthesize the schedule again"
        )
    if "prints" in result and "backend" not in result:
        raise ConfigError(f"{path}: has prints but no backend, expected the backend of that time: synthesize the schedule again")
    return result
