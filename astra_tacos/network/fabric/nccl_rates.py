"""What NCCL and RCCL count on where a topology file gives no bandwidth: decimal GB/s in each direction.

Source of all but XGMI: NCCL 2.30, `src/graph/topo.h` (NVLink, CPUs, devices of a package) and `src/graph/topo.cc` (PCIe, and
which constant holds for which device). Source of XGMI: RCCL's `src/graph/topo.h`. These are rates of data that NCCL reaches, and
lower than those of data sheets: 20.6 GB/s of an NVLink 4 of 25 GB/s.
"""

from __future__ import annotations

LOCAL_GBPS = 5000.0
"""Between parts of one device, as the ranks that share a GPU."""
PARTITIONS_GBPS = 2618.0
"""Between the two partitions of a GPU (`mlopart`)."""
PCIE_LANE_GBPS = {2.5: 0.1875, 5.0: 0.375, 8.0: 0.75, 16.0: 1.5, 32.0: 3.0, 64.0: 6.0}
"""Of one PCIe lane, by GT/s."""
FALLBACK_GT, FALLBACK_LANES = 8.0, 16
"""GT/s and lanes of a PCIe device where the file does not give them."""

_NVLINK_GBPS = ((100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0), (80, 20.0), (70, 20.0), (60, 18.0))
"""Of one NVLink, by the least `sm` for which the rate holds: 86 alone has 12."""
_XGMI_GBPS = {"906": 24.0, "908": 24.0, "910": 36.0, "90a": 36.0, "940": 48.0, "941": 48.0, "942": 48.0, "950": 48.0}
"""Of one XGMI link, by `gcn`. 910 is RCCL's number for gfx90a."""
_ARCHITECTURE_GBPS = {"ppc64": 32.0, "arm64": 6.0}
"""Between two CPUs of an architecture, whatever their vendor."""
_INTEL_FAMILY = 6
"""`familyid` of processors that `_INTEL_GBPS` has by model."""
_INTEL_GBPS = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0))
"""Between two CPUs of Intel's family 6, by the least `modelid`; CPUs of other families have the last."""
_AMD_GBPS = 16.0
"""Between sockets (`AMD_BW`)."""
_ZHAOXIN_GBPS = 6.0
"""Between sockets (`ZPI_BW`)."""
_YONGFENG, _YONGFENG_GBPS = (7, 0x5B), 9.0
"""Family and model of a CPU of Zhaoxin that has a rate of its own."""

LEAST_SM = _NVLINK_GBPS[-1][0]
XGMI_ARCHITECTURES = tuple(_XGMI_GBPS)


def nvlink_gbps(sm: int) -> float | None:
    """Of one NVLink of a GPU of this compute capability, or None for GPUs that are older than NVLink."""
    return next((rate for least, rate in _NVLINK_GBPS if sm >= least), None)


def xgmi_gbps(architecture: str) -> float | None:
    """Of one XGMI link of a GPU of this architecture, or None where RCCL knows none."""
    return _XGMI_GBPS.get(architecture)


def between_cpus_gbps(architecture: str, vendor: str, family: int, model: int) -> float | None:
    """Between this CPU and another one of its host, or None where NCCL knows no such CPU."""
    if architecture != "x86_64":
        return _ARCHITECTURE_GBPS.get(architecture)
    if vendor == "GenuineIntel":
        return next(rate for least, rate in _INTEL_GBPS if least == 0 or (family == _INTEL_FAMILY and model >= least))
    if vendor == "AuthenticAMD":
        return _AMD_GBPS
    if vendor in ("CentaurHauls", "  Shanghai  "):
        return _YONGFENG_GBPS if (family, model) == _YONGFENG else _ZHAOXIN_GBPS
    return None
