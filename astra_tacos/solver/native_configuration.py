"""Configurations of ASTRA-sim's native collectives: what a system JSON can say to make a run faster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import BASELINE, COMM_KEYS, SystemConfig

_IN_GROUPS = "ring"
"""What a group of some ranks runs if the system names several algorithms (`CommunicatorGroup.cc`)."""


@dataclass(frozen=True, slots=True)
class NativeConfiguration:
    """The keys of a system JSON that decide how native collectives run.

    Parameters
    ----------
    algorithms
        One per dimension, by pattern in the order of `COMM_KEYS`; one alone where only groups of some ranks run the pattern, each
        of which is one dimension: with longer lists, ASTRA-sim runs `ring` in them.
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

    def keys(self, patterns: Collection[str] = COMM_KEYS) -> dict[str, Any]:
        """Its keys in the system JSON, with the algorithms of some patterns."""
        named = zip(COMM_KEYS, self.algorithms, strict=True)
        return {
            **{f"{key}-implementation": list(names) for key, names in named if key in patterns},
            "preferred-dataset-splits": self.splits,
            "active-chunks-per-dimension": self.active_chunks,
            "collective-optimization": self.optimization,
            "scheduling-policy": self.policy,
        }

    def system(self, system: SystemConfig) -> SystemConfig:
        """The system with these settings; all else stays."""
        return system.with_keys(self.keys())

    def fitted(self, num_dims: int, in_groups: Collection[str]) -> NativeConfiguration:
        """The same with as many algorithms as each pattern needs.

        A dimension without an algorithm, as no collective of the run asks for one there, gets the last one that is named.

        Parameters
        ----------
        in_groups
            The patterns that only groups of some ranks run.
        """

        def fit(key: str, names: tuple[str, ...]) -> tuple[str, ...]:
            if key in in_groups:
                return names if len(names) == 1 else (_IN_GROUPS,)
            return (*names, *names[-1:] * (num_dims - len(names)))

        pairs = zip(COMM_KEYS, self.algorithms, strict=True)
        return replace(self, algorithms=tuple(fit(key, names) for key, names in pairs))

    def run(self, run: Run) -> Run:
        """The run with its collectives native in this configuration."""
        return native_run(run, self.system(run.system))


def native_run(run: Run, system: SystemConfig) -> Run:
    """The run on a system without custom collectives."""
    nothing = np.full_like(run.implementation, NATIVE)
    return replace(run, system=system.without_traces(), prefixes=(), collectives=(), implementation=nothing)


def configuration_of(run: Run) -> NativeConfiguration | None:
    """The configuration that a run has; None if it has custom collectives, or leaves open what native ones do.

    A pattern without algorithms, as the run does not have it, gets those of the first that has some.
    """
    system = run.system
    if np.any(run.implementation != NATIVE) or not system.preferred_dataset_splits or not system.native:
        return None
    known = next(iter(system.native.values()))
    return NativeConfiguration(
        tuple(system.native.get(key, known) for key in COMM_KEYS),
        system.preferred_dataset_splits,
        system.active_chunks_per_dimension,
        system.collective_optimization or BASELINE,
        system.scheduling_policy,
    )
