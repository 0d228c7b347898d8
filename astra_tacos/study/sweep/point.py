"""A point of a sweep, and its outcome.

A point is a network, a task to run on it, and the columns of its row that are known before it runs. The outcome is the part of
the row that is known after it ran.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from typing import Any

from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.support.installation import package_version
from astra_tacos.support.plugins import Plugin, loaded_plugins
from astra_tacos.support.records import Keyed
from astra_tacos.synthesizer.search.search_options import SearchOptions

OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED = "ok", "refused", "error", "timeout", "out-of-memory", "died"
STATUSES = (OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
FAILED = (ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
"""Statuses of points that failed. "refused" is not among them: that a synthesizer cannot do something is a result."""
RESULT_COLUMNS: dict[str, str] = {
    "time_ns": "float",
    "predicted_ns": "float",
    "stock_ns": "int",
    "congested_ns": "int",
    "packets_ns": "int",
    "best_native_ns": "float",
    "bound_ns": "int",
    "bound": "str",
    "chunked_bound_ns": "int",
    "efficiency": "float",
    "optimal": "bool",
    "algorithm_bandwidth_gbps": "float",
    "bus_bandwidth_gbps": "float",
    "num_sends": "int",
    "made_by": "str",
    "made_chunks_per_npu": "int",
    "made_seed": "int",
    "made_link_model": "str",
    "verified": "bool",
    "before_ns": "int",
    "speed_up": "float",
    "exposed_before_ns": "int",
    "exposed_ns": "int",
    "num_collectives": "int",
    "num_cases": "int",
    "comm_cores": "int",
    "comm_memory_gbps": "float",
    "driven_gbps": "float",
    "time_cost": "float",
    "synthesis_seconds": "float",
    "seconds": "float",
}
"""Columns of results in order, with their types; a column is null where a point has no such result."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Limits and options with which points are computed; they are no part of the points' keys.

    Parameters
    ----------
    timeout_s, memory_bytes
        Largest number of seconds for a point, and of bytes of resident memory for its process. None: no limit.
    cache
        Absolute path of a directory of schedules that sweeps share; None for no cache.
    plugins
        What the process of a point loads first; the keys of points have their identities.
    """

    timeout_s: float | None = None
    memory_bytes: int | None = None
    with_checks: bool = True
    cache: str | None = None
    plugins: tuple[Plugin, ...] = field(default_factory=loaded_plugins)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a point.

    Parameters
    ----------
    status
        One of `STATUSES`.
    error
        One line that says why there is no result; None for "ok".
    results
        Values of some of `RESULT_COLUMNS`, by name.
    warnings
        Warnings that were logged during the computation; they are no part of the row.
    """

    status: str
    error: str | None
    results: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def to_row(self) -> dict[str, Any]:
        """The fields that are stored, by name: all but the warnings."""
        return {"status": self.status, "error": self.error, "results": self.results}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Outcome:
        """The outcome from which `to_row` made these values.

        Raises
        ------
        ValueError
            If the values are no outcome, as when a file is incomplete or was changed.
        """
        try:
            status, error, results = row["status"], row["error"], row["results"]
            is_one = status in STATUSES and (error is None) == (status == OK) and fits(error, "str")
            is_one &= all(fits(value, RESULT_COLUMNS[name]) for name, value in results.items())
        except (KeyError, TypeError, AttributeError):
            is_one = False
        if not is_one:
            raise ValueError("no outcome of a point")
        return cls(status, error, results)


def fits(value: object, kind: str) -> bool:
    """Whether a column of this kind ("int", "float", "bool" or "str") can hold the value; every column can hold None."""
    if value is None:
        return True
    if kind in ("int", "float"):
        is_number = isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
        return is_number and (isinstance(value, float) or abs(value) < 1 << 63)  # type: ignore[arg-type]
    return isinstance(value, bool if kind == "bool" else str)


ROW_FORMAT = "astra_tacos sweep 2"
"""Format of the rows. Whoever changes the meaning of a column changes this text, and thereby every key."""
OLD_FORMAT = "astra_tacos sweep 1"
"""Format of rows of the release before, whose times were truncated, and on a model that depended on the network."""
COLLECTIVE, WORKLOAD = "collective", "workload"
BEST_PLACEMENT = "best"
"""What a point asks for whose ranks are placed as `plan --place` does."""
INPUT_COLUMNS: dict[str, str] = {
    "kind": "str",
    "network": "str",
    "topology": "str",
    "num_npus": "int",
    "num_links": "int",
    "link_bandwidth_gibps": "floats",
    "latency_ns": "floats",
    "bandwidth_per_npu_gbps": "floats",
    "total_bandwidth_gbps": "float",
    "cost": "float",
    "failed_links": "int",
    "failed_fraction": "float",
    "failed_seed": "int",
    "collective": "str",
    "root": "int",
    "size_bytes": "int",
    "synthesizer": "str",
    "chunks_per_npu": "int",
    "trials": "int",
    "seed": "int",
    "effort": "str",
    "budget_sends": "int",
    "link_model": "str",
    "reduce_bandwidth_gbps": "float",
    "workload": "str",
    "baseline": "str",
    "placement": "str",
    "endpoint": "str",
    "backend": "str",
}
"""Columns of every row that are known before a point runs, in order, with their types; all but the first two may be null."""


@dataclass(frozen=True, slots=True)
class CollectiveTask:
    """A collective to synthesize, with the options of `astra-tacos synthesize`.

    `backend` is the name of the clock, resolved: points with equal clocks have equal keys.
    """

    collective: str
    root: int | None
    size_bytes: int
    options: SearchOptions
    backend: str = CONGESTION_AWARE.name


@dataclass(frozen=True, slots=True)
class WorkloadTask:
    """A training run to plan and replay, with the options of `astra-tacos plan`.

    Parameters
    ----------
    backend, baseline
        The arguments of `plan` with these names; the backend is resolved.
    workload, system, comm_group, remote_memory, directory
        Absolute paths: prefix of the trace files, system file, communicator group file, remote memory file, and the directory
        in which ASTRA-sim is started.
    digest
        SHA-256 over the content of all these files and of the traces that the system file names.
    placement
        Where ranks are: a matrix as in `generate --placement`, or `BEST_PLACEMENT`; None for where they are in the files.
    endpoint
        What drives communication, as `parse_endpoint` reads it; None for the run as it is.
    """

    workload: str
    system: str
    comm_group: str | None
    remote_memory: str | None
    directory: str
    backend: str
    baseline: str | None
    options: SearchOptions
    digest: str
    placement: str | None = None
    endpoint: str | None = None


_PATHS = frozenset({"workload", "system", "comm_group", "remote_memory", "directory"})
"""Fields that are not part of the key, because the digest identifies the content of the files."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep, resolved.

    Parameters
    ----------
    index
        Number of the point in the sweep, from 0.
    network
        The network as it is built, with its links read and its failed links drawn.
    inputs
        Values of `INPUT_COLUMNS` and of the columns of other axes and definitions, by name.
    error
        Why the point cannot run, if that was found while the sweep file was read; its row has the status "error".
    """

    index: int
    network: NetworkConfig
    task: CollectiveTask | WorkloadTask
    inputs: dict[str, Any]
    error: str | None = None

    @property
    def kind(self) -> str:
        """`COLLECTIVE` or `WORKLOAD`."""
        return COLLECTIVE if isinstance(self.task, CollectiveTask) else WORKLOAD

    @property
    def key(self) -> str:
        """SHA-256, in hexadecimal, of everything that the result depends on; points with equal keys share one result.

        Names, such as that of the network file, are not part of it.
        """
        task = {name: getattr(self.task, name) for name in self.task.__slots__ if name not in _PATHS}
        task["options"] = self.task.options.identity()
        # By identity: comparing thousands of links would take longer than everything else.
        network = Keyed((id(self.network),), self.network)
        identity = [ROW_FORMAT, package_version(), _network_digest(network), self.kind, task]
        identity += [plugin.identity for plugin in loaded_plugins()]
        return _digest(identity)


@lru_cache(maxsize=1024)
def _network_digest(keyed: Keyed[NetworkConfig]) -> str:
    network = keyed.value
    identity = {
        "dimensions": [[d.block, d.size, d.bandwidth_gibps, d.latency_ns] for d in network.dimensions],
        "links": [_link(link) for link in network.links],
        "failed_links": network.failed_links,
        "link_overrides": [_link(link) for link in network.link_overrides],
        "forwarding": [[device.kind, device.name] for device in network.forwarding],
        "reducing": [astuple(device) for device in network.reducing],
    }
    return _digest(identity)


def _link(link: LinkSpec) -> list[float | None]:
    return [link.src, link.dst, link.bandwidth_gibps, link.latency_ns]


def _digest(content: object) -> str:
    return hashlib.sha256(_ENCODER.encode(content).encode()).hexdigest()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
