"""Configurations of ASTRA-sim's native collectives: what a system JSON can say to make a run faster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.config.system import BASELINE, COMM_KEYS, SystemConfig
from astra_tacos.run.run import NATIVE, Run


@dataclass(frozen=True, slots=True)
class NativeConfiguration:
    """The keys of a system JSON that decide how native collectives run.

    Parameters
    ----------
    algorithms
        One per dimension, by pattern in the order of `COMM_KEYS`.
    splits, active_chunks
        `preferred-dataset-splits` and `active-chunks-per-dimension`.
    optimization, policy
        `collective-optimization` and `scheduling-policy`.
    """

    algorithms: tuple[tuple[str, ...], ...]
    splits: int = 1
    active_chunks: int = 1
    optimization: str = BASELINE
    policy: str = "LIFO"

    def __str__(self) -> str:
        return self.describe(COMM_KEYS)

    def describe(self, patterns: tuple[str, ...]) -> str:
        """What it says of some patterns: `ring, direct; 4 splits`."""
        named = {key: names[:1] if len(set(names)) == 1 else names for key, names in zip(COMM_KEYS, self.algorithms, strict=True)}
        of_pattern = {key: ", ".join(names) for key, names in named.items() if key in patterns}
        alike = len(set(of_pattern.values())) == 1
        parts = [next(iter(of_pattern.values()))] if alike else [f"{key} {names}" for key, names in of_pattern.items()]
        parts += [self.optimization] if self.optimization != BASELINE else []
        if self.splits > 1:
            parts.append(f"{self.splits} splits, {self.active_chunks} active")
        return "; ".join([*parts, self.policy])

    def keys(self) -> dict[str, Any]:
        """Its keys in the system JSON."""
        return {
            **{f"{key}-implementation": list(names) for key, names in zip(COMM_KEYS, self.algorithms, strict=True)},
            "preferred-dataset-splits": self.splits,
            "active-chunks-per-dimension": self.active_chunks,
            "collective-optimization": self.optimization,
            "scheduling-policy": self.policy,
        }

    def system(self, system: SystemConfig) -> SystemConfig:
        """The system with these settings and no custom collectives; all else stays."""
        return replace(
            _without_custom(system),
            native=dict(zip(COMM_KEYS, self.algorithms, strict=True)),
            preferred_dataset_splits=self.splits,
            active_chunks_per_dimension=self.active_chunks,
            collective_optimization=self.optimization,
            scheduling_policy=self.policy,
        )

    def run(self, run: Run) -> Run:
        """The run with its collectives native in this configuration."""
        return native_run(run, self.system(run.system))


def native_run(run: Run, system: SystemConfig) -> Run:
    """The run on a system without custom collectives."""
    nothing = np.full_like(run.implementation, NATIVE)
    return replace(run, system=_without_custom(system), prefixes=(), collectives=(), implementation=nothing)


def configuration_of(run: Run) -> NativeConfiguration | None:
    """The configuration that a run has; None if it has custom collectives, or leaves open what native ones do.

    A dimension without an algorithm, as no collective of the run asks for one there, gets the last one that is named.
    """
    system = run.system
    if np.any(run.implementation != NATIVE) or not system.preferred_dataset_splits or not system.native:
        return None
    known = next(iter(system.native.values()))
    num_dims = max(1, len(run.network.dimensions))
    named = [system.native.get(key, known) for key in COMM_KEYS]
    algorithms = tuple((*names, *names[-1:] * (num_dims - len(names))) for names in named)
    optimization = system.collective_optimization or BASELINE
    return NativeConfiguration(
        algorithms, system.preferred_dataset_splits, system.active_chunks_per_dimension, optimization, system.scheduling_policy
    )


def _without_custom(system: SystemConfig) -> SystemConfig:
    return replace(system, custom={}, per_node={}, per_node_source=None)
