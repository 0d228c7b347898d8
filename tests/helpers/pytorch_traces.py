"""Traces as PyTorch writes them, small: host traces in both layouts, and Kineto traces with and without arguments of NCCL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def host_trace(
    calls: Sequence[tuple[str, int]], *, group_size: int = 2, old: bool = False, address: int = 4711
) -> dict[str, Any]:
    """A host trace with an operator and a collective for each (name, number of floats).

    Parameters
    ----------
    calls
        Names and sizes of collectives.
    group_size
        Number of ranks, which only the new layout says.
    old
        Whether the layout is that of schema 1.0.1.
    address
        Address of the communicator, which the old layout has in place of a name.
    """
    nodes = []
    for number, (name, count) in enumerate(calls):
        tensor = [10 + number, 20, 0, count, 4, "cuda:0"]
        entry = {"id": 3 * number + 2, "name": "record_param_comms"}
        rf_id = 3 * number + 1
        if old:
            inputs = [tensor, number, address, 0, name, [], []]
            nodes.append(
                entry | {"rf_id": rf_id, "parent": 1, "inputs": inputs, "input_types": ["Tensor(float)"], "op_schema": ""}
            )
            nodes.append({"id": 3 * number + 3, "name": "aten::add", "rf_id": rf_id + 1, "parent": 1, "inputs": [tensor]})
        else:
            attributes = {
                "rf_id": rf_id,
                "collective_name": name,
                "dtype": "Float",
                "in_msg_nelems": count,
                "pg_size": group_size,
            }
            inputs = {"values": [tensor, number, ["0", "default_pg"], 0, name], "types": ["Tensor(float)"]}
            attrs = [{"name": key, "value": value} for key, value in attributes.items()]
            nodes.append(entry | {"ctrl_deps": 1, "inputs": inputs, "attrs": attrs})
            attrs = [{"name": "rf_id", "value": rf_id + 1}]
            nodes.append({"id": 3 * number + 3, "name": "aten::add", "inputs": {"values": [tensor]}, "attrs": attrs})
    return {"schema": "1.0.1" if old else "1.1.1-chakra.0.0.4", "nodes": nodes}


@dataclass
class Kineto:
    """A Kineto trace, event by event; times are us, and each launch takes 1 us."""

    rank: int | None = None
    world_size: int | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0

    def operation(self, name: str, launch: float, begin: float, us: float, stream: int = 7, **args: object) -> None:
        """Something on a stream, with its launch."""
        self.correlation += 1
        self.call("cudaLaunchKernel", launch, correlation=self.correlation)
        args |= {"stream": stream, "correlation": self.correlation}
        self.event("kernel", name, begin, us, args, stream)

    def call(self, name: str, begin: float, us: float = 1, **args: object) -> None:
        """A call of the runtime."""
        self.event("cuda_runtime", name, begin, us, args)

    def annotation(self, name: str, begin: float, us: float, **args: object) -> None:
        """An annotation of the host."""
        self.event("user_annotation", name, begin, us, args)

    def event(self, kind: str, name: str, begin: float, us: float, args: object, stream: int | None = None) -> None:
        """Of the host, if it is on no stream."""
        where = {"pid": 1, "tid": 1} if stream is None else {"pid": 0, "tid": stream}
        self.events.append({"ph": "X", "cat": kind, "name": name, "ts": begin, "dur": us, "args": args, **where})

    def document(self) -> dict[str, Any]:
        """The trace."""
        info = {key: value for key, value in (("rank", self.rank), ("world_size", self.world_size)) if value is not None}
        return {"traceEvents": self.events, **({"distributedInfo": info} if info else {})}


def training_step(rank: int, scale: float = 1.0) -> Kineto:
    """Compute 10 us, All-Reduce of 4 KiB beside 20 us of compute, wait, compute 5 us; the host takes 2 us between launches.

    Parameters
    ----------
    rank
        The rank.
    scale
        Factor of all durations of kernels.
    """
    step = Kineto(rank, 2)
    step.operation("gemm_1", 2, 4, 10 * scale)
    step.operation(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        4,
        4 + 10 * scale,
        8 * scale,
        stream=20,
        **{"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", "Process Group Name": "0"},
    )
    step.operation("gemm_2", 6, 4 + 10 * scale, 20 * scale)
    step.call("cudaStreamWaitEvent", 7)
    step.operation("gemm_3", 9, 4 + 30 * scale, 5 * scale)
    step.call("cudaDeviceSynchronize", 10, 35 * scale)
    step.operation("gemm_4", 50 * scale, 52 * scale, 3 * scale)
    return step
