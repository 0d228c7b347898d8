"""Readers of LIBRA's files (ISPASS 2024): network, communicator, cost model and workload; unknown keys and types are refused.

A workload is the text of ASTRA-sim 1.0: one line per layer with twelve columns: name, reserved, then compute (ns), collective and
bytes of the forward pass, of the gradient of the input and of that of the weights, and the time of the update.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from astra_tacos.network.blocks import ASTRA_SIM_BLOCKS, building_block
from astra_tacos.network.network_config import MAX_NPUS, OF_DIMENSIONS, DimensionSize, check_block_names
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.study.optimizer.model import Demand, Job, Profile, Shape
from astra_tacos.support.documents import Value, filled, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.values import describe
from astra_tacos.workload.importer.layers import NONE, PATTERNS, PHASES, read_lines, read_row

NOT_INVOLVED = -1
"""LIBRA's number of members for a dimension that a collective does not use."""
_LINK, _SWITCH_PORT, _NIC = _PART_KEYS = ("Link", "Switch", "Nic")
_TIERS = "CostDimension"
_MAX_PRICE = 1e12
"""Dollars per GB/s: costs stay finite."""
_Members = Annotated[list[Annotated[int, Meta(ge=NOT_INVOLVED, description="a number of members, or -1")]], OF_DIMENSIONS]
_Tiers = Annotated[list[Annotated[str, filled("the name of a tier")]], OF_DIMENSIONS]
_Price = Annotated[float, Meta(ge=0, le=_MAX_PRICE, description="dollars per GB/s, 0 or more")]


class _Network(Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    topology: Annotated[list[Any], OF_DIMENSIONS]
    npus_count: Annotated[list[DimensionSize], OF_DIMENSIONS]
    cost_dimension: _Tiers | UnsetType = UNSET


class _Communicator(Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    forward: _Members
    input_grad: _Members
    weight_grad: _Members


class _Tier(Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    link: _Price | UnsetType = UNSET
    switch: _Price | UnsetType = UNSET
    nic: _Price | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CostModel:
    """Dollars per GB/s of the parts of each tier; `dimensions` is the tier of each dimension, if the file states it."""

    source: str
    tiers: Mapping[str, Mapping[str, float]]
    dimensions: tuple[str, ...] | None

    def prices(self, shape: Shape) -> tuple[float, ...]:
        """Dollars per GB/s of one NPU in each dimension.

        The sum is the price of a link and, if it leads to a switch, of a switch port, and of a NIC if the tier prices one.

        Raises
        ------
        ConfigError
            If the tier of a dimension is not known or not in the file, or lacks the price of a link or switch.
        """
        tiers = shape.tiers or self.dimensions
        if tiers is None:
            raise ConfigError(f"{self.source}: CostDimension is missing, expected the tier of each dimension of {shape.source}")
        if len(tiers) != shape.num_dimensions:
            raise ConfigError(
                f"{self.source}: CostDimension has {len(tiers)} entries, {shape.source} has {shape.num_dimensions} dimensions"
            )
        return tuple(self._price(*row) for row in zip(tiers, shape.blocks, shape.sizes, strict=True))

    def _price(self, tier: str, block: str, size: int) -> float:
        if tier not in self.tiers:
            raise ConfigError(
                f"{self.source}: the tier {tier} is missing, expected its prices; there are {', '.join(self.tiers)}"
            )
        parts = self.tiers[tier]
        has_ports = building_block(block).num_switches(size) > 0
        needed = (_LINK, _SWITCH_PORT) if has_ports else (_LINK,)
        for part in needed:
            if part not in parts:
                raise ConfigError(f"{self.source}: {tier}.{part} is missing, expected dollars per GB/s for a {block}")
        return sum(parts[part] for part in needed) + (parts.get(_NIC, 0.0) if has_ports else 0.0)


def read_libra_network(path: Path, latency_ns: float) -> Shape:
    """Read a LIBRA network. All links get `latency_ns`, as the format has no latencies.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    document = read_yaml(path)
    network = document.decoded(_Network)
    blocks, sizes = network.topology, network.npus_count
    check_block_names(document / "Topology", ASTRA_SIM_BLOCKS)
    _check_length(document / "NpusCount", len(blocks))
    if math.prod(sizes) > MAX_NPUS:
        count = f"{describe(math.prod(sizes))} NPUs"
        raise ConfigError(f"{document / 'NpusCount'} gives {count}, expected at most {MAX_NPUS:,}")
    tiers = None
    if network.cost_dimension is not UNSET:
        _check_length(document / _TIERS, len(blocks))
        tiers = _tiers(document / _TIERS)
    return Shape(str(path), tuple(blocks), tuple(sizes), (latency_ns,) * len(blocks), tiers)


def read_communicator(path: Path, shape: Shape) -> dict[str, tuple[int, ...]]:
    """For each of `PHASES`, the number of members of its communicator per dimension; 1 in dimensions that are not involved.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    document = read_yaml(path)
    document.decoded(_Communicator)
    members: dict[str, tuple[int, ...]] = {}
    for phase in PHASES:
        place = document / phase
        _check_length(place, shape.num_dimensions)
        for index, (entry, size) in enumerate(zip(place.content, shape.sizes, strict=True)):
            if not entry or entry > size:
                raise (place / index).unlike(f"1 to {size} members, or -1 for a dimension that takes no part")
            if entry > 0 and size % entry:
                raise (place / index).unlike(f"a divisor of the dimension's {size} NPUs")
        members[phase] = tuple(max(entry, 1) for entry in place.content)
    return members


def read_cost_model(path: Path) -> CostModel:
    """Read a cost model: `Link`, `Switch` and `Nic` of each tier.

    `CostDimension` names the tier of each dimension if the network file does not.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    document = read_yaml(path)
    tiers: dict[str, dict[str, float]] = {}
    for tier in document.content:
        place = document / tier
        if tier == _TIERS:
            continue
        if not _is_name(tier) or not place.content:
            raise place.unlike(f"a tier with {', '.join(_PART_KEYS)}")
        place.decoded(Annotated[_Tier, Meta(description=f"a tier with {', '.join(_PART_KEYS)}")])
        tiers[tier] = {part: float(price) for part, price in place.content.items()}
    return CostModel(str(path), tiers, _tiers(document / _TIERS) if _TIERS in document else None)


def _check_length(place: Value, length: int) -> None:
    if len(place.content) != length:
        raise ConfigError(
            f"{place} is a list of {len(place.content)}, expected a list of {length} entr{'ies' if length > 1 else 'y'}"
        )


def _tiers(place: Value) -> tuple[str, ...]:
    names = place.decoded(_Tiers)
    for index, name in enumerate(names):
        if not _is_name(name):
            raise (place / index).unlike("the name of a tier")
    return tuple(names)


def _is_name(text: str) -> bool:
    return text.isprintable() and bool(text)


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
    lines = read_lines(path)
    if not lines:
        raise ConfigError(f"{path}: no layers, expected a line for each")
    for number, fields in lines:
        where = f"{path}:{number}"
        row = read_row(where, fields)
        compute_ns += row.update_ns + sum(phase_ns for phase_ns, _, _ in row.phases)
        for phase, (_, name, size) in zip(PHASES, row.phases, strict=True):
            if name == NONE:
                continue
            if name not in PATTERNS:
                raise ConfigError(f"{where}: {phase} collective is {describe(name)}, expected {', '.join(PATTERNS)} or {NONE}")
            demand = Demand(PATTERN_KEYS[PATTERNS[name]], size, communicator[phase], strides[phase])
            if demand.num_npus == 1:
                free[phase] += 1
            elif size > 0:
                counts[demand] += 1
    notes = tuple(
        f"{number} collective{'s' * (number > 1)} of {phase} in groups of one NPU: free" for phase, number in free.items()
    )
    profile = Profile(0, shape.num_npus, float(compute_ns), tuple(counts.values()))
    return Job(str(path), tuple(counts), (profile,), notes)
