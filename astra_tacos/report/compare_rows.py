"""Rows of a comparison of synthesizers: one per size and synthesizer, whether it could do it or not."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class CompareRow:
    """What one synthesizer made of a collective of one size; figures are None where it refused.

    Parameters
    ----------
    network, topology, num_npus, collective, root
        What was asked for, the network by name and by shape.
    size_bytes
        What a workload node calls `comm_size`.
    synthesizer, link_model, reduce_bandwidth_gbps
        The synthesizer asked for, and the timing model.
    made_by, seed
        Where the schedule came from; `made_by` differs from `synthesizer` for `auto`.
    chunks_per_npu, num_chunks, num_sends
        The schedule's.
    time_ns, bound_ns, bound, efficiency
        Predicted time; the lower bound for these chunks, which argument gives it, and how near the time is to it.
    algorithm_bandwidth_gbps, bus_bandwidth_gbps
        Decimal GB/s, as nccl-tests defines them.
    is_best
        Whether no other synthesizer was faster at this size.
    candidates, candidates_tried, cut_off_by_budget
        How thorough the search was.
    seconds
        Wall time of the search.
    verified
        Whether the oracle and the replay were asked; what they object to is no row.
    refusal
        Why there is no schedule, empty where there is one.
    """

    network: str
    topology: str
    num_npus: int
    collective: str
    root: int | None
    size_bytes: int
    synthesizer: str
    link_model: str | None = None
    reduce_bandwidth_gbps: float | None = None
    made_by: str | None = None
    seed: int | None = None
    chunks_per_npu: int | None = None
    num_chunks: int | None = None
    num_sends: int | None = None
    time_ns: int | None = None
    bound_ns: int | None = None
    bound: str | None = None
    efficiency: float | None = None
    algorithm_bandwidth_gbps: float | None = None
    bus_bandwidth_gbps: float | None = None
    is_best: bool | None = None
    candidates: int | None = None
    candidates_tried: int | None = None
    cut_off_by_budget: bool | None = None
    seconds: float | None = None
    verified: bool | None = None
    refusal: str = ""


COLUMNS = tuple(field.name for field in fields(CompareRow))


def write_csv(rows: Iterable[CompareRow], file: TextIO) -> None:
    """One line per row under the names of its fields, empty where there is nothing to say."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_text(getattr(row, name)) for name in COLUMNS])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def best_bound_ns(rows: Iterable[CompareRow]) -> dict[int, int]:
    """By size, the least of the bounds of all schedules: none of these chunk counts allows a faster one."""
    least: dict[int, int] = {}
    for row in rows:
        if row.bound_ns is not None:
            least[row.size_bytes] = min(row.bound_ns, least.get(row.size_bytes, row.bound_ns))
    return least
