"""The compute speed of an NPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from astra_tacos.support.argument_types import check_fields
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import BYTES_PER_GB
from astra_tacos.workload.generator.cost import Cost

_OPS_PER_TFLOP = 1e12
_US_PER_S = 1e6
_LONGEST_US = (1 << 53) / 1000
"""Longest duration, as ASTRA-sim's clock is exact up to 2**53 ns."""


@dataclass(frozen=True, slots=True)
class Device:
    """An NPU; by default an A100 of 80 GB (NVIDIA's data sheet: dense BF16, SXM).

    Parameters
    ----------
    peak_tflops, memory_gbps
        Peak performance in 10**12 operations per second, and memory bandwidth in 10**9 bytes per second.
    writes_durations
        Whether compute nodes have a duration in microseconds, instead of operations and bytes for ASTRA-sim's roofline.

    Raises
    ------
    ConfigError
        If a rate is not a number above 0.
    """

    peak_tflops: float = 312.0
    memory_gbps: float = 2039.0
    writes_durations: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for name, rate in (("peak-tflops", self.peak_tflops), ("memory-bandwidth", self.memory_gbps)):
            if not (math.isfinite(rate) and 0 < rate <= 1e300):
                raise ConfigError(f"{name}: found {rate}, expected a number above 0")

    @property
    def ops_per_us(self) -> float:
        """Operations that it does in a microsecond."""
        return self.peak_tflops * _OPS_PER_TFLOP / _US_PER_S

    def duration_us(self, cost: Cost) -> int:
        """Duration in microseconds by the roofline model (Williams et al. 2009), rounded; ASTRA-sim takes 1 ns for 0."""
        seconds = max(cost.num_ops / (self.peak_tflops * _OPS_PER_TFLOP), cost.num_bytes / (self.memory_gbps * BYTES_PER_GB))
        if seconds * _US_PER_S > _LONGEST_US:
            raise ConfigError(f"a computation takes {seconds:.3g} s, expected less than ASTRA-sim's clock counts: 2**53 ns")
        return round(seconds * _US_PER_S)
