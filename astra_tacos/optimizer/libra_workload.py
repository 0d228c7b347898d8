"""Reader of LIBRA's workload text: one line per layer, the format of ASTRA-sim 1.0.

Twelve columns: name, reserved, then compute (ns), collective and bytes of the forward pass, of the gradient of the input and of
that of the weights, and the time of the update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from astra_tacos.config.yaml_text import describe, read_text
from astra_tacos.errors import ConfigError
from astra_tacos.optimizer.demand import Demand
from astra_tacos.optimizer.job import Job, Profile
from astra_tacos.optimizer.libra_files import PHASES
from astra_tacos.optimizer.shape import Shape
from astra_tacos.units import MAX_SIZE_BYTES

PATTERNS = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
}
_NONE = "NONE"
_COLUMNS = 12


def read_libra_workload(path: Path, shape: Shape, communicator: Mapping[str, tuple[int, ...]]) -> Job:
    """Read a workload. The collectives of each phase run in the communicator of that phase.

    If a group takes only a part of a dimension, its members are neighbours in Forward and InputGrad (tensor parallelism), and as
    far apart as possible in WeightGrad (data parallelism), so that both fit into one dimension.

    Raises
    ------
    ConfigError
        One line that names the file, the line, what was found and what was expected.
    """
    strides = {
        phase: tuple(
            size // count if phase == "WeightGrad" and count > 1 else 1
            for size, count in zip(shape.sizes, communicator[phase], strict=True)
        )
        for phase in PHASES
    }
    compute_ns = 0
    counts: Counter[Demand] = Counter()
    free: Counter[str] = Counter()
    lines = [(number, text.split()) for number, text in enumerate(read_text(path).splitlines(), 1) if text.strip()]
    if not lines:
        raise ConfigError(f"{path}: no layers, expected a line of {_COLUMNS} columns for each")
    for number, fields in lines:
        where = f"{path}:{number}"
        if len(fields) != _COLUMNS:
            raise ConfigError(
                f"{where}: {len(fields)} columns, expected {_COLUMNS}: name, reserved, 3 x (ns, collective, bytes), ns"
            )
        compute_ns += _whole(where, "update time", fields[11])
        for phase, place in zip(PHASES, (2, 5, 8), strict=True):
            compute_ns += _whole(where, f"{phase} compute time", fields[place])
            name, size = fields[place + 1], _whole(where, f"{phase} bytes", fields[place + 2])
            if name == _NONE:
                continue
            if name not in PATTERNS:
                raise ConfigError(f"{where}: {phase} collective is {describe(name)}, expected {', '.join(PATTERNS)} or {_NONE}")
            demand = Demand(PATTERNS[name], size, communicator[phase], strides[phase])
            if demand.num_npus == 1:
                free[phase] += 1
            elif size > 0:
                counts[demand] += 1
    notes = tuple(
        f"{number} collective{'s' * (number > 1)} of {phase} in groups of one NPU: free" for phase, number in free.items()
    )
    profile = Profile(0, shape.num_npus, float(compute_ns), tuple(counts.values()))
    return Job(str(path), tuple(counts), (profile,), notes)


def _whole(where: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16) or int(text) > MAX_SIZE_BYTES:
        raise ConfigError(f"{where}: {name} is {describe(text)}, expected a whole number, 0 to 2**53")
    return int(text)
