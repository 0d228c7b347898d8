"""The outcome of a run's replay: a JSON object, CSV files, tables for a terminal, and the directory of `replay --output`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np

from astra_tacos.pages.csv_table import write_table
from astra_tacos.run.aborts import aborts_of
from astra_tacos.run.critical_path import summarize_path
from astra_tacos.run.outcome import RunOutcome, time_rows
from astra_tacos.run.recording import REPLAY_FILE, Recording, save_recording
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.files import check_replaceable, replaced_directory, replaced_file, write_json
from astra_tacos.support.grouping import row_places
from astra_tacos.support.own_files import Whole
from astra_tacos.support.rows import Importance, Row, Table, share_of, size_figure
from astra_tacos.support.units import format_size

RESULT_FILE = "replay.json"
_OfRanks = Annotated[list[Whole], msgspec.Meta(min_length=1)]


class CollectiveFile(TypedDict):
    """Collectives of a pattern, size and algorithm."""

    algorithm: str
    pattern: str
    size_bytes: Whole
    nodes: Whole
    total_ns: list[Whole]


class FindingFile(TypedDict):
    """A finding of lint."""

    severity: str
    code: str


class ReplayFile(TypedDict):
    """What the page of a replay shows of it; lists are by rank."""

    workload: str
    backend: str
    end_ns: Whole
    finish_ns: _OfRanks
    exposed_comm_ns: _OfRanks
    compute_ns: _OfRanks
    sent_bytes: _OfRanks
    collectives: list[CollectiveFile]
    approximate: bool
    approximations: list[str]
    exact_to: str | None
    astra_sim_aborts: list[str]
    beyond_astra_sim: list[str]
    replaced: list[tuple[int, int]]
    num_ranks: NotRequired[Whole]
    ranks: NotRequired[_OfRanks]
    findings: NotRequired[list[FindingFile]]


def check_replay_directory(path: Path) -> None:
    """Check, before the replay runs, that its output may be written to `path`.

    Raises
    ------
    ConfigError
        If `path` exists and is not an earlier output of a replay.
    """
    check_replaceable(path, "replay of astra_tacos", lambda names: names in (set(), {RESULT_FILE, REPLAY_FILE}))


def write_replay_directory(path: Path, result: dict[str, Any], recording: Recording) -> None:
    """Write `replay.json`, which has the object that `--json` prints, and `replay.npz`.

    Parameters
    ----------
    result
        The figures, as `run_result` returns them.
    """
    with replaced_directory(path) as folder:
        write_json(folder / RESULT_FILE, result)
        save_recording(recording, folder / REPLAY_FILE)


_RANKS_SHOWN = 16
_LINKS_SHOWN = 5
_COLLECTIVES_SHOWN = 20
_LINK_COLUMNS = ("src", "dst", "bytes", "busy_ns", "busy_share")


def run_result(run: Run, outcome: RunOutcome, recording: Recording) -> dict[str, Any]:
    """The figures of a replay, as values that JSON can represent.

    `finish_ns`, `exposed_comm_ns`, `compute_ns` and `sent_bytes` are lists by rank. `replaced` lists (rank, node) of collectives
    that ran the collective that their group had cached. `collectives` has one entry per algorithm, pattern and size, with the
    number of nodes and the ns that each rank spent in them. `links` has one entry per used link: its ends, its bytes, the ns for
    which it was busy, and their share of the run. `critical_path` is that of the `recording` of this replay.

    Where classes of ranks are replayed, lists by rank have an entry a class, and so has `links`. `ranks` is the rank that stands
    for each, `num_ranks` the number of all ranks.
    """
    owners, aborts = run.workload.owners, aborts_of(run, outcome)
    classes = {} if owners is None else {"num_ranks": run.network.num_npus, "ranks": owners.tolist()}
    return {
        "workload": run.workload.prefix,
        "network": run.network.source,
        "backend": outcome.backend.name,
        "approximate": bool(outcome.approximate),
        "approximations": list(outcome.approximate),
        "beyond_astra_sim": list(outcome.backend.refusals(run.network)),
        "astra_sim_aborts": list(aborts),
        "exact_to": None if outcome.approximate or aborts else outcome.backend.exact_to(run.network),
        "replaced": [(int(run.workload.owner[row]), int(run.workload.node_id[row])) for row in outcome.replaced.tolist()],
        "end_ns": outcome.end_ns,
        "finish_ns": outcome.finish_ns.tolist(),
        "exposed_comm_ns": outcome.exposed_comm_ns.tolist(),
        "compute_ns": outcome.compute_ns.tolist(),
        "sent_bytes": outcome.sent_bytes.tolist(),
        "collectives": recorded_collectives(recording),
        "links": _links(run, outcome),
        "critical_path": summarize_path(recording, recording.after).to_json(),
        **classes,
    }


def recorded_collectives(recording: Recording) -> list[dict[str, Any]]:
    """One entry per algorithm, pattern and size of the collectives of the last replay of a recording, the longest first.

    Each has the number of nodes and the ns that each rank spent in them.
    """
    nodes, replay = recording.nodes, recording.after
    rows = np.flatnonzero(replay.algorithm >= 0)
    names = sorted({recording.texts[text] for text in np.unique(replay.algorithm[rows]).tolist()})
    number = {name: at for at, name in enumerate(names)}
    name = np.array([number.get(text, -1) for text in recording.texts], np.int64)[replay.algorithm[rows]]
    spent = replay.end_ns[rows] - replay.issue_ns[rows]
    rank, cases = nodes.rank[rows], (name, nodes.pattern[rows], nodes.size_bytes[rows])
    firsts, case = row_places(*cases)
    collectives = []
    for at, (which, pattern, size) in enumerate(zip(*(column[firsts].tolist() for column in cases), strict=True)):
        chosen = case == at
        collectives.append(
            {
                "algorithm": names[which],
                "pattern": CommType(pattern).name,
                "size_bytes": size,
                "nodes": int(chosen.sum()),
                "total_ns": np.bincount(rank[chosen], spent[chosen], nodes.num_ranks).astype(np.int64).tolist(),
            }
        )
    return sorted(collectives, key=lambda entry: -max(entry["total_ns"]))


def _links(run: Run, outcome: RunOutcome) -> list[dict[str, Any]]:
    used = np.flatnonzero(outcome.link_bytes)
    end_ns = max(outcome.end_ns, 1)
    return [
        {
            "src": _device(int(outcome.link_src[link]), run.network.num_npus),
            "dst": _device(int(outcome.link_dst[link]), run.network.num_npus),
            "bytes": int(outcome.link_bytes[link]),
            "busy_ns": int(outcome.link_busy_ns[link]),
            "busy_share": round(int(outcome.link_busy_ns[link]) / end_ns, 6),
        }
        for link in used.tolist()
    ]


def _device(device: int, num_npus: int) -> str:
    return str(device) if device < num_npus else f"switch {device}"


def write_run_csv(path: Path, result: dict[str, Any]) -> list[Path]:
    """Write one row per rank to `path`, and one row per link to `NAME.links.csv` beside it; return both paths."""
    collectives = [f"{entry['algorithm']} {entry['pattern']} {entry['size_bytes']} B, ns" for entry in result["collectives"]]
    header = ["rank", "finish_ns", "exposed_comm_ns", "compute_ns", "sent_bytes", *collectives]
    columns = [result[name] for name in header[1:5]] + [entry["total_ns"] for entry in result["collectives"]]
    ranks = [header, *([rank, *values] for rank, values in zip(_numbers(result), zip(*columns, strict=True), strict=True))]
    links = [list(_LINK_COLUMNS), *(list(link.values()) for link in result["links"])]
    tables = {path: ranks, path.with_suffix(f".links{path.suffix or '.csv'}"): links}
    for file, rows in tables.items():
        with replaced_file(file) as temporary, temporary.open("w", newline="", encoding="utf-8") as out:
            write_table(out, rows)
    return list(tables)


def _numbers(result: Mapping[str, Any]) -> Sequence[int]:
    """The number of the rank that each entry of lists by rank is of."""
    return result.get("ranks") or range(len(result["finish_ns"]))


def run_title(run: Run) -> str:
    """A run in a line: its ranks, network and nodes."""
    kinds = np.bincount(run.workload.kind, minlength=len(NodeType))
    counts = ((NodeType.COMP, "compute"), (NodeType.COMM_COLL, "collective"), (NodeType.COMM_SEND, "send"))
    nodes = (
        ", ".join(f"{int(kinds[kind]):,} {name}" for kind, name in counts if kinds[kind]) or f"{run.workload.num_nodes:,} other"
    )
    if run.workload.owners is None:
        return f"{run.workload.num_ranks:,} ranks on {run.network.name}: {nodes} nodes"
    ranks = f"{run.network.num_npus:,} ranks of {run.workload.num_ranks:,} classes"
    return f"{ranks} on {run.network.name}: {nodes} nodes in one rank of each class"


def run_rows(result: Mapping[str, Any]) -> list[Row]:
    """The main figures of a replay."""
    finish = result["finish_ns"]
    alike = result.get("num_ranks", len(finish)) // len(finish)
    rows = [
        *time_rows(finish, result["exposed_comm_ns"], result["compute_ns"], _numbers(result)),
        Row("sent", format_size(sum(result["sent_bytes"]) * alike), note="in all"),
        *([Row("ranks of a class", alike, note="do the same at the same times")] if "ranks" in result else []),
        Row("judged by", result["backend"], note=_exactness(result)),
    ]
    if result["astra_sim_aborts"]:
        rows.insert(0, Row("ASTRA-sim aborts here", note="; ".join(result["astra_sim_aborts"])))
    if result["beyond_astra_sim"]:
        rows.append(Row("not in stock ASTRA-sim", note="; ".join(result["beyond_astra_sim"])))
    if result["replaced"]:
        rank, node = result["replaced"][0]
        text = f"nodes ran the collective that their group had cached; the first is node {node} of rank {rank}"
        rows.append(Row("another's collective", len(result["replaced"]), note=text))
    return rows


def _exactness(result: Mapping[str, Any]) -> str:
    if result["approximate"]:
        return f"approximate: {'; '.join(result['approximations'])}"
    return f"exact to {result['exact_to']}" if result["exact_to"] else "exact by this model, not to ASTRA-sim"


def run_tables(result: dict[str, Any]) -> Iterator[Table]:
    """Yield the tables of ranks, collectives and busiest links.

    Of many ranks the table has the slowest, of many collectives the longest.
    """
    ranks = sorted(range(len(result["finish_ns"])), key=lambda rank: -result["finish_ns"][rank])
    shown = sorted(ranks[:_RANKS_SHOWN])
    of, number = "ranks that stand for a class" if "ranks" in result else "ranks", _numbers(result)
    title = of if len(shown) == len(ranks) else f"the {len(shown)} slowest of {len(ranks)} {of}"
    yield Table(
        title,
        ("rank", "finish ns", "exposed ns", "compute ns", "sent"),
        [
            (
                str(number[rank]),
                result["finish_ns"][rank],
                result["exposed_comm_ns"][rank],
                result["compute_ns"][rank],
                size_figure(result["sent_bytes"][rank]),
            )
            for rank in shown
        ],
        Importance.DETAIL,
    )
    collectives = result["collectives"]
    if collectives:
        cut = f" (the {_COLLECTIVES_SHOWN} longest of {len(collectives)})" if len(collectives) > _COLLECTIVES_SHOWN else ""
        yield Table(
            f"collectives{cut}",
            ("algorithm", "pattern", "size", "nodes", "longest on a rank ns", "share of the run"),
            [
                (
                    entry["algorithm"],
                    entry["pattern"],
                    size_figure(entry["size_bytes"]),
                    entry["nodes"],
                    max(entry["total_ns"]),
                    share_of(max(entry["total_ns"]) / max(result["end_ns"], 1)),
                )
                for entry in collectives[:_COLLECTIVES_SHOWN]
            ],
            Importance.DETAIL,
            left=("pattern",),
        )
    busiest = sorted(result["links"], key=lambda link: -int(link["busy_ns"]))
    if busiest:
        yield Table(
            f"busiest of {len(busiest):,} links",
            ("link", "bytes", "busy ns", "busy"),
            [
                (f"{link['src']} -> {link['dst']}", link["bytes"], link["busy_ns"], share_of(link["busy_share"]))
                for link in busiest[:_LINKS_SHOWN]
            ],
            Importance.DETAIL,
        )
