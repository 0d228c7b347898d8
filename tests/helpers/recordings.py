"""Recordings of runs that never were: as many ranks as wanted, no two of which do the same, written as a replay's directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.recording import COLLECTIVE, COMPUTE, REPLAY_FILE, Nodes, RecordedReplay, Recording, save_recording


def random_recording(num_ranks: int, nodes_per_rank: int, seed: int = 0, *, alike: bool = False, both: bool = False) -> Recording:
    """Ranks that compute and communicate in turn, for random times (of all ranks the same ones if they are `alike`)."""
    rng = np.random.default_rng(seed)
    num_nodes = num_ranks * nodes_per_rank
    turn = np.arange(num_nodes) % nodes_per_rank
    kind = np.where(turn % 2 == 0, COMPUTE, COLLECTIVE).astype(np.uint8)
    collective = kind == COLLECTIVE
    nodes = Nodes(
        rank_first=np.arange(num_ranks + 1) * nodes_per_rank,
        node_id=turn.astype(np.uint64),
        kind=kind,
        pattern=np.where(collective, 0, -1).astype(np.int8),
        size_bytes=np.where(collective, 1 << 20, -1),
        group=np.where(collective, 0, -1).astype(np.int32),
        name=(2 + turn).astype(np.int32),
    )

    def replay() -> RecordedReplay:
        lasting = rng.integers(1, 100_000, (1 if alike else num_ranks, nodes_per_rank))
        end = np.cumsum(np.broadcast_to(lasting, (num_ranks, nodes_per_rank)), axis=1)
        return _replay(nodes, end, collective, rng)

    return Recording(
        network="ring",
        shape=f"Ring {num_ranks}",
        block_sizes=(num_ranks,),
        num_npus=num_ranks,
        backend="congestion-aware",
        texts=("7", "native all-reduce (ring)", *(f"node_{number}" for number in range(nodes_per_rank))),
        nodes=nodes,
        after=replay(),
        before=replay() if both else None,
    )


def _replay(nodes: Nodes, end: NDArray[np.int64], collective: NDArray[np.bool_], rng: np.random.Generator) -> RecordedReplay:
    num_ranks = nodes.num_ranks
    start = np.concatenate((np.zeros((num_ranks, 1), np.int64), end[:, :-1]), axis=1)
    src = np.arange(num_ranks, dtype=np.int32)
    return RecordedReplay(
        finish_ns=end[:, -1],
        compute_ns=(end - start)[:, ::2].sum(axis=1),
        sent_bytes=np.full(num_ranks, 1 << 20),
        issue_ns=start.ravel(),
        end_ns=end.ravel(),
        cause=np.where(start.ravel() > 0, np.arange(end.size) - 1, -1).astype(np.int32),
        origin=np.arange(end.size, dtype=np.int32),
        algorithm=np.where(collective, 1, -1).astype(np.int32),
        link_src=src,
        link_dst=((src + 1) % num_ranks).astype(np.int32),
        link_dimension=np.zeros(num_ranks, np.int16),
        link_bytes=np.full(num_ranks, 1 << 20),
        link_busy_ns=rng.integers(0, int(end[:, -1].max()), num_ranks),
        approximate=("native all-reduce (ring)",),
        links_are_routed=False,
    )


def write_replay(folder: Path, recording: Recording) -> Path:
    """What `replay --output` would have written; returns the folder."""
    folder.mkdir()
    replay = recording.after
    result = {
        "workload": "workload/w",
        "backend": recording.backend,
        "beyond_astra_sim": [],
        "approximate": False,
        "approximations": [],
        "exact_to": None,
        "astra_sim_aborts": [],
        "replaced": [],
        "end_ns": replay.run_end_ns,
        "finish_ns": replay.finish_ns.tolist(),
        "exposed_comm_ns": replay.exposed_comm_ns.tolist(),
        "compute_ns": replay.compute_ns.tolist(),
        "sent_bytes": replay.sent_bytes.tolist(),
        "collectives": [],
        "findings": [],
    }
    (folder / "replay.json").write_text(json.dumps(result))
    save_recording(recording, folder / REPLAY_FILE)
    return folder
