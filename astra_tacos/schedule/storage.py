"""Schedules on disk: one `.npz` that holds the sends, the topology's links and the collective."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.config.network import MAX_NPUS, Dimension
from astra_tacos.errors import ConfigError
from astra_tacos.files import replaced_file
from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LINK_MODELS, Timing, compute_timing
from astra_tacos.topology.topology import Topology

FORMAT = "astra_tacos schedule 1"
_SENDS = {"chunk": np.int32, "channel": np.int32, "reduces": np.bool_, "start_ns": np.int64, "end_ns": np.int64}
LINKS = {
    "link_src": np.int32,
    "link_dst": np.int32,
    "link_bandwidth_gibps": np.float64,
    "link_latency_ns": np.float64,
    "link_dimension": np.int16,
}


def save_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule, with everything needed to read it back, through a temporary file beside it."""
    header = describe(schedule, FORMAT)
    arrays: dict[str, NDArray[Any]] = {name: getattr(schedule, name) for name in _SENDS}
    arrays |= {name: getattr(schedule.topology, name) for name in LINKS}
    with replaced_file(Path(path)) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]


def load_schedule(path: str | Path) -> Schedule:
    """Read a schedule. Its sends are taken as they are: whether they are legal is for `verify` to say.

    Raises
    ------
    ConfigError
        If the file is not a schedule, or its parts do not fit one another.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            if header.get("format") != FORMAT:
                raise ConfigError(f"{path}: format is {header.get('format')!r}, expected {FORMAT!r}")
            arrays = {name: column(archive[name], kind, name) for name, kind in {**_SENDS, **LINKS}.items()}
        topology, collective, timing = restore(header, arrays)
        synthesizer, seed = str(header["synthesizer"]), int(header["seed"])
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        detail = "" if "allow_pickle" in str(error) else f" ({' '.join(str(error).split())})"
        raise ConfigError(f"{path}: not a schedule of astra_tacos{detail}") from None
    if len({len(arrays[name]) for name in _SENDS}) != 1:
        raise ConfigError(f"{path}: the columns of its sends differ in length")
    sends = {name: arrays[name] for name in _SENDS}
    return Schedule(topology, collective, timing, **sends, synthesizer=synthesizer, seed=seed)


def describe(schedule: Schedule | LockstepSchedule, file_format: str) -> dict[str, Any]:
    """What a schedule refers to, but for its links: the header of its file, ready for JSON."""
    topology, collective = schedule.topology, schedule.collective
    return {
        "format": file_format,
        "network": topology.name,
        "num_npus": topology.num_npus,
        "num_switches": topology.num_switches,
        "dimensions": [[d.block, d.size, d.bandwidth_gibps, d.latency_ns] for d in topology.dimensions],
        "collective": collective.name,
        "size_bytes": collective.size_bytes,
        "chunks_per_npu": collective.chunks_per_npu,
        "root": collective.root,
        "members": None if collective.members is None else collective.members.tolist(),
        "link_model": schedule.timing.link_model,
        "reduce_bandwidth_gbps": schedule.timing.reduce_bandwidth_gbps,
        "synthesizer": schedule.synthesizer,
        "seed": schedule.seed,
    }


def restore(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[Topology, Collective, Timing]:
    """What `describe` described, with the columns `LINKS`.

    Raises
    ------
    KeyError, ValueError, TypeError, ...
        If header and columns are no such thing.
    """
    topology = _topology(header, arrays)
    collective = _collective(header)
    return topology, collective, _timing(header, topology, collective)


def column(array: NDArray[Any], kind: type, name: str) -> NDArray[Any]:
    """A column of a file, if it is one-dimensional and of its type, else ValueError."""
    if array.ndim != 1 or array.dtype != np.dtype(kind):
        raise ValueError(f"{name} is {array.ndim}-dimensional {array.dtype}, expected a column of {np.dtype(kind)}")
    return array


def _topology(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Topology:
    num_npus, num_switches = int(header["num_npus"]), int(header["num_switches"])
    links = [arrays[name] for name in LINKS]
    if not 1 < num_npus <= MAX_NPUS or not 0 <= num_switches <= num_npus * 64:
        raise ValueError(f"{num_npus} NPUs and {num_switches} switches")
    if len({len(column) for column in links}) != 1 or not len(links[0]):
        raise ValueError("the columns of its links differ in length or are empty")
    for ends in links[:2]:
        if ends.min() < 0 or ends.max() >= num_npus + num_switches:
            raise ValueError("a link leads to no device")
    if not (np.all(np.isfinite(links[2])) and links[2].min() > 0 and np.all(np.isfinite(links[3])) and links[3].min() >= 0):
        raise ValueError("a link has no valid bandwidth or latency")
    dimensions = tuple(Dimension(str(b), int(n), float(w), float(a)) for b, n, w, a in header["dimensions"])
    if dimensions and not (links[4].min() >= 0 and links[4].max() < len(dimensions)):
        raise ValueError("a link belongs to no dimension")
    columns = {name: arrays[name] for name in LINKS}
    return Topology(str(header["network"]), num_npus, num_switches, **columns, dimensions=dimensions)


def _collective(header: dict[str, Any]) -> Collective:
    name = header["collective"]
    if name not in COLLECTIVES:
        raise ValueError(f"collective {name!r}")
    root = header.get("root")
    sizes = int(header["num_npus"]), int(header["size_bytes"]), int(header["chunks_per_npu"])
    members = header.get("members")
    if members is not None:
        members = [int(member) for member in members]
    return make_collective(name, *sizes, None if root is None else int(root), members)


def _timing(header: dict[str, Any], topology: Topology, collective: Collective) -> Timing:
    if header["link_model"] not in LINK_MODELS:
        raise ValueError(f"link model {header['link_model']!r}")
    return compute_timing(topology, collective, header["link_model"], float(header["reduce_bandwidth_gbps"]))
